//! What to advise the users of a provider. The words are the row's; where they go is decided here.

use gimlet_proto::Env;

/// Names to use in advice, and advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderAdvice {
    /// Variable with the address.
    pub(crate) address: &'static str,
    /// Path that gimlet adds to the address.
    pub(crate) path: &'static str,
    /// Where the credential comes from, to be checked.
    pub(crate) credential: &'static str,
    /// Where the name of the model comes from, to be checked.
    pub(crate) model: &'static str,
    /// Variable that holds a key.
    pub(crate) key_variable: &'static str,
    /// Variables to set for a credential.
    pub(crate) credential_variables: &'static str,
    /// What to set where there is no credential.
    pub(crate) missing_credential: &'static str,
    /// The same, where the address is the user's own.
    pub(crate) missing_credential_elsewhere: &'static str,
    /// Line of shell that leads to a server on this machine, with `{port}` for its port.
    pub(crate) local_line: &'static str,
}

impl ProviderAdvice {
    /// Returns what to set where there is no credential. `env` may lead to another address.
    pub fn missing_credential(&self, env: &Env) -> &'static str {
        match env.get(self.address) {
            Some(_) => self.missing_credential_elsewhere,
            None => self.missing_credential,
        }
    }

    /// Returns the variable that holds a key.
    pub fn key_variable(&self) -> &'static str {
        self.key_variable
    }

    /// Returns the variables to set for a credential.
    pub(crate) fn credential_variables(&self) -> &'static str {
        self.credential_variables
    }

    /// Returns the line of shell that sets a key.
    pub fn key_line(&self) -> String {
        format!("export {}=…", self.key_variable)
    }

    /// Returns the line of shell that leads to a server at a port of this machine.
    pub fn local_line(&self, port: u16) -> String {
        self.local_line.replace("{port}", &port.to_string())
    }

    pub(crate) fn check_credential(&self) -> String {
        format!("Check {}", self.credential)
    }

    pub(crate) fn check_model(&self, known: &[&str]) -> String {
        format!("Check {}; known names are {}", self.model, known.join(", "))
    }

    pub(crate) fn check_path(&self) -> String {
        format!("Check {}; it must not include {}", self.address, self.path)
    }

    pub(crate) fn check_address(&self) -> String {
        format!("Check that it runs, and the address in {}", self.address)
    }

    pub(crate) fn check_host(&self) -> String {
        format!("Check the name of the host in {}, and the network", self.address)
    }

    pub(crate) fn check_certificate_host(&self) -> String {
        format!("The certificate is for another host: check {}", self.address)
    }

    pub(crate) fn start_local_server(&self) -> String {
        format!("Start the model server there, or set {} to the address where it runs", self.address)
    }

    pub(crate) fn check_proxy(&self) -> String {
        format!("Check {} and any proxy or log-in page in between", self.address)
    }

    pub(crate) fn follow_redirect(&self) -> String {
        format!("Set {} to the final address", self.address)
    }
}
