//! A session as one JSON object: its metadata, and its entries with their blocks unchanged.

use std::io::Write;

use gimlet_store::TranscriptItemKind;
use serde_json::json;

use super::super::list;
use super::{ExportError, ExportSession, MaskedWriter};

pub(super) fn write<W: Write>(session: &ExportSession, out: &mut MaskedWriter<W>) -> Result<(), ExportError> {
    out.write_masked(&format!("{{\"session\":{},\n\"entries\":[", list::summary_json(&session.summary)))?;
    let mut first = true;
    for moment in session.items() {
        let moment = moment?;
        let head = json!({
            "uuid": moment.entry.as_str(),
            "kind": kind_name(moment.kind),
            "timestamp": moment.at,
            "model": moment.model,
        });
        // Blocks are inserted as their exact JSON.
        let blocks: Vec<&str> = moment.blocks.iter().map(|block| block.json()).collect();
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        out.write_masked(&format!("{}\n{head},\"content\":[{}]}}", if first { "" } else { "," }, blocks.join(",")))?;
        first = false;
    }
    out.write_masked("\n]}\n")
}

fn kind_name(kind: TranscriptItemKind) -> &'static str {
    match kind {
        TranscriptItemKind::Prompt => "user",
        TranscriptItemKind::Injected => "injected",
        TranscriptItemKind::Summary => "summary",
        TranscriptItemKind::Results => "results",
        TranscriptItemKind::Reply => "assistant",
        TranscriptItemKind::Failure => "error",
        TranscriptItemKind::Compacted => "compacted",
        TranscriptItemKind::Note => "note",
    }
}
