//! The list of agent kinds for the model: in the description of the tool that launches them, which is frozen with the
//! segment, and in reminders when the kinds change afterwards.

use std::fmt::Write as _;
use std::sync::Arc;

use gimlet_policy::RuleSet;
use gimlet_proto::AgentSummary;
use gimlet_text::enclose_in_tag;

use super::resume::LAUNCHER;
use super::roster::AgentRoster;
use crate::conversation::Conversation;
use crate::turn::{self, Turn};

/// Line before the list in a description.
const HEADING: &str = "\n\nTypes:";
const CUT_MARK: &str = "…";
/// Limit on the characters of one description.
const LONGEST_DESCRIPTION: usize = 1_000;
/// Limit on the characters of all descriptions together. Beyond it the longest are cut first.
const LIST_BUDGET: usize = 16_000;
/// Number of characters that every description keeps.
const SHORTEST_CUT: usize = 60;
/// Beginning of every reminder.
const REMINDER_START: &str = "<system-reminder>\nThe agent types";

/// Renders the list of kinds for the description of a tool.
pub fn render_agent_list(offers: &[AgentSummary]) -> String {
    let mut text = HEADING.to_owned();
    let described: Vec<String> = offers.iter().map(|offer| to_one_line(&offer.description)).collect();
    let most = description_limit(described.iter().map(|text| text.chars().count()).collect());
    for (offer, description) in offers.iter().zip(&described) {
        let _ = write!(text, "\n- {}: {}", offer.name, cut_description(description, most));
    }
    text
}

fn to_one_line(text: &str) -> String {
    // Published files have the two characters `\n` in quoted descriptions.
    text.replace("\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the number of characters that a description may have, so that all fit into the budget.
fn description_limit(mut lengths: Vec<usize>) -> usize {
    lengths.sort_unstable();
    let (mut left, mut count) = (LIST_BUDGET, lengths.len());
    for length in lengths {
        if length.min(LONGEST_DESCRIPTION) * count > left {
            return (left / count).clamp(SHORTEST_CUT, LONGEST_DESCRIPTION);
        }
        left -= length.min(LONGEST_DESCRIPTION);
        count -= 1;
    }
    LONGEST_DESCRIPTION
}

fn cut_description(text: &str, most: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let kept = &text[..end];
    let words = kept.rfind(' ').filter(|at| *at > end / 2).map_or(kept, |at| &kept[..at]);
    format!("{}{CUT_MARK}", words.trim_end())
}

/// Parses the names and descriptions of a list; `None` if the description has none.
fn parse_agent_list(description: &str) -> Option<Vec<(&str, &str)>> {
    let (_, list) = description.split_once(HEADING)?;
    Some(list.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": ")).collect())
}

/// Kinds that the model was last compared with.
#[derive(Default)]
pub(crate) struct AnnouncedAgents(Option<(Arc<AgentRoster>, Arc<RuleSet>)>);

/// Tells the model which kinds have changed since the description that it has, unless the last reminder says the same.
pub(crate) fn announce_agent_changes(conversation: &mut Conversation, turn: &Turn) {
    let scope = &turn.scope;
    let now = (scope.agent_runtime.roster(), scope.gate.rules());
    let announced = &mut conversation.segment.announced_agents.0;
    if announced.as_ref().is_some_and(|(roster, rules)| Arc::ptr_eq(roster, &now.0) && Arc::ptr_eq(rules, &now.1)) {
        return;
    }
    *announced = Some(now);
    let tools = conversation.segment.prompt.tools.clone();
    let Some(launcher) = tools.iter().find(|tool| tool.name == LAUNCHER) else { return };
    let Some(listed) = parse_agent_list(&launcher.description) else { return };
    let roster = scope.agent_runtime.roster_for(scope.subagent.as_deref());
    let reminder = render_changes(&listed, &scope.gate.offered_agents(&roster));
    let last = conversation.history().last_user_text(REMINDER_START);
    let text = match (reminder, &last) {
        (Some(text), _) => enclose_in_tag("system-reminder", &text),
        (None, Some(_)) => enclose_in_tag(
            "system-reminder",
            &format!("The agent types are again those in the description of the tool {LAUNCHER}."),
        ),
        (None, None) => return,
    };
    if last.as_ref() != Some(&text) {
        turn::append_meta_message(conversation, &text);
    }
}

