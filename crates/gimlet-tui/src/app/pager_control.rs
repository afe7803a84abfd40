//! Opening views that take the whole screen, keeping them current, and what their keys lead to.

use crossterm::event::KeyEvent;
use gimlet_proto::{Event, EventBody, HistoryItem, TaskOutputTail};

use super::pager_view::{PagerContent, PagerOutcome, PagerView, TaskLabel};
use super::{AppEffect, AppOverlay, HistoryUse, TerminalApp};
use crate::pickers::{AppPicker, MessageForm};

/// Progress of keeping an open conversation current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PagerRefresh {
    #[default]
    Current,
    /// Its newer state was asked for.
    Asked,
    /// That was asked for, and more happened since.
    AskedTooEarly,
}

impl TerminalApp {
    /// Shows a conversation: the main one, or that of a subagent.
    pub(super) fn open_conversation(&mut self, agent: Option<TaskLabel>, items: Vec<HistoryItem>) {
        let zone = (self.options.time_zone)();
        self.pager_refresh = PagerRefresh::Current;
        self.overlay = Some(AppOverlay::Pager(PagerView::new(conversation_content(agent, items), zone)));
    }

    /// Shows a newer state of the conversation if it is still open.
    pub(super) fn refresh_conversation(&mut self, agent: Option<TaskLabel>, items: Vec<HistoryItem>) -> Vec<AppEffect> {
        let Some(AppOverlay::Pager(view)) = &mut self.overlay else { return Vec::new() };
        if view.agent() != agent.as_ref() {
            return Vec::new();
        }
        view.replace_content(conversation_content(agent.clone(), items));
        let must_ask_again = self.pager_refresh == PagerRefresh::AskedTooEarly;
        self.pager_refresh = if must_ask_again { PagerRefresh::Asked } else { PagerRefresh::Current };
        if must_ask_again { vec![AppEffect::QueryHistory(HistoryUse::Refresh(agent))] } else { Vec::new() }
    }

    /// Asks for the newer state of the conversation that is open if this event changed it.
    pub(super) fn follow_conversation(&mut self, event: &Event) -> Option<AppEffect> {
        let Some(AppOverlay::Pager(view)) = &self.overlay else { return None };
        let is_new = matches!(
            event.body,
            EventBody::Block(_) | EventBody::Prompt(_) | EventBody::ToolFinished(_) | EventBody::TurnEnded(_)
        );
        if !is_new || view.agent().is_some() != event.agent.parent_tool_use().is_some() {
            return None;
        }
        if self.pager_refresh != PagerRefresh::Current {
            self.pager_refresh = PagerRefresh::AskedTooEarly;
            return None;
        }
        self.pager_refresh = PagerRefresh::Asked;
        Some(AppEffect::QueryHistory(HistoryUse::Refresh(view.agent().cloned())))
    }

    /// Shows what a command printed, or its newer state if it is shown already.
    pub(super) fn show_output(&mut self, task: TaskLabel, tail: TaskOutputTail) {
        let content = PagerContent::Output { task: task.clone(), tail };
        match &mut self.overlay {
            Some(AppOverlay::Pager(view)) if view.command() == Some(&task) => view.replace_content(content),
            // It was left meanwhile.
            _ if self.pager_refresh == PagerRefresh::Asked => {}
            _ => self.overlay = Some(AppOverlay::Pager(PagerView::new(content, (self.options.time_zone)()))),
        }
        self.pager_refresh = PagerRefresh::Current;
    }

    /// Asks for what the command that is shown printed since.
    pub(super) fn follow_output(&mut self) -> Option<AppEffect> {
        let Some(AppOverlay::Pager(view)) = &self.overlay else { return None };
        let task = view.command()?.clone();
        if self.pager_refresh != PagerRefresh::Current {
            return None;
        }
        self.pager_refresh = PagerRefresh::Asked;
        Some(AppEffect::QueryOutput(task))
    }

    pub(super) fn handle_pager_key(&mut self, key: KeyEvent) -> Vec<AppEffect> {
        let Some(AppOverlay::Pager(view)) = &mut self.overlay else { return Vec::new() };
        match view.handle_key(key) {
            PagerOutcome::Stays => Vec::new(),
            PagerOutcome::Leaves => {
                self.overlay = None;
                Vec::new()
            }
            PagerOutcome::Edits(text) => vec![AppEffect::ViewInEditor(text)],
            PagerOutcome::Stops(agent) => {
                self.overlay = None;
                vec![AppEffect::StopTask(agent.id)]
            }
            PagerOutcome::Messages(agent) => {
                self.overlay = Some(AppOverlay::AppPicker(AppPicker::Message(MessageForm::new(agent))));
                Vec::new()
            }
        }
    }
}

fn conversation_content(agent: Option<TaskLabel>, items: Vec<HistoryItem>) -> PagerContent {
    match agent {
        None => PagerContent::Conversation(items),
        Some(agent) => PagerContent::Agent { agent, items },
    }
}
