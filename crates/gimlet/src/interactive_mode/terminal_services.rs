//! Services for the terminal UI that concern this machine: the editor, the user's own commands, files, the clipboard.

use std::ffi::OsString;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use gimlet_app::start::MemoryCatalogue;
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_config::{EffectiveSettings, MemoryScope};
use gimlet_exec::{
    CaptureLimits, CapturedCommand, CommandEnd, DirectoryReporter, Exec, ForegroundCommand, SpawnRequest, StdinMode,
    StreamMode, render_for_model,
};
use gimlet_proto::{Block, BoxFuture, Env, Secret};
use gimlet_tui::app::ShellOutput;
use gimlet_tui::key_bindings::KeyBindings;
use gimlet_tui::services::{ClipboardContent, EditableFile, RuleChange, RulePlace, TerminalServices};

use super::terminal_settings;
use crate::args::WritableScope;
use crate::config_cmd::{ConfigAnswer, SettingEdit};
use crate::{first_run, permissions_cmd};

/// Output of a command that is kept.
const MAX_OUTPUT: usize = 30_000;
/// Time for a program that reads the clipboard.
const CLIPBOARD_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of an image.
const MAX_IMAGE: usize = 20 << 20;

/// The services, and what they need of the process.
pub(super) struct ProgramServices {
    request: LaunchRequest,
    around: ProcessEnv,
    /// The environment with what settings add to it.
    settings_env: Env,
    must_reply: bool,
    /// Made when the first command runs.
    exec: OnceLock<Exec>,
}

/// Returns the time in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl ProgramServices {
    pub(super) fn new(request: &LaunchRequest, around: &ProcessEnv, effective: &EffectiveSettings) -> Self {
        Self {
            request: request.clone(),
            around: around.clone(),
            settings_env: first_run::settings_env(around, effective),
            must_reply: effective.settings.respond_to_bash_commands.unwrap_or(true),
            exec: OnceLock::new(),
        }
    }

    fn exec(&self) -> Exec {
        self.exec.get_or_init(gimlet_app::new_exec).clone()
    }
}

