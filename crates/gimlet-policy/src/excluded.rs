//! Commands that settings name to run outside the sandbox. Only what certainly is such a command counts: in doubt the
//! walls stay, or a person is asked.

use crate::rules::{CommandPattern, Fit};
use crate::shell::{Analysis, Part, ShellFacts, Word, analyse, base_name};

/// How much of a command is named to run outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    None,
    /// Some part is named, or could be; something else would go out with it.
    Partly,
    /// It is named as a whole, but for parts that do nothing by themselves.
    Whole,
}

/// What these patterns (the insides of `Bash(…)` rules) say about a command. A program of the same name from elsewhere, a
/// function or a changed search path is not what they name.
pub fn exclusion(command: &str, patterns: &[String], facts: &ShellFacts<'_>) -> Exclusion {
    let patterns: Vec<CommandPattern> = patterns.iter().filter_map(|text| CommandPattern::parse(text)).collect();
    if patterns.is_empty() {
        return Exclusion::None;
    }
    let analysis = analyse(command, facts);
    let mut reached = analysis.reached();
    let is_there = reached.any(|words| patterns.iter().any(|pattern| pattern.forbids(words) == Fit::Yes));
    if analysis.trouble.is_some() || !is_there {
        return Exclusion::None;
    }
    if is_whole(&analysis, &patterns) { Exclusion::Whole } else { Exclusion::Partly }
}

fn is_whole(analysis: &Analysis, patterns: &[CommandPattern]) -> bool {
    let is_named =
        |part: &Part| part.layers.iter().any(|words| patterns.iter().any(|pattern| pattern.allows_as_offered(words)));
    let plain = !analysis.treacherous && !analysis.runs_unseen_text && analysis.redirects.is_empty();
    plain
        && analysis.parts.iter().any(is_named)
        && analysis.parts.iter().all(|part| is_named(part) || does_nothing(part))
}

/// Whether a part reads no file and changes nothing, such as `cd`, `echo` or `grep` behind a pipe. Git may run programs
/// that a repository names.
fn does_nothing(part: &Part) -> bool {
    let git = |words: &Vec<Word>| words.first().and_then(Word::value).map(base_name) == Some("git");
    let reads_nothing = part.reading.as_ref().is_some_and(|reading| {
        !reading.recursive && reading.looks.is_empty() && (reading.paths.is_empty() || is_cd(part))
    });
    reads_nothing && !part.layers.iter().any(git)
}

fn is_cd(part: &Part) -> bool {
    part.layers.first().and_then(|words| words.first()).and_then(Word::value) == Some("cd")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn only_what_is_certainly_named_goes_out_without_a_question() {
        let roots = [PathBuf::from("/repo")];
        let facts = ShellFacts { cwd: Path::new("/repo"), roots: &roots, home: None, environment: None };
        let patterns = ["docker *".to_owned(), "make deploy".to_owned()];
        let of = |command: &str| exclusion(command, &patterns, &facts);
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
            assert_eq!(of(command), Exclusion::Whole, "{command}");
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
            assert_eq!(of(command), Exclusion::Partly, "{command}");
        }
        for command in ["make test", "echo docker ps", "$x ps", "docker ps; (", ""] {
            assert_eq!(of(command), Exclusion::None, "{command}");
        }
    }
}
