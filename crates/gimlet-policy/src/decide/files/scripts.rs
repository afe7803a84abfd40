//! Files that recognised readers are told to open by a script among their words: `sed 'r FILE'`, `awk '{ getline < "FILE" }'`.
//! Readers open their operands, which are looked at elsewhere; here is what stands inside of one.

use crate::shell::{Word, awk_may_run, base_name, is_script_that_runs_input, is_told_to_run};

/// How the words of a reader may name files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Sed,
    Awk,
    /// Its words with blanks or a leading `+` are commands of its own or of a shell.
    Commands,
}

impl Script {
    /// The scripts that a command may have among its words.
    pub(super) fn of(words: &[Word]) -> Option<Self> {
        let (name, arguments) = words.split_first()?;
        match base_name(name.value()?) {
            "sed" => Some(Script::Sed),
            "awk" | "gawk" | "mawk" | "nawk" => Some(Script::Awk),
            "vi" | "vim" | "view" | "emacs" | "less" | "more" => Some(Script::Commands),
            name => is_told_to_run(name, arguments).then_some(Script::Commands),
        }
    }

    /// Whether it may open or run what it reads.
    pub(super) fn takes_input(self, words: &[Word]) -> bool {
        let mut texts = words.iter().skip(1).filter_map(Word::value);
        match self {
            Script::Sed => texts.any(runs_replacements),
            Script::Awk => texts.any(awk_may_run),
            Script::Commands => false,
        }
    }

    /// The stretches of a word that name files, and those in which any stretch may do so.
    pub(super) fn names(self, word: &str) -> (Vec<&str>, Vec<&str>) {
        match self {
            Script::Sed => of_sed(word),
            Script::Awk if awk_may_run(word) || word.contains('>') => (Vec::new(), vec![word]),
            Script::Commands if word.starts_with('+') || word.contains(char::is_whitespace) => (Vec::new(), vec![word]),
            _ => (Vec::new(), Vec::new()),
        }
    }
}

/// Whether a script has the flag `e`, which runs what a replacement makes.
fn runs_replacements(script: &str) -> bool {
    let mut runs = script.split(|c: char| !c.is_ascii_alphanumeric());
    let has_flag = |run: &str| run.contains('e') && run.chars().all(|c| c.is_ascii_digit() || FLAGS.contains(c));
    // Any character may be the delimiter in front of it; what is no script at all is a file.
    runs.any(has_flag) || (script.starts_with('s') && is_script_that_runs_input(script))
}

/// Flags of a replacement, in front of which others may stand.
const FLAGS: &str = "gpiImMew";

/// A file is named from behind its command to the end of the line; some take less of it.
fn of_sed(script: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut files, mut commands) = (Vec::new(), Vec::new());
    if runs_replacements(script) {
        commands.push(script);
    }
    let mut before = None;
    for (at, c) in script.char_indices() {
        // Behind an option its script may begin anywhere.
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
            assert!(of_sed(script).0.contains(&".env"), "{script}");
        }
        for script in ["s/r.env/x/", "s/for .env/x/", "/.env/p", "s/bar.env/x/w out"] {
            assert!(!of_sed(script).0.contains(&".env"), "{script}");
        }
        assert!(of_sed("1e cat .env").1.contains(&"cat .env"));
        assert_eq!(of_sed("s/.*/cat .env/e").1[0], "s/.*/cat .env/e");
        assert!(!of_sed("s/a .env b/c/g").1.iter().any(|text| text.contains(".env")));
    }
}
