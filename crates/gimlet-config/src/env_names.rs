//! Environment variables that a settings file may not set: names by which a project could run its own code in every
//! program, move gimlet's own files, or pass for a host that it is not.

use crate::scope::Scope;

/// Loaders, interpreters and git take code or programs from these.
const INJECTION: [&str; 27] = [
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
    "BROWSER",
    "SHELL",
    "HOME",
    "TMPDIR",
];
const INJECTION_PREFIXES: [&str; 5] = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "XDG_"];

/// gimlet's own variables that move its files or lift its checks, without their prefix.
const OWN: [&str; 7] =
    ["CONFIG_DIR", "PROCESS_WRAPPER", "SYNC_SKILLS", "SYNC_PLUGINS", "PLUGIN_CACHE_DIR", "PLUGIN_SEED_DIR", "TRUST"];

/// What says who runs gimlet and where, without its prefix; no file can.
const HOST: [&str; 2] = ["REMOTE", "PROJECT_DIR_NAME"];
const HOST_PREFIXES: [&str; 3] = ["ACCOUNT_", "ORGANIZATION_", "MESSAGING_"];

const PREFIXES: [&str; 3] = ["CLAUDE_CODE_", "CLAUDE_", "GIMLET_"];

/// Why this scope may not set the variable.
pub(crate) fn refusal(scope: Scope, name: &str, value: &str) -> Option<&'static str> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Some("no process can be given such a variable");
    }
    let own = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    if own.is_some_and(|own| HOST.contains(&own) || HOST_PREFIXES.iter().any(|prefix| own.starts_with(prefix))) {
        return Some("it says who runs gimlet, which no file can");
    }
    if !matches!(scope, Scope::Project | Scope::Local) {
        return None;
    }
    if own.is_some_and(|own| OWN.contains(&own)) {
        return Some("a project cannot move gimlet's own files or lift its checks");
    }
    let injects = INJECTION.contains(&name) || INJECTION_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    injects.then_some("programs load code or start others by it; set it in the user settings")
}
