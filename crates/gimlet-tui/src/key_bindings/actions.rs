//! The table of actions, their names in `keybindings.json`, and the keys that they have by default.

/// Where a binding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyContext {
    Global,
    /// The input.
    Chat,
    /// The list of completions.
    Autocomplete,
    /// The search in earlier prompts.
    HistorySearch,
    /// A question.
    Confirmation,
    /// A list to choose from.
    Select,
    /// Several pages of one dialog.
    Tabs,
    Transcript,
    /// While a call runs in the foreground.
    Task,
    Settings,
    Help,
    ThemePicker,
    Attachments,
    Footer,
    MessageSelector,
    DiffDialog,
    ModelPicker,
    Plugin,
    Scroll,
}

/// Names of the contexts.
pub(super) const CONTEXT_NAMES: &[(&str, KeyContext)] = &[
    ("Global", KeyContext::Global),
    ("Chat", KeyContext::Chat),
    ("Autocomplete", KeyContext::Autocomplete),
    ("HistorySearch", KeyContext::HistorySearch),
    ("Confirmation", KeyContext::Confirmation),
    ("Select", KeyContext::Select),
    ("Tabs", KeyContext::Tabs),
    ("Transcript", KeyContext::Transcript),
    ("Task", KeyContext::Task),
    ("Settings", KeyContext::Settings),
    ("Help", KeyContext::Help),
    ("ThemePicker", KeyContext::ThemePicker),
    ("Attachments", KeyContext::Attachments),
    ("Footer", KeyContext::Footer),
    ("MessageSelector", KeyContext::MessageSelector),
    ("DiffDialog", KeyContext::DiffDialog),
    ("ModelPicker", KeyContext::ModelPicker),
    ("Plugin", KeyContext::Plugin),
    ("Scroll", KeyContext::Scroll),
];

/// What a key can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAction {
    AppInterrupt,
    AppExit,
    AppRedraw,
    AppToggleTodos,
    AppToggleTranscript,
    AppSuspend,
    HistorySearch,
    HistoryPrevious,
    HistoryNext,
    ChatCancel,
    ChatClearInput,
    ChatClearScreen,
    ChatKillAgents,
    ChatCycleMode,
    ChatModelPicker,
    ChatFastMode,
    ChatThinkingToggle,
    ChatSubmit,
    ChatNewline,
    ChatUndo,
    ChatRedo,
    ChatExternalEditor,
    ChatStash,
    ChatImagePaste,
    AutocompleteAccept,
    AutocompleteDismiss,
    AutocompletePrevious,
    AutocompleteNext,
    ConfirmYes,
    ConfirmNo,
    ConfirmPrevious,
    ConfirmNext,
    ConfirmNextField,
    ConfirmToggle,
    ConfirmCycleMode,
    ConfirmToggleExplanation,
    TranscriptToggleShowAll,
    TranscriptExit,
    HistorySearchNext,
    HistorySearchAccept,
    HistorySearchCancel,
    HistorySearchExecute,
    HistorySearchCycleScope,
    TaskBackground,
    TabsNext,
    TabsPrevious,
    SelectNext,
    SelectPrevious,
    SelectAccept,
    SelectCancel,
    ScrollPageUp,
    ScrollPageDown,
    ScrollLineUp,
    ScrollLineDown,
    ScrollTop,
    ScrollBottom,
}

use KeyAction as A;

