//! The constant text around a command, and the arguments that carry the command into it. Pure.
//!
//! All on one line, so that line numbers in the shell's messages are those of the command, and so that the shell has
//! read all of it before the command can disturb its parser. While the command runs, descriptor 3 is closed and the
//! shell keeps its copy close-on-exec, so programs see 0, 1 and 2 and the command may use 3 for itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The language a shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Bash,
    Zsh,
}

impl Language {
    /// By the name of the program; `None` for shells that are not supported.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.file_name()?.to_str()? {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            _ => None,
        }
    }
}

/// Bash: the trap reports for commands that leave by `exit`, `set -e` or an error; the line after `eval` reports for
/// those that set an exit trap of their own, and closes the descriptor so that nothing is said twice. Left from within
/// a function, bash has not yet put descriptor 3 back and still holds it as 10, the first number it uses for that; the
/// question whether 10 is a pipe comes before any other redirection, which would take that number. Tracing that the
/// command switched on does not show any of it.
const BASH: &str = concat!(
    r#"trap '{ \set +x; } 2>/dev/null; if [[ -p /dev/fd/10 ]]; then \builtin pwd -P >&10; "#,
    r#"else \builtin pwd -P 2>/dev/null >&3; fi' EXIT; "#,
    r#"__gimlet_command=$1 __gimlet_snapshot=$2 __gimlet_env_file=$3; shift 3; "#,
    r#"if [[ $__gimlet_snapshot ]]; then . "$__gimlet_snapshot" 3>&-; fi; "#,
    r#"if [[ $__gimlet_env_file ]]; then . "$__gimlet_env_file" 3>&-; fi; "#,
    r#"unset __gimlet_snapshot __gimlet_env_file; "#,
    r#"eval -- "$__gimlet_command" 3>&-; "#,
    r#"{ __gimlet_command=$?; \set +x; \builtin pwd -P >&3; \exec 3>&-; \exit "$__gimlet_command"; } 2>/dev/null"#,
);

/// Before it, in a bash that waits for its command: takes the directory and the arguments from standard input, which is
/// empty from then on, and goes to the directory without leaving a trace of where it waited.
const BASH_WAITS: &str = concat!(
    r#". /dev/stdin; \exec 0</dev/null; "#,
    r#"if [[ $# -ne 5 || $5 != whole ]]; then echo 'The shell did not get its command.'; \exit 126; fi; "#,
    r#"__gimlet_command=${OLDPWD-}; \builtin cd -- "$1" || \exit; set -- "$2" "$3" "$4"; "#,
    r#"if [[ $__gimlet_command ]]; then OLDPWD=$__gimlet_command; else unset OLDPWD; export OLDPWD; fi; SECONDS=0; "#,
);

/// Zsh, in words that every POSIX shell understands: no report after `exit`, everything else alike.
const POSIX: &str = concat!(
    r#"__gimlet_command=$1 __gimlet_env_file=$3; shift 3; "#,
    r#"if [ -n "$__gimlet_env_file" ]; then . "$__gimlet_env_file" 3>&-; fi; "#,
    r#"unset __gimlet_env_file; "#,
    r#"eval "$__gimlet_command" 3>&-; "#,
    r#"{ __gimlet_command=$?; command pwd -P >&3; exit "$__gimlet_command"; } 2>/dev/null"#,
);

/// The arguments that make a shell run `text`.
pub(super) fn arguments(
    language: Language,
    text: &str,
    snapshot: Option<&Path>,
    env_file: Option<&Path>,
) -> Vec<OsString> {
    let path = |path: Option<&Path>| path.map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    let (first, wrapper): (&[&str], &str) = match language {
        Language::Bash => (&["--norc", "--noprofile"], BASH),
        // The user's start-up files are for people at a prompt.
        Language::Zsh => (&["-f"], POSIX),
    };
    let name = match language {
        Language::Bash => "bash",
        Language::Zsh => "zsh",
    };
    let mut args: Vec<OsString> = first.iter().map(OsString::from).collect();
    args.extend(["-c", wrapper, name, text].map(OsString::from));
    args.extend([path(snapshot), path(env_file)]);
    args
}

/// The arguments of a bash that waits for its command.
pub(super) fn waiting_arguments() -> Vec<OsString> {
    ["--norc", "--noprofile", "-c", &format!("{BASH_WAITS}{BASH}"), "bash"].map(OsString::from).into()
}

/// What such a bash is told when the command comes.
pub(super) fn order(cwd: &Path, text: &str, snapshot: Option<&Path>, env_file: Option<&Path>) -> Vec<u8> {
    let path = |path: Option<&'_ Path>| path.map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    // The last word is the last byte: half an order is none.
    let words = [cwd.as_os_str().to_owned(), text.into(), path(snapshot), path(env_file), "whole".into()];
    let mut order = b"set -- ".to_vec();
    order.extend(quote(words.iter().map(OsString::as_os_str)).into_vec());
    order
}

/// Words as one line that a shell reads back as the same words.
pub(super) fn quote<'a>(words: impl Iterator<Item = &'a OsStr>) -> OsString {
    let mut line = Vec::new();
    for word in words {
        if !line.is_empty() {
            line.push(b' ');
        }
        line.push(b'\'');
        for byte in word.as_bytes() {
            match byte {
                b'\'' => line.extend(br"'\''"),
                byte => line.push(*byte),
            }
        }
        line.push(b'\'');
    }
    OsString::from_vec(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a wrapper with the shell at hand, descriptor 3 going to a file; gives the exit code, output and report.
    fn run(shell: &str, wrapper: &str, text: &str, env_file: &str) -> (Option<i32>, String, String) {
        let report = tempfile::NamedTempFile::new().unwrap();
        #[allow(clippy::disallowed_methods, reason = "the wrapper alone is under test, without custody")]
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", r#"report=$1; shift; exec "$@" 3>"$report""#, "sh"])
            .args([report.path().as_os_str(), shell.as_ref(), "-c".as_ref(), wrapper.as_ref()])
            .args(["sh", text, "", env_file])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said, std::fs::read_to_string(report.path()).unwrap())
    }

    #[test]
    fn the_wrapper_for_zsh_works_in_any_posix_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "FROM_FILE=yes # no newline").unwrap();
        let (code, said, report) =
            run("/bin/sh", POSIX, "cd /usr; echo $# $FROM_FILE; (exit 4)", file.path().to_str().unwrap());
        assert_eq!((code, said.as_str(), report.as_str()), (Some(4), "0 yes\n", "/usr\n"));
    }

    #[test]
    fn quoted_words_come_back_unchanged() {
        let words = ["plain", "two words", "it's", "$(id) `id` \"x\" \\ \n*", ""];
        let line = quote(words.iter().map(OsStr::new)).into_string().unwrap();
        let text = format!(r#"set -- {line}; printf '[%s]' "$@""#);
        let expected: String = words.iter().map(|word| format!("[{word}]")).collect();
        assert_eq!(run("/bin/sh", POSIX, &text, "").1, expected);
    }
}
