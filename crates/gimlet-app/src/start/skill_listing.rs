//! The list of skills that conversations begin with, and what changes in it. Every name is listed; descriptions are
//! left out where they would take more than their share of the context window.

use std::collections::BTreeMap;

use gimlet_config::SkillVisibility;
use gimlet_core::prompt_tags::escape_tags;
use gimlet_core::{
    ContextPartKind, LiveSkillSet, SegmentContextPart, SegmentContextRequest, SegmentContextSource,
    SegmentContextUpdate, SessionSkill,
};
use gimlet_policy::is_skill_removed;
use gimlet_proto::{Env, ModelFacts};
use gimlet_text::enclose_in_tag;

use super::document_settings::LiveDocumentSettings;

/// Tool that loads skills.
const LOADER: &str = "Skill";
const INTRODUCTION: &str = "Skills that can be loaded with the tool Skill:";
/// Beginning of the line that names skills which are gone.
const GONE: &str = "No longer there: ";
/// Share of the context window for all descriptions.
const WINDOW_SHARE: f64 = 0.01;
/// Number of characters of one description.
const MAX_DESCRIPTION: usize = 1_536;
const CUT_MARK: &str = "…";

/// Source of the list of skills.
pub(super) struct SkillListing {
    skills: LiveSkillSet,
    documents: LiveDocumentSettings,
    env: Env,
}

impl SkillListing {
    pub(super) fn new(skills: LiveSkillSet, documents: LiveDocumentSettings, env: Env) -> Self {
        Self { skills, documents, env }
    }

    /// Returns the lines of the list, one for each skill.
    fn lines(&self, request: &SegmentContextRequest) -> Vec<String> {
        if !request.has_tool(LOADER) {
            return Vec::new();
        }
        let skills = self.skills.current();
        let listed = skills
            .for_model()
            .filter(|skill| skill.file.invocation.paths.is_none() && !is_skill_removed(&request.rules, skill.name()));
        let documents = self.documents.current();
        let settings = &documents.settings;
        let budget = match self.env.integer("SLASH_COMMAND_TOOL_CHAR_BUDGET") {
            Some(chars) => usize::try_from(chars).unwrap_or(usize::MAX),
            None => window_budget(&request.facts, settings.skill_listing_budget_fraction),
        };
        let longest = settings.skill_listing_max_desc_chars.map_or(MAX_DESCRIPTION, |chars| chars as usize);
        render_lines(listed.map(|skill| SkillEntry::new(skill, longest)).collect(), budget)
    }
}

/// Returns the number of characters that the list may take.
fn window_budget(facts: &ModelFacts, share: Option<f64>) -> usize {
    // The product is far below the limits of both types.
    (facts.context_window as f64 * share.unwrap_or(WINDOW_SHARE) * facts.bytes_per_token) as usize
}

/// One skill in the list.
struct SkillEntry {
    name: String,
    description: String,
}

impl SkillEntry {
    fn new(skill: &SessionSkill, longest: usize) -> Self {
        let summary = if skill.visibility == SkillVisibility::NameOnly { String::new() } else { skill.summary() };
        let summary = escape_tags(&summary);
        let description = match summary.char_indices().nth(longest) {
            Some((end, _)) => format!("{}{CUT_MARK}", summary[..end].trim_end()),
            None => summary.into_owned(),
        };
        let name: Vec<&str> = skill.name().split_whitespace().collect();
        Self { name: escape_tags(&name.join(" ")).into_owned(), description }
    }

    fn line(&self, with_description: bool) -> String {
        if with_description && !self.description.is_empty() {
            format!("- {}: {}", self.name, self.description)
        } else {
            format!("- {}", self.name)
        }
    }
}

/// Renders the list. The first skills keep their descriptions as far as the budget goes.
fn render_lines(entries: Vec<SkillEntry>, budget: usize) -> Vec<String> {
    let names: usize = entries.iter().map(|entry| entry.line(false).len() + 1).sum();
    let mut left = budget.saturating_sub(names);
    let line = |entry: SkillEntry| {
        let more = entry.line(true).len() - entry.line(false).len();
        let fits = more <= left;
        if fits {
            left -= more;
        }
        entry.line(fits)
    };
    entries.into_iter().map(line).collect()
}

