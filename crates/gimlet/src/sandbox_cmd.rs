//! `gimlet sandbox`: runs a command in the sandbox of this folder, and describes that sandbox.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use gimlet_app::{
    ProcessEnv, invalid_backend_choice, new_exec,
    start::{FolderSandbox, FolderSandboxSpec},
    start_proxy,
};
use gimlet_config::{SettingsLease, symlink_names_within};
use gimlet_exec::{
    BubblewrapChoice, CommandExit, DirectoryReporter, ProbeOptions, RepoScanner, RunningCommand, SANDBOX_SETUP_FAILED,
    Sandbox, SandboxBackend, SandboxError, SandboxLayer, SandboxOutcome, SandboxProxy, SandboxSupport, SpawnRequest,
    StdinMode, StreamMode, TamperGuard, UpstreamProxies, find_violations, probe_sandbox,
};
use gimlet_proto::{NetworkAccess, SandboxSpec, SandboxViolation};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::args::{SandboxExplainArgs, SandboxLimitArgs, SandboxRunArgs};
use crate::doctor_cmd::is_executable;
use crate::report::Report;
use crate::signals::{INTERRUPTED, SignalListener};

/// Time that a command has to end after an interrupt.
const GRACE: Duration = Duration::from_secs(2);
/// Exit code of a shell for a command that is not found.
const NOT_FOUND: u8 = 127;
/// Bytes at the end of the output that are searched for sandbox refusals.
const TAIL_BYTES: usize = 64 * 1024;

