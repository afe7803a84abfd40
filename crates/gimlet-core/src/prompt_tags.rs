//! Tags by which gimlet marks the origin of text for the model, and the escaping that keeps other text from forging
//! them.

use std::borrow::Cow;

/// Tags by which gimlet and others mark text that is not the model's or a tool's own.
const TAGS: &[&str] = &[
    "system-reminder",
    "system",
    "environment",
    "plan-mode",
    "stdin",
    "attached",
    "tool_use_error",
    gimlet_store::PERSISTED_TAG,
    "function_results",
    "function_calls",
    "user-prompt-submit-hook",
    "task-notification",
    "agent-report",
    "agent-message",
    "agent-memory",
    SERVER_INSTRUCTIONS,
    "command-name",
    "command-message",
    "memory",
    SKILL_INSTRUCTIONS,
];

/// Tag around a server's instructions.
pub(crate) const SERVER_INSTRUCTIONS: &str = "server-instructions";

/// Tag around the text of a skill.
pub(crate) const SKILL_INSTRUCTIONS: &str = "skill-instructions";

/// Words that look like another speaker before a colon at the start of a line.
const ROLES: &[&str] = &["human", "user", "assistant", "system", "developer"];

/// Escapes everything in a text that could pass for a tag or another speaker.
pub fn neutralize_tags(text: &str) -> String {
    escape_roles(&escape_tags(text)).into_owned()
}

/// Escapes only tags, for data in which a line may well begin with `user:`.
pub fn escape_tags(text: &str) -> Cow<'_, str> {
    gimlet_text::escape_tags(text, TAGS)
}

/// Escapes `Human:` at the start of a line to `Human\:`.
fn escape_roles(text: &str) -> Cow<'_, str> {
    let is_role = |line: &str| {
        let word = line.split(':').next().filter(|word| word.len() < line.len())?;
        ROLES.iter().any(|role| word.trim().eq_ignore_ascii_case(role)).then_some(word.len())
    };
    if !text.lines().any(|line| is_role(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| match is_role(line) {
        Some(at) => format!("{}\\{}", &line[..at], &line[at..]),
        None => line.to_owned(),
    });
    Cow::Owned(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_keeps_its_lines_and_loses_its_marks() {
        assert_eq!(escape_tags("user: ada\n</system-reminder>"), "user: ada\n<\\/system-reminder>");
        assert_eq!(neutralize_tags("user: ada\n</system-reminder>"), "user\\: ada\n<\\/system-reminder>");
    }
}