/// Names of the actions.
pub(super) const ACTION_NAMES: &[(&str, KeyAction)] = &[
    ("app:interrupt", A::AppInterrupt),
    ("app:exit", A::AppExit),
    ("app:redraw", A::AppRedraw),
    ("app:toggleTodos", A::AppToggleTodos),
    ("app:toggleTranscript", A::AppToggleTranscript),
    ("app:suspend", A::AppSuspend),
    ("history:search", A::HistorySearch),
    ("history:previous", A::HistoryPrevious),
    ("history:next", A::HistoryNext),
    ("chat:cancel", A::ChatCancel),
    ("chat:clearInput", A::ChatClearInput),
    ("chat:clearScreen", A::ChatClearScreen),
    ("chat:killAgents", A::ChatKillAgents),
    ("chat:cycleMode", A::ChatCycleMode),
    ("chat:modelPicker", A::ChatModelPicker),
    ("chat:fastMode", A::ChatFastMode),
    ("chat:thinkingToggle", A::ChatThinkingToggle),
    ("chat:submit", A::ChatSubmit),
    ("chat:newline", A::ChatNewline),
    ("chat:undo", A::ChatUndo),
    ("chat:redo", A::ChatRedo),
    ("chat:externalEditor", A::ChatExternalEditor),
    ("chat:stash", A::ChatStash),
    ("chat:imagePaste", A::ChatImagePaste),
    ("autocomplete:accept", A::AutocompleteAccept),
    ("autocomplete:dismiss", A::AutocompleteDismiss),
    ("autocomplete:previous", A::AutocompletePrevious),
    ("autocomplete:next", A::AutocompleteNext),
    ("confirm:yes", A::ConfirmYes),
    ("confirm:no", A::ConfirmNo),
    ("confirm:previous", A::ConfirmPrevious),
    ("confirm:next", A::ConfirmNext),
    ("confirm:nextField", A::ConfirmNextField),
    ("confirm:toggle", A::ConfirmToggle),
    ("confirm:cycleMode", A::ConfirmCycleMode),
    ("confirm:toggleExplanation", A::ConfirmToggleExplanation),
    ("transcript:toggleShowAll", A::TranscriptToggleShowAll),
    ("transcript:exit", A::TranscriptExit),
    ("historySearch:next", A::HistorySearchNext),
    ("historySearch:accept", A::HistorySearchAccept),
    ("historySearch:cancel", A::HistorySearchCancel),
    ("historySearch:execute", A::HistorySearchExecute),
    ("historySearch:cycleScope", A::HistorySearchCycleScope),
    ("task:background", A::TaskBackground),
    ("tabs:next", A::TabsNext),
    ("tabs:previous", A::TabsPrevious),
    ("select:next", A::SelectNext),
    ("select:previous", A::SelectPrevious),
    ("select:accept", A::SelectAccept),
    ("select:cancel", A::SelectCancel),
    ("scroll:pageUp", A::ScrollPageUp),
    ("scroll:pageDown", A::ScrollPageDown),
    ("scroll:lineUp", A::ScrollLineUp),
    ("scroll:lineDown", A::ScrollLineDown),
    ("scroll:top", A::ScrollTop),
    ("scroll:bottom", A::ScrollBottom),
];

/// Beginnings of actions that other programs with this file know and this one has not: no reason to warn of a typo.
pub(super) const FOREIGN_PREFIXES: &[&str] = &[
    "messageSelector:",
    "diff:",
    "modelPicker:",
    "plugin:",
    "settings:",
    "selection:",
    "theme:",
    "help:",
    "attachments:",
    "footer:",
    "permission:",
    "voice:",
    "command:",
    "scroll:",
];

type BindingRows = &'static [(&'static str, KeyAction)];

