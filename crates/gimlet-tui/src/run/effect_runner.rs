//! Carrying out effects: operations, queries, and what other programs do.

use std::io;
use std::path::PathBuf;

use gimlet_proto::{
    BoxFuture, DirectoryRequester, HistoryItem, NoticeLevel, Op, OpReply, PromptHistoryEntry, SessionQuery,
    SessionScope, TaskState,
};

use super::{FinishedWork, FrontEnd};
use crate::app::{AppEffect, AppReply, HistoryUse, TerminalSignal};
use crate::services::ClipboardContent;
use crate::theme::ScreenBackground;

/// Text of a new file of keys.
const KEYS_TEMPLATE: &str = r#"{
  "bindings": [
    { "context": "Chat", "bindings": { "alt+s": "chat:stash" } }
  ]
}
"#;
/// Files that completion shows.
const MAX_FILES: usize = 50;

impl FrontEnd {
    /// Carries effects out in order; those that take the terminal are waited for.
    pub(super) async fn perform(&mut self, effects: Vec<AppEffect>) -> io::Result<()> {
        for effect in effects {
            match effect {
                AppEffect::EditExternally(text) => {
                    let edited = self.edit(text).await?;
                    self.work.spawn(async move { FinishedWork::Reply(AppReply::Edited(edited)) });
                }
                AppEffect::ViewInEditor(text) => drop(self.edit(text).await?),
                AppEffect::EditFile { path, template } => self.edit_file(path, template).await?,
                AppEffect::EditKeyBindings => self.edit_key_bindings().await?,
                AppEffect::Suspend => self.suspend().await?,
                AppEffect::ClearScreen => self.output.clear()?,
                AppEffect::Signal(signal) => self.output.signal(&signal)?,
                AppEffect::Copy(text) => self.output.signal(&TerminalSignal::Clipboard(text))?,
                other => self.start(other),
            }
        }
        Ok(())
    }

    /// Carries out effects that need no waiting.
    pub(super) fn carry_out(&mut self, effects: Vec<AppEffect>) {
        effects.into_iter().for_each(|effect| self.start(effect));
    }

