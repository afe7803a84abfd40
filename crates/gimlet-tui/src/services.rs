//! What the front end needs from the program around it besides its host: processes that take the terminal, the user's
//! own files, the clipboard. Errors are lines for the user.

use std::path::PathBuf;

use gimlet_proto::{Block, BoxFuture, Secret};

use crate::app::ShellOutput;
use crate::key_bindings::KeyBindings;

/// Services of the program that shows the front end.
pub trait TerminalServices: Send + Sync {
    /// Lets the user change a text in their editor, which has the terminal meanwhile.
    fn edit_text(&self, text: String) -> BoxFuture<'static, Result<String, String>>;

    /// Runs a command of the user's own in a folder, without the model and without asking.
    fn run_shell(&self, command: String, folder: PathBuf) -> BoxFuture<'static, Result<ShellOutput, String>>;

    /// Returns what is in the clipboard of this machine.
    fn read_clipboard(&self) -> BoxFuture<'static, ClipboardContent>;

    /// Returns the images in these files, as far as they are images.
    fn read_images(&self, paths: Vec<PathBuf>) -> BoxFuture<'static, Vec<Block>>;

    /// Opens an address in the user's browser; an error if there is none.
    fn open_url(&self, url: String) -> BoxFuture<'static, Result<(), String>>;

    /// Writes a new file; an error if it exists.
    fn write_file(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), String>>;

    /// Saves a setting of the user's for later sessions.
    fn save_setting(&self, key: &str, value: &str) -> Result<(), String>;

    /// Lets the user change a file in their editor, which has the terminal meanwhile. One that does not exist yet
    /// begins with the text.
    fn edit_file(&self, path: PathBuf, template: String) -> BoxFuture<'static, Result<(), String>>;

    /// Returns the memory files of the folder, those that could exist among them.
    fn memory_files(&self) -> BoxFuture<'static, Result<Vec<EditableFile>, String>>;

    /// Returns the file of the user's own keys.
    fn key_bindings_file(&self) -> PathBuf;

    /// Reads the user's own keys; also returns what is wrong with them.
    fn read_key_bindings(&self) -> (KeyBindings, Vec<String>);

    /// Says how the calls of earlier sessions would be decided with a changed rule.
    fn rule_effect(&self, change: RuleChange) -> BoxFuture<'static, Result<String, String>>;

    /// Changes a rule in one of the user's files; returns a line about it.
    fn change_rule(&self, change: RuleChange) -> BoxFuture<'static, Result<String, String>>;

    /// Tests a key with a small request and stores it for later sessions; returns a line about it.
    fn log_in(&self, key: Secret) -> BoxFuture<'static, Result<String, String>>;

    /// Removes the stored key; returns a line about it.
    fn log_out(&self) -> BoxFuture<'static, Result<String, String>>;
}

/// A file that can be opened in the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditableFile {
    pub path: PathBuf,
    /// Whose it is, in a word.
    pub label: String,
    pub exists: bool,
}

/// What a permission rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleBehavior {
    Allow,
    Ask,
    Deny,
}

/// One of the files that rules are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// The user's own file of this project.
    Local,
    /// The project's file, for everybody who works on it.
    Project,
    /// The user's file, for all projects.
    User,
}

/// A permission rule to add or to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChange {
    pub behavior: RuleBehavior,
    pub rule: String,
    pub place: RulePlace,
    pub removes: bool,
}

impl RuleBehavior {
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Returns the word of settings files.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleBehavior::Allow => "allow",
            RuleBehavior::Ask => "ask",
            RuleBehavior::Deny => "deny",
        }
    }
}

impl RulePlace {
    pub const ALL: [Self; 3] = [Self::Local, Self::Project, Self::User];

    /// Returns the file as users know it.
    pub fn label(self) -> &'static str {
        match self {
            RulePlace::Local => ".claude/settings.local.json",
            RulePlace::Project => ".claude/settings.json",
            RulePlace::User => "~/.claude/settings.json",
        }
    }

    /// Returns the place that a rule of this public source is kept in; `None` for one that no user's file has.
    pub fn from_source(source: &str) -> Option<Self> {
        match source {
            "localSettings" => Some(RulePlace::Local),
            "projectSettings" => Some(RulePlace::Project),
            "userSettings" => Some(RulePlace::User),
            _ => None,
        }
    }
}

/// What was in the clipboard.
#[derive(Clone, Debug, Default)]
pub enum ClipboardContent {
    #[default]
    Nothing,
    Text(String),
    Image(Block),
}
