//! The environment of a command: gimlet's own, without variables that would change how the shell parses the command
//! or would leak, plus settings that keep programs from waiting for user input. Pure.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use gimlet_proto::Env;

use crate::sandbox::has_credentials;

/// Variables through which bash itself would run or read something other than the command.
const SHELL_INJECTION: [&str; 8] =
    ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "BASH_XTRACEFD"];

/// Defaults, unless the user set them. None of them answers a question in the user's place.
const QUIET_DEFAULTS: [(&str, &str); 9] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("EDITOR", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Credentials whose names do not say so.
const CREDENTIALS: [&str; 12] = [
    "MYSQL_PWD",
    "SSHPASS",
    "ANTHROPIC_CUSTOM_HEADERS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "CLOUDSDK_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "ACTIONS_ID_TOKEN_REQUEST_URL",
];

/// Words, between underscores, that mark the name of a secret.
const SECRET_WORDS: [&str; 17] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "TOKENS",
    "AUTHTOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PAT",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
];

/// Suffixes of a word that mark a secret, as in `PGPASSWORD`.
const SECRET_ENDINGS: [&str; 6] = ["PASSWORD", "PASSWD", "PASSPHRASE", "TOKEN", "SECRET", "APIKEY"];

/// Not secret itself, and git over ssh needs it.
const NOT_SECRET: [&str; 1] = ["SSH_AUTH_SOCK"];

/// Returns true if a variable of this name holds a credential.
pub fn is_credential_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_secret =
        |word: &str| SECRET_WORDS.contains(&word) || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending));
    !NOT_SECRET.contains(&upper.as_str()) && (CREDENTIALS.contains(&upper.as_str()) || upper.split('_').any(is_secret))
}

/// Returns the environment of every command of a session.
pub(super) fn for_commands(own: &Env, session_id: &str, effort: Option<&str>) -> Vec<(OsString, OsString)> {
    let mut env = base_environment(own, own.flag("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"));
    set_variable(&mut env, "CLAUDE_CODE_CHILD_SESSION", "1");
    set_variable(&mut env, "CLAUDE_CODE_SESSION_ID", session_id);
    set_variable(&mut env, "CLAUDE_PID", std::process::id().to_string());
    if let Some(effort) = effort {
        set_variable(&mut env, "CLAUDE_EFFORT", effort);
    }
    env
}

/// Maximum number of git settings that are read from variables.
const MOST_GIT_SETTINGS: usize = 1000;

/// Git settings that keep it from running programs and from following references in the repository, for commands that
/// run without asking the user. They go into the environment, which no setting in the repository overrides. None of
/// them may change what an ordinary command prints: an empty `diff.external` would be a program that does not exist.
const QUIET_GIT: &[(&str, &str)] = &[
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("credential.helper", ""),
    ("diff.submodule", "short"),
    ("status.submoduleSummary", "false"),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("protocol.file.allow", "never"),
    ("protocol.git.allow", "never"),
    ("protocol.http.allow", "never"),
    ("protocol.https.allow", "never"),
    ("protocol.ssh.allow", "never"),
];