impl TerminalServices for ProgramServices {
    fn edit_text(&self, text: String) -> BoxFuture<'static, Result<String, String>> {
        let around = self.around.clone();
        blocking(move || edit_text(&around, &text))
    }

    fn run_shell(&self, command: String, folder: PathBuf) -> BoxFuture<'static, Result<ShellOutput, String>> {
        let (exec, env, must_reply) = (self.exec(), self.around.env.clone(), self.must_reply);
        Box::pin(async move {
            let shell = env.exact("SHELL").filter(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh");
            let spawn = SpawnRequest {
                program: shell.into(),
                args: vec!["-c".into(), command.clone().into()],
                cwd: folder,
                env: env.vars().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                stdin: StdinMode::Null,
                streams: StreamMode::Merged,
                report: DirectoryReporter::Disabled,
                confinement: None,
            };
            let started = Instant::now();
            let running = exec.spawn(spawn).await.map_err(|error| error.to_string())?;
            let spill = std::env::temp_dir().join(format!("gimlet-shell-{}", gimlet_store::new_session_id()));
            exec.remove_at_end(spill.clone());
            let mut command_run = ForegroundCommand::new(running, CaptureLimits::for_foreground(MAX_OUTPUT, spill));
            let finished = command_run.finish().await;
            let exit_code = match finished.end {
                CommandEnd::Exited(exit) => exit.code,
                CommandEnd::Killed(_) | CommandEnd::OutputLimit { .. } | CommandEnd::KeeperDied(_) => None,
            };
            let mut output = render_for_model(&finished.output.head);
            if !finished.output.is_complete() {
                output.push_str(&format!("\n[{} bytes in all; the end:]\n", finished.output.total_bytes));
                output.push_str(&render_for_model(&finished.output.tail));
            }
            let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            Ok(ShellOutput { command, output, exit_code, elapsed_ms, must_reply })
        })
    }

    fn read_clipboard(&self) -> BoxFuture<'static, ClipboardContent> {
        let (exec, around) = (self.exec(), self.around.clone());
        Box::pin(async move {
            let mut programs: Vec<(&str, &[&str])> = Vec::new();
            if around.env.exact("WAYLAND_DISPLAY").is_some() {
                programs.push(("wl-paste", &["--no-newline", "--type", "image/png"]));
            }
            if around.env.exact("DISPLAY").is_some() {
                programs.push(("xclip", &["-selection", "clipboard", "-t", "image/png", "-o"]));
            }
            for (program, args) in programs {
                let bytes = read_program(&exec, &around, program, args).await;
                if let Some(image) = image_block(&bytes) {
                    return ClipboardContent::Image(image);
                }
            }
            ClipboardContent::Nothing
        })
    }

    fn read_images(&self, paths: Vec<PathBuf>) -> BoxFuture<'static, Vec<Block>> {
        let cwd = self.around.cwd.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let read = |path: &PathBuf| gimlet_fs_read(&cwd.join(path)).and_then(|bytes| image_block(&bytes));
            paths.iter().filter_map(read).collect()
        });
        Box::pin(async move { reading.await.unwrap_or_default() })
    }

    fn open_url(&self, url: String) -> BoxFuture<'static, Result<(), String>> {
        let (exec, around) = (self.exec(), self.around.clone());
        Box::pin(async move {
            // Only addresses of the web: the text comes from a server.
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            let has_display = around.env.exact("DISPLAY").is_some() || around.env.exact("WAYLAND_DISPLAY").is_some();
            if !is_web || !has_display {
                return Err("there is no browser".to_owned());
            }
            let command = CapturedCommand {
                program: "xdg-open".into(),
                args: vec![url.into()],
                cwd: &around.cwd,
                env: &around.env,
                variables: Vec::new(),
                stdin: b"",
                max_bytes: 0,
            };
            command.run(&exec).await.map(drop).map_err(|error| error.to_string())
        })
    }

    fn write_file(&self, path: PathBuf, text: String) -> BoxFuture<'static, Result<(), String>> {
        blocking(move || {
            let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
            written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
        })
    }

    fn save_setting(&self, key: &str, value: &str) -> Result<(), String> {
        let done = SettingEdit::new(&self.around, WritableScope::User, key).set(value);
        done.map(drop).map_err(|report| report.text())
    }

    fn edit_file(&self, path: PathBuf, template: String) -> BoxFuture<'static, Result<(), String>> {
        let around = self.around.clone();
        blocking(move || edit_file(&around, &path, &template))
    }

    fn memory_files(&self) -> BoxFuture<'static, Result<Vec<EditableFile>, String>> {
        let (request, around) = (self.request.clone(), self.around.clone());
        blocking(move || list_memory(&request, &around))
    }

    fn key_bindings_file(&self) -> PathBuf {
        terminal_settings::key_bindings_file(&self.around)
    }

    fn read_key_bindings(&self) -> (KeyBindings, Vec<String>) {
        terminal_settings::read_bindings(&self.around)
    }

    fn rule_effect(&self, change: RuleChange) -> BoxFuture<'static, Result<String, String>> {
        let around = self.around.clone();
        blocking(move || {
            let RuleChange { behavior, rule, removes, .. } = &change;
            let text = permissions_cmd::describe_rule_effect(&around, behavior.as_str(), rule, *removes);
            text.map_err(|report| report.text())
        })
    }

    fn change_rule(&self, change: RuleChange) -> BoxFuture<'static, Result<String, String>> {
        let around = self.around.clone();
        blocking(move || change_rule(&around, &change))
    }

    fn log_in(&self, key: Secret) -> BoxFuture<'static, Result<String, String>> {
        let (around, env) = (self.around.clone(), self.settings_env.clone());
        Box::pin(async move { gimlet_app::log_in(&around, &env, key).await })
    }

    fn log_out(&self) -> BoxFuture<'static, Result<String, String>> {
        let (around, env) = (self.around.clone(), self.settings_env.clone());
        blocking(move || gimlet_app::log_out(&around, &env))
    }
}

/// Returns the file of settings that rules of this place are in.
fn rule_scope(place: RulePlace) -> WritableScope {
    match place {
        RulePlace::Local => WritableScope::Local,
        RulePlace::Project => WritableScope::Project,
        RulePlace::User => WritableScope::User,
    }
}

fn change_rule(around: &ProcessEnv, change: &RuleChange) -> Result<String, String> {
    let key = format!("permissions.{}", change.behavior.as_str());
    let edit = SettingEdit::new(around, rule_scope(change.place), &key);
    let done = if change.removes { edit.remove(&change.rule) } else { edit.add(&change.rule) };
    done.map(ConfigAnswer::into_text).map_err(|report| report.text())
}

