//! The host's prompts: what a `user` line says, and which of them are commands for gimlet itself.

use gimlet_proto::{Block, EntryId, Mentions, Origin, Say, When};
use serde_json::value::RawValue;

use super::content;
use super::lines::{HostLine, read};

/// Commands that are answered without the model, by every name they have.
pub const LOCAL_COMMANDS: [&str; 3] = ["clear", "reset", "new"];

/// Commands that the reference has and gimlet has not. The model could only pretend to follow them.
const NOT_YET: [&str; 1] = ["compact"];

/// What to say of a prompt that is such a command.
pub fn unavailable_command(prompt: &[Block]) -> Option<String> {
    let name = command(prompt).filter(|name| NOT_YET.contains(&name.as_str()))?;
    Some(format!("/{name} is not available in this version of gimlet"))
}

/// A longer id is none: it would have to be repeated in every line about the prompt.
const LONGEST_ID: usize = 256;

/// What a `user` line wants.
#[derive(Debug)]
pub(super) enum Prompt {
    Say(Say),
    /// Answered without the model.
    Local(Said, Local),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// Go on with an empty conversation.
    Clear,
    /// There is nothing in it to ask anybody.
    Nothing,
    /// It cannot be used, for this reason; the host waits for a result all the same.
    Bad(String),
}

impl Prompt {
    pub(super) fn id(&self) -> Option<&EntryId> {
        match self {
            Prompt::Say(say) => say.uuid.as_ref(),
            Prompt::Local(said, _) => Some(&said.uuid),
        }
    }

    /// No turn begins because of it.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self, Prompt::Say(say) if say.silent)
    }
}

/// A prompt that gimlet answers by itself.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) uuid: EntryId,
    pub(super) origin: Option<Origin>,
    /// The message as it came, if there was one.
    pub(super) message: Option<Box<RawValue>>,
}

/// Reads a `user` line.
pub(super) fn read_prompt(line: &HostLine) -> Prompt {
    let usable = |uuid: &String| (1..=LONGEST_ID).contains(&uuid.len());
    let uuid = line.text("uuid").filter(usable).unwrap_or_else(super::frames::new_id);
    let said =
        Said { uuid: EntryId::new(uuid), origin: origin(line), message: line.raw("message").map(ToOwned::to_owned) };
    let (blocks, plain) = match content_of(line) {
        Ok(content) => content,
        Err(problem) => {
            // Only what was taken up is echoed.
            let said = Said { message: None, ..said };
            return Prompt::Local(said, Local::Bad(format!("The prompt was not taken up: {problem}")));
        }
    };
    if blocks.iter().all(Block::is_blank_text) {
        return Prompt::Local(said, Local::Nothing);
    }
    let verbatim = line.flag("client_composed");
    let command = command(&blocks).filter(|_| !verbatim);
    match command.as_deref() {
        Some(name) if LOCAL_COMMANDS.contains(&name) => return Prompt::Local(said, Local::Clear),
        Some(_) => {
            if let Some(problem) = unavailable_command(&blocks) {
                return Prompt::Local(said, Local::Bad(problem));
            }
        }
        None => {}
    }
    Prompt::Say(Say {
        blocks,
        plain,
        uuid: Some(said.uuid),
        synthetic: false,
        meta: line.flag("isSynthetic"),
        letter: false,
        origin: said.origin,
        when: match line.text("priority").as_deref() {
            Some("now") => When::Now,
            Some("later") => When::Later,
            _ => When::Next,
        },
        silent: line.get("shouldQuery") == Some(false),
        mentions: if verbatim { Mentions::Nowhere } else { Mentions::Everywhere },
    })
}

fn content_of(line: &HostLine) -> Result<(Vec<Block>, bool), String> {
    #[derive(serde::Deserialize)]
    struct Message {
        content: Box<RawValue>,
    }
    let message = line.raw("message").ok_or("a user line without a message")?;
    let Message { content } = read(message).ok_or("a user line without content")?;
    content::blocks(&content)
}

