//! A session as one JSON object: what it is, and its entries with their blocks as they are.

use std::io::Write;

use gimlet_store::MomentKind;
use serde_json::json;

use super::super::list;
use super::{Masked, Session, Trouble};

pub(super) fn write<W: Write>(session: &Session, out: &mut Masked<W>) -> Result<(), Trouble> {
    out.put(&format!("{{\"session\":{},\n\"entries\":[", list::as_json(&session.summary)))?;
    let mut first = true;
    for moment in session.moments() {
        let moment = moment?;
        let head = json!({
            "uuid": moment.entry.as_str(),
            "kind": kind(moment.kind),
            "timestamp": moment.at,
            "model": moment.model,
        });
        // Blocks are spliced in as the exact JSON that they are.
        let blocks: Vec<&str> = moment.blocks.iter().map(|block| block.json()).collect();
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        out.put(&format!("{}\n{head},\"content\":[{}]}}", if first { "" } else { "," }, blocks.join(",")))?;
        first = false;
    }
    out.put("\n]}\n")
}

fn kind(kind: MomentKind) -> &'static str {
    match kind {
        MomentKind::Prompt => "user",
        MomentKind::Injected => "injected",
        MomentKind::Summary => "summary",
        MomentKind::Results => "results",
        MomentKind::Reply => "assistant",
        MomentKind::Failure => "error",
        MomentKind::Compacted => "compacted",
        MomentKind::Note => "note",
    }
}
