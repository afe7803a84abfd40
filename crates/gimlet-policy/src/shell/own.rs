//! Commands of gimlet's own that are a person's to give, whatever rules and modes say.

use super::word::Word;
use super::wrappers::base_name;

/// Whether a command may give or take back trust in a folder. One that only shows what waits may not.
pub(super) fn gives_trust(words: &[Word]) -> bool {
    is_own(words, &["trust"], &["--yes", "-y", "--revoke"])
}

/// Whether a command may change settings: the same as writing to the file that holds them.
pub(super) fn changes_settings(words: &[Word]) -> bool {
    is_own(words, &["config"], &["set", "add", "remove", "unset"])
}

/// Whether a command runs gimlet with one word of each of these lists, or with words that could be anything.
fn is_own(words: &[Word], one: &[&str], other: &[&str]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let has = |wanted: &[&str]| arguments.iter().any(|word| word.value().is_none_or(|text| wanted.contains(&text)));
    name.value().is_some_and(|name| base_name(name) == "gimlet") && has(one) && has(other)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::{ShellFacts, analyse};

    #[test]
    fn trust_that_is_given_by_a_command_is_seen_in_every_plain_spelling() {
        let roots = [PathBuf::from("/repo")];
        let facts = ShellFacts { cwd: Path::new("/repo"), roots: &roots, home: None };
        let gives = |command: &str| analyse(command, &facts).gives_trust;
        for command in [
            "gimlet trust --yes",
            "gimlet trust -y /repo",
            "./target/debug/gimlet trust --yes",
            "cd /repo && env X=1 gimlet trust --revoke",
            "sudo gimlet trust --yes",
            "bash -c 'gimlet trust --yes'",
            "echo $(gimlet trust --yes)",
            "gimlet trust $flag",
            "gimlet $what --yes",
            "timeout 5 gimlet --debug trust --yes",
        ] {
            assert!(gives(command), "{command}");
        }
        for command in
            ["gimlet trust", "gimlet trust --show", "gimlet doctor", "echo gimlet trust --yes", "trust --yes"]
        {
            assert!(!gives(command), "{command}");
        }
    }

    #[test]
    fn settings_that_are_changed_by_a_command_are_seen_too() {
        let roots = [PathBuf::from("/repo")];
        let facts = ShellFacts { cwd: Path::new("/repo"), roots: &roots, home: None };
        let changes = |command: &str| analyse(command, &facts).changes_settings;
        for command in [
            "gimlet config set permissions.defaultMode bypassPermissions",
            "./target/debug/gimlet config add permissions.allow Bash --scope local",
            "true; timeout 5 gimlet config unset sandbox",
            "sh -c 'gimlet config remove permissions.deny x'",
            "gimlet config $what model opus",
        ] {
            assert!(changes(command), "{command}");
        }
        for command in ["gimlet config list", "gimlet config get model", "git config set a.b c", "gimlet doctor"] {
            assert!(!changes(command), "{command}");
        }
    }
}
