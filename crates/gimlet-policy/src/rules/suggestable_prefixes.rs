//! Prefixes of commands that may be suggested as rules that leave the rest open. It is a list of commands that are
//! known to do one thing with any operands; a subcommand that is missing here is suggested word for word, so a new one
//! only costs a question. A command that runs a program or text named by its operands must never be in it.
//!
//! Some of these have options that name a program (`git fetch --upload-pack`, `go test -exec`). A suggested rule does
//! not cover those: a user who accepts `go test *` means tests. A rule that a user writes covers everything that it
//! matches.

mod build_targets;
mod program_options;

use super::{Rule, RuleScope, RuleSpecifier, is_interpreter};
use crate::shell::{Word, base_name};

/// Words that may follow the beginning of a command.
enum NextWord {
    /// One of these.
    OneOf(&'static [&'static str]),
    /// A name of the project's own, such as that of a target: the project defines what it runs.
    ProjectName,
}

use NextWord::{OneOf, ProjectName};

/// Scripts by the names that most projects use. Where a runner takes programs as well as scripts, only these are known
/// not to be programs.
const SCRIPTS: &[&str] =
    &["test", "build", "lint", "start", "dev", "format", "typecheck", "type-check", "check", "clean", "coverage"];
/// Tools of Python projects that check or test and start no program named by their operands.
const CHECKERS: &[&str] = &["pytest", "ruff", "mypy", "black", "flake8", "isort", "pyright", "pylint"];
const CONTAINERS: &[&str] = &["ls", "ps", "logs", "inspect", "start", "stop", "restart", "rm", "prune", "top", "stats"];
const IMAGES: &[&str] = &["ls", "pull", "push", "build", "tag", "rm", "inspect", "history", "prune"];
const COMPOSE: &[&str] =
    &["up", "down", "build", "ps", "logs", "pull", "push", "start", "stop", "restart", "config", "images", "top"];
const ENGINE: &[&str] = &[
    "build", "pull", "push", "images", "ps", "logs", "inspect", "start", "stop", "restart", "rm", "rmi", "tag",
    "stats", "version", "info",
];

