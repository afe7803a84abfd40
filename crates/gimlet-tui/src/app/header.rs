//! The lines above the first prompt: what runs, with which model, where.

use gimlet_proto::{SessionSnapshot, VERSION};

use super::{AppOptions, StatusFacts};
use crate::footer::short_model;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::clean_line;

/// Returns the lines, with a blank one before and after them.
pub(super) fn header_lines(options: &AppOptions, facts: &StatusFacts, snapshot: &SessionSnapshot) -> Vec<StyledLine> {
    let separator = format!(" {} ", options.glyphs.separator);
    let mut first = StyledLine::of("  gimlet", TextStyle::of(TextTone::Accent).bold());
    let version = if options.version.is_empty() { VERSION } else { &options.version };
    first.push(format!(" {version}"), TextTone::Dim);
    first.push(&separator, TextTone::Dim);
    first.push(clean_line(short_model(&facts.model)), TextTone::Text);
    first.push(&separator, TextTone::Dim);
    first.push(clean_line(&facts.shorten_path(&snapshot.cwd)), TextTone::Text);
    if let Some(branch) = &options.branch {
        first.push(format!("  {}", clean_line(branch)), TextTone::Dim);
    }
    let mut notes = Vec::new();
    let servers = snapshot.turn_setup.servers.len();
    if servers > 0 {
        notes.push(format!("{servers} MCP {}", if servers == 1 { "server" } else { "servers" }));
    }
    notes.push("? for keys, / for commands".to_owned());
    let second = StyledLine::of(format!("  {}", notes.join(&separator)), TextTone::Dim);
    vec![StyledLine::blank(), first.hanging(2), second.hanging(2), StyledLine::blank()]
}
