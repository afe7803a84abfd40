//! Slash commands as front ends see them, and the one rule by which text is taken for a command.

use std::path::Path;

use gimlet_text::edit_distance;

/// Maximum number of names suggested for a mistyped one.
const MOST_SUGGESTIONS: usize = 3;

/// Description of one command for lists, menus and driving programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Name without the slash.
    pub name: String,
    pub aliases: Vec<String>,
    pub description: String,
    /// Arguments as shown in lists, such as `[model]`; empty if there are none.
    pub argument_hint: String,
    pub kind: CommandKind,
}

/// What a command does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Answers with text and sends no request.
    Local,
    /// Expands to a prompt for the model.
    Prompt,
    /// Run by the front end, because it concerns more than one session.
    Host,
}

impl CommandInfo {
    /// Returns the name and all aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// Result of looking for a command at the start of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandMatch<'a> {
    /// The text is a prompt like any other.
    NotCommand,
    Known {
        command: &'a CommandInfo,
        /// Everything after the name, without surrounding whitespace.
        args: &'a str,
    },
    /// The text has the form of a command that does not exist.
    Unknown {
        name: &'a str,
        /// Similar names, the closest first.
        nearest: Vec<&'a str>,
    },
}

/// Finds the command that a text begins with: a slash, then letters, digits, `_`, `:`, `.` and `-`, then whitespace or
/// the end. Text that begins with the path of an existing file is no command.
pub fn find_command<'a>(
    text: &'a str,
    commands: &'a [CommandInfo],
    file_exists: impl Fn(&Path) -> bool,
) -> CommandMatch<'a> {
    let text = text.trim();
    let (word, args) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let is_name_char = |char: char| char.is_alphanumeric() || "_:.-".contains(char);
    let Some(name) = word.strip_prefix('/').filter(|name| !name.is_empty() && name.chars().all(is_name_char)) else {
        return CommandMatch::NotCommand;
    };
    if file_exists(Path::new(word)) {
        return CommandMatch::NotCommand;
    }
    match commands.iter().find(|command| command.names().any(|known| known == name)) {
        Some(command) => CommandMatch::Known { command, args: args.trim() },
        None => CommandMatch::Unknown { name, nearest: nearest_commands(name, commands) },
    }
}

/// Returns the names of commands that a mistyped or unfinished name may mean, the closest first.
fn nearest_commands<'a>(name: &str, commands: &'a [CommandInfo]) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let limit = (wanted.chars().count() / 3).max(1);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for command in commands {
        let distances = command
            .names()
            .map(|known| if known.starts_with(&wanted) { 1 } else { edit_distance(&wanted, &known.to_lowercase()) });
        if let Some(distance) = distances.min().filter(|distance| *distance <= limit) {
            near.push((distance, &command.name));
        }
    }
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, name)| name).take(MOST_SUGGESTIONS).collect()
}

/// Returns the message about a command that does not exist, with the names that may have been meant.
pub fn unknown_command_text(name: &str, nearest: &[impl AsRef<str>]) -> String {
    let names: Vec<String> = nearest.iter().map(|name| format!("/{}", name.as_ref())).collect();
    match names.as_slice() {
        [] => format!("there is no command /{name}; /help lists all."),
        names => format!("there is no command /{name}; did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, aliases: &[&str]) -> CommandInfo {
        CommandInfo {
            name: name.to_owned(),
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            description: String::new(),
            argument_hint: String::new(),
            kind: CommandKind::Local,
        }
    }

    #[test]
    fn a_name_or_an_alias_finds_the_command_and_the_rest_are_its_arguments() {
        let commands = [command("cost", &["usage"]), command("a:b.c-d_e", &[])];
        for (text, name, args) in [
            ("/cost", "cost", ""),
            (" /usage\n", "cost", ""),
            ("/cost  a  b \n", "cost", "a  b"),
            ("/cost\nnext line", "cost", "next line"),
            ("/a:b.c-d_e x", "a:b.c-d_e", "x"),
        ] {
            let found = find_command(text, &commands, |_| false);
            let CommandMatch::Known { command, args: rest } = found else { panic!("{text}: {found:?}") };
            assert_eq!((command.name.as_str(), rest), (name, args), "{text}");
        }
    }

    #[test]
    fn paths_and_plain_text_are_no_commands() {
        let commands = [command("cost", &[])];
        for text in ["/ cost", "cost", "/", "", "/etc/hosts is odd", "/cost/x", "/cost, please", "a /cost", "//cost"] {
            assert_eq!(find_command(text, &commands, |_| false), CommandMatch::NotCommand, "{text}");
        }
        assert_eq!(find_command("/tmp is full", &commands, |path| path == "/tmp"), CommandMatch::NotCommand);
        let of_file = find_command("/cost of it", &commands, |path| path == "/cost");
        assert_eq!(of_file, CommandMatch::NotCommand);
    }

    #[test]
    fn an_unknown_name_comes_with_the_nearest_ones() {
        let commands = [command("context", &[]), command("cost", &["usage"]), command("config", &[])];
        for (typed, expected) in [
            ("/csot", &["cost"][..]),
            ("/usag", &["cost"]),
            ("/con", &["context", "config"]),
            ("/Cost", &["cost"]),
            ("/nonsense", &[]),
        ] {
            let found = find_command(typed, &commands, |_| false);
            let CommandMatch::Unknown { name, nearest } = found else { panic!("{typed}: {found:?}") };
            assert_eq!((name, nearest.as_slice()), (&typed[1..], expected), "{typed}");
        }
        assert_eq!(unknown_command_text("csot", &["cost"]), "there is no command /csot; did you mean /cost?");
        assert_eq!(unknown_command_text("x", &[] as &[&str]), "there is no command /x; /help lists all.");
    }
}
