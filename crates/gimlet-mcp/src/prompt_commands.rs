//! Prompts of servers as slash commands: `/mcp__server__prompt`, with its arguments in order.

use std::sync::Weak;
use std::time::Duration;

use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::{BoxFuture, CommandKind, provider_safe_name};
use rmcp::model::{GetPromptResult, Prompt};
use serde_json::{Map, Value, json};

use crate::server_text::{sanitize_data, sanitize_label};
use crate::servers::McpServers;

/// Time limit for a server to give its prompt.
const LIMIT: Duration = Duration::from_secs(60);

/// A prompt of a server as a command.
pub(crate) struct PromptCommand {
    servers: Weak<McpServers>,
    server: String,
    /// Name that is typed, without the slash.
    name: String,
    /// The server's own name of it.
    prompt: String,
    description: String,
    argument_hint: String,
    arguments: Vec<PromptArgument>,
}

struct PromptArgument {
    name: String,
    is_required: bool,
}

/// Returns the name under which a prompt is typed.
pub(crate) fn prompt_command_name(server: &str, prompt: &str) -> String {
    format!("mcp__{}__{}", provider_safe_name(server), provider_safe_name(prompt))
}

impl PromptCommand {
    pub(crate) fn new(servers: Weak<McpServers>, server: &str, prompt: &Prompt) -> Self {
        let known = prompt.arguments.iter().flatten();
        let arguments: Vec<PromptArgument> = known
            .map(|argument| PromptArgument {
                name: argument.name.clone(),
                is_required: argument.required == Some(true),
            })
            .collect();
        let hints = arguments.iter().map(|argument| {
            let name = sanitize_label(&argument.name);
            if argument.is_required { format!("<{name}>") } else { format!("[{name}]") }
        });
        let description = sanitize_label(prompt.description.as_deref().unwrap_or("A prompt of an MCP server"));
        Self {
            servers,
            server: server.to_owned(),
            name: prompt_command_name(server, &prompt.name),
            prompt: prompt.name.clone(),
            description: format!("{description} (MCP server {server})"),
            argument_hint: hints.collect::<Vec<_>>().join(" "),
            arguments,
        }
    }

    /// Assigns words to the arguments in order; the last argument takes what is left.
    fn bind(&self, args: &str) -> Result<Map<String, Value>, String> {
        let mut words = split_words(args);
        let count = self.arguments.len();
        if count > 0 && words.len() > count {
            let rest = words.split_off(count - 1).join(" ");
            words.push(rest);
        }
        if let Some(missing) = self.arguments.iter().skip(words.len()).find(|argument| argument.is_required) {
            let (name, hint) = (&self.name, &self.argument_hint);
            return Err(format!("/{name} needs '{}': /{name} {hint}", sanitize_label(&missing.name)));
        }
        Ok(self.arguments.iter().zip(words).map(|(argument, word)| (argument.name.clone(), json!(word))).collect())
    }
}

impl SlashCommand for PromptCommand {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn argument_hint(&self) -> &str {
        &self.argument_hint
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Prompt
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let arguments = self.bind(args)?;
            let servers = self.servers.upgrade().ok_or("the session is over")?;
            let asked = servers.prompt_request(&self.server, self.prompt.clone(), arguments)?;
            let late = |_| Err(format!("it did not answer within {} s", LIMIT.as_secs()));
            let given = tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(late);
            let given = given.map_err(|why| format!("the MCP server '{}' gave no prompt: {why}", self.server))?;
            let text = prompt_text(&given);
            if text.trim().is_empty() {
                return Err(format!("the MCP server '{}' gave an empty prompt", self.server));
            }
            Ok(CommandOutput::Prompt(text))
        })
    }
}

/// Splits text into words; quotes keep a word together.
fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in text.chars() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, char) if char.is_whitespace() => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// Returns the text of a prompt's messages.
fn prompt_text(given: &GetPromptResult) -> String {
    let texts = given.messages.iter().map(|message| {
        let content = json!(message.content);
        let text = content["text"].as_str().or(content["resource"]["text"].as_str());
        let text = text.map_or_else(|| format!("(content of type {})", content["type"]), str::to_owned);
        match json!(message.role).as_str() {
            Some("assistant") => format!("(as said before:)\n{text}"),
            _ => text,
        }
    });
    sanitize_data(&texts.collect::<Vec<_>>().join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_the_arguments_in_order() {
        let prompt: Prompt = serde_json::from_value(json!({"name": "gr eet", "arguments": [
            {"name": "who", "required": true}, {"name": "tone"}]}))
        .unwrap();
        let command = PromptCommand::new(Weak::new(), "my.server", &prompt);
        assert_eq!((command.name(), command.argument_hint()), ("mcp__my_server__gr_eet", "<who> [tone]"));
        for (args, bound) in [
            ("Ada", json!({"who": "Ada"})),
            ("\"Ada Lovelace\" warm", json!({"who": "Ada Lovelace", "tone": "warm"})),
            ("Ada very warm indeed", json!({"who": "Ada", "tone": "very warm indeed"})),
            ("it's", json!({"who": "its"})),
            ("'' x", json!({"who": "", "tone": "x"})),
        ] {
            assert_eq!(Value::Object(command.bind(args).unwrap()), bound, "{args}");
        }
        assert!(command.bind(" ").unwrap_err().contains("needs 'who': /mcp__my_server__gr_eet <who> [tone]"));
    }
}
