//! Going back to before a prompt, and going on in a copy: the files first, then the conversation.

use std::io;

use gimlet_proto::{
    AsideRequest, EntryId, NoticeLevel, Op, OpReply, RewindMode, RewindOutcome, SessionQuery, SessionReplacement,
    SubmittedPrompt,
};
use gimlet_text::enclose_in_tag;
use tokio::sync::oneshot;

use super::{FinishedWork, FrontEnd};
use crate::app::{AppReply, RewindRequest, RewindTarget};
use crate::feed::FeedBlock;

/// What follows once files were restored, or a summary was written.
pub(super) struct RewindSequel {
    /// The conversation that goes on in place of the present one.
    replacement: Option<SessionReplacement>,
    first_line: String,
}

impl FrontEnd {
    pub(super) fn preview_rewind(&mut self, prompt: EntryId) {
        let id = prompt.clone();
        let (reply, outcome) = OpReply::channel();
        self.send(Op::Rewind { prompt, mode: RewindMode::Preview, reply });
        self.work.spawn(async move {
            match outcome.await {
                Ok(outcome) => FinishedWork::Reply(AppReply::RewindPreview { prompt: id, outcome }),
                Err(_) => FinishedWork::Nothing,
            }
        });
    }

    pub(super) fn rewind(&mut self, request: RewindRequest) {
        let RewindRequest { prompt, before, first_line, target, overwrites_changes } = request;
        let mode = self.app.facts_mut().mode;
        let replacement = match (&self.session, before) {
            (Some(session), Some(last)) => SessionReplacement::Rewound { session: session.handle.id.clone(), last },
            _ => SessionReplacement::Cleared { mode },
        };
        let sequel = RewindSequel { replacement: Some(replacement), first_line };
        match target {
            RewindTarget::Conversation => self.rewind_conversation(sequel),
            RewindTarget::CodeAndConversation => self.restore_files(prompt, overwrites_changes, sequel),
            RewindTarget::Code => {
                let sequel = RewindSequel { replacement: None, ..sequel };
                self.restore_files(prompt, overwrites_changes, sequel);
            }
            RewindTarget::Summary => self.summarize_from(prompt, sequel),
        }
    }

    fn restore_files(&mut self, prompt: EntryId, overwrites_changes: bool, sequel: RewindSequel) {
        let mode = if overwrites_changes { RewindMode::RestoreAll } else { RewindMode::KeepManualChanges };
        let (reply, outcome) = OpReply::channel();
        self.send(Op::Rewind { prompt, mode, reply });
        self.work.spawn(async move { FinishedWork::FilesRestored(describe_rewind(outcome).await, sequel) });
    }

    pub(super) fn go_on_rewinding(&mut self, outcome: Result<String, String>, sequel: RewindSequel) {
        match outcome {
            Ok(text) => self.app.notice(NoticeLevel::Info, text),
            // A session without checkpoints has changed nothing that could be restored.
            Err(problem) => self.app.notice(NoticeLevel::Warning, format!("No file was restored: {problem}")),
        }
        if sequel.replacement.is_some() {
            self.rewind_conversation(sequel);
        }
    }

    fn rewind_conversation(&mut self, sequel: RewindSequel) {
        let Some(replacement) = sequel.replacement else { return };
        self.app.notice(NoticeLevel::Info, format!("Back to before: {}", sequel.first_line));
        self.replace_session(replacement);
    }

    // A summary in place of the end

    fn summarize_from(&mut self, prompt: EntryId, sequel: RewindSequel) {
        self.app.notice(NoticeLevel::Info, "Writing a summary of what came since…");
        let request = AsideRequest::SummaryFrom { prompt, focus: None };
        let (reply, answer) = OpReply::channel();
        self.send(Op::Query(SessionQuery::Aside { request, reply }));
        self.work.spawn(async move {
            match answer.await {
                Ok(answer) => FinishedWork::Summarized(answer, sequel),
                // The session is over.
                Err(_) => FinishedWork::Nothing,
            }
        });
    }

    pub(super) fn go_on_with_summary(&mut self, answer: Result<String, String>, sequel: RewindSequel) {
        let summary = match answer {
            Ok(summary) => summary,
            Err(problem) => {
                let text = format!("There is no summary, so nothing was taken back: {problem}");
                return self.app.notice(NoticeLevel::Error, text);
            }
        };
        self.rewind_conversation(sequel);
        self.app.show_block(FeedBlock::Text(summary.clone()));
        let text = format!(
            "The user went back to this point of the conversation. What was said and done since then is left out; \
             the files are as it left them. This is a summary of it:\n{}",
            enclose_in_tag("summary", &summary)
        );
        let note = SubmittedPrompt { synthetic: true, silent: true, ..SubmittedPrompt::from_text(&text) };
        // For the session that follows.
        self.send(Op::Submit(note));
    }

    // A copy

    pub(super) fn branch(&mut self, title: Option<String>) {
        let mode = self.app.facts_mut().mode;
        match &self.session {
            Some(session) => {
                let session = session.handle.id.clone();
                self.replace_session(SessionReplacement::Branched { session, title, mode });
            }
            None => self.app.notice(NoticeLevel::Warning, "There is no conversation to copy yet"),
        }
    }

    /// Says where the original is, and takes over what holds for this session alone.
    pub(super) fn adopt_from_original(&mut self) -> io::Result<()> {
        let Some(original) = self.session.as_ref().map(|session| session.handle.clone()) else { return Ok(()) };
        let text = format!("This is a copy now. The original: gimlet --resume {}", original.id);
        self.app.notice(NoticeLevel::Info, text);
        let (reply, overrides) = OpReply::channel();
        original.send(Op::Query(SessionQuery::Overrides { reply }));
        self.work.spawn(async move {
            match overrides.await {
                Ok(Ok(overrides)) => FinishedWork::Overrides(overrides),
                Ok(Err(_)) | Err(_) => FinishedWork::Nothing,
            }
        });
        Ok(())
    }
}

async fn describe_rewind(outcome: oneshot::Receiver<Result<RewindOutcome, String>>) -> Result<String, String> {
    let outcome = outcome.await.map_err(|_| "the session ended".to_owned())??;
    let mut text = match outcome.files.len() {
        0 => "No file had to be restored".to_owned(),
        1 => "Restored 1 file".to_owned(),
        count => format!("Restored {count} files"),
    };
    if !outcome.kept.is_empty() {
        let names: Vec<String> = outcome.kept.iter().map(|path| path.display().to_string()).collect();
        text.push_str(&format!(". Left as they are, because they were changed since: {}", names.join(", ")));
    }
    Ok(text)
}