    fn start(&mut self, effect: AppEffect) {
        match effect {
            AppEffect::Send(op) => self.send(op),
            AppEffect::SetMode(mode) => self.request(|reply| Op::SetMode { mode, reply }, |()| None),
            AppEffect::SetModel(model) => {
                let text = model.as_ref().map(|model| format!("Model: {model}, from the next request on"));
                self.request(|reply| Op::SetModel { model, reply }, |()| text.map(AppReply::Done));
            }
            AppEffect::SetEffort(effort) => {
                let text = format!("Effort: {}", effort.as_deref().unwrap_or("the model's default"));
                self.request(|reply| Op::SetEffort { effort, reply }, |()| Some(AppReply::Done(text)));
            }
            AppEffect::SetThinking(thinking) => {
                self.request(|reply| Op::SetThinking { thinking, reply }, |()| None);
            }
            AppEffect::SetTheme(background) => self.set_theme(background),
            AppEffect::MoveToBackground => self.request(
                |reply| Op::MoveToBackground { call: None, reply },
                |moved| {
                    let text = "Nothing runs that could go on in the background";
                    (!moved).then(|| AppReply::Done(text.to_owned()))
                },
            ),
            AppEffect::StopAgents => self.stop_agents(),
            AppEffect::StopTask(task) => {
                let text = format!("Stopped {task}");
                self.request(|reply| Op::StopTask { task, reply }, |()| Some(AppReply::Done(text)));
            }
            AppEffect::MessageAgent { agent, text } => {
                let done = format!("Sent to {}", agent.title);
                self.request(
                    |reply| Op::MessageAgent { agent: agent.id, text, reply },
                    |()| Some(AppReply::Done(done)),
                );
            }
            AppEffect::Withdraw(prompt) => {
                let id = prompt.clone();
                self.request(
                    |reply| Op::WithdrawPrompt { prompt, reply },
                    |was_waiting| Some(AppReply::Withdrawn { prompt: id, was_waiting }),
                );
            }
            AppEffect::QueryContext => {
                self.request(|reply| Op::ContextUsage { reply }, |usage| Some(AppReply::Context(usage)));
            }
            AppEffect::ShowContext => {
                self.request(|reply| Op::ContextUsage { reply }, |usage| Some(AppReply::ContextPicture(usage)));
            }
            AppEffect::QueryHistory(used_for) => self.query_history(used_for),
            AppEffect::QueryOutput(task) => {
                let id = task.id.clone();
                self.request(
                    |reply| Op::Query(SessionQuery::TaskOutput { task: id, reply }),
                    |tail| Some(AppReply::Output { task, tail }),
                );
            }
            AppEffect::QueryPermissions => self.request(
                |reply| Op::Query(SessionQuery::Permissions { reply }),
                |view| Some(AppReply::Permissions(view)),
            ),
            AppEffect::AddDirectory(directory) => self.request(
                |reply| {
                    let requester = DirectoryRequester::User;
                    Op::Query(SessionQuery::AddDirectory { directory, requester, reply })
                },
                |path| Some(AppReply::Done(format!("Added {} for this session", path.display()))),
            ),
            AppEffect::ChangeDirectory(directory) => self.request(
                |reply| Op::Query(SessionQuery::ChangeDirectory { directory, reply }),
                |path| Some(AppReply::Directory(path)),
            ),
            AppEffect::AskAside(question) => self.ask_aside(question),
            AppEffect::CancelAside => self.cancel_aside(),
            AppEffect::Branch(title) => self.branch(title),
            AppEffect::QueryServers(used_for) => self.query_servers(used_for),
            AppEffect::ChangeServer { server, change } => self.change_server(server, change),
            AppEffect::ListMemory => {
                let listing = self.services.memory_files();
                self.reply_with(listing, AppReply::MemoryFiles);
            }
            AppEffect::PreviewRule(change) => {
                let effect = self.services.rule_effect(change.clone());
                self.work.spawn(async move {
                    let effect = effect.await;
                    FinishedWork::Reply(AppReply::RuleEffect { change, effect })
                });
            }
            AppEffect::ChangeRule(change) => {
                let changing = self.services.change_rule(change);
                self.reply_with(changing, AppReply::Done);
            }
            AppEffect::LogIn(key) => self.log_in(key),
            AppEffect::LogOut => {
                let leaving = self.services.log_out();
                self.reply_with(leaving, AppReply::Done);
            }
            AppEffect::ListSessions(scope) => {
                let listing = self.host.list_sessions(scope);
                self.work.spawn(async move { FinishedWork::Reply(AppReply::Sessions(listing.await)) });
            }
            AppEffect::PreviewRewind(prompt) => self.preview_rewind(prompt),
            AppEffect::Rewind(request) => self.rewind(request),
            AppEffect::ReplaceSession(replacement) => self.replace_session(replacement),
            AppEffect::Export(path) => self.export(path),
            AppEffect::RunShell(command) => {
                let running = self.services.run_shell(command, self.app.facts_mut().cwd.clone());
                self.work.spawn(async move {
                    FinishedWork::Reply(match running.await {
                        Ok(finished) => AppReply::Shell(finished),
                        Err(problem) => AppReply::Failed(problem),
                    })
                });
            }
            AppEffect::ReadClipboard => {
                let reading = self.services.read_clipboard();
                self.work.spawn(async move {
                    FinishedWork::Reply(match reading.await {
                        ClipboardContent::Image(image) => AppReply::Images(vec![image]),
                        ClipboardContent::Text(text) => AppReply::Pasted(text),
                        ClipboardContent::Nothing => AppReply::Done("There is no image in the clipboard".to_owned()),
                    })
                });
            }
            AppEffect::ReadImages { paths, pasted } => {
                let reading = self.services.read_images(paths);
                self.work.spawn(async move {
                    let images = reading.await;
                    FinishedWork::Reply(if images.is_empty() {
                        AppReply::Inserted(pasted)
                    } else {
                        AppReply::Images(images)
                    })
                });
            }
            AppEffect::SaveHistory(entry) => self.save_prompt(entry),
            AppEffect::ReadFullHistory => {
                let reading = self.host.prompt_history(SessionScope::Everywhere);
                self.work.spawn(async move {
                    FinishedWork::Reply(match reading.await {
                        Ok(entries) => AppReply::FullHistory(entries),
                        Err(problem) => AppReply::Failed(problem),
                    })
                });
            }
            AppEffect::QuerySettings => {
                let settings = self.host.settings();
                self.work.spawn(async move { FinishedWork::Reply(AppReply::Settings(settings)) });
            }
            AppEffect::SuggestFiles { query, generation } => self.suggest_files(query, generation),
            AppEffect::OpenUrl(url) => {
                let opening = self.services.open_url(url.clone());
                self.work.spawn(async move {
                    match opening.await {
                        Ok(()) => FinishedWork::Nothing,
                        Err(_) => FinishedWork::Reply(AppReply::Done(format!("Open this address: {url}"))),
                    }
                });
            }
            AppEffect::SaveUserSetting { key, value } => {
                if let Err(problem) = self.services.save_setting(key, &value) {
                    self.app.notice(NoticeLevel::Warning, format!("{key} is not saved for later sessions: {problem}"));
                }
            }
            AppEffect::Redraw => self.output.redraw(),
            AppEffect::Exit => self.exit(),
            AppEffect::Nothing
            | AppEffect::EditExternally(_)
            | AppEffect::ViewInEditor(_)
            | AppEffect::EditFile { .. }
            | AppEffect::EditKeyBindings
            // The application has opened it.
            | AppEffect::Open(_)
            | AppEffect::Suspend
            | AppEffect::ClearScreen
            | AppEffect::Signal(_)
            | AppEffect::Copy(_) => {}
        }
    }

