//! The environment of a sandboxed command: no credentials, no way to agents, nothing that changes the helper. Pure.

use std::ffi::{OsStr, OsString};

use gimlet_proto::SandboxSpec;

use crate::shell::is_credential_name;

/// Variables naming the sockets of agents and buses that act on the user's behalf.
const AGENTS: [&str; 6] =
    ["SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XAUTHORITY"];
/// Variables naming the folder for temporary files.
const TEMP_NAMES: [&str; 3] = ["TMPDIR", "TMP", "TEMP"];

/// The environment split in two: the helper's variables, and those that only the command gets.
pub(super) struct SplitEnvironment {
    pub(super) env: Vec<(OsString, OsString)>,
    /// Each `NAME=VALUE`.
    pub(super) held_back: Vec<OsString>,
}

/// Replacement for a masked value.
const MASK: &str = "masked-by-the-sandbox";

/// Removes what a sandboxed command must not know, and names its temp folder.
pub(super) fn split_environment(env: Vec<(OsString, OsString)>, spec: &SandboxSpec) -> SplitEnvironment {
    let SandboxSpec { keep_env, hide_env, mask_env, temp_dir, .. } = spec;
    let is_in = |list: &[String], name: &OsStr| name.to_str().is_some_and(|name| list.iter().any(|own| own == name));
    let is_kept = |name: &OsStr| is_in(keep_env, name);
    let mut split = SplitEnvironment { env: Vec::new(), held_back: Vec::new() };
    for (name, value) in env {
        if is_in(hide_env, &name) {
            continue;
        }
        if is_in(mask_env, &name) {
            split.env.push((name, MASK.into()));
            continue;
        }
        let text = name.to_string_lossy();
        let is_secret =
            is_credential_name(&text) || AGENTS.contains(&&*text) || has_credentials(&value.to_string_lossy());
        if is_secret && !is_kept(&name) {
            continue;
        }
        if temp_dir.is_some() && TEMP_NAMES.contains(&&*text) {
            continue;
        }
        if affects_loader(&text) {
            let mut word = name;
            word.push("=");
            word.push(value);
            split.held_back.push(word);
        } else {
            split.env.push((name, value));
        }
    }
    if let Some(dir) = temp_dir {
        split.env.extend(TEMP_NAMES.map(|name| (name.into(), dir.into())));
    }
    split
}

/// Returns true for an address with a password in it, such as that of a database.
pub(crate) fn has_credentials(value: &str) -> bool {
    let authority = value.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
}

/// Returns true for variables that the loader of every program reads, the helper's included.
fn affects_loader(name: &str) -> bool {
    name.starts_with("LD_") || name == "GLIBC_TUNABLES"
}

/// Returns the variables that configure the proxy for programs, each `NAME=VALUE`.
pub(super) fn proxy_variables(port: u16) -> Vec<String> {
    let http = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let all = ["ALL_PROXY", "all_proxy"];
    let local = ["NO_PROXY", "no_proxy"];
    let http = http.iter().map(|name| format!("{name}=http://127.0.0.1:{port}"));
    let all = all.iter().map(|name| format!("{name}=socks5h://127.0.0.1:{port}"));
    let local = local.iter().map(|name| format!("{name}=localhost,127.0.0.1,::1"));
    // Node's own client reads the variables only with this setting.
    http.chain(all).chain(local).chain(["NODE_USE_ENV_PROXY=1".to_owned()]).collect()
}

/// Returns true for the names that [`proxy_variables`] sets; the user's own proxies are not reachable in a sandbox.
pub(super) fn is_proxy_name(name: &OsStr) -> bool {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY"];
    name.to_str().is_some_and(|name| names.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_names(env: &[(&str, &str)], keep: &[&str], temp: Option<&str>) -> (Vec<String>, Vec<String>) {
        let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let keep_env = keep.iter().map(ToString::to_string).collect();
        let spec = SandboxSpec { keep_env, temp_dir: temp.map(Into::into), ..SandboxSpec::default() };
        let split = split_environment(env, &spec);
        let text = |word: &OsString| word.to_str().unwrap().to_owned();
        (split.env.iter().map(|(name, _)| text(name)).collect(), split.held_back.iter().map(text).collect())
    }

    #[test]
    fn credentials_agents_and_loader_variables_do_not_reach_where_they_must_not() {
        let env = [
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GITHUB_TOKEN", "t"),
            ("SSH_AUTH_SOCK", "/tmp/a"),
            ("DATABASE_URL", "postgres://me:secret@db/x"),
            ("HOMEPAGE", "https://me@example.org/a:b@c"),
            ("LD_PRELOAD", "/x.so"),
            ("NPM_TOKEN", "wanted"),
        ];
        let (env, held) = split_names(&env, &["NPM_TOKEN"], None);
        assert_eq!(env, ["PATH", "HOMEPAGE", "NPM_TOKEN"]);
        assert_eq!(held, ["LD_PRELOAD=/x.so"]);
    }

    #[test]
    fn variables_that_settings_name_are_hidden_or_masked_whatever_else_is_said_of_them() {
        let env = ["A_TOKEN", "PLAIN", "SHOWN_TOKEN"].map(|name| (OsString::from(name), OsString::from("secret")));
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let (keep_env, hide_env, mask_env) =
            (names(&["A_TOKEN"]), names(&["PLAIN", "A_TOKEN"]), names(&["SHOWN_TOKEN"]));
        let spec = SandboxSpec { keep_env, hide_env, mask_env, ..SandboxSpec::default() };
        let split = split_environment(env.to_vec(), &spec);
        assert_eq!(split.env, [("SHOWN_TOKEN".into(), MASK.into())]);
    }

    #[test]
    fn the_temp_folder_is_named_in_all_three_ways() {
        let (env, _) = split_names(&[("TMPDIR", "/elsewhere"), ("A", "b")], &[], Some("/t"));
        assert_eq!(env, ["A", "TMPDIR", "TMP", "TEMP"]);
    }
}