pub(super) const DEFAULT_BINDINGS: &[(KeyContext, BindingRows)] = &[
    (
        KeyContext::Global,
        &[
            ("ctrl+c", A::AppInterrupt),
            ("ctrl+d", A::AppExit),
            ("ctrl+l", A::AppRedraw),
            ("ctrl+t", A::AppToggleTodos),
            ("ctrl+o", A::AppToggleTranscript),
            ("ctrl+z", A::AppSuspend),
            ("ctrl+r", A::HistorySearch),
        ],
    ),
    (
        KeyContext::Chat,
        &[
            ("escape", A::ChatCancel),
            ("ctrl+x ctrl+k", A::ChatKillAgents),
            ("shift+tab", A::ChatCycleMode),
            ("alt+p", A::ChatModelPicker),
            ("alt+t", A::ChatThinkingToggle),
            ("enter", A::ChatSubmit),
            ("shift+enter", A::ChatNewline),
            ("alt+enter", A::ChatNewline),
            ("ctrl+enter", A::ChatNewline),
            ("ctrl+j", A::ChatNewline),
            ("up", A::HistoryPrevious),
            ("down", A::HistoryNext),
            ("ctrl+p", A::HistoryPrevious),
            ("ctrl+n", A::HistoryNext),
            ("ctrl+_", A::ChatUndo),
            ("alt+_", A::ChatRedo),
            ("ctrl+g", A::ChatExternalEditor),
            ("ctrl+x ctrl+e", A::ChatExternalEditor),
            ("ctrl+s", A::ChatStash),
            ("ctrl+v", A::ChatImagePaste),
        ],
    ),
    (
        KeyContext::Autocomplete,
        &[
            ("tab", A::AutocompleteAccept),
            ("escape", A::AutocompleteDismiss),
            ("up", A::AutocompletePrevious),
            ("down", A::AutocompleteNext),
            ("ctrl+p", A::AutocompletePrevious),
            ("ctrl+n", A::AutocompleteNext),
        ],
    ),
    (
        KeyContext::HistorySearch,
        &[
            ("ctrl+r", A::HistorySearchNext),
            ("escape", A::HistorySearchAccept),
            ("tab", A::HistorySearchAccept),
            ("ctrl+c", A::HistorySearchCancel),
            ("enter", A::HistorySearchExecute),
            ("ctrl+s", A::HistorySearchCycleScope),
        ],
    ),
    (
        KeyContext::Confirmation,
        &[
            ("enter", A::ConfirmYes),
            ("escape", A::ConfirmNo),
            ("up", A::ConfirmPrevious),
            ("down", A::ConfirmNext),
            ("tab", A::ConfirmNextField),
            ("space", A::ConfirmToggle),
            ("shift+tab", A::ConfirmCycleMode),
            ("ctrl+e", A::ConfirmToggleExplanation),
        ],
    ),
    (
        KeyContext::Select,
        &[
            ("up", A::SelectPrevious),
            ("down", A::SelectNext),
            ("ctrl+p", A::SelectPrevious),
            ("ctrl+n", A::SelectNext),
            ("enter", A::SelectAccept),
            ("escape", A::SelectCancel),
        ],
    ),
    (
        KeyContext::Tabs,
        &[("tab", A::TabsNext), ("right", A::TabsNext), ("shift+tab", A::TabsPrevious), ("left", A::TabsPrevious)],
    ),
    (
        KeyContext::Transcript,
        &[
            ("ctrl+e", A::TranscriptToggleShowAll),
            ("ctrl+c", A::TranscriptExit),
            ("ctrl+o", A::TranscriptExit),
            ("escape", A::TranscriptExit),
            ("q", A::TranscriptExit),
        ],
    ),
    (KeyContext::Task, &[("ctrl+b", A::TaskBackground), ("ctrl+x ctrl+b", A::TaskBackground)]),
    (
        KeyContext::Scroll,
        &[
            ("pageup", A::ScrollPageUp),
            ("pagedown", A::ScrollPageDown),
            ("up", A::ScrollLineUp),
            ("down", A::ScrollLineDown),
            ("home", A::ScrollTop),
            ("end", A::ScrollBottom),
        ],
    ),
];

pub(super) fn default_count() -> usize {
    DEFAULT_BINDINGS.iter().map(|(_, rows)| rows.len()).sum()
}

impl KeyAction {
    /// Returns the name in `keybindings.json`.
    pub fn name(self) -> &'static str {
        ACTION_NAMES.iter().find(|(_, action)| *action == self).map_or("", |(name, _)| name)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        ACTION_NAMES.iter().find(|(known, _)| *known == name).map(|(_, action)| *action)
    }
}

impl KeyContext {
    /// Returns the name in `keybindings.json`.
    pub fn name(self) -> &'static str {
        CONTEXT_NAMES.iter().find(|(_, context)| *context == self).map_or("", |(name, _)| name)
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        CONTEXT_NAMES.iter().find(|(known, _)| *known == name).map(|(_, context)| *context)
    }
}
