//! Entry of the live conversation, read in full.
//!
//! Only members that are sent to a model again must be well-formed; damage in others loses nothing.

use gimlet_proto::{Block, EntryId};
use serde_json::value::RawValue;

use crate::chain::ChainLink;
use crate::entry_format::{APART, CONTEXT_PART};
use crate::raw_members::RawJsonMembers;
use crate::segment_context::{ContextPartLabel, SegmentContextPart};
use crate::transcript_index::{EntryKey, EntryKind};

pub(crate) struct FullEntry {
    pub(crate) link: ChainLink,
    pub(crate) kind: EntryKind,
    pub(crate) entry: EntryId,
    /// Key of the reply that the blocks belong to.
    pub(crate) message: EntryKey,
    pub(crate) blocks: Vec<Block>,
    /// True if it was not sent together with the entry before it.
    pub(crate) starts_message: bool,
    /// True if some of the content was not usable.
    pub(crate) bad_blocks: bool,
    /// True if the blocks differ from those in the file.
    pub(crate) changed: bool,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) has_output: bool,
    /// Set for a part of the context.
    context: Option<ContextPartLabel>,
    /// True if the user wrote it: neither injected, nor a summary, nor a result.
    pub(crate) of_user: bool,
}

impl FullEntry {
    /// Parses an entry for a request. The report of a failed request is skipped: it is for display and did not come
    /// from the model.
    pub(crate) fn parse(line: &[u8], link: ChainLink, kind: EntryKind) -> Option<FullEntry> {
        Self::parse_entry(line, link, kind, false)
    }

    /// Parses an entry for display.
    pub(crate) fn parse_for_display(line: &[u8], link: ChainLink, kind: EntryKind) -> Option<FullEntry> {
        Self::parse_entry(line, link, kind, true)
    }

    fn parse_entry(line: &[u8], link: ChainLink, kind: EntryKind, with_reports: bool) -> Option<FullEntry> {
        let (mut uuid, mut message, mut mode, mut context) = (None, None, None, None);
        let (mut has_output, mut own_error, mut apart, mut injected) = (false, false, false, false);
        for (key, value) in RawJsonMembers::new(line) {
            match key {
                b"uuid" => uuid = parse_string(value),
                b"message" => message = Some(value),
                b"permissionMode" => mode = parse_string(value),
                b"toolUseResult" => has_output = true,
                b"isApiErrorMessage" => own_error = value == b"true",
                key if key == CONTEXT_PART.as_bytes() => context = serde_json::from_slice(value).ok(),
                b"isMeta" | b"isCompactSummary" => injected |= value == b"true",
                key if key == APART.as_bytes() => apart = value == b"true",
                _ => {}
            }
        }
        let mut live = FullEntry {
            link,
            kind,
            entry: EntryId::new(uuid?),
            message: EntryKey::NONE,
            blocks: Vec::new(),
            starts_message: apart,
            bad_blocks: false,
            changed: false,
            model: None,
            mode,
            has_output,
            context,
            of_user: kind == EntryKind::User && !injected,
        };
        if !own_error || with_reports {
            live.read_message(message?)?;
        }
        Some(live)
    }

    /// Returns the part of the context that this message is; `None` for any other.
    pub(crate) fn context_part(&self) -> Option<SegmentContextPart> {
        let ContextPartLabel { kind, source } = self.context.clone()?;
        let text = self.blocks.first()?.as_text()?.into_owned();
        Some(SegmentContextPart { kind, text, source })
    }

    fn read_message(&mut self, message: &[u8]) -> Option<()> {
        let (mut content, mut id) = (None, None);
        for (key, value) in RawJsonMembers::new(message) {
            match key {
                b"content" => content = Some(value),
                // The first one counts, as in the pass over the file, which reads no further.
                b"id" => id = id.or(Some(value)),
                b"model" => self.model = parse_string(value).filter(|model| !model.starts_with('<')),
                _ => {}
            }
        }
        self.message = id.map_or(EntryKey::NONE, EntryKey::from_json);
        let content = content?;
        if content.starts_with(b"\"") {
            // Spliced, not decoded: the string's own escapes are what a block made from it would have.
            let text: &RawValue = serde_json::from_slice(content).ok()?;
            self.blocks.extend(Block::from_json(&format!(r#"{{"type":"text","text":{text}}}"#)).ok());
            return Some(());
        }
        let blocks: Vec<&RawValue> = serde_json::from_slice(content).ok()?;
        for raw in blocks {
            match Block::from_json(raw.get()) {
                Ok(block) => self.blocks.push(block),
                Err(_) => self.bad_blocks = true,
            }
        }
        Some(())
    }
}

/// Returns the structured output in an entry.
pub(crate) fn find_tool_output(line: &[u8]) -> Option<&[u8]> {
    last_member(line, b"toolUseResult")
}

/// Returns the id of an entry.
pub(crate) fn find_uuid(line: &[u8]) -> Option<EntryId> {
    parse_string(last_member(line, b"uuid")?).map(EntryId::new)
}

/// Returns the last member of this name, which is the one that counts in every other reading of an entry.
fn last_member<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    RawJsonMembers::new(line).filter(|(key, _)| *key == name).last().map(|(_, value)| value)
}

fn parse_string(value: &[u8]) -> Option<String> {
    serde_json::from_slice(value).ok()
}
