//! Variables that a shell may already have when it starts to read a command: those of its environment, and those that
//! bash sets by itself. Any other name is unset until the text assigns it.

use std::collections::HashSet;
use std::ffi::OsStr;

/// Variables that bash 5.2 sets by itself or changes while it runs, besides everything that begins with `BASH`.
const SET_BY_BASH: &[&str] = &[
    "COLUMNS",
    "COMPREPLY",
    "COMP_CWORD",
    "COMP_KEY",
    "COMP_LINE",
    "COMP_POINT",
    "COMP_TYPE",
    "COMP_WORDBREAKS",
    "COMP_WORDS",
    "COPROC",
    "COPROC_PID",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "HISTFILE",
    "HISTFILESIZE",
    "HISTSIZE",
    "HOME",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "LINENO",
    "LINES",
    "MACHTYPE",
    "MAILCHECK",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "OPTERR",
    "OPTIND",
    "OSTYPE",
    "PATH",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "PPID",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "PWD",
    "RANDOM",
    "READLINE_ARGUMENT",
    "READLINE_LINE",
    "READLINE_MARK",
    "READLINE_POINT",
    "REPLY",
    "SECONDS",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SRANDOM",
    "TERM",
    "UID",
    "_",
    "auto_resume",
    "histchars",
];

/// Variables that a sandbox or a confinement sets on top of the environment, besides the settings of git.
const SET_BY_SANDBOX: &[&str] = &[
    "ALL_PROXY",
    "FTP_PROXY",
    "GIMLET_CUSTODY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "TEMP",
    "TMP",
    "TMPDIR",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Names of the variables in the environment of commands; values are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentNames {
    names: HashSet<Box<str>>,
    /// True if any variable may be set, by a file that the shell reads at startup.
    any: bool,
}

impl EnvironmentNames {
    /// Collects every name of an environment.
    pub fn new<N: AsRef<OsStr>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut found = Self::default();
        for name in names {
            // A name that is not valid text is not a variable name to bash.
            let Some(name) = name.as_ref().to_str() else { continue };
            found.any |= name == "BASH_ENV";
            found.names.insert(name.into());
        }
        found
    }

    /// Returns true if a variable of this name may have a value before the text assigns one.
    pub(crate) fn may_be_set(&self, name: &str) -> bool {
        let is_set_on_top = SET_BY_SANDBOX.contains(&name) || name.starts_with("GIT_CONFIG_");
        self.any || self.names.contains(name) || is_set_on_top || is_set_by_bash(name)
    }
}

/// Returns true if bash sets this variable by itself, also while a text runs.
pub(crate) fn is_set_by_bash(name: &str) -> bool {
    name.starts_with("BASH") || SET_BY_BASH.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(SET_BY_BASH.is_sorted(), "in the order of their letters");
    }

    #[test]
    fn a_name_is_unset_if_neither_the_environment_nor_bash_sets_it() {
        let names = EnvironmentNames::new(["npm_package_config_k", "FOO"]);
        for name in ["npm_package_config_k", "FOO", "_", "histchars", "DIRSTACK", "BASH_ARGV0", "http_proxy"] {
            assert!(names.may_be_set(name), "{name}");
        }
        for name in ["x", "file", "npm_package", "BUILD_DIR"] {
            assert!(!names.may_be_set(name), "{name}");
        }
        assert!(EnvironmentNames::new(["BASH_ENV"]).may_be_set("x"));
    }
}
