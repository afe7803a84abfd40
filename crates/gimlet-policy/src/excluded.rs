//! Commands that settings name to run outside the sandbox. Only what certainly is such a command counts: in doubt the
//! walls stay.

use crate::rules::{CommandPattern, Fit};
use crate::shell::{ShellFacts, analyse, reachable};

/// Whether one part of a command is what one of these patterns (the inside of a `Bash(…)` rule) names.
pub fn runs_one_of(command: &str, patterns: &[String], facts: &ShellFacts<'_>) -> bool {
    if patterns.is_empty() {
        return false;
    }
    let analysis = analyse(command, facts);
    let named = |pattern: &CommandPattern| {
        let mut reached = analysis.commands.iter().flat_map(|words| reachable(words));
        reached.any(|words| pattern.forbids(words) == Fit::Yes)
    };
    analysis.trouble.is_none()
        && patterns.iter().filter_map(|text| CommandPattern::parse(text)).any(|pattern| named(&pattern))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn one_part_is_enough_and_doubt_is_not() {
        let roots = [PathBuf::from("/repo")];
        let facts = ShellFacts { cwd: Path::new("/repo"), roots: &roots, home: None };
        let patterns = ["docker *".to_owned(), "make deploy".to_owned()];
        let runs = |command: &str| runs_one_of(command, &patterns, &facts);
        for command in ["docker ps", "cd a && docker build .", "make deploy", "sudo docker ps"] {
            assert!(runs(command), "{command}");
        }
        for command in ["make test", "echo docker ps", "$x ps", "docker ps; (", ""] {
            assert!(!runs(command), "{command}");
        }
    }
}
