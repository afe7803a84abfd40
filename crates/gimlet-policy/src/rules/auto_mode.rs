//! Allow rules that auto mode suspends. Its classifier has to judge commands that could do anything: a rule that
//! allows every command, every script of an interpreter or every agent would leave it nothing to judge. The rules are
//! restored when the mode is left.

use super::{CommandPattern, Rule, RuleSet, RuleSpecifier};
use crate::shell::base_name;

/// Programs that run any text or file given to them.
const INTERPRETERS: &[&str] = &[
    "bash",
    "sh",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "python",
    "python2",
    "python3",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "Rscript",
    "osascript",
    "pwsh",
    "eval",
    "exec",
    "env",
    "sudo",
    "doas",
    "ssh",
    "xargs",
    "npx",
    "bunx",
    "uvx",
    "pipx",
    "tsx",
    "ts-node",
    "awk",
    "gawk",
];

/// Package managers, and their subcommands that run a script of the project or of a package.
const RUNNERS: &[(&str, &[&str])] = &[
    ("npm", &["run", "run-script", "exec", "x"]),
    ("pnpm", &["run", "exec", "dlx", "x"]),
    ("yarn", &["run", "exec", "dlx"]),
    ("bun", &["run", "x"]),
    ("deno", &["run", "task", "eval"]),
    ("cargo", &["run"]),
    ("uv", &["run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("go", &["run"]),
    ("make", &[]),
    ("just", &[]),
];

/// Returns true if a program of this name runs any text or file given to it.
pub(crate) fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&name)
}

/// Returns true if auto mode suspends this allow rule; with `all_shell`, every rule about commands.
pub(crate) fn is_suspended(rule: &Rule, all_shell: bool) -> bool {
    match &rule.specifier {
        RuleSpecifier::All => matches!(rule.tool.as_str(), "Bash" | "Agent" | "Monitor"),
        RuleSpecifier::Agent(_) => true,
        RuleSpecifier::Command(pattern) => all_shell || rule.tool == "Monitor" || may_run_anything(pattern),
        _ => false,
    }
}

fn may_run_anything(pattern: &CommandPattern) -> bool {
    match pattern {
        CommandPattern::Exact(_) => false,
        CommandPattern::Prefix(words) => match words.split_first() {
            Some((name, rest)) => is_script_runner(base_name(name), rest.first().map(String::as_str)),
            None => true,
        },
        CommandPattern::Glob { pattern, .. } => {
            let mut words = pattern.split(' ');
            let (name, next) = (words.next().unwrap_or("*"), words.next());
            match name.split_once('*') {
                // `python*` is also `python3`; `*` alone is everything.
                Some((stem, _)) => {
                    let stem = base_name(stem);
                    stem.is_empty() || INTERPRETERS.iter().any(|name| name.starts_with(stem))
                }
                None => is_script_runner(base_name(name), next),
            }
        }
    }
}

fn is_script_runner(name: &str, next: Option<&str>) -> bool {
    if is_interpreter(name) && !RUNNERS.iter().any(|(runner, _)| *runner == name) {
        return true;
    }
    RUNNERS.iter().any(|(runner, words)| {
        *runner == name && next.is_none_or(|next| words.is_empty() || next.contains('*') || words.contains(&next))
    })
}

impl RuleSet {
    /// Returns the rules that are in force in auto mode; with `all_shell`, no allow rule about commands is.
    pub fn for_auto_mode(&self, all_shell: bool) -> RuleSet {
        let allow = self.allow.iter().filter(|rule| !is_suspended(rule, all_shell)).cloned().collect();
        RuleSet { allow, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::{Behavior, RuleScope, RuleSet, RuleSource};

    fn suspends(rule: &str, all_shell: bool) -> bool {
        let mut rules = RuleSet::default();
        rules.add(Behavior::Allow, rule, &RuleSource::new(RuleScope::User, "/")).unwrap();
        rules.for_auto_mode(all_shell).rules(Behavior::Allow).is_empty()
    }

    #[test]
    fn rules_that_let_anything_run_are_set_aside() {
        for rule in [
            "Bash",
            "Bash(*)",
            "Bash(python*)",
            "Bash(python3:*)",
            "Bash(/usr/bin/python3 *)",
            "Bash(node *)",
            "Bash(npm run *)",
            "Bash(npm *)",
            "Bash(yarn run *)",
            "Bash(bash -c *)",
            "Bash(* --version)",
            "Agent",
            "Task(Explore)",
            "Monitor",
        ] {
            assert!(suspends(rule, false), "{rule}");
        }
    }

    #[test]
    fn narrow_rules_stay_unless_all_of_the_shell_is_judged() {
        for rule in ["Bash(npm run build)", "Bash(npm test *)", "Bash(git log *)", "Bash(cargo test:*)"] {
            assert!(!suspends(rule, false), "{rule}");
            assert!(suspends(rule, true), "{rule}");
        }
        for rule in ["Edit(src/**)", "WebFetch(domain:ex.com)", "mcp__git__log"] {
            assert!(!suspends(rule, true), "{rule}");
        }
    }
}
