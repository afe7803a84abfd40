//! How files are read and changed.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the Read tool does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReadSettings {
    /// Lines that a read gives when the call names no number; as many as fit unless this says otherwise.
    pub default_lines: Option<NonZeroU32>,
}

/// What the tools that change files ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EditSettings {
    /// Whether a file must have been read before it changes: `always`, or as the `model` is able to.
    pub require_read: Option<RequireRead>,
}

/// Who must have read a file before it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequireRead {
    /// Every model.
    Always,
    /// Models that are not careful by themselves.
    Model,
}