/// Renders the differences between a list in a description and the kinds on offer; `None` if there are none.
fn render_changes(listed: &[(&str, &str)], offers: &[AgentSummary]) -> Option<String> {
    let is_listed = |offer: &&AgentSummary| listed.iter().any(|(name, _)| *name == offer.name);
    let is_changed = |offer: &&AgentSummary| {
        let described = to_one_line(&offer.description);
        let text = listed.iter().find(|(name, _)| *name == offer.name).map_or("", |(_, text)| *text);
        match text.strip_suffix(CUT_MARK) {
            Some(start) => !described.starts_with(start),
            None => described != text,
        }
    };
    let (known, new): (Vec<&AgentSummary>, Vec<&AgentSummary>) = offers.iter().partition(is_listed);
    let changed: Vec<&AgentSummary> = known.into_iter().filter(is_changed).collect();
    let gone: Vec<&str> =
        listed.iter().map(|(name, _)| *name).filter(|name| offers.iter().all(|offer| offer.name != *name)).collect();
    let mut text = format!("The agent types have changed since the description of the tool {LAUNCHER} was written.");
    for (heading, offers) in [("New types:", &new), ("Types with another description now:", &changed)] {
        if !offers.is_empty() {
            let offers: Vec<AgentSummary> = offers.iter().map(|offer| (*offer).clone()).collect();
            text.push('\n');
            text.push_str(heading);
            text.push_str(render_agent_list(&offers).trim_start_matches(HEADING));
        }
    }
    if !gone.is_empty() {
        let _ = write!(text, "\nTypes that are gone: {}", gone.join(", "));
    }
    (!new.is_empty() || !changed.is_empty() || !gone.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &str, description: &str) -> AgentSummary {
        AgentSummary { name: name.to_owned(), description: description.to_owned(), model: None }
    }

    #[test]
    fn a_list_is_read_back_as_it_was_rendered() {
        let offers = [offer("a", "Does\n a thing: well."), offer("p:b", "Other \\n things")];
        let text = format!("Sends agents.{}", render_agent_list(&offers));
        assert_eq!(parse_agent_list(&text).unwrap(), [("a", "Does a thing: well."), ("p:b", "Other things")]);
        assert_eq!(render_changes(&parse_agent_list(&text).unwrap(), &offers), None);
        assert_eq!(parse_agent_list("nothing"), None);
    }

    #[test]
    fn a_hundred_long_descriptions_fit_into_the_budget_and_count_as_known() {
        let long = "Reviews code with great care. ".repeat(60);
        let mut offers: Vec<AgentSummary> = (0..100).map(|n| offer(&format!("agent-{n}"), &long)).collect();
        offers.push(offer("short", "Greets."));
        let text = render_agent_list(&offers);
        assert!(text.len() < LIST_BUDGET + 101 * 30, "{}", text.len());
        assert!(text.ends_with("\n- short: Greets.") && text.contains(CUT_MARK));
        let listed = parse_agent_list(&text).unwrap();
        assert_eq!((listed.len(), render_changes(&listed, &offers)), (101, None));
    }

    #[test]
    fn changes_are_named_by_kind() {
        let listed = [("a", "One."), ("b", "Two."), ("c", "Thr…")];
        let said = render_changes(&listed, &[offer("a", "Uno."), offer("c", "Three."), offer("d", "Four.")]).unwrap();
        assert!(said.ends_with(
            "\nNew types:\n- d: Four.\nTypes with another description now:\n- a: Uno.\nTypes that are gone: b"
        ));
    }
}