/// Runs the command and returns its exit code; reports on standard error what the sandbox refused.
pub(crate) async fn run(args: SandboxRunArgs, around: &ProcessEnv) -> Result<ExitCode, Report> {
    let scratch = SandboxScratchDir::new()?;
    let exec = new_exec();
    let available = probe_sandbox(&exec, &probe_options(&args.limits, around)?).await;
    check_backend(&args.limits, &available)?;
    let SandboxRequest { spec, upstream, settings_files, .. } =
        build_request(&args.limits, around, &scratch.path.join("tmp"))?;
    let proxy = start_proxy(&spec, upstream, &scratch.path)?;
    let socket = proxy.as_ref().map(|proxy| proxy.socket().to_owned());
    let sandbox =
        Sandbox::new(spec.clone(), available.clone(), socket).map_err(|error| Report::new(error.to_string()))?;
    let spec = sandbox.spec().clone();
    let [program, rest @ ..] = args.command.as_slice() else { return Err(Report::new("there is no command to run")) };
    let env: Vec<(OsString, OsString)> =
        around.env.vars().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let stdin = if std::io::stdin().is_terminal() { StdinMode::Null } else { StdinMode::Pipe };
    let (program, cwd) = (program.clone(), around.cwd.clone());
    let spawn = SpawnRequest {
        program,
        args: rest.to_vec(),
        cwd,
        env,
        stdin,
        streams: StreamMode::Split,
        report: DirectoryReporter::Disabled,
        confinement: None,
    };
    let (interrupt, mut interrupts) = mpsc::unbounded_channel();
    let mut signals = SignalListener::listen(interrupt);
    let (walls, kind) = (spec.clone(), available.clone());
    let look = move || {
        let mut census = RepoScanner::default();
        (TamperGuard::capture_before(&walls, &kind, &mut census), census)
    };
    let (mut guard, mut census) = tokio::select! {
        looked = tokio::task::spawn_blocking(look) => looked.map_err(|error| Report::new(error.to_string()))?,
        Some(()) = interrupts.recv() => return Ok(ExitCode::from(INTERRUPTED)),
        stop = signals.wait_for_stop() => return Ok(ExitCode::from(stop.code())),
    };
    let names = settings_files.iter().flat_map(|file| symlink_names_within(file, &spec.write));
    let files = guard.settings_files().iter().cloned().chain(names);
    let vouching = SettingsLease::begin(&gimlet_app::settings_mapping::find_locations(around), files);
    let sandbox = sandbox.with_read_only_paths(guard.paths_to_mount()).with_unreadable_paths(guard.closed_folders());
    if guard.is_partial() {
        crate::print_error_line(&format!("gimlet: sandbox: {}", SandboxViolation::Unseen));
    }
    let carrying = async {
        let spawn = match sandbox.wrap_spawn(spawn, &[]) {
            Err(error @ SandboxError::NotFound { .. }) => {
                crate::print_error_line(&format!("gimlet: {error}"));
                return Ok(Err(NOT_FOUND));
            }
            wrapped => wrapped.map_err(|error| Report::new(error.to_string()))?,
        };
        let mut running = exec.spawn(spawn).await.map_err(|error| Report::new(error.to_string()))?;
        pipe_and_wait(&mut running).await.map(Ok)
    };
    tokio::pin!(carrying);
    let carried = tokio::select! {
        carried = &mut carrying => carried,
        Some(()) = interrupts.recv() => Ok(Err(INTERRUPTED)),
        stop = signals.wait_for_stop() => Ok(Err(stop.code())),
    };
    exec.shutdown(GRACE).await;
    for (file, vouched) in vouching.files() {
        guard.expect(&file, vouched.text.as_deref(), vouched.rewritten);
    }
    let quarantine = around.config_home.join("gimlet/quarantine");
    let mut looked = None;
    let looking = async {
        looked = tokio::task::spawn_blocking(move || guard.restore_after(&quarantine, &mut census)).await.ok();
    };
    match &carried {
        Ok(Err(_)) => signals.drain_with_deadline(looking).await,
        _ => {
            tokio::pin!(looking);
            tokio::select! {
                () = &mut looking => {}
                _ = signals.wait_for_stop() => signals.drain_with_deadline(looking).await,
            }
        }
    }
    let Some(mut found) = looked else {
        crate::print_error_line("gimlet: sandbox: what the command left could not be looked for");
        return Ok(ExitCode::from(u8::try_from(SANDBOX_SETUP_FAILED).unwrap_or(1)));
    };
    vouching.release();
    if let Ok(Ok((exit, errors))) = &carried {
        let refusals = proxy.as_ref().map(SandboxProxy::take_refusals).unwrap_or_default();
        let (exit, cwd) = (Some(*exit), &around.cwd);
        found.extend(find_violations(SandboxOutcome { spec: &spec, cwd, exit, output: errors, refusals: &refusals }));
    }
    for violation in &found {
        crate::print_error_line(&format!("gimlet: sandbox: {violation}"));
    }
    if found.iter().any(|violation| matches!(violation, SandboxViolation::Left { .. })) {
        return Ok(ExitCode::from(u8::try_from(SANDBOX_SETUP_FAILED).unwrap_or(1)));
    }
    Ok(ExitCode::from(match carried? {
        Ok((exit, _)) => u8::try_from(exit.shell_code()).unwrap_or(1),
        Err(stopped) => stopped,
    }))
}

/// Describes the sandbox of this folder, as text or JSON.
pub(crate) async fn explain(args: &SandboxExplainArgs, around: &ProcessEnv) -> Result<String, Report> {
    let exec = new_exec();
    let available = probe_sandbox(&exec, &probe_options(&args.limits, around)?).await;
    exec.shutdown(GRACE).await;
    check_backend(&args.limits, &available)?;
    let wanted = build_request(&args.limits, around, Path::new("$TMPDIR"))?;
    if args.json {
        return Ok(explanation_json(&available, &wanted).to_string());
    }
    Ok(explanation_text(&available, &wanted))
}

fn probe_options(walls: &SandboxLimitArgs, around: &ProcessEnv) -> Result<ProbeOptions, Report> {
    if let Some(problem) = invalid_backend_choice(&around.env)
        && walls.bubblewrap.is_none()
    {
        return Err(Report::new(problem));
    }
    let bubblewrap = match &walls.bubblewrap {
        None => FolderSandbox::read(around)?.bubblewrap(),
        Some(path) if path.as_os_str() == "none" => BubblewrapChoice::Never,
        Some(path) if is_executable(path) => BubblewrapChoice::At(path.clone()),
        Some(path) => {
            return Err(Report::new(format!("--bubblewrap {}: there is no such program", path.display()))
                .with_hint("Name one, or say none"));
        }
    };
    Ok(ProbeOptions { bubblewrap, ..ProbeOptions::default() })
}

