//! Which beginnings of commands may be offered as rules that leave the rest open. It is a list of what is known to do one
//! thing whatever follows; a sub-command that is missing here is offered word for word, so a new one of some program
//! costs a question and nothing else. What runs a program or text that its operands name must never be in it.
//!
//! Some of these have options that name a program (`git fetch --upload-pack`, `go test -exec`). A rule that was offered does
//! not reach over those: whoever says yes to `go test *` means tests. Whoever writes a rule means what it says.

mod options;
mod targets;

use super::{Rule, RuleScope, Specifier, is_interpreter};
use crate::shell::{Word, base_name};

/// What may follow the words that begin a command.
enum Next {
    /// One of these.
    Of(&'static [&'static str]),
    /// A name of the project's own, such as that of a target: it is the project that says what it runs.
    Named,
}

use Next::{Named, Of};

/// Scripts by the names that most projects give them. Where a runner takes programs as well as scripts, only these are known
/// to be no programs.
const SCRIPTS: &[&str] =
    &["test", "build", "lint", "start", "dev", "format", "typecheck", "type-check", "check", "clean", "coverage"];
/// Tools of Python projects that check or test and start nothing that they are told.
const CHECKERS: &[&str] = &["pytest", "ruff", "mypy", "black", "flake8", "isort", "pyright", "pylint"];
const CONTAINERS: &[&str] = &["ls", "ps", "logs", "inspect", "start", "stop", "restart", "rm", "prune", "top", "stats"];
const IMAGES: &[&str] = &["ls", "pull", "push", "build", "tag", "rm", "inspect", "history", "prune"];
const COMPOSE: &[&str] =
    &["up", "down", "build", "ps", "logs", "pull", "push", "start", "stop", "restart", "config", "images", "top"];
const ENGINE: &[&str] = &[
    "build", "pull", "push", "images", "ps", "logs", "inspect", "start", "stop", "restart", "rm", "rmi", "tag",
    "stats", "version", "info",
];

/// The beginnings, the longer ones of a program first.
const KNOWN: &[(&[&str], Next)] = &[
    (&["git", "remote"], Of(&["add", "remove", "rename", "set-url", "get-url", "show", "prune"])),
    (&["git", "stash"], Of(&["push", "pop", "apply", "list", "show", "drop", "branch"])),
    (&["git", "worktree"], Of(&["add", "remove", "list", "prune", "move"])),
    (
        &["git"],
        Of(&[
            "add",
            "apply",
            "blame",
            "branch",
            "checkout",
            "cherry-pick",
            "clean",
            "commit",
            "describe",
            "diff",
            "fetch",
            "init",
            "log",
            "ls-files",
            "merge",
            "mv",
            "pull",
            "push",
            "reset",
            "restore",
            "rev-parse",
            "revert",
            "rm",
            "shortlog",
            "show",
            "status",
            "switch",
            "tag",
        ]),
    ),
    (&["npm", "run"], Named),
    (
        &["npm"],
        Of(&[
            "install",
            "i",
            "ci",
            "add",
            "uninstall",
            "remove",
            "update",
            "test",
            "t",
            "start",
            "stop",
            "outdated",
            "audit",
            "ls",
            "list",
            "view",
            "info",
            "pack",
            "prune",
            "dedupe",
            "version",
        ]),
    ),
    (&["pnpm", "run"], Named),
    (&["pnpm"], Of(&["install", "i", "add", "remove", "update", "test", "start", "outdated", "audit", "list", "why"])),
    (&["yarn", "run"], Of(SCRIPTS)),
    (&["yarn"], Of(&["install", "add", "remove", "upgrade", "up", "why", "info", "test", "build", "lint", "start"])),
    (&["bun", "run"], Of(SCRIPTS)),
    (&["bun"], Of(&["install", "add", "remove", "update", "outdated", "test"])),
    (&["uv", "run"], Of(CHECKERS)),
    (&["uv", "pip"], Of(&["install", "uninstall", "list", "show", "freeze", "check", "compile", "sync", "tree"])),
    (&["uv"], Of(&["sync", "lock", "add", "remove", "venv", "tree", "export", "build"])),
    (&["poetry", "run"], Of(CHECKERS)),
    (&["poetry"], Of(&["install", "add", "remove", "update", "lock", "show", "check", "build", "version"])),
    (&["pip"], Of(&["install", "uninstall", "list", "show", "freeze", "check", "download"])),
    (&["pip3"], Of(&["install", "uninstall", "list", "show", "freeze", "check", "download"])),
    (
        &["cargo"],
        Of(&[
            "add", "bench", "build", "check", "clean", "clippy", "doc", "fetch", "fmt", "metadata", "nextest",
            "package", "remove", "search", "test", "tree", "update",
        ]),
    ),
    (&["rustup"], Of(&["update", "show", "target", "component"])),
    (&["go", "mod"], Of(&["tidy", "download", "verify", "why", "graph", "vendor"])),
    (&["go"], Of(&["build", "test", "vet", "fmt", "get", "list", "version", "doc", "clean"])),
    (&["make"], Named),
    (&["just"], Named),
    (&["docker", "compose"], Of(COMPOSE)),
    (&["docker", "container"], Of(CONTAINERS)),
    (&["docker", "image"], Of(IMAGES)),
    (&["docker", "volume"], Of(&["ls", "create", "inspect", "rm", "prune"])),
    (&["docker", "network"], Of(&["ls", "create", "inspect", "rm", "prune", "connect", "disconnect"])),
    (&["docker"], Of(ENGINE)),
    (&["podman", "compose"], Of(COMPOSE)),
    (&["podman", "container"], Of(CONTAINERS)),
    (&["podman", "image"], Of(IMAGES)),
    (&["podman"], Of(ENGINE)),
    (&["kubectl", "rollout"], Of(&["status", "history", "restart", "undo"])),
    (&["kubectl"], Of(&["get", "describe", "logs", "apply", "delete", "scale", "top", "explain", "version"])),
    (&["helm"], Of(&["list", "status", "history", "get", "lint", "show", "search"])),
    (&["terraform"], Of(&["init", "plan", "apply", "validate", "fmt", "output", "show"])),
    (&["gh", "issue"], Of(&["list", "view", "create", "comment", "edit", "close", "reopen", "status"])),
    (
        &["gh", "pr"],
        Of(&[
            "list", "view", "create", "comment", "edit", "close", "reopen", "status", "checks", "diff", "checkout",
            "merge", "ready", "review",
        ]),
    ),
    (&["gh", "release"], Of(&["list", "view", "create", "edit", "upload", "download"])),
    (&["gh", "repo"], Of(&["list", "view", "sync"])),
    (&["gh", "run"], Of(&["list", "view", "watch", "rerun", "cancel", "download"])),
    (&["gh", "workflow"], Of(&["list", "view", "run", "enable", "disable"])),
    (&["gh", "search"], Of(&["code", "commits", "issues", "prs", "repos"])),
    (&["aws", "s3"], Of(&["ls", "cp", "mv", "rm", "sync", "mb", "rb", "presign"])),
    (&["brew"], Of(&["install", "uninstall", "upgrade", "update", "list", "info", "search", "outdated", "deps"])),
    (&["dotnet"], Of(&["build", "test", "restore", "clean", "publish", "pack", "format"])),
    (&["gradle"], Of(&["build", "test", "check", "assemble", "clean", "tasks", "dependencies"])),
    (&["bundle"], Of(&["install", "update", "check", "list", "outdated", "show", "add"])),
    (&["rails"], Of(&["test", "routes", "generate", "db:migrate", "db:rollback", "db:seed", "db:create"])),
    (&["mix"], Of(&["compile", "test", "format", "deps.get", "deps.update", "credo", "dialyzer", "ecto.migrate"])),
];

