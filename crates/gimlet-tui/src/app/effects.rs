//! What the front end wants done, as values, and what comes back.

use std::path::PathBuf;

use gimlet_proto::{
    Block, ContextUsage, EntryId, HistoryItem, MentionScope, Op, PermissionMode, PermissionsView, PromptHistoryEntry,
    RewindOutcome, Secret, ServerView, SessionInfo, SessionReplacement, SessionScope, SettingsView, SubmittedPrompt,
    TaskOutputTail, ThinkingMode, View,
};
use gimlet_text::enclose_in_tag;

use super::TaskLabel;
use crate::feed::{CallBlock, CallOutcome, FeedBlock};
use crate::key_bindings::KeyBindings;
use crate::pickers::AppPicker;
use crate::services::{EditableFile, RuleChange};
use crate::styled_line::StyledLine;
use crate::theme::ScreenBackground;

/// Something to be done.
#[derive(Debug)]
pub enum AppEffect {
    Nothing,
    /// An operation whose outcome arrives as events, if at all.
    Send(Op),
    SetMode(PermissionMode),
    /// Sets the model, by a name or id; `None` for the one that the session started with.
    SetModel(Option<String>),
    SetEffort(Option<String>),
    SetThinking(Option<ThinkingMode>),
    SetTheme(ScreenBackground),
    MoveToBackground,
    /// Stops the agents in the background.
    StopAgents,
    StopTask(String),
    /// Sends a message of the user's to a subagent that runs.
    MessageAgent {
        agent: TaskLabel,
        text: String,
    },
    /// Takes back a prompt that waits.
    Withdraw(EntryId),
    QueryContext,
    /// Shows the context window as a picture.
    ShowContext,
    QueryHistory(HistoryUse),
    /// Reads what a command in the background printed.
    QueryOutput(TaskLabel),
    QueryPermissions,
    QuerySettings,
    /// Makes a further folder one to work in.
    AddDirectory(PathBuf),
    /// Lets commands start in another folder.
    ChangeDirectory(PathBuf),
    /// Asks the model beside the conversation.
    AskAside(String),
    /// Gives up what was asked beside the conversation.
    CancelAside,
    ListSessions(SessionScope),
    /// Goes back to before a prompt.
    Rewind(RewindRequest),
    PreviewRewind(EntryId),
    ReplaceSession(SessionReplacement),
    /// Goes on in a copy of the session.
    Branch(Option<String>),
    QueryServers(ServerListUse),
    ChangeServer {
        server: String,
        change: ServerChange,
    },
    /// Lists the memory files, to open one.
    ListMemory,
    /// Opens a file in the user's editor; a new one begins with the text.
    EditFile {
        path: PathBuf,
        template: String,
    },
    /// Opens the user's own keys in the editor, and takes them up.
    EditKeyBindings,
    /// Finds out what a changed rule would have meant for earlier calls.
    PreviewRule(RuleChange),
    ChangeRule(RuleChange),
    /// Tests a key and stores it.
    LogIn(Secret),
    LogOut,
    /// Opens a picker in place of the present one.
    Open(Box<AppPicker>),
    /// Writes the conversation to a file, or to the clipboard without one.
    Export(Option<PathBuf>),
    Copy(String),
    EditExternally(String),
    /// Shows a text in the user's editor; changes are ignored.
    ViewInEditor(String),
    RunShell(String),
    ReadClipboard,
    ReadImages {
        paths: Vec<PathBuf>,
        pasted: String,
    },
    SaveHistory(PromptHistoryEntry),
    ReadFullHistory,
    SuggestFiles {
        query: String,
        generation: u64,
    },
    /// Opens an address in the browser.
    OpenUrl(String),
    /// Saves a setting of the user's for later sessions.
    SaveUserSetting {
        key: &'static str,
        value: String,
    },
    Signal(TerminalSignal),
    Redraw,
    ClearScreen,
    Suspend,
    Exit,
}

/// What a rewind restores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindTarget {
    CodeAndConversation,
    Conversation,
    Code,
    /// The conversation goes on with a summary of what is taken back; the files stay.
    Summary,
}

impl RewindTarget {
    pub(crate) fn restores_files(self) -> bool {
        matches!(self, RewindTarget::CodeAndConversation | RewindTarget::Code)
    }

    /// Returns what it means, for a list.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            RewindTarget::CodeAndConversation => "files and conversation as they were",
            RewindTarget::Conversation => "the files stay as they are",
            RewindTarget::Code => "the conversation goes on as it is",
            RewindTarget::Summary => "what came since becomes a summary, the files stay",
        }
    }
}

