//! Differences between zsh and bash. Commands are analysed as bash; if zsh runs them, only texts with an equal meaning
//! in both count as understood.

/// Words by which only zsh changes the directory, evaluates a text, or runs the following words.
const ITS_OWN: [&str; 21] = [
    "-",
    "alias",
    "autoload",
    "cd",
    "chdir",
    "emulate",
    "eval",
    "fc",
    "foreach",
    "nocorrect",
    "noglob",
    "popd",
    // It evaluates its numbers.
    "printf",
    "pushd",
    "repeat",
    "set",
    "setopt",
    "trap",
    "unsetopt",
    "zmodload",
    "zsh",
];

/// Loops, which assign variables; some names that are plain to bash are tied to `PATH` and similar in zsh.
const LOOPS: [&str; 2] = ["for", "select"];
/// Words after which another command begins.
const BEFORE_COMMANDS: [&str; 9] = ["coproc", "do", "elif", "else", "if", "then", "time", "until", "while"];

/// Returns true if zsh reads a text as bash does: fixed words and single wildcards, joined by `;`, `|`, `&&` and `||`.
/// Everything else may mean more in zsh: `=ls` is a path, `>!` overwrites, `*(e:…:)` runs code.
pub(super) fn reads_like_bash(text: &str) -> bool {
    let mut rest = text.chars().peekable();
    let mut word = String::new();
    // Last character of this word so far; quotes count.
    let mut last = None;
    // The word may be a command, or begin one.
    let mut leads = true;
    let own = |word: &str, leads: bool| ITS_OWN.contains(&word) || (leads && LOOPS.contains(&word));
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | ';' | '|' | '&' => {
                if (c == '&' && rest.next() != Some('&')) || own(&word, leads) {
                    return false;
                }
                let blank = matches!(c, ' ' | '\t');
                leads = !blank || (leads && (last.is_none() || BEFORE_COMMANDS.contains(&&*word)));
                word.clear();
                last = None;
                continue;
            }
            '\'' | '"' => loop {
                match rest.next() {
                    None => return false,
                    Some(end) if end == c => break,
                    Some('$' | '`' | '\\' | '!') if c == '"' => return false,
                    Some(inside) => word.push(inside),
                }
            },
            // At the start of a word or a value it expands to the path of a program.
            '=' if matches!(last, None | Some('=' | ':')) => return false,
            // A single one stops at directories, two do not.
            '*' if last == Some('*') => return false,
            '=' | '*' | '?' | '_' | '.' | '/' | ',' | ':' | '@' | '%' | '+' | '-' => word.push(c),
            _ if c.is_alphanumeric() => word.push(c),
            _ => return false,
        }
        last = Some(c);
    }
    !own(&word, leads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_shells_read_alike_passes() {
        for text in [
            "ls -la src/*.rs",
            "git diff --stat main..HEAD",
            "grep -rn 'fn $x (' src | head -5",
            "grep --color=never \"a b\" x && wc -l x || echo no; pwd",
            "FOO=bar cargo test\ncargo check",
            "grep -rn for src; echo select x",
            "if test -f a; then cat a; fi",
        ] {
            assert!(reads_like_bash(text), "{text}");
        }
        for text in [
            "echo x >! .git/hooks/pre-commit",
            "echo x >>! f",
            "echo x >&! f",
            "echo x > f",
            "cat =ls",
            "cat a; cat =ls",
            "X==ls env",
            "X=a:=ls env",
            "[ a == b ]",
            "ls *(.)",
            "ls **/x",
            "ls *(e:'touch x':)",
            "cat <1-9>",
            "echo $x",
            "echo \"$(x)\"",
            "echo `x`",
            "sleep 9 &",
            "sleep 9 &!",
            "ls |& cat",
            "noglob rm x",
            "- rm x",
            "'eval' 'echo x >! f'",
            "e\"va\"l 'echo x >! f'",
            "cd -1 && cat x",
            "zsh -c 'cat =ls'",
            "repeat 3 ls",
            "echo 'open",
            "echo a\\ b",
            "echo {a,b}",
            "ls ~x",
            "ls # no",
            "f() { ls; }",
            "for path in ./bin; do ls; done",
            "ls;  for fpath in x; do ls; done",
            "if true; then\tfor cdpath in x; do ls; done; fi",
            "while true; do time for argv in x; do ls; done; done",
            "select path in ./bin; do ls; done",
        ] {
            assert!(!reads_like_bash(text), "{text}");
        }
    }
}
