//! What the front end needs from the program around it besides its host: processes that take the terminal, the user's
//! own files, the clipboard. Errors are lines for the user.

use std::path::PathBuf;

use gimlet_proto::{Block, BoxFuture};

use crate::app::ShellOutput;

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
}

/// What was in the clipboard.
#[derive(Clone, Debug, Default)]
pub enum ClipboardContent {
    #[default]
    Nothing,
    Text(String),
    Image(Block),
}
