//! Detection of failures caused by the sandbox, from a command's output: programs print what the system refused them.

use gimlet_exec::CommandExit;

use super::run::BashCall;

/// The end of a command's output that is searched.
const SEARCHED_BYTES: usize = 64 * 1024;
/// The longest line that is repeated.
const LONGEST_LINE: usize = 200;

/// Messages that programs print when the system refuses to open, change or connect something.
const REFUSALS: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "eacces",
    "eperm",
    "access denied",
    "read-only file system",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "network is unreachable",
    "failed to resolve",
    "unable to resolve",
    "eai_again",
    "getaddrinfo",
    "communications error",
    "cannot connect",
    "could not connect",
    "failed to connect",
    "transport '",
    "not allowed",
    "dubious ownership",
];

/// Returns what the confinement kept a command from, in the command's own words; `None` for one that was not confined,
/// that succeeded, or that failed for another reason.
pub(super) fn find_sandbox_refusal(call: &BashCall<'_>, exit: CommandExit, output: &str) -> Option<String> {
    call.cx.confinement()?;
    if exit.is_success() {
        return None;
    }
    refusal_in(output)
}

fn refusal_in(output: &str) -> Option<String> {
    let from = output.floor_char_boundary(output.len().saturating_sub(SEARCHED_BYTES));
    let is_refusal = |line: &&str| {
        let line = line.to_ascii_lowercase();
        REFUSALS.iter().any(|words| line.contains(words))
    };
    let line = output.get(from..)?.lines().rfind(is_refusal)?.trim();
    Some(line[..line.floor_char_boundary(LONGEST_LINE)].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_refusal_are_found_and_others_are_not() {
        let said = "a\ncat: /home/u/notes: Permission denied\nb";
        assert_eq!(refusal_in(said).as_deref(), Some("cat: /home/u/notes: Permission denied"));
        assert!(refusal_in("ping: example.org: Temporary failure in name resolution").is_some());
        assert_eq!(refusal_in("grep: nothing: No such file or directory"), None);
        assert_eq!(refusal_in(""), None);
    }
}
