//! Prompts from the host: parsing of `user` lines, including commands that concern more than one session.

use std::path::Path;

use gimlet_proto::{
    Block, CommandInfo, CommandKind, CommandMatch, EntryId, MentionScope, PromptOrigin, PromptTiming, SubmittedPrompt,
    find_command,
};
use serde_json::value::RawValue;

use super::host_content;
use super::host_lines::{HostLine, parse_lossy};

/// Maximum length of an id; longer ones are ignored, because every line about the prompt would have to repeat them.
const LONGEST_ID: usize = 256;

/// Meaning of a `user` line.
#[derive(Debug)]
pub(super) enum HostPrompt {
    Say(SubmittedPrompt),
    /// Prompt that is answered without the model.
    Local(LocalPrompt, LocalCommand),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum LocalCommand {
    /// Continue with an empty conversation.
    Clear,
    /// The prompt is empty.
    Empty,
    /// The prompt cannot be used, for this reason; the host still waits for a result.
    Invalid(String),
}

impl HostPrompt {
    pub(super) fn id(&self) -> Option<&EntryId> {
        match self {
            HostPrompt::Say(say) => say.uuid.as_ref(),
            HostPrompt::Local(said, _) => Some(&said.uuid),
        }
    }

    /// Returns true if the prompt starts no turn.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, HostPrompt::Say(say) if say.silent)
    }
}

/// Name of the command for an empty conversation, the only one that is run here.
const CLEAR: &str = "clear";

/// Prompt that gimlet answers itself.
#[derive(Debug)]
pub(super) struct LocalPrompt {
    pub(super) uuid: EntryId,
    pub(super) origin: Option<PromptOrigin>,
    /// The message as received, if there was one.
    pub(super) message: Option<Box<RawValue>>,
}

/// Parses a `user` line. The session runs all but the commands of the front end.
pub(super) fn parse_prompt(line: &HostLine, commands: &[CommandInfo]) -> HostPrompt {
    let usable = |uuid: &String| (1..=LONGEST_ID).contains(&uuid.len());
    let uuid = line.text("uuid").filter(usable).unwrap_or_else(super::control_frames::new_id);
    let said = LocalPrompt {
        uuid: EntryId::new(uuid),
        origin: parse_origin(line),
        message: line.raw("message").map(ToOwned::to_owned),
    };
    let (blocks, plain) = match message_content(line) {
        Ok(content) => content,
        Err(problem) => {
            // Only accepted messages are echoed.
            let said = LocalPrompt { message: None, ..said };
            return HostPrompt::Local(said, LocalCommand::Invalid(format!("The prompt was not taken up: {problem}")));
        }
    };
    if blocks.iter().all(Block::is_blank_text) {
        return HostPrompt::Local(said, LocalCommand::Empty);
    }
    let verbatim = line.is_set("client_composed");
    let prompt = SubmittedPrompt {
        blocks,
        plain,
        uuid: Some(said.uuid.clone()),
        synthetic: false,
        meta: line.is_set("isSynthetic"),
        from_agent: false,
        origin: said.origin.clone(),
        timing: match line.text("priority").as_deref() {
            Some("now") => PromptTiming::Now,
            Some("later") => PromptTiming::Later,
            _ => PromptTiming::Next,
        },
        only_start_hooks: false,
        silent: line.get("shouldQuery") == Some(false),
        mentions: if verbatim { MentionScope::Nowhere } else { MentionScope::Everywhere },
    };
    match host_command(&prompt, commands).as_deref() {
        None => HostPrompt::Say(prompt),
        Some(CLEAR) => HostPrompt::Local(said, LocalCommand::Clear),
        Some(name) => {
            HostPrompt::Local(said, LocalCommand::Invalid(format!("/{name} is only available in the terminal")))
        }
    }
}

/// Returns the name of the command that a prompt is, if the front end runs it.
fn host_command(prompt: &SubmittedPrompt, commands: &[CommandInfo]) -> Option<String> {
    match find_command(&prompt.typed_text()?, commands, Path::exists) {
        CommandMatch::Known { command, .. } if command.kind == CommandKind::Host => Some(command.name.clone()),
        CommandMatch::Known { .. } | CommandMatch::Unknown { .. } | CommandMatch::NotCommand => None,
    }
}

fn message_content(line: &HostLine) -> Result<(Vec<Block>, bool), String> {
    #[derive(serde::Deserialize)]
    struct UserMessage {
        content: Box<RawValue>,
    }
    let message = line.raw("message").ok_or("a user line without a message")?;
    let UserMessage { content } = parse_lossy(message).ok_or("a user line without content")?;
    host_content::parse_content(&content)
}