/// Returns an error if the requested sandbox backend is not the one in use.
fn check_backend(walls: &SandboxLimitArgs, available: &SandboxSupport) -> Result<(), Report> {
    let named = walls.bubblewrap.as_ref().filter(|path| path.as_os_str() != "none");
    match (named, &available.backend) {
        (None, _) | (Some(_), SandboxBackend::Bubblewrap { .. }) => Ok(()),
        (Some(path), _) => {
            let why = available.notes.first().map_or("it cannot be used here", String::as_str);
            Err(Report::new(format!("--bubblewrap {}: {why}", path.display())).with_hint("Name another, or say none"))
        }
    }
}

/// Sandbox requested by settings and flags together.
#[derive(Default)]
struct SandboxRequest {
    spec: SandboxSpec,
    upstream: UpstreamProxies,
    /// True if sessions here run their commands in it.
    enabled: bool,
    /// Files that enable it.
    settings_files: Vec<PathBuf>,
}

/// Builds the request from the settings in force, with the flags on top.
fn build_request(walls: &SandboxLimitArgs, around: &ProcessEnv, temp_dir: &Path) -> Result<SandboxRequest, Report> {
    // The kernel needs existing paths under their real names.
    let absolute = |flag: &str, paths: &[PathBuf]| -> Result<Vec<PathBuf>, Report> {
        let place = |path: &PathBuf| {
            let place = around.cwd.join(path);
            let missing = || Report::new(format!("{flag} {}: nothing is there", path.display()));
            let hint =
                "Name a file or folder that exists; patterns hold in sessions, by sandbox.filesystem in settings";
            place.symlink_metadata().map(|_| place).map_err(|_| missing().with_hint(hint))
        };
        paths.iter().map(place).collect()
    };
    let opened = absolute("--allow-write", &walls.allow_write)?;
    let FolderSandboxSpec { mut spec, upstream, enabled, settings_files } =
        FolderSandbox::read(around)?.build_spec(temp_dir, opened);
    spec.deny_read.extend(absolute("--deny-read", &walls.deny_read)?);
    spec.local_sockets |= walls.allow_local;
    spec.unix_sockets |= walls.allow_unix_sockets;
    if !walls.allow_domain.is_empty() || !walls.deny_domain.is_empty() {
        let (mut allow, mut deny) = match std::mem::take(&mut spec.network) {
            NetworkAccess::Off => (Vec::new(), Vec::new()),
            NetworkAccess::Proxy { allow, deny } => (allow, deny),
        };
        allow.extend(walls.allow_domain.iter().cloned());
        deny.extend(walls.deny_domain.iter().cloned());
        spec.network = if allow.is_empty() { NetworkAccess::Off } else { NetworkAccess::Proxy { allow, deny } };
    }
    Ok(SandboxRequest { spec, upstream, enabled, settings_files })
}

/// Passes everything through and waits; returns the end of standard error.
async fn pipe_and_wait(running: &mut RunningCommand) -> Result<(CommandExit, String), Report> {
    let mut feeding = tokio::task::JoinSet::new();
    if let Some(stdin) = running.stdin.take() {
        feeding.spawn(copy_stdin(stdin));
    }
    let output = copy_stream(running.output.take(), tokio::io::stdout());
    let errors = copy_stream(running.errors.take(), tokio::io::stderr());
    let (_, errors, exit) = tokio::join!(output, errors, running.wait());
    let exit = exit.map_err(|error| Report::new(error.to_string()))?;
    Ok((exit, String::from_utf8_lossy(&errors).into_owned()))
}

async fn copy_stdin(mut stdin: pipe::Sender) {
    // A command that does not read its input is no failure.
    drop(tokio::io::copy(&mut tokio::io::stdin(), &mut stdin).await);
}

