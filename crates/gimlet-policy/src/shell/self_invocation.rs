//! Commands of gimlet's own that only the user may give, regardless of rules and modes.

use super::word::Word;
use super::wrappers::base_name;

/// Returns true if a command may grant or revoke trust in a directory. One that only lists pending trust does neither.
pub(super) fn may_change_trust(words: &[Word], more: bool) -> bool {
    may_invoke_gimlet(words, more, "trust", &["--yes", "-y", "--revoke"])
}

/// Returns true if a command may change settings, which is equivalent to writing the settings file.
pub(super) fn may_change_settings(words: &[Word], more: bool) -> bool {
    may_invoke_gimlet(words, more, "config", &["set", "add", "remove", "unset"])
        || may_invoke_gimlet(words, more, "auto-mode", &["reset"])
}

/// Returns true if a command adds unknown words to those of the command that it runs.
pub(super) fn appends_unknown_words(words: &[Word]) -> bool {
    let adds = |word: &Word| word.value().is_some_and(|name| matches!(base_name(name), "xargs" | "parallel"));
    words.iter().any(adds)
}

/// Returns true if a command runs gimlet with this subcommand and one of these words, as far as its words are known. A
/// program with an unknown name counts if the subcommand is spelled out.
fn may_invoke_gimlet(words: &[Word], more: bool, subcommand: &str, other: &[&str]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let spells = |wanted: &[&str]| arguments.iter().any(|word| word.value().is_some_and(|text| wanted.contains(&text)));
    let unknown = more || arguments.iter().any(|word| word.value().is_none());
    let named = match name.value() {
        Some(name) => base_name(name) == "gimlet" && (unknown || spells(&[subcommand])),
        None => spells(&[subcommand]),
    };
    named && (unknown || spells(other))
}

#[cfg(test)]
mod tests {
    use super::super::tests::analyse_in_repo;

    #[test]
    fn trust_changes_are_detected_in_every_plain_spelling() {
        let gives = |command: &str| analyse_in_repo(command).gives_trust;
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
            "~/.local/bin/gimlet trust --yes",
            "$HOME/bin/gimlet trust -y",
            "G=gimlet; $G trust --yes",
            "`which gimlet` trust --revoke",
            "echo --yes | xargs gimlet trust",
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
    fn settings_changes_are_detected_too() {
        let changes = |command: &str| analyse_in_repo(command).changes_settings;
        for command in [
            "gimlet config set permissions.defaultMode bypassPermissions",
            "./target/debug/gimlet config add permissions.allow Bash --scope local",
            "true; timeout 5 gimlet config unset sandbox",
            "sh -c 'gimlet config remove permissions.deny x'",
            "gimlet config $what model opus",
            "gimlet auto-mode reset -y",
            "~/bin/gimlet config set model opus",
            "echo set model opus | xargs gimlet config",
            "printf 'config set a b' | xargs -n 4 nice gimlet",
        ] {
            assert!(changes(command), "{command}");
        }
        for command in [
            "gimlet config list",
            "gimlet config get model",
            "git config set a.b c",
            "gimlet doctor",
            "$x add config.rs",
        ] {
            assert!(!changes(command), "{command}");
        }
    }
}
