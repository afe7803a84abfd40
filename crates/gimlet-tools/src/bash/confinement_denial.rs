//! Detection of failures that the confinement of a command caused, from the command's output.

use gimlet_exec::{CommandExit, find_refusal_line};

use super::run::BashCall;

/// Maximum length of the line that is repeated in the question.
const MAX_LINE_BYTES: usize = 200;

/// Returns the line in which a confined command reports what the system refused; `None` if the command was not held to
/// any rules, succeeded, or failed for another reason.
pub(super) fn find_confinement_denial(call: &BashCall<'_>, exit: CommandExit, output: &str) -> Option<String> {
    if exit.is_success() || !call.cx.confinement()?.is_enforced() {
        return None;
    }
    let line = find_refusal_line(output)?;
    Some(line[..line.floor_char_boundary(MAX_LINE_BYTES)].to_owned())
}
