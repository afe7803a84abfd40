//! Difference between an item and the version of its name that was accepted, for display.

use std::collections::HashSet;

use similar::TextDiff;

use super::project_item::{AcceptedItem, ProjectItem, ReferencedScript};
use crate::escape_invisible::escape_invisible;

/// Maximum size of texts that are compared by words; longer ones are compared by lines.
const WORDS_MAX_BYTES: usize = 8 * 1024;

/// Item that is not covered, compared with its accepted version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemChange {
    pub item: ProjectItem,
    /// True if no item of this name was accepted before.
    pub is_new: bool,
    /// Effect of the item now; for a changed one, the lines that differ. Invisible characters are spelt out.
    pub shown: String,
}

impl ItemChange {
    /// Compares with the nearest accepted version. Versions that are still `present` are other items of that name.
    pub(super) fn compare(item: &ProjectItem, accepted: &[AcceptedItem], present: &HashSet<&str>) -> Self {
        let earlier = nearest_accepted(item, accepted, present);
        let shown = earlier.map_or_else(|| render_item(item), |old| render_differences(old, item));
        Self { item: item.clone(), is_new: earlier.is_none(), shown: escape_invisible(&shown).into_owned() }
    }
}

fn nearest_accepted<'a>(
    item: &ProjectItem,
    accepted: &'a [AcceptedItem],
    present: &HashSet<&str>,
) -> Option<&'a AcceptedItem> {
    let is_older = |old: &&AcceptedItem| {
        old.kind == item.kind.label() && old.name == item.name && !present.contains(old.digest.as_str())
    };
    let likeness = |old: &&AcceptedItem| old.text.as_deref().map_or(0.0, |text| similarity(text, &item.text));
    // Among equals the newest, which comes last.
    accepted.iter().filter(is_older).max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

fn similarity(old: &str, new: &str) -> f32 {
    match old.len().max(new.len()) <= WORDS_MAX_BYTES {
        true => TextDiff::from_words(old, new).ratio(),
        false => TextDiff::from_lines(old, new).ratio(),
    }
}

fn render_item(item: &ProjectItem) -> String {
    let scripts: Vec<&str> = item.scripts.iter().map(|script| script.path.as_str()).collect();
    match scripts.is_empty() {
        true => item.text.clone(),
        false => format!("{}\n(with {} as it is now)", item.text.trim_end(), scripts.join(", ")),
    }
}

fn render_differences(old: &AcceptedItem, item: &ProjectItem) -> String {
    let mut parts = Vec::new();
    if let Some(text) = old.text.as_deref().filter(|text| *text != item.text) {
        parts.push(render_unified_diff("as trusted", text, "as it is now", &item.text));
    }
    for script in &item.scripts {
        let before = old.scripts.iter().find(|before| before.path == script.path);
        if before.is_none_or(|before| before.digest != script.digest) {
            parts.push(render_script_difference(before, script));
        }
    }
    let gone = old.scripts.iter().filter(|before| !item.scripts.iter().any(|script| script.path == before.path));
    parts.extend(gone.map(|script| format!("({} is no longer a file of this project that it names)\n", script.path)));
    if parts.is_empty() {
        // Values that may be secret are kept nowhere, and old records have no scripts.
        parts.push(format!("{}\n(what it runs or its values changed)", item.text));
    }
    parts.concat().trim_end().to_owned()
}

fn render_script_difference(before: Option<&ReferencedScript>, script: &ReferencedScript) -> String {
    let path = &script.path;
    let old = before.map_or(Some(""), |before| before.text.as_deref());
    match (old, &script.text) {
        (Some(old), Some(new)) => {
            render_unified_diff(&format!("{path} as trusted"), old, &format!("{path} as it is now"), new)
        }
        _ => format!("({path} changed; it is too large to be shown, or no text)\n"),
    }
}

fn render_unified_diff(old_name: &str, old: &str, new_name: &str, new: &str) -> String {
    let whole_lines =
        |text: &str| if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end_matches('\n')) };
    let (old, new) = (whole_lines(old), whole_lines(new));
    TextDiff::from_lines(&old, &new).unified_diff().context_radius(2).header(old_name, new_name).to_string()
}