    /// Waits for work beside the loop and turns its outcome into a reply.
    pub(super) fn reply_with<T: 'static>(
        &mut self,
        work: BoxFuture<'static, Result<T, String>>,
        into_reply: fn(T) -> AppReply,
    ) {
        self.work.spawn(async move {
            FinishedWork::Reply(match work.await {
                Ok(value) => into_reply(value),
                Err(problem) => AppReply::Failed(problem),
            })
        });
    }

    /// Sends an operation and turns its outcome into a reply.
    pub(super) fn request<T: Send + 'static>(
        &mut self,
        op: impl FnOnce(OpReply<T>) -> Op,
        into_reply: impl FnOnce(T) -> Option<AppReply> + Send + 'static,
    ) {
        let (reply, outcome) = OpReply::channel();
        self.send(op(reply));
        self.work.spawn(async move {
            match outcome.await {
                Ok(Ok(value)) => into_reply(value).map_or(FinishedWork::Nothing, FinishedWork::Reply),
                Ok(Err(problem)) => FinishedWork::Reply(AppReply::Failed(problem)),
                // The session is over.
                Err(_) => FinishedWork::Nothing,
            }
        });
    }

    pub(super) fn read_prompts(&mut self) {
        let reading = self.host.prompt_history(SessionScope::Folder);
        self.work.spawn(async move {
            FinishedWork::Reply(match reading.await {
                Ok(entries) => AppReply::FolderHistory(entries),
                Err(problem) => AppReply::Failed(problem),
            })
        });
    }

    fn save_prompt(&mut self, entry: PromptHistoryEntry) {
        let Some(session) = &self.session else { return };
        let saving = self.host.append_prompt_history(&session.handle.id, entry);
        self.work.spawn(async move {
            match saving.await {
                Ok(()) => FinishedWork::Nothing,
                Err(problem) => FinishedWork::Reply(AppReply::Failed(problem)),
            }
        });
    }

    fn set_theme(&mut self, background: ScreenBackground) {
        self.output.set_background(background);
    }

    fn stop_agents(&mut self) {
        let running = self.app.facts_mut().tasks.iter().filter(|task| task.state == TaskState::Running);
        let ids: Vec<String> = running.filter(|task| task.kind == "local_agent").map(|task| task.id.clone()).collect();
        ids.into_iter().for_each(|id| self.start(AppEffect::StopTask(id)));
    }

    fn query_history(&mut self, used_for: HistoryUse) {
        let agent = match &used_for {
            HistoryUse::Transcript(agent) | HistoryUse::Refresh(agent) => agent.as_ref().map(|agent| agent.id.clone()),
            HistoryUse::Resumed | HistoryUse::Rewind | HistoryUse::Copy(_) => None,
        };
        self.request(
            |reply| Op::Query(SessionQuery::History { agent, reply }),
            move |items| Some(AppReply::History { items, used_for }),
        );
    }

    fn suggest_files(&mut self, query: String, generation: u64) {
        let folder = self.app.facts_mut().cwd.clone();
        let finding = self.host.suggest_files(folder.clone(), query);
        let session = self.session.as_ref().map(|session| session.handle.clone());
        self.work.spawn(async move {
            let mut paths = finding.await;
            // Many more are found than are shown, because rules may hide some.
            paths.truncate(MAX_FILES * 4);
            if let Some(session) = session {
                let (reply, readable) = OpReply::channel();
                session.send(Op::Query(SessionQuery::ReadableFiles { paths: paths.clone(), reply }));
                if let Ok(Ok(allowed)) = readable.await {
                    paths = allowed;
                }
            }
            let relative = |path: PathBuf| path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
            let paths = paths.into_iter().take(MAX_FILES).map(relative).collect();
            FinishedWork::Reply(AppReply::Files { generation, paths })
        });
    }

    // The conversation as text

    fn export(&mut self, path: Option<PathBuf>) {
        let (reply, items) = OpReply::channel();
        self.send(Op::Query(SessionQuery::History { agent: None, reply }));
        let services = self.services.clone();
        self.work.spawn(async move {
            let Ok(Ok(items)) = items.await else { return FinishedWork::Nothing };
            let text = conversation_text(&items);
            FinishedWork::Reply(match path {
                None => AppReply::Copied(text),
                Some(path) => match services.write_file(path.clone(), text).await {
                    Ok(()) => AppReply::Done(format!("Wrote {}", path.display())),
                    Err(problem) => AppReply::Failed(problem),
                },
            })
        });
    }

    // Other programs with the terminal

    async fn edit(&mut self, text: String) -> io::Result<Result<String, String>> {
        let paused = self.reader.pause();
        self.output.give_away()?;
        let edited = self.services.edit_text(text).await;
        self.output.take_back()?;
        drop(paused);
        Ok(edited)
    }

    async fn edit_file(&mut self, path: PathBuf, template: String) -> io::Result<()> {
        let shown = path.display().to_string();
        let text = match self.open_file(path, template).await? {
            Ok(()) => AppReply::Done(format!("Closed {shown}")),
            Err(problem) => AppReply::Failed(problem),
        };
        self.work.spawn(async move { FinishedWork::Reply(text) });
        Ok(())
    }

    async fn edit_key_bindings(&mut self) -> io::Result<()> {
        let path = self.services.key_bindings_file();
        let opened = self.open_file(path, KEYS_TEMPLATE.to_owned()).await?;
        let (bindings, problems) = self.services.read_key_bindings();
        let reply = match opened {
            Ok(()) => AppReply::KeyBindings { bindings, problems },
            Err(problem) => AppReply::Failed(problem),
        };
        self.work.spawn(async move { FinishedWork::Reply(reply) });
        Ok(())
    }

    async fn open_file(&mut self, path: PathBuf, template: String) -> io::Result<Result<(), String>> {
        let paused = self.reader.pause();
        self.output.give_away()?;
        let edited = self.services.edit_file(path, template).await;
        self.output.take_back()?;
        drop(paused);
        Ok(edited)
    }

    async fn suspend(&mut self) -> io::Result<()> {
        let paused = self.reader.pause();
        self.output.give_away()?;
        // The whole group stops, as the shell expects; this returns when it goes on.
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        tokio::task::yield_now().await;
        self.output.take_back()?;
        drop(paused);
        Ok(())
    }
}

/// Returns a conversation as plain text.
fn conversation_text(items: &[HistoryItem]) -> String {
    use crate::feed::{ViewDetail, render_history};
    use crate::glyphs::{GlyphSet, RenderContext};
    use crate::theme::{ColorDepth, ColorTheme};
    let theme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };
    let cx = RenderContext { theme: &theme, glyphs: &GlyphSet::UNICODE, width: 100 };
    let lines = render_history(items, ViewDetail::Whole, &cx);
    lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
}