/// The prefixes, the longer ones of a program first.
const KNOWN: &[(&[&str], NextWord)] = &[
    (&["git", "remote"], OneOf(&["add", "remove", "rename", "set-url", "get-url", "show", "prune"])),
    (&["git", "stash"], OneOf(&["push", "pop", "apply", "list", "show", "drop", "branch"])),
    (&["git", "worktree"], OneOf(&["add", "remove", "list", "prune", "move"])),
    (
        &["git"],
        OneOf(&[
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
    (&["npm", "run"], ProjectName),
    (
        &["npm"],
        OneOf(&[
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
    (&["pnpm", "run"], ProjectName),
    (
        &["pnpm"],
        OneOf(&["install", "i", "add", "remove", "update", "test", "start", "outdated", "audit", "list", "why"]),
    ),
    (&["yarn", "run"], OneOf(SCRIPTS)),
    (&["yarn"], OneOf(&["install", "add", "remove", "upgrade", "up", "why", "info", "test", "build", "lint", "start"])),
    (&["bun", "run"], OneOf(SCRIPTS)),
    (&["bun"], OneOf(&["install", "add", "remove", "update", "outdated", "test"])),
    (&["uv", "run"], OneOf(CHECKERS)),
    (&["uv", "pip"], OneOf(&["install", "uninstall", "list", "show", "freeze", "check", "compile", "sync", "tree"])),
    (&["uv"], OneOf(&["sync", "lock", "add", "remove", "venv", "tree", "export", "build"])),
    (&["poetry", "run"], OneOf(CHECKERS)),
    (&["poetry"], OneOf(&["install", "add", "remove", "update", "lock", "show", "check", "build", "version"])),
    (&["pip"], OneOf(&["install", "uninstall", "list", "show", "freeze", "check", "download"])),
    (&["pip3"], OneOf(&["install", "uninstall", "list", "show", "freeze", "check", "download"])),
    (
        &["cargo"],
        OneOf(&[
            "add", "bench", "build", "check", "clean", "clippy", "doc", "fetch", "fmt", "metadata", "nextest",
            "package", "remove", "search", "test", "tree", "update",
        ]),
    ),
    (&["rustup"], OneOf(&["update", "show", "target", "component"])),
    (&["go", "mod"], OneOf(&["tidy", "download", "verify", "why", "graph", "vendor"])),
    (&["go"], OneOf(&["build", "test", "vet", "fmt", "get", "list", "version", "doc", "clean"])),
    (&["make"], ProjectName),
    (&["just"], ProjectName),
    (&["docker", "compose"], OneOf(COMPOSE)),
    (&["docker", "container"], OneOf(CONTAINERS)),
    (&["docker", "image"], OneOf(IMAGES)),
    (&["docker", "volume"], OneOf(&["ls", "create", "inspect", "rm", "prune"])),
    (&["docker", "network"], OneOf(&["ls", "create", "inspect", "rm", "prune", "connect", "disconnect"])),
    (&["docker"], OneOf(ENGINE)),
    (&["podman", "compose"], OneOf(COMPOSE)),
    (&["podman", "container"], OneOf(CONTAINERS)),
    (&["podman", "image"], OneOf(IMAGES)),
    (&["podman"], OneOf(ENGINE)),
    (&["kubectl", "rollout"], OneOf(&["status", "history", "restart", "undo"])),
    (&["kubectl"], OneOf(&["get", "describe", "logs", "apply", "delete", "scale", "top", "explain", "version"])),
    (&["helm"], OneOf(&["list", "status", "history", "get", "lint", "show", "search"])),
    (&["terraform"], OneOf(&["init", "plan", "apply", "validate", "fmt", "output", "show"])),
    (&["gh", "issue"], OneOf(&["list", "view", "create", "comment", "edit", "close", "reopen", "status"])),
    (
        &["gh", "pr"],
        OneOf(&[
            "list", "view", "create", "comment", "edit", "close", "reopen", "status", "checks", "diff", "checkout",
            "merge", "ready", "review",
        ]),
    ),
    (&["gh", "release"], OneOf(&["list", "view", "create", "edit", "upload", "download"])),
    (&["gh", "repo"], OneOf(&["list", "view", "sync"])),
    (&["gh", "run"], OneOf(&["list", "view", "watch", "rerun", "cancel", "download"])),
    (&["gh", "workflow"], OneOf(&["list", "view", "run", "enable", "disable"])),
    (&["gh", "search"], OneOf(&["code", "commits", "issues", "prs", "repos"])),
    (&["aws", "s3"], OneOf(&["ls", "cp", "mv", "rm", "sync", "mb", "rb", "presign"])),
    (&["brew"], OneOf(&["install", "uninstall", "upgrade", "update", "list", "info", "search", "outdated", "deps"])),
    (&["dotnet"], OneOf(&["build", "test", "restore", "clean", "publish", "pack", "format"])),
    (&["gradle"], OneOf(&["build", "test", "check", "assemble", "clean", "tasks", "dependencies"])),
    (&["bundle"], OneOf(&["install", "update", "check", "list", "outdated", "show", "add"])),
    (&["rails"], OneOf(&["test", "routes", "generate", "db:migrate", "db:rollback", "db:seed", "db:create"])),
    (&["mix"], OneOf(&["compile", "test", "format", "deps.get", "deps.update", "credo", "dialyzer", "ecto.migrate"])),
];

/// Returns the number of words that a rule may fix and leave the rest open; `None` for a command that is only
/// suggested as it is.
pub(crate) fn open_prefix_length(words: &[&str]) -> Option<usize> {
    if build_targets::takes_several_targets(words) { None } else { fixed_prefix_length(words) }
}

/// Returns the number of words that a suggested rule fixes, also for rules of the past: for some programs the words
/// after them are further targets, which new suggestions do not leave open.
fn fixed_prefix_length(words: &[&str]) -> Option<usize> {
    let (start, next) = KNOWN.iter().find(|(start, _)| words.starts_with(start))?;
    let word = words.get(start.len())?;
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/@".contains(c)) && !word.starts_with('-');
    let known = match next {
        OneOf(list) => list.contains(word),
        ProjectName => plain && !is_interpreter(base_name(word)),
    };
    known.then_some(start.len() + 1)
}

impl Rule {
    /// Returns true if an allow rule covers one simple command. Suggested rules are recognised by their source and
    /// form.
    pub(crate) fn allows_command(&self, words: &[Word]) -> bool {
        let RuleSpecifier::Command(pattern) = &self.specifier else { return false };
        let kept = matches!(self.source.scope, RuleScope::Local | RuleScope::Session);
        let offered = kept && self.text.ends_with(" *)");
        if offered { pattern.allows_as_suggested(words) } else { pattern.allows(words) }
    }
}

/// Returns true if a rule for these words and anything after them would be a suggested one, and the command has an
/// option or a target after them that such a rule does not cover.
pub(super) fn exceeds_suggested_rule(prefix: &[String], words: &[Word]) -> bool {
    let fixed: Vec<&str> = prefix.iter().map(String::as_str).collect();
    // A command may be shorter than the rule.
    let Some(rest) = words.get(fixed.len()..) else { return false };
    let more =
        || program_options::may_run_program(&fixed, rest) || build_targets::may_name_further_target(&fixed, rest);
    fixed_prefix_length(&fixed) == Some(fixed.len()) && more()
}

/// Returns true if a command may run another program by its options; it is then only suggested as it is.
pub(crate) fn may_run_other_program(fixed: &[&str], rest: &[&str]) -> bool {
    let rest: Vec<Word> = rest.iter().map(|word| Word::from_literal(word)).collect();
    program_options::may_run_program(fixed, &rest)
}