/// Returns the environment of commands that run without asking the user: no credentials, a temporary folder of their
/// own, and settings that keep git from running programs.
pub(super) fn for_confined(commands: &[(OsString, OsString)], temp_dir: &Path) -> Vec<(OsString, OsString)> {
    let is_secret = |(name, value): &&(OsString, OsString)| {
        is_credential_name(&name.to_string_lossy()) || has_credentials(&value.to_string_lossy())
    };
    let mut env: Vec<(OsString, OsString)> = commands.iter().filter(|pair| !is_secret(pair)).cloned().collect();
    set_variable(&mut env, "TMPDIR", temp_dir);
    let kept = take_git_settings(&mut env, commands);
    let quiet = QUIET_GIT.iter().map(|(key, value)| (OsString::from(key), OsString::from(value)));
    let settings: Vec<(OsString, OsString)> = kept.into_iter().chain(quiet).collect();
    set_variable(&mut env, "GIT_CONFIG_COUNT", settings.len().to_string());
    for (number, (key, value)) in settings.into_iter().enumerate() {
        set_variable(&mut env, &format!("GIT_CONFIG_KEY_{number}"), key);
        set_variable(&mut env, &format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    env
}

/// Removes the git settings that the user passes by variables from an environment; returns those that can hold no
/// credentials.
fn take_git_settings(
    env: &mut Vec<(OsString, OsString)>,
    commands: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    const WITH_CREDENTIALS: [&str; 3] = ["http.", "credential.", "url."];
    env.retain(|(name, _)| !name.as_encoded_bytes().starts_with(b"GIT_CONFIG_"));
    let value = |name: &str| commands.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    for file in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"] {
        env.extend(value(file).map(|value| (file.into(), value)));
    }
    let count: usize = value("GIT_CONFIG_COUNT").and_then(|count| count.to_str()?.parse().ok()).unwrap_or(0);
    let pair = |number: usize| {
        Some((value(&format!("GIT_CONFIG_KEY_{number}"))?, value(&format!("GIT_CONFIG_VALUE_{number}"))?))
    };
    let is_kept = |(key, value): &(OsString, OsString)| {
        let key = key.to_string_lossy().to_ascii_lowercase();
        !WITH_CREDENTIALS.iter().any(|section| key.starts_with(section)) && !has_credentials(&value.to_string_lossy())
    };
    (0..count.min(MOST_GIT_SETTINGS)).filter_map(pair).filter(is_kept).collect()
}

/// Returns the environment of the user's own helpers, credentials included: they may need one to get another.
pub(crate) fn for_helper_commands(own: &Env) -> Vec<(OsString, OsString)> {
    base_environment(own, false)
}

/// Part of gimlet's environment that a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InheritedEnv {
    All,
    WithoutCredentials,
    /// Only what programs cannot do without.
    Baseline,
}

/// Variables of the smallest environment.
const BASELINE: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
];

/// Returns the environment of a program that runs beside the session and is no command of the model's.
pub fn service_environment(own: &Env, inherited: InheritedEnv) -> Vec<(OsString, OsString)> {
    let scrub = inherited != InheritedEnv::All || own.flag("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB");
    let mut env = base_environment(own, scrub);
    if inherited == InheritedEnv::Baseline {
        let is_kept = |name: &str| BASELINE.contains(&name) || name.starts_with("LC_");
        env.retain(|(name, _)| name.to_str().is_some_and(is_kept));
        set_variable(&mut env, "CLAUDECODE", "1");
    }
    env
}

fn base_environment(own: &Env, scrub: bool) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = own
        .vars()
        .filter(|(name, _)| is_inherited(name, scrub))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for (name, value) in QUIET_DEFAULTS {
        let forced = name == "NO_COLOR" && (has_variable(&env, "FORCE_COLOR") || has_variable(&env, "CLICOLOR_FORCE"));
        if !has_variable(&env, name) && !forced {
            env.push((name.into(), value.into()));
        }
    }
    // The inherited value describes gimlet's terminal, which a command does not have.
    set_variable(&mut env, "TERM", "dumb");
    set_variable(&mut env, "CLAUDECODE", "1");
    set_variable(&mut env, "GIMLET", "1");
    env
}

fn is_inherited(name: &OsStr, scrub: bool) -> bool {
    // A name that is not UTF-8 is none of those below, but an exported function may have any name.
    let name = name.to_string_lossy();
    let injects = SHELL_INJECTION.contains(&&*name) || name.starts_with("BASH_FUNC_");
    let leaks = name.starts_with("OTEL_")
        || name == "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP"
        || (scrub && is_credential_name(&name));
    !injects && !leaks
}

fn has_variable(env: &[(OsString, OsString)], name: &str) -> bool {
    env.iter().any(|(known, _)| known == name)
}

