//! Files that recognised readers open because of a script among their words: `sed 'r FILE'`, `awk '{ getline < "FILE"
//! }'`. Operands are handled elsewhere; this file only covers names inside of a word.

use crate::shell::{Word, awk_may_run_program, base_name, has_run_flag, is_script_running_input};

/// Syntax by which the words of a reader may name files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptSyntax {
    Sed,
    Awk,
    /// Words with whitespace or a leading `+` are commands of the program or of a shell.
    Commands,
}

impl ScriptSyntax {
    /// Returns the syntax of the scripts that a command may have among its words.
    pub(super) fn for_command(words: &[Word]) -> Option<Self> {
        let (name, arguments) = words.split_first()?;
        match base_name(name.value()?) {
            "sed" => Some(ScriptSyntax::Sed),
            "awk" | "gawk" | "mawk" | "nawk" => Some(ScriptSyntax::Awk),
            "vi" | "vim" | "view" | "emacs" | "less" | "more" => Some(ScriptSyntax::Commands),
            name => has_run_flag(name, arguments).then_some(ScriptSyntax::Commands),
        }
    }

    /// Returns true if the reader may open or run what it reads.
    pub(super) fn may_act_on_input(self, words: &[Word]) -> bool {
        let mut texts = words.iter().skip(1).filter_map(Word::value);
        match self {
            ScriptSyntax::Sed => texts.any(has_execute_flag),
            ScriptSyntax::Awk => texts.any(awk_may_run_program),
            ScriptSyntax::Commands => false,
        }
    }

    /// Returns the parts of a word that name files, and those in which any part may do so.
    pub(super) fn find_named_files(self, word: &str) -> (Vec<&str>, Vec<&str>) {
        match self {
            ScriptSyntax::Sed => sed_file_names(word),
            ScriptSyntax::Awk if awk_may_run_program(word) || word.contains('>') => (Vec::new(), vec![word]),
            ScriptSyntax::Commands if word.starts_with('+') || word.contains(char::is_whitespace) => {
                (Vec::new(), vec![word])
            }
            _ => (Vec::new(), Vec::new()),
        }
    }
}

/// Returns true if a script has the flag `e`, which runs the result of a replacement.
fn has_execute_flag(script: &str) -> bool {
    let mut runs = script.split(|c: char| !c.is_ascii_alphanumeric());
    let has_flag = |run: &str| run.contains('e') && run.chars().all(|c| c.is_ascii_digit() || FLAGS.contains(c));
    // Any character may be the delimiter before it; a word that is no script is a file.
    runs.any(has_flag) || (script.starts_with('s') && is_script_running_input(script))
}

/// Flags of a replacement, which others may precede.
const FLAGS: &str = "gpiImMew";

/// Returns the files that a sed script names: from after the command to the end of the line; some commands use less of
/// it.
fn sed_file_names(script: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    if has_execute_flag(script) {
        commands.push(script);
    }
    let mut before = None;
    for (at, c) in script.char_indices() {
        // After an option its script may begin anywhere.
        let begins = before.is_none_or(|before: char| !before.is_ascii_alphabetic()) || script.starts_with('-');
        let flag = matches!(c, 'e' | 'w') && before.is_some_and(|before| FLAGS.contains(before));
        before = Some(c);
        if !matches!(c, 'r' | 'R' | 'w' | 'W' | 'e') || !(begins || flag) {
            continue;
        }
        let line = script[at + 1..].lines().next().unwrap_or("").trim_start();
        if c == 'e' {
            commands.push(line);
        } else {
            files.push(line);
            files.extend(line.split([';', '}', ' ', '\t']).next().filter(|file| file.len() < line.len()));
        }
    }
    (files, commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_behind_the_commands_of_sed() {
        for script in [
            "r .env",
            "R.env",
            "1r.env",
            "$r .env",
            "/x/r .env",
            "2!r .env",
            "{r .env\n}",
            "p;w .env",
            "s/a/b/gw .env",
            "-er .env",
            "--expression=r.env",
        ] {
            assert!(sed_file_names(script).0.contains(&".env"), "{script}");
        }
        for script in ["s/r.env/x/", "s/for .env/x/", "/.env/p", "s/bar.env/x/w out"] {
            assert!(!sed_file_names(script).0.contains(&".env"), "{script}");
        }
        assert!(sed_file_names("1e cat .env").1.contains(&"cat .env"));
        assert_eq!(sed_file_names("s/.*/cat .env/e").1[0], "s/.*/cat .env/e");
        assert!(!sed_file_names("s/a .env b/c/g").1.iter().any(|text| text.contains(".env")));
    }
}