/// Returns the origin of a prompt. Only the user's own prompts are marked as such; other claims of a host are ignored.
fn parse_origin(line: &HostLine) -> Option<PromptOrigin> {
    line.get("origin").filter(|origin| *origin == PromptOrigin::Human)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn prompt_from_json(line: Value) -> HostPrompt {
        let members = serde_json::from_value(line).unwrap();
        let command = |name: &str, aliases: &[&str], kind| CommandInfo {
            name: name.to_owned(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            description: String::new(),
            argument_hint: String::new(),
            kind,
        };
        let commands = [
            command("clear", &["reset", "new"], CommandKind::Host),
            command("resume", &[], CommandKind::Host),
            command("cost", &[], CommandKind::Local),
        ];
        parse_prompt(&HostLine::from_members(members), &commands)
    }

    fn say_from_json(line: Value) -> SubmittedPrompt {
        match prompt_from_json(line) {
            HostPrompt::Say(say) => say,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_stays_a_text_and_blocks_stay_blocks() {
        let text = say_from_json(json!({"message": {"role": "user", "content": "hi"}, "session_id": "default"}));
        assert!(text.plain && text.uuid.is_some() && text.origin.is_none());
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAQABAA=="}});
        let blocks =
            say_from_json(json!({"message": {"content": [image, {"type": "text", "text": "what?"}]}, "uuid": "u-1"}));
        assert_eq!((blocks.plain, blocks.blocks.len()), (false, 2));
        assert_eq!(blocks.uuid, Some(EntryId::new("u-1")));
    }

    #[test]
    fn an_id_of_any_length_is_not_repeated() {
        let with = |id: &str| say_from_json(json!({"message": {"content": "x"}, "uuid": id})).uuid.unwrap();
        let long = "x".repeat(LONGEST_ID);
        assert_eq!(with(&long).as_str(), long);
        assert_eq!(with(&format!("{long}x")).as_str().len(), 36);
    }

    #[test]
    fn the_host_chooses_when_and_whether_to_ask() {
        let with = |name: &str, value: Value| say_from_json(json!({"message": {"content": "x"}, name: value}));
        assert_eq!(with("priority", json!("now")).timing, PromptTiming::Now);
        assert_eq!(with("priority", json!("later")).timing, PromptTiming::Later);
        assert_eq!(with("priority", json!("someday")).timing, PromptTiming::Next);
        assert!(with("shouldQuery", json!(false)).silent && !with("shouldQuery", json!(true)).silent);
        let composed = with("isSynthetic", json!(true));
        assert!(composed.meta && !composed.synthetic, "it is no notice of gimlet's own");
        assert_eq!(with("origin", json!({"kind": "human", "name": "ada"})).origin, Some(PromptOrigin::Human));
        assert_eq!(with("origin", json!({"kind": "task-notification"})).origin, None);
        assert_eq!(with("origin", json!({"kind": "peer"})).origin, None);
    }

    #[test]
    fn only_commands_are_taken_for_commands() {
        let line = |text: &str, verbatim: bool| json!({"message": {"content": text}, "client_composed": verbatim});
        for text in ["/clear", " /reset\n", "/new topic"] {
            assert!(matches!(prompt_from_json(line(text, false)), HostPrompt::Local(_, LocalCommand::Clear)), "{text}");
            assert!(matches!(prompt_from_json(line(text, true)), HostPrompt::Say(_)), "{text}");
        }
        for text in ["/resume", "/resume the tests"] {
            let refused = prompt_from_json(line(text, false));
            assert!(
                matches!(&refused, HostPrompt::Local(_, LocalCommand::Invalid(why)) if why.contains("/resume")),
                "{refused:?}"
            );
            assert!(matches!(prompt_from_json(line(text, true)), HostPrompt::Say(_)), "{text}");
        }
        for text in ["/ clear", "clear", "/clearly", "/etc/hosts is odd", "/cost"] {
            assert!(matches!(prompt_from_json(line(text, false)), HostPrompt::Say(_)), "{text}");
        }
        for text in ["", " \n"] {
            assert!(
                matches!(prompt_from_json(line(text, false)), HostPrompt::Local(_, LocalCommand::Empty)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn lines_that_cannot_be_used_say_why() {
        let broken = json!({"message": {"content": [{"text": "no type"}]}});
        for line in [json!({}), json!({"message": {}}), json!({"message": {"content": 7}}), broken] {
            assert!(matches!(prompt_from_json(line.clone()), HostPrompt::Local(_, LocalCommand::Invalid(_))), "{line}");
        }
    }
}