/// How many of the words a rule may hold fast and leave the rest open; `None` for a command that is only offered as it is.
pub(crate) fn open_words(words: &[&str]) -> Option<usize> {
    fixed_words(words).filter(|_| !targets::takes_targets(words))
}

/// The same for rules that were offered once: of some programs the words behind are further targets, which no rule leaves
/// open any more.
fn fixed_words(words: &[&str]) -> Option<usize> {
    let (start, next) = KNOWN.iter().find(|(start, _)| words.starts_with(start))?;
    let word = words.get(start.len())?;
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/@".contains(c)) && !word.starts_with('-');
    let known = match next {
        Of(list) => list.contains(word),
        Named => plain && !is_interpreter(base_name(word)),
    };
    known.then_some(start.len() + 1)
}

impl Rule {
    /// Whether an allow rule covers one simple command. What was offered stands where such rules are kept, in the form that
    /// they have.
    pub(crate) fn allows_command(&self, words: &[Word]) -> bool {
        let Specifier::Command(pattern) = &self.specifier else { return false };
        let kept = matches!(self.source.scope, RuleScope::Local | RuleScope::Session);
        let offered = kept && self.text.ends_with(" *)");
        if offered { pattern.allows_as_offered(words) } else { pattern.allows(words) }
    }
}

/// Whether a rule for these words and anything behind would be one of those that are offered, and a command has an option
/// behind them that such a rule does not reach over.
pub(super) fn reaches_over(prefix: &[String], words: &[Word]) -> bool {
    let fixed: Vec<&str> = prefix.iter().map(String::as_str).collect();
    // A command may be shorter than the rule.
    let Some(rest) = words.get(fixed.len()..) else { return false };
    let more = || options::run_programs(&fixed, rest) || targets::name_further(&fixed, rest);
    fixed_words(&fixed) == Some(fixed.len()) && more()
}

/// The same for a command by itself, which is then only offered as it is.
pub(crate) fn runs_more(fixed: &[&str], rest: &[&str]) -> bool {
    let rest: Vec<Word> = rest.iter().map(|word| Word::literal(word)).collect();
    options::run_programs(fixed, &rest)
}
