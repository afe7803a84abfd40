//! Environment variables that a settings file may not set: names by which a project could run its own code in every
//! program, intercept gimlet's connection to its server, move gimlet's own files, or pass for another host.

use crate::scope::Scope;

/// Variables from which loaders, interpreters and git take code or programs.
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

/// Variables that set the proxies of requests and the trusted servers: the API key travels with requests. Lower-case
/// spellings count.
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

/// Variables that identify the host and user of gimlet; no file may set them.
const HOST: [&str; 2] = ["CLAUDE_CODE_REMOTE", "CLAUDE_CODE_PROJECT_DIR_NAME"];
const HOST_PREFIXES: [&str; 3] = ["CLAUDE_CODE_ACCOUNT_", "CLAUDE_CODE_ORGANIZATION_", "CLAUDE_CODE_MESSAGING_"];

/// Returns a name without gimlet's own prefix; `None` for other names.
fn strip_own_prefix(name: &str) -> Option<&str> {
    ["CLAUDE_CODE_", "CLAUDE_", "GIMLET_"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns the reason why this scope may not set the variable; `None` if it may.
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
    // The last one is for the machine to set: it lifts the check on bypassing as root.
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
