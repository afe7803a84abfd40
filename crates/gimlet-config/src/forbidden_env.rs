//! Environment variables that a settings file may not set: names by which a project could run its own code in every
//! program, stand between gimlet and its server, move gimlet's own files, or pass for a host that it is not.

use crate::scope::Scope;

/// Loaders, interpreters and git take code or programs from these.
const INJECTION: [&str; 31] = [
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "GCONV_PATH",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESSOPEN",
    "LESSCLOSE",
    "RIPGREP_CONFIG_PATH",
    "BROWSER",
    "SHELL",
    "HOME",
    "TMPDIR",
];
const INJECTION_PREFIXES: [&str; 5] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "XDG_"];

/// gimlet's own variables by which files run that no digest covers, in any of their spellings.
const OWN_INJECTION: [&str; 3] = ["CLAUDE_CODE_SHELL", "CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"];

/// Whom requests go through, and who is believed to be the server: the key travels with them. Lower-case spellings count.
const CONNECTION: [&str; 7] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
const OWN_CONNECTION: [&str; 2] = ["CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY"];

/// gimlet's own variables that move its files or lift its checks, in any of their spellings.
const OWN: [&str; 8] = [
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_PROCESS_WRAPPER",
    "CLAUDE_CODE_SYNC_SKILLS",
    "CLAUDE_CODE_SYNC_PLUGINS",
    "CLAUDE_CODE_PLUGIN_CACHE_DIR",
    "CLAUDE_CODE_PLUGIN_SEED_DIR",
    "GIMLET_TRUST",
    "GIMLET_CONFIG_OWNER",
];

/// What says who runs gimlet and where; no file can.
const HOST: [&str; 2] = ["CLAUDE_CODE_REMOTE", "CLAUDE_CODE_PROJECT_DIR_NAME"];
const HOST_PREFIXES: [&str; 3] = ["CLAUDE_CODE_ACCOUNT_", "CLAUDE_CODE_ORGANIZATION_", "CLAUDE_CODE_MESSAGING_"];

/// What stays of a name without the prefix that says whose it is; nothing for names of others.
fn strip_own_prefix(name: &str) -> Option<&str> {
    ["CLAUDE_CODE_", "CLAUDE_", "GIMLET_"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Why this scope may not set the variable.
pub(crate) fn refusal_reason(scope: Scope, name: &str, value: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Some("no process can be given such a variable");
    }
    let own = strip_own_prefix(name);
    let is_one_of = |names: &[&str]| own.is_some() && names.iter().any(|other| strip_own_prefix(other) == own);
    let begins = |prefix: &&str| own.zip(strip_own_prefix(prefix)).is_some_and(|(own, prefix)| own.starts_with(prefix));
    if is_one_of(&HOST) || HOST_PREFIXES.iter().any(begins) {
        return Some("it says who runs gimlet, which no file can");
    }
    if !matches!(scope, Scope::Project | Scope::Local) {
        return None;
    }
    // The last one is the machine's to say: it lifts the check on bypassing as root.
    if is_one_of(&OWN) || name == "IS_SANDBOX" {
        return Some("a project cannot move gimlet's own files or lift its checks");
    }
    if is_one_of(&OWN_CONNECTION) || CONNECTION.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Some("requests with your key go by it; set it in the user settings");
    }
    let injects = is_one_of(&OWN_INJECTION)
        || INJECTION.contains(&name)
        || INJECTION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    injects.then_some("programs load code or start others by it; set it in the user settings")
}