/// Only a person's own words are passed off as such; what else a host claims is not.
fn origin(line: &HostLine) -> Option<Origin> {
    line.get("origin").filter(|origin| *origin == Origin::Human)
}

/// The name of the command that a prompt begins with.
fn command(blocks: &[Block]) -> Option<String> {
    let text = blocks.first()?.as_text()?;
    let name = text.trim_start().strip_prefix('/')?.split(char::is_whitespace).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn prompt(line: Value) -> Prompt {
        let members = serde_json::from_value(line).unwrap();
        read_prompt(&HostLine::from_members(members))
    }

    fn say(line: Value) -> Say {
        match prompt(line) {
            Prompt::Say(say) => say,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_text_stays_a_text_and_blocks_stay_blocks() {
        let text = say(json!({"message": {"role": "user", "content": "hi"}, "session_id": "default"}));
        assert!(text.plain && text.uuid.is_some() && text.origin.is_none());
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAQABAA=="}});
        let blocks = say(json!({"message": {"content": [image, {"type": "text", "text": "what?"}]}, "uuid": "u-1"}));
        assert_eq!((blocks.plain, blocks.blocks.len()), (false, 2));
        assert_eq!(blocks.uuid, Some(EntryId::new("u-1")));
    }

    #[test]
    fn an_id_of_any_length_is_not_repeated() {
        let with = |id: &str| say(json!({"message": {"content": "x"}, "uuid": id})).uuid.unwrap();
        let long = "x".repeat(LONGEST_ID);
        assert_eq!(with(&long).as_str(), long);
        assert_eq!(with(&format!("{long}x")).as_str().len(), 36);
    }

    #[test]
    fn the_host_chooses_when_and_whether_to_ask() {
        let with = |name: &str, value: Value| say(json!({"message": {"content": "x"}, name: value}));
        assert_eq!(with("priority", json!("now")).when, When::Now);
        assert_eq!(with("priority", json!("later")).when, When::Later);
        assert_eq!(with("priority", json!("someday")).when, When::Next);
        assert!(with("shouldQuery", json!(false)).silent && !with("shouldQuery", json!(true)).silent);
        let composed = with("isSynthetic", json!(true));
        assert!(composed.meta && !composed.synthetic, "it is no notice of gimlet's own");
        assert_eq!(with("origin", json!({"kind": "human", "name": "ada"})).origin, Some(Origin::Human));
        assert_eq!(with("origin", json!({"kind": "task-notification"})).origin, None);
        assert_eq!(with("origin", json!({"kind": "peer"})).origin, None);
    }

    #[test]
    fn only_commands_are_taken_for_commands() {
        let line = |text: &str, verbatim: bool| json!({"message": {"content": text}, "client_composed": verbatim});
        for text in ["/clear", " /reset\n", "/new topic"] {
            assert!(matches!(prompt(line(text, false)), Prompt::Local(_, Local::Clear)), "{text}");
            assert!(matches!(prompt(line(text, true)), Prompt::Say(_)), "{text}");
        }
        for text in ["/compact", "/compact the tests"] {
            let refused = prompt(line(text, false));
            assert!(matches!(&refused, Prompt::Local(_, Local::Bad(why)) if why.contains("/compact")), "{refused:?}");
            assert!(matches!(prompt(line(text, true)), Prompt::Say(_)), "{text}");
        }
        for text in ["/ clear", "clear", "/clearly", "/etc/hosts is odd"] {
            assert!(matches!(prompt(line(text, false)), Prompt::Say(_)), "{text}");
        }
        for text in ["", " \n"] {
            assert!(matches!(prompt(line(text, false)), Prompt::Local(_, Local::Nothing)), "{text:?}");
        }
    }

    #[test]
    fn lines_that_cannot_be_used_say_why() {
        let broken = json!({"message": {"content": [{"text": "no type"}]}});
        for line in [json!({}), json!({"message": {}}), json!({"message": {"content": 7}}), broken] {
            assert!(matches!(prompt(line.clone()), Prompt::Local(_, Local::Bad(_))), "{line}");
        }
    }
}