/// A wish to go back to before a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindRequest {
    pub prompt: EntryId,
    /// The last entry before it; `None` for the first prompt.
    pub before: Option<EntryId>,
    /// The prompt's first line.
    pub first_line: String,
    pub target: RewindTarget,
    /// True if files that something else has changed since are restored as well.
    pub overwrites_changes: bool,
}

/// What the list of servers is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerListUse {
    /// To choose one.
    List,
    /// To show this one.
    Details(String),
    /// To show the tools of this one.
    Tools(String),
}

/// What is to happen to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerChange {
    Reconnect,
    Enable,
    Disable,
}

/// What a conversation was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryUse {
    /// To be shown above the prompt of a resumed session.
    Resumed,
    /// To be opened whole: the main conversation, or that of a subagent.
    Transcript(Option<TaskLabel>),
    /// For the one that is open already.
    Refresh(Option<TaskLabel>),
    Rewind,
    /// The answer this many before the last is to be copied.
    Copy(usize),
}

/// Something that is said to the terminal itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    Title(String),
    /// A turn runs.
    Progress(bool),
    Notify(String),
    /// Text for the clipboard.
    Clipboard(String),
}

/// Outcome of an effect.
#[derive(Debug)]
pub enum AppReply {
    /// Something went wrong; one line for the user.
    Failed(String),
    /// Something was done; one line for the user.
    Done(String),
    Context(ContextUsage),
    /// The same to be shown.
    ContextPicture(ContextUsage),
    Withdrawn {
        prompt: EntryId,
        was_waiting: bool,
    },
    History {
        items: Vec<HistoryItem>,
        used_for: HistoryUse,
    },
    Output {
        task: TaskLabel,
        tail: TaskOutputTail,
    },
    Sessions(Result<Vec<SessionInfo>, String>),
    Settings(Result<SettingsView, String>),
    /// The answer to a question beside the conversation.
    Aside {
        question: String,
        answer: Result<String, String>,
    },
    Permissions(PermissionsView),
    Directory(PathBuf),
    Servers {
        servers: Vec<ServerView>,
        used_for: ServerListUse,
    },
    MemoryFiles(Vec<EditableFile>),
    KeyBindings {
        bindings: KeyBindings,
        problems: Vec<String>,
    },
    /// What a changed rule would have meant.
    RuleEffect {
        change: RuleChange,
        effect: Result<String, String>,
    },
    RewindPreview {
        prompt: EntryId,
        outcome: Result<RewindOutcome, String>,
    },
    /// Text that the external editor left.
    Edited(Result<String, String>),
    Shell(ShellOutput),
    Page {
        title: String,
        lines: Vec<StyledLine>,
    },
    FullHistory(Vec<PromptHistoryEntry>),
    /// The prompts of earlier sessions of this folder.
    FolderHistory(Vec<PromptHistoryEntry>),
    /// Text to be put into the input as it is.
    Inserted(String),
    /// Text for the clipboard.
    Copied(String),
    Images(Vec<Block>),
    Pasted(String),
    Files {
        generation: u64,
        paths: Vec<String>,
    },
}

/// A command of the user's own that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOutput {
    pub command: String,
    pub output: String,
    pub exit_code: Option<i32>,
    pub elapsed_ms: u64,
    /// True if the model is to say something about it.
    pub must_reply: bool,
}

impl ShellOutput {
    /// Returns the block that shows it.
    pub(super) fn block(&self) -> FeedBlock {
        let view =
            View::Terminal { command: self.command.clone(), output: self.output.clone(), exit_code: self.exit_code };
        let outcome = CallOutcome::Done { view, elapsed_ms: Some(self.elapsed_ms) };
        FeedBlock::Call(CallBlock { name: "!".to_owned(), summary: self.command.clone(), outcome })
    }

    /// Returns what the model is told of it.
    pub(super) fn prompt(&self) -> SubmittedPrompt {
        let exit = match self.exit_code {
            Some(0) => String::new(),
            Some(code) => format!("\n(exit code {code})"),
            None => "\n(ended by a signal)".to_owned(),
        };
        let text = format!(
            "{}\n{}",
            enclose_in_tag("bash-input", &self.command),
            enclose_in_tag("bash-stdout", &format!("{}{exit}", self.output)),
        );
        SubmittedPrompt {
            mentions: MentionScope::Nowhere,
            silent: !self.must_reply,
            synthetic: true,
            ..SubmittedPrompt::from_text(&text)
        }
    }
}
