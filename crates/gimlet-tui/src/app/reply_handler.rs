//! What effects brought back, and what that leads to.

use gimlet_proto::{NoticeLevel, Op};

use super::effects::{AppEffect, AppReply, HistoryUse, ShellOutput};
use super::text_page::{PageContent, TextPage};
use super::{AppOverlay, TerminalApp};
use crate::commands;
use crate::dialogs::SettingsForm;
use crate::feed::FeedBlock;
use crate::pickers::AppPicker;

impl TerminalApp {
    pub(super) fn handle_reply(&mut self, reply: AppReply) -> Vec<AppEffect> {
        match reply {
            AppReply::Failed(problem) => self.feed.push_notice(NoticeLevel::Error, problem),
            AppReply::Done(text) => self.feed.push_notice(NoticeLevel::Info, text),
            AppReply::Context(usage) => {
                self.facts.context_tokens = usage.total_tokens;
                self.facts.context_window = usage.max_tokens;
            }
            AppReply::Withdrawn { prompt, was_waiting } => {
                if let Some(text) = self.queue.take(&prompt)
                    && was_waiting
                {
                    self.composer.recall_text(&text);
                }
            }
            AppReply::ContextPicture(usage) => {
                self.open_page_of("Context", PageContent::Context(Box::new(usage)));
            }
            AppReply::History { items, used_for: HistoryUse::Transcript(agent) } => {
                self.open_conversation(agent, items);
            }
            AppReply::History { items, used_for: HistoryUse::Refresh(agent) } => {
                return self.refresh_conversation(agent, items);
            }
            AppReply::Output { task, tail } => self.show_output(task, tail),
            AppReply::History { items, used_for: HistoryUse::Resumed } => self.feed.push_history(&items),
            AppReply::History { items, used_for: HistoryUse::Rewind } => {
                return self.open_picker(crate::pickers::rewind_picker(&items));
            }
            AppReply::History { items, used_for: HistoryUse::Copy(back) } => {
                return commands::copy_answer(self, &items, back);
            }
            AppReply::Sessions(Ok(sessions)) => {
                let now = (self.options.now_ms_since_1970)();
                return self.open_picker(crate::pickers::session_picker(sessions, now));
            }
            AppReply::Sessions(Err(problem)) => self.feed.push_notice(NoticeLevel::Error, problem),
            AppReply::Settings(Ok(settings)) => {
                let picker = AppPicker::Settings(SettingsForm::new(&settings, self.composer.bindings()));
                return self.open_picker(Ok(picker));
            }
            AppReply::Settings(Err(problem)) => self.feed.push_notice(NoticeLevel::Error, problem),
            AppReply::Aside { question, answer } => self.take_aside_answer(&question, answer),
            AppReply::Permissions(view) => return self.open_picker(Ok(commands::permission_picker(&view))),
            AppReply::Directory(path) => {
                self.remark(format!("Commands now start in {}", path.display()));
                self.facts.cwd = path;
                return vec![self.title_effect()];
            }
            AppReply::Servers { servers, used_for } => return commands::show_servers(self, &servers, &used_for),
            AppReply::MemoryFiles(files) => return self.open_picker(commands::memory_picker(self.facts(), files)),
            AppReply::KeyBindings { bindings, problems } => {
                self.options.bindings = bindings.clone();
                self.composer.set_bindings(bindings);
                if problems.is_empty() {
                    self.remark("Keys are as the file says from now on");
                }
                for problem in problems {
                    self.feed.push_notice(NoticeLevel::Warning, problem);
                }
            }
            AppReply::RuleEffect { change, effect } => {
                return self.open_picker(Ok(commands::rule_picker(&change, effect)));
            }
            AppReply::RewindPreview { prompt, outcome } => {
                if let Some(AppOverlay::AppPicker(picker)) = &mut self.overlay {
                    picker.set_rewind_preview(&prompt, outcome);
                }
            }
            AppReply::Edited(Ok(text)) => match self.asks.open() {
                Some(dialog) => dialog.replace_text(&text),
                None => self.composer.replace_text(&text),
            },
            AppReply::Edited(Err(problem)) => self.feed.push_notice(NoticeLevel::Warning, problem),
            AppReply::Shell(finished) => return self.take_shell_output(finished),
            AppReply::Page { title, lines } => self.overlay = Some(AppOverlay::Page(TextPage::new(&title, lines))),
            AppReply::FullHistory(entries) => self.composer.set_full_history(entries),
            AppReply::Images(images) => images.into_iter().for_each(|image| self.composer.attach_image(image)),
            AppReply::FolderHistory(entries) => self.composer.set_history(entries),
            AppReply::Inserted(text) => self.composer.insert_text(&text),
            AppReply::Copied(text) => {
                self.remark("Copied the conversation to the clipboard");
                return vec![AppEffect::Copy(text)];
            }
            AppReply::Pasted(text) => return self.handle_paste(&text),
            AppReply::Files { generation, paths } => self.composer.set_file_suggestions(generation, paths),
        }
        Vec::new()
    }

    pub(super) fn open_picker(&mut self, picker: Result<AppPicker, String>) -> Vec<AppEffect> {
        match picker {
            Ok(picker) => {
                let effects = picker.preview_effects();
                self.overlay = Some(AppOverlay::AppPicker(picker));
                effects
            }
            Err(remark) => {
                self.feed.push_notice(NoticeLevel::Info, remark);
                Vec::new()
            }
        }
    }

    /// Shows the answer in the page that waits for it; if a question took its place, in the conversation's lines.
    fn take_aside_answer(&mut self, question: &str, answer: Result<String, String>) {
        if self.pending_aside.as_deref() != Some(question) {
            return;
        }
        self.pending_aside = None;
        let answer = answer.unwrap_or_else(|problem| format!("No answer: {problem}"));
        if matches!(self.overlay, Some(AppOverlay::Page(_))) {
            self.overlay = Some(AppOverlay::Page(TextPage::with_content(question, PageContent::Markdown(answer))));
        } else {
            self.feed.push_notice(NoticeLevel::Info, format!("By the way: {question}"));
            self.feed.push_block(FeedBlock::Text(answer));
        }
    }

    fn take_shell_output(&mut self, finished: ShellOutput) -> Vec<AppEffect> {
        self.feed.push_block(finished.block());
        let prompt = finished.prompt();
        vec![AppEffect::Send(Op::Submit(prompt))]
    }
}
