//! Commands that settings exclude from the sandbox. Only a command that certainly is such a one counts: in doubt the
//! sandbox stays, or the user is asked.

use crate::rules::{CommandPattern, MatchCertainty};
use crate::shell::{CommandPart, ShellAnalysis, ShellFacts, Word, analyse, base_name};

/// Extent to which a command is excluded from the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxExclusion {
    None,
    /// Some part is excluded, or could be; another part would leave the sandbox with it.
    Partial,
    /// It is excluded as a whole, except for parts that have no effect by themselves.
    Whole,
}

/// Classifies a command by these patterns (the insides of `Bash(…)` rules). A program of that name from elsewhere, a
/// function or a changed search path does not match.
pub fn classify_exclusion(command: &str, patterns: &[String], facts: &ShellFacts<'_>) -> SandboxExclusion {
    let patterns: Vec<CommandPattern> = patterns.iter().filter_map(|text| CommandPattern::parse(text)).collect();
    if patterns.is_empty() {
        return SandboxExclusion::None;
    }
    let analysis = analyse(command, facts);
    let mut reached = analysis.reachable_commands();
    let is_there = reached.any(|words| patterns.iter().any(|pattern| pattern.forbids(words) == MatchCertainty::Yes));
    if analysis.trouble.is_some() || !is_there {
        return SandboxExclusion::None;
    }
    if is_wholly_excluded(&analysis, &patterns) { SandboxExclusion::Whole } else { SandboxExclusion::Partial }
}

fn is_wholly_excluded(analysis: &ShellAnalysis, patterns: &[CommandPattern]) -> bool {
    let is_named = |part: &CommandPart| {
        part.layers.iter().any(|words| patterns.iter().any(|pattern| pattern.allows_as_suggested(words)))
    };
    let plain = !analysis.has_indirect_expansion && !analysis.runs_hidden_text && analysis.redirects.is_empty();
    plain
        && analysis.parts.iter().any(is_named)
        && analysis.parts.iter().all(|part| is_named(part) || has_no_effect(part))
}

/// Returns true if a part reads no file and changes nothing, such as `cd`, `echo` or `grep` after a pipe. Git may run
/// programs that a repository names.
fn has_no_effect(part: &CommandPart) -> bool {
    let git = |words: &Vec<Word>| words.first().and_then(Word::value).map(base_name) == Some("git");
    let reads_nothing = part.reads.as_ref().is_some_and(|reading| {
        !reading.recursive && reading.lookups.is_empty() && (reading.paths.is_empty() || is_cd(part))
    });
    reads_nothing && !part.layers.iter().any(git)
}

fn is_cd(part: &CommandPart) -> bool {
    part.layers.first().and_then(|words| words.first()).and_then(Word::value) == Some("cd")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn only_certain_matches_run_outside_the_sandbox_unasked() {
        let roots = [PathBuf::from("/repo")];
        let facts = ShellFacts { cwd: Path::new("/repo"), roots: &roots, home: None, environment: None };
        let patterns = ["docker *".to_owned(), "make deploy".to_owned()];
        let of = |command: &str| classify_exclusion(command, &patterns, &facts);
        for command in [
            "docker ps",
            "cd a && docker build .",
            "make deploy",
            "timeout 5 docker ps",
            "docker ps | grep web | wc -l",
            "docker ps && echo done",
            "TZ=UTC docker ps 2>/dev/null",
            "make deploy; docker ps",
        ] {
            assert_eq!(of(command), SandboxExclusion::Whole, "{command}");
        }
        for command in [
            "touch /etc/x && docker ps",
            "docker ps; touch /etc/x",
            "docker ps > /etc/x",
            "docker load < /etc/x",
            "docker run $(touch /etc/x)",
            "cat /etc/shadow | docker load",
            "./docker ps",
            "/tmp/docker ps",
            "sudo docker ps",
            "PATH=.:$PATH docker ps",
            "docker() { touch /etc/x; }; docker ps",
            "hash -p ./docker docker; docker ps",
            "git status; docker ps",
            "bash -c 'docker ps'",
        ] {
            assert_eq!(of(command), SandboxExclusion::Partial, "{command}");
        }
        for command in ["make test", "echo docker ps", "$x ps", "docker ps; (", ""] {
            assert_eq!(of(command), SandboxExclusion::None, "{command}");
        }
    }
}
