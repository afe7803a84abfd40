//! Fuzz target for the analysis of a command text, whose parser is written in C.
//!
//! The analysis never fails, is deterministic, and its claims are consistent. A text that it understands has identical
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
        // Escapes can produce characters that a text must not contain.
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

/// Quotes a word so that bash takes it literally.
pub(crate) fn single_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Asserts that every command of a text that is understood is also found inside brackets.
fn check_bracketed(text: &str, analysis: &ShellAnalysis) {
    // The space keeps `((` apart, which begins an arithmetic command.
    for (open, close) in [("( ", "\n)"), ("{ ", "\n}")] {
        let inner = analyse_text(&format!("{open}{text}{close}"));
        if inner.trouble == Some(ParseTrouble::Timeout) {
            continue;
        }
        // A brace at the beginning of a word is not understood there, and such a text is analysed word by word: the
        // program is still found, but not which of its words are only known at run time.
        let most = if inner.trouble.is_some() { 1 } else { usize::MAX };
        let found: Vec<_> = inner.commands.iter().map(|words| static_prefix(words, most)).collect();
        let lost =
            analysis.commands.iter().map(|words| static_prefix(words, most)).find(|words| !found.contains(words));
        assert_eq!(lost, None, "a command is lost between {open:?} and {close:?}");
    }
}

/// Returns the first words of a command, as far as they are fixed.
fn static_prefix(words: &[Word], most: usize) -> Vec<Option<&str>> {
    words.iter().take(most).map(Word::value).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    shell_rows().into_iter().map(|row| row.command.into_bytes()).collect()
}
