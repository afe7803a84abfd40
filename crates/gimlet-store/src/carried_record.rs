//! What a compaction carries into the next segment by itself, beside the words of the summary. It stands in the boundary
//! entry, so that it is there exactly if the segment is.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::raw_members::RawJsonMembers;

/// Facts carried over a boundary.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CarriedRecord {
    /// The user's own messages, the oldest first.
    #[serde(default)]
    pub words: Vec<String>,
    /// States of tools.
    #[serde(default)]
    pub tools: Vec<CarriedToolState>,
}

impl CarriedRecord {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.tools.is_empty()
    }
}

/// State of one tool, in the form of the output of a call that would lead to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CarriedToolState {
    pub tool: String,
    pub output: Box<RawValue>,
}

/// Returns what a boundary entry carries; nothing if another program wrote it.
pub(crate) fn parse_carried(entry: &[u8]) -> CarriedRecord {
    #[derive(Deserialize)]
    struct BoundaryMetadata {
        #[serde(rename = "gimletCarried", default)]
        carried: CarriedRecord,
    }
    let metadata = RawJsonMembers::new(entry).find(|(key, _)| *key == b"compactMetadata");
    let parsed = metadata.and_then(|(_, value)| serde_json::from_slice::<BoundaryMetadata>(value).ok());
    parsed.map(|metadata| metadata.carried).unwrap_or_default()
}
