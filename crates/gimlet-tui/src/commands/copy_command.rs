//! `/copy`: an answer into the clipboard.

use gimlet_proto::{HistoryBody, HistoryItem};

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, HistoryUse, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "copy",
    aliases: &[],
    description: "Copy the last answer, or the one N before it",
    argument_hint: "[N]",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    let back = match args {
        "" => Some(0),
        number => number.parse().ok(),
    };
    CommandStep::Done(match back {
        Some(back) => vec![AppEffect::QueryHistory(HistoryUse::Copy(back))],
        None => app.warn("Say which answer as a number: /copy 1 copies the one before the last"),
    })
}

/// Copies the answer this many before the last.
pub(crate) fn copy_answer(app: &mut TerminalApp, items: &[HistoryItem], back: usize) -> Vec<AppEffect> {
    let answers = items.iter().rev().filter_map(|item| match &item.body {
        HistoryBody::Reply(blocks) => {
            let texts: Vec<String> = blocks.iter().filter_map(|block| Some(block.as_text()?.into_owned())).collect();
            (!texts.is_empty()).then(|| texts.join("\n\n"))
        }
        _ => None,
    });
    let mut answers = answers;
    match answers.nth(back) {
        Some(text) => {
            let lines = text.lines().count();
            app.remark(format!("Copied {lines} {} to the clipboard", if lines == 1 { "line" } else { "lines" }));
            vec![AppEffect::Copy(text)]
        }
        None => app.warn("There is no such answer to copy"),
    }
}