/// Returns the memory files that sessions with these flags begin with, and those that could exist.
fn list_memory(request: &LaunchRequest, around: &ProcessEnv) -> Result<Vec<EditableFile>, String> {
    let catalogue = MemoryCatalogue::read(request, around).map_err(|error| error.text())?;
    let loaded = catalogue.memory.files.iter().map(|file| (file.scope, file.path.clone()));
    let mut files: Vec<EditableFile> = Vec::new();
    for (scope, path) in loaded.chain(catalogue.possible) {
        // The administrator's files are not the user's to change.
        if scope == MemoryScope::Managed || files.iter().any(|file| file.path == path) {
            continue;
        }
        files.push(EditableFile { exists: path.exists(), path, label: scope.as_str().to_owned() });
    }
    if let Some(auto) = catalogue.auto {
        let path = auto.folder.join("MEMORY.md");
        files.push(EditableFile { exists: path.exists(), path, label: "notes that the model keeps".to_owned() });
    }
    Ok(files)
}

/// Opens a file in the user's editor, with the text if it is new.
fn edit_file(around: &ProcessEnv, path: &Path, template: &str) -> Result<(), String> {
    let is_new = !path.exists();
    if is_new {
        let folder = path.parent().unwrap_or(path);
        let made = std::fs::create_dir_all(folder).and_then(|()| {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
            std::io::Write::write_all(&mut file, template.as_bytes())
        });
        made.map_err(|error| format!("{} cannot be created: {error}", path.display()))?;
    }
    let outcome = run_editor(around, path);
    // A new file that nothing was written to is not wanted.
    if is_new && std::fs::read(path).is_ok_and(|bytes| bytes.is_empty()) {
        drop(std::fs::remove_file(path));
    }
    outcome
}

/// Runs `$VISUAL` or `$EDITOR` with a file, and the terminal.
fn run_editor(around: &ProcessEnv, file: &Path) -> Result<(), String> {
    let editor = around.env.exact("VISUAL").or_else(|| around.env.exact("EDITOR")).unwrap_or("vi");
    let mut words = editor.split_whitespace().map(OsString::from);
    let program = words.next().unwrap_or_else(|| OsString::from("vi"));
    let args: Vec<OsString> = words.chain([file.as_os_str().to_owned()]).collect();
    match gimlet_exec::run_terminal_program(&program, &args, &around.cwd, &around.env) {
        Err(error) => Err(format!("the editor {editor} cannot be started: {error}. Set VISUAL or EDITOR")),
        Ok(status) if !status.success() => Err(format!("the editor {editor} ended with {status}; nothing is changed")),
        Ok(_) => Ok(()),
    }
}

fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> BoxFuture<'static, Result<T, String>> {
    let work = tokio::task::spawn_blocking(work);
    Box::pin(async move { work.await.unwrap_or_else(|error| Err(error.to_string())) })
}

/// Reads a file of at most the size of an image; `None` if it cannot be read.
fn gimlet_fs_read(path: &Path) -> Option<Vec<u8>> {
    let length = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if length > MAX_IMAGE as u64 {
        return None;
    }
    std::fs::read(path).ok()
}

fn image_block(bytes: &[u8]) -> Option<Block> {
    use base64::Engine as _;
    if bytes.is_empty() {
        return None;
    }
    // The session scales what is too large.
    Block::unfitted_image(&base64::engine::general_purpose::STANDARD.encode(bytes)).ok()
}

async fn read_program(exec: &Exec, around: &ProcessEnv, program: &str, args: &[&str]) -> Vec<u8> {
    let command = CapturedCommand {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: &around.cwd,
        env: &around.env,
        variables: Vec::new(),
        stdin: b"",
        max_bytes: MAX_IMAGE,
    };
    let run = async {
        let run = command.run(exec).await.ok()?;
        Some(run.stdout.bytes)
    };
    tokio::time::timeout(CLIPBOARD_TIMEOUT, run).await.ok().flatten().unwrap_or_default()
}

/// Lets the user change a text in their editor.
fn edit_text(around: &ProcessEnv, text: &str) -> Result<String, String> {
    let folder = std::env::temp_dir().join(format!("gimlet-edit-{}", gimlet_store::new_session_id()));
    let file = folder.join("prompt.md");
    let written = gimlet_store::create_private_dirs(&folder).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    let outcome = run_editor(around, &file);
    let edited = std::fs::read_to_string(&file);
    // A file that stays is in the folder for temporary files.
    drop(std::fs::remove_dir_all(&folder));
    outcome?;
    edited.map_err(|error| format!("what the editor wrote cannot be read: {error}"))
}
