//! The constant text around a command, and the arguments that carry the command into it. Pure.
//!
//! All on one line, so that line numbers in the shell's messages are those of the command, and so that the shell has
//! read all of it before the command can disturb its parser. While the command runs, nothing of it can be seen: no
//! variable, function, trap, positional parameter or descriptor is the wrapper's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The language a shell reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellLanguage {
    Bash,
    Zsh,
}

impl ShellLanguage {
    /// Returns the language by the name of the program; `None` for shells that are not supported.
    pub(super) fn from_path(path: &Path) -> Option<Self> {
        match path.file_name()?.to_str()? {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            _ => None,
        }
    }
}

/// Wrapper for bash. The text is in a variable only until `eval` has it: `OPTERR`, which every bash has and which is
/// back at its own value, 1, before the first word of the text is read; that is the purpose of the arithmetic in the
/// second expansion. The last command before it leaves in `$_` the value that a shell has there at its start.
const BASH: &str = concat!(
    r#"__gimlet_text=$1 __gimlet_snapshot=$2 __gimlet_env_file=$3 __gimlet_session_env=$4; shift 4; "#,
    r#"if [[ $__gimlet_snapshot ]]; then . "$__gimlet_snapshot"; fi; "#,
    r#"if [[ $__gimlet_env_file ]]; then . "$__gimlet_env_file"; fi; "#,
    r#"if [[ $__gimlet_session_env ]]; then . "$__gimlet_session_env"; fi; "#,
    r#"OPTERR=$__gimlet_text; "#,
    r#"unset __gimlet_text __gimlet_snapshot __gimlet_env_file __gimlet_session_env BASH_EXECUTION_STRING; "#,
    r#": "$BASH"; eval -- "$OPTERR${OPTERR:OPTERR=1:0}""#,
);

/// Prefix of the wrapper in a prestarted bash: reads the directory and the arguments from standard input, which is
/// empty from then on, and changes to the directory without leaving a trace of the one in which it waited.
const BASH_WAITS: &str = concat!(
    r#". /dev/stdin; \exec 0</dev/null; "#,
    r#"if [[ $# -ne 6 || $6 != whole ]]; then echo 'The shell did not get its command.'; \exit 126; fi; "#,
    r#"__gimlet_text=${OLDPWD-}; \builtin cd -- "$1" || \exit; set -- "$2" "$3" "$4" "$5"; "#,
    r#"if [[ $__gimlet_text ]]; then OLDPWD=$__gimlet_text; else unset OLDPWD; export OLDPWD; fi; SECONDS=0; "#,
);

/// Zsh, in words that every POSIX shell understands. The variable is gone before the first word of the text is read.
const POSIX: &str = concat!(
    r#"__gimlet_text=$1 __gimlet_env_file=$3 __gimlet_session_env=$4; shift 4; "#,
    r#"if [ -n "$__gimlet_env_file" ]; then . "$__gimlet_env_file"; fi; "#,
    r#"if [ -n "$__gimlet_session_env" ]; then . "$__gimlet_session_env"; fi; "#,
    r#"unset __gimlet_env_file __gimlet_session_env ZSH_EXECUTION_STRING; eval "unset __gimlet_text; $__gimlet_text""#,
);

/// Returns the arguments that make a shell run `text`.
pub(super) fn wrapper_arguments(
    language: ShellLanguage,
    text: &str,
    snapshot: Option<&Path>,
    env_files: [Option<&Path>; 2],
) -> Vec<OsString> {
    let path = |path: Option<&Path>| path.map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    let (first, wrapper): (&[&str], &str) = match language {
        ShellLanguage::Bash => (&["--norc", "--noprofile"], BASH),
        // The user's start-up files are meant for interactive shells.
        ShellLanguage::Zsh => (&["-f"], POSIX),
    };
    let name = match language {
        ShellLanguage::Bash => "bash",
        ShellLanguage::Zsh => "zsh",
    };
    let mut args: Vec<OsString> = first.iter().map(OsString::from).collect();
    args.extend(["-c", wrapper, name, text].map(OsString::from));
    args.push(path(snapshot));
    args.extend(env_files.map(path));
    args
}

/// Returns the arguments of a bash that waits for its command.
pub(super) fn waiting_arguments() -> Vec<OsString> {
    ["--norc", "--noprofile", "-c", &format!("{BASH_WAITS}{BASH}"), "bash"].map(OsString::from).into()
}

/// Encodes the order for such a bash when the command arrives.
pub(super) fn encode_waiting_order(
    cwd: &Path,
    text: &str,
    snapshot: Option<&Path>,
    env_files: [Option<&Path>; 2],
) -> Vec<u8> {
    let path = |path: Option<&'_ Path>| path.map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    // The last word is the last byte: half an order is none.
    let [of_user, of_session] = env_files.map(path);
    let words = [cwd.as_os_str().to_owned(), text.into(), path(snapshot), of_user, of_session, "whole".into()];
    let mut order = b"set -- ".to_vec();
    order.extend(quote_words(words.iter().map(OsString::as_os_str)).into_vec());
    order
}

/// Quotes words as one line that a shell parses back into these words.
pub(super) fn quote_words<'a>(words: impl Iterator<Item = &'a OsStr>) -> OsString {
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

    /// Runs a wrapper with the given shell; returns the exit code and the output.
    fn run_wrapper(shell: &str, wrapper: &str, text: &str, env_file: &str) -> (Option<i32>, String) {
        #[allow(clippy::disallowed_methods, reason = "the wrapper alone is under test, without custody")]
        let output = std::process::Command::new(shell)
            .args(["-c", wrapper, "sh", text, "", env_file, ""])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    }

    #[test]
    fn the_wrapper_for_zsh_works_in_any_posix_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "FROM_FILE=yes # no newline").unwrap();
        let text = "cd /usr; echo $# $FROM_FILE ${__gimlet_text-unset} $PWD; (exit 4)";
        let (code, said) = run_wrapper("/bin/sh", POSIX, text, file.path().to_str().unwrap());
        assert_eq!((code, said.as_str()), (Some(4), "0 yes unset /usr\n"));
    }

    #[test]
    fn quoted_words_come_back_unchanged() {
        let words = ["plain", "two words", "it's", "$(id) `id` \"x\" \\ \n*", ""];
        let line = quote_words(words.iter().map(OsStr::new)).into_string().unwrap();
        let text = format!(r#"set -- {line}; printf '[%s]' "$@""#);
        let expected: String = words.iter().map(|word| format!("[{word}]")).collect();
        assert_eq!(run_wrapper("/bin/sh", POSIX, &text, "").1, expected);
    }
}