/// Copies a stream and keeps its end.
async fn copy_stream(from: Option<pipe::Receiver>, mut to: impl AsyncWriteExt + Unpin) -> Vec<u8> {
    let Some(mut from) = from else { return Vec::new() };
    let mut tail = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        let bytes = buffer.get(..len).unwrap_or_default();
        tail.extend_from_slice(bytes);
        drop(tail.drain(..tail.len().saturating_sub(TAIL_BYTES)));
        if to.write_all(bytes).await.and(to.flush().await).is_err() {
            break;
        }
    }
    tail
}

/// Temporary folder of this run, removed with it.
struct SandboxScratchDir {
    path: PathBuf,
}

impl SandboxScratchDir {
    fn new() -> Result<Self, Report> {
        let path = std::env::temp_dir().join(format!("gimlet-sandbox-{}", std::process::id()));
        let private = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
        private(&path)
            .and_then(|()| private(&path.join("tmp")))
            .map_err(|error| Report::new(format!("the folder {} cannot be made: {error}", path.display())))?;
        Ok(Self { path })
    }
}

impl Drop for SandboxScratchDir {
    fn drop(&mut self) {
        // A failed removal leaves only a few files in the temp folder.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn backend_name(backend: &SandboxBackend) -> String {
    match backend {
        SandboxBackend::Bubblewrap { path } => format!("bubblewrap ({})", path.display()),
        SandboxBackend::Namespaces => "built in (Linux namespaces)".to_owned(),
        SandboxBackend::Landlock => "Landlock alone".to_owned(),
        SandboxBackend::None { why } => format!("none: {why}"),
    }
}

fn layer_names(layers: &[SandboxLayer]) -> Vec<&'static str> {
    layers.iter().map(|layer| layer.name()).collect()
}

fn explanation_json(available: &SandboxSupport, wanted: &SandboxRequest) -> serde_json::Value {
    json!({
        "enabled": wanted.enabled,
        "available": available.is_available(),
        "backend": backend_name(&available.backend),
        "landlockAbi": available.landlock_abi,
        "layers": layer_names(&available.layers()),
        "missingLayers": layer_names(&available.missing_layers()),
        "notes": available.notes,
        "spec": wanted.spec,
    })
}

fn explanation_text(available: &SandboxSupport, SandboxRequest { spec, enabled, .. }: &SandboxRequest) -> String {
    let list = |title: &str, paths: &[PathBuf]| {
        let paths: String = paths.iter().map(|path| format!("\n  {}", path.display())).collect();
        if paths.is_empty() { String::new() } else { format!("\n\n{title}:{paths}") }
    };
    let missing = layer_names(&available.missing_layers());
    let missing = if missing.is_empty() { "none".to_owned() } else { missing.join(", ") };
    let network = match &spec.network {
        NetworkAccess::Off => "off".to_owned(),
        NetworkAccess::Proxy { allow, .. } => format!("only {}", allow.join(", ")),
    };
    let notes: String = available.notes.iter().map(|note| format!("\nNote:      {note}")).collect();
    let sessions = if *enabled { "use it" } else { "not enabled: sandbox.enabled is not set" };
    format!(
        "Sandbox:   {}\nSessions:  {sessions}\nLayers:    {}\nMissing:   {missing}\nLandlock:  version {}\nNetwork:   {network}{notes}{}{}{}",
        backend_name(&available.backend),
        layer_names(&available.layers()).join(", "),
        available.landlock_abi,
        list("Can be written", &[&spec.write[..], &["a temp folder of its own (TMPDIR)".into()]].concat()),
        list("Write-protected", &[spec.own.as_slice(), &spec.deny_write].concat()),
        list("Cannot be read", &spec.deny_read),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explanation_names_what_is_missing() {
        let available =
            SandboxSupport { backend: SandboxBackend::Landlock, landlock_abi: 3, notes: vec!["no bubblewrap".into()] };
        let text = explanation_text(&available, &SandboxRequest::default());
        assert!(text.contains("Missing:   mounts, processes, network") && text.contains("no bubblewrap"), "{text}");
        let json = explanation_json(&available, &SandboxRequest::default());
        assert_eq!(json["missingLayers"], json!(["mounts", "processes", "network"]));
    }
}
