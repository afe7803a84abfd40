//! The analysis of a command text, whose parser is written in C.
//!
//! It never fails, says the same every time, and its claims fit together. A text that it understands has the same
//! commands inside any bracket.

use gimlet_policy::shell::{EnvironmentNames, ParseTrouble, ShellAnalysis, ShellFacts, Word, analyse};

use crate::FuzzTarget;
use crate::permission_corpus::shell_rows;

/// The whole input is the text.
pub const TARGET: FuzzTarget = FuzzTarget { name: "shell_parse", run, seeds, words: WORDS };

pub(crate) const WORDS: &[&str] = &[
    ";",
    ";;",
    ";&",
    "&",
    "&&",
    "|",
    "||",
    "|&",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "\"",
    "'",
    "$'",
    "$\"",
    "\\",
    "\\\n",
    "\n",
    "<",
    ">",
    ">|",
    "<>",
    "<<",
    "<<-",
    "<<<",
    "EOF",
    "'EOF'",
    "\nEOF\n",
    "&>",
    "2>&1",
    "<(",
    ">(",
    "${",
    "$x",
    "${x:-",
    "$((",
    "))",
    "[ ",
    " ]",
    "[[ ",
    " ]]",
    "*",
    "?",
    "~",
    "#",
    "!",
    "A=1 ",
    "if ",
    "; then ",
    "; fi",
    "for x in ",
    "; do ",
    "; done",
    "case x in ",
    "esac",
    "while ",
    "function ",
    "f() ",
    "coproc ",
    "time ",
    "eval ",
    "sudo ",
    "bash -c ",
    "xargs ",
    "env ",
    "find . -exec ",
    "timeout 5 ",
    "rm -rf ",
    "cat ",
    "ls ",
    "echo ",
    "git log",
    "npm run ",
    "curl ",
    "cd ",
    ".env",
    "/etc/",
    "é",
    "\u{a0}",
    "\r",
    "\u{0}",
    "\u{202e}",
    "{a,b}",
    "@(",
    "+=",
    "$'\\x41'",
    "<<E\nx\nE\n",
    "select ",
    "((",
    "\u{10ffff}",
];

fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let analysis = analyse_text(text);
    if analysis.trouble == Some(ParseTrouble::Timeout) {
        return;
    }
    assert!(!analysis.read_only || analysis.trouble.is_none(), "only what is understood can be known to read");
    assert!(analysis.simple.is_none() || analysis.fully_parsed, "a simple command is understood");
    assert_eq!(analysis.too_long_to_read, text.len() > 128 * 1024, "only what is too long is not read");
    if let Some(words) = &analysis.simple {
        let quoted: Vec<String> = words.iter().map(|word| single_quote(word)).collect();
        let again = analyse_text(&quoted.join(" "));
        // Escapes can spell letters that a text must not contain.
        let spelled = again.trouble == Some(ParseTrouble::Character);
        assert!(spelled || again.simple.as_ref() == Some(words), "quoted words are other words: {quoted:?}");
    }
    if analysis.fully_parsed && analysis.trouble.is_none() && !text.ends_with('\\') {
        check_bracketed(text, &analysis);
    }
}

pub(crate) fn analyse_text(text: &str) -> ShellAnalysis {
    let roots = ["/srv/repo".into()];
    analyse(
        text,
        &ShellFacts {
            cwd: "/srv/repo".as_ref(),
            roots: &roots,
            home: Some("/home/dev".as_ref()),
            environment: Some(&EnvironmentNames::default()),
        },
    )
}

/// A word that bash reads as it is.
pub(crate) fn single_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Every command of a text that is understood is also found inside brackets.
fn check_bracketed(text: &str, analysis: &ShellAnalysis) {
    // The blank keeps `((` apart, which begins something else.
    for (open, close) in [("( ", "\n)"), ("{ ", "\n}")] {
        let inner = analyse_text(&format!("{open}{text}{close}"));
        if inner.trouble == Some(ParseTrouble::Timeout) {
            continue;
        }
        // A brace at the beginning of a word is not understood there, and what is not understood is read word by word: the
        // program is still seen, but not which of its words only show when it runs.
        let most = if inner.trouble.is_some() { 1 } else { usize::MAX };
        let found: Vec<_> = inner.commands.iter().map(|words| static_prefix(words, most)).collect();
        let lost =
            analysis.commands.iter().map(|words| static_prefix(words, most)).find(|words| !found.contains(words));
        assert_eq!(lost, None, "a command is lost between {open:?} and {close:?}");
    }
}

/// The first words of a command, as far as they are fixed.
fn static_prefix(words: &[Word], most: usize) -> Vec<Option<&str>> {
    words.iter().take(most).map(Word::value).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    shell_rows().into_iter().map(|row| row.command.into_bytes()).collect()
}