/// Returns the name that a line of the list begins with.
fn line_name(line: &str) -> &str {
    let entry = line.strip_prefix("- ").unwrap_or(line);
    entry.split_once(": ").map_or(entry, |(name, _)| name)
}

/// Returns the lines that a conversation knows, by the names of the skills.
fn known_lines(request: &SegmentContextRequest) -> BTreeMap<&str, &str> {
    let mut known = BTreeMap::new();
    for part in request.delivered.parts().iter().filter(|part| part.kind == ContextPartKind::Skills) {
        for line in part.text.lines() {
            if line.starts_with("- ") {
                known.insert(line_name(line), line);
            } else if let Some(gone) = line.strip_prefix(GONE) {
                gone.split(", ").for_each(|name| {
                    known.remove(name);
                });
            }
        }
    }
    known
}

/// Renders the differences between what a conversation knows and the list; `None` if there are none.
fn render_changes(known: &BTreeMap<&str, &str>, lines: &[String]) -> Option<String> {
    let is_news = |line: &&String| match known.get(line_name(line)) {
        // A description that does not fit any more says nothing new.
        Some(before) => *before != line.as_str() && line.contains(": "),
        None => true,
    };
    let news: Vec<&str> = lines.iter().filter(is_news).map(String::as_str).collect();
    let is_gone = |name: &&&str| lines.iter().all(|line| line_name(line) != **name);
    let gone: Vec<&str> = known.keys().filter(is_gone).copied().collect();
    let mut text = "The skills have changed.".to_owned();
    if !news.is_empty() {
        text.push_str("\nNew, or described in another way now:\n");
        text.push_str(&news.join("\n"));
    }
    if !gone.is_empty() {
        text.push_str(&format!("\n{GONE}{}", gone.join(", ")));
    }
    (!news.is_empty() || !gone.is_empty()).then_some(text)
}

impl SegmentContextSource for SkillListing {
    fn opening_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        let lines = self.lines(request);
        let mut update = SegmentContextUpdate::default();
        if !lines.is_empty() {
            let text = format!("{INTRODUCTION}\n{}", lines.join("\n"));
            update.parts.push(SegmentContextPart::new(ContextPartKind::Skills, text));
        }
        update
    }

    fn changed_parts(&self, request: &SegmentContextRequest) -> SegmentContextUpdate {
        let mut update = SegmentContextUpdate::default();
        if let Some(text) = render_changes(&known_lines(request), &self.lines(request)) {
            let text = enclose_in_tag("system-reminder", &text);
            update.parts.push(SegmentContextPart::new(ContextPartKind::Skills, text));
        }
        update
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, description: &str) -> SkillEntry {
        SkillEntry { name: name.to_owned(), description: description.to_owned() }
    }

    #[test]
    fn every_name_is_listed_and_the_first_descriptions_that_fit() {
        let entries = || vec![entry("a", "one"), entry("b", "a long one"), entry("c", "two"), entry("d", "")];
        assert_eq!(render_lines(entries(), 1_000), ["- a: one", "- b: a long one", "- c: two", "- d"]);
        assert_eq!(render_lines(entries(), 16 + 10), ["- a: one", "- b", "- c: two", "- d"]);
        assert_eq!(render_lines(entries(), 0), ["- a", "- b", "- c", "- d"]);
    }

    #[test]
    fn changes_name_what_is_new_what_differs_and_what_is_gone() {
        let known = BTreeMap::from([("a", "- a: one"), ("b", "- b: two"), ("c", "- c: three")]);
        let lines = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).to_owned()).collect() };
        assert_eq!(render_changes(&known, &lines(&["- a: one", "- b", "- c: three"])), None);
        assert_eq!(
            render_changes(&known, &lines(&["- a: uno", "- c: three", "- d"])).unwrap(),
            "The skills have changed.\nNew, or described in another way now:\n- a: uno\n- d\nNo longer there: b"
        );
    }
}