fn set_variable(env: &mut Vec<(OsString, OsString)>, name: &str, value: impl Into<OsString>) {
    env.retain(|(known, _)| known != name);
    env.push((name.into(), value.into()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a str> {
        env.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.to_str())
    }

    #[test]
    fn what_would_change_the_shell_is_removed() {
        let mut own = Env::default().with("BASH_FUNC_ls%%", "() { rm -rf /; }").with("OTEL_EXPORTER", "x");
        for name in SHELL_INJECTION {
            own = own.with(name, "x");
        }
        let env = for_commands(&own, "s", None);
        assert!(!env.iter().any(|(name, _)| {
            let name = name.to_str().unwrap();
            SHELL_INJECTION.contains(&name) || name.starts_with("BASH_FUNC_") || name.starts_with("OTEL_")
        }));
    }

    #[test]
    fn defaults_yield_to_the_user_and_markers_do_not() {
        let own = Env::default()
            .with("PAGER", "less")
            .with("FORCE_COLOR", "1")
            .with("TERM", "xterm")
            .with("CLAUDE_CODE_SESSION_ID", "outer");
        let env = for_commands(&own, "inner", Some("high"));
        assert_eq!(value(&env, "PAGER"), Some("less"));
        assert_eq!(value(&env, "GIT_PAGER"), Some("cat"));
        assert_eq!(value(&env, "NO_COLOR"), None);
        assert_eq!(value(&env, "TERM"), Some("dumb"));
        assert_eq!(value(&env, "CLAUDECODE"), Some("1"));
        assert_eq!(value(&env, "CLAUDE_CODE_SESSION_ID"), Some("inner"));
        assert_eq!(value(&env, "CLAUDE_EFFORT"), Some("high"));
        assert_eq!(value(&env, "npm_config_yes"), None);
    }

    #[test]
    fn a_service_gets_what_its_author_may_have() {
        let own = Env::default().with("PATH", "/bin").with("MY_TOKEN", "x").with("COLOUR", "red").with("LC_ALL", "C");
        let names = |inherited| -> Vec<String> {
            let wanted = ["PATH", "MY_TOKEN", "COLOUR", "LC_ALL", "CLAUDECODE"];
            let env = service_environment(&own, inherited);
            wanted.into_iter().filter(|name| has_variable(&env, name)).map(str::to_owned).collect()
        };
        assert_eq!(names(InheritedEnv::All).len(), 5);
        assert_eq!(names(InheritedEnv::WithoutCredentials), ["PATH", "COLOUR", "LC_ALL", "CLAUDECODE"]);
        assert_eq!(names(InheritedEnv::Baseline), ["PATH", "LC_ALL", "CLAUDECODE"]);
    }

    #[test]
    fn a_confined_command_has_no_credentials_and_a_quiet_git() {
        let own = Env::default()
            .with("ANTHROPIC_API_KEY", "k")
            .with("PATH", "/bin")
            .with("DATABASE_URL", "postgres://ada:secret@db.example/x")
            .with("GIT_CONFIG_COUNT", "3")
            .with("GIT_CONFIG_KEY_2", "remote.origin.url")
            .with("GIT_CONFIG_VALUE_2", "https://ada:secret@example.org/x")
            .with("GIT_CONFIG_KEY_0", "http.https://example.org/.extraHeader")
            .with("GIT_CONFIG_VALUE_0", "Authorization: basic secret")
            .with("GIT_CONFIG_KEY_1", "user.name")
            .with("GIT_CONFIG_VALUE_1", "Ada");
        let env = for_confined(&for_commands(&own, "s", None), Path::new("/t"));
        assert_eq!((value(&env, "ANTHROPIC_API_KEY"), value(&env, "PATH")), (None, Some("/bin")));
        assert_eq!(value(&env, "TMPDIR"), Some("/t"));
        assert_eq!(value(&env, "GIT_CONFIG_KEY_0"), Some("user.name"));
        assert_eq!(value(&env, "GIT_CONFIG_KEY_1"), Some("safe.bareRepository"));
        assert!(!env.iter().any(|(_, value)| value.to_string_lossy().contains("secret")));
        assert_eq!(value(&env, "GIT_CONFIG_COUNT"), Some((QUIET_GIT.len() + 1).to_string().as_str()));
    }

    #[test]
    fn scrubbing_takes_credentials_and_leaves_names_that_only_look_alike() {
        let secrets = [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "npm_config__auth",
            "PGPASSWORD",
            "SSHPASS",
            "MYSQL_PWD",
            "authToken",
        ];
        let harmless = ["GIT_AUTHOR_NAME", "SSH_AUTH_SOCK", "KEYBOARD", "PATH", "XAUTHORITY", "TOKENIZERS_PARALLELISM"];
        let mut own = Env::default();
        for name in secrets.iter().chain(&harmless) {
            own = own.with(name, "v");
        }
        let kept = for_commands(&own, "s", None);
        assert!(secrets.iter().chain(&harmless).all(|name| value(&kept, name).is_some()));
        let scrubbed = for_commands(&own.with("CLAUDE_CODE_SUBPROCESS_ENV_SCRUB", "1"), "s", None);
        assert!(secrets.iter().all(|name| value(&scrubbed, name).is_none()));
        assert!(harmless.iter().all(|name| value(&scrubbed, name).is_some()));
    }
}
