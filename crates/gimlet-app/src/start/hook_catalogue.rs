//! The hooks of a folder without a session: every hook that a settings file defines, with what becomes of it.

use gimlet_config::{HookLine, LoadedPlugin, ProjectItemKind};
use gimlet_core::{HookEntry, HookEvent};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig};
use gimlet_hooks::HookProblem;

use super::SessionSettings;
use super::session_processes::session_env_file;
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Every hook that settings define for sessions with these flags in a folder.
pub struct HookCatalogue {
    pub hooks: Vec<CataloguedHook>,
    exec: Exec,
}

/// One hook of a settings file.
pub struct CataloguedHook {
    pub line: HookLine,
    pub state: HookState,
    /// The hook in the form that a session calls, if it is one that runs.
    pub entry: Option<HookEntry>,
}

/// What becomes of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookState {
    Runs,
    /// A file of the project defines it, or it runs one, and that is not trusted.
    WaitsForTrust,
    /// A setting turned it off.
    SwitchedOff,
    /// This version does not have what the event is about.
    NotFired,
    /// An equal one runs.
    Repeated,
    /// It cannot be used, for this reason.
    Unusable(String),
}

impl HookState {
    /// Returns the state in the words that users see.
    pub fn describe(&self) -> String {
        match self {
            HookState::Runs => "runs".to_owned(),
            HookState::WaitsForTrust => "waits for trust (gimlet trust)".to_owned(),
            HookState::SwitchedOff => "switched off by a setting".to_owned(),
            HookState::NotFired => "never called: this version does not fire the event".to_owned(),
            HookState::Repeated => "runs once with an equal one".to_owned(),
            HookState::Unusable(why) => format!("not usable: {why}"),
        }
    }

    /// Returns the state as one word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            HookState::Runs => "runs",
            HookState::WaitsForTrust => "untrusted",
            HookState::SwitchedOff => "off",
            HookState::NotFired => "not_fired",
            HookState::Repeated => "repeated",
            HookState::Unusable(_) => "unusable",
        }
    }
}

impl HookCatalogue {
    /// Reads the settings. Starts nothing.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let mut settings = SessionSettings::read(request, around)?;
        let id = gimlet_store::new_session_id();
        let own = std::env::current_exe().unwrap_or_else(|_| "gimlet".into());
        let exec = Exec::new(ExecConfig {
            custodian: CustodianProgram::Reexec(own),
            session_marker: id.to_string(),
            runtime_dir: Some(around.config_home.join("gimlet").join("run")),
        });
        exec.remove_at_end(session_env_file(&around.config_home, &id));
        settings.set_hook_host(&exec, &id);
        let mut hooks: Vec<CataloguedHook> = Vec::new();
        let of_settings = settings.loaded.hook_lines().into_iter().map(|line| {
            let (state, entry) = settings.hook_state(&line);
            (line, state, entry)
        });
        let of_plugins = settings.plugins().plugins.iter().flat_map(|plugin| {
            plugin.contents.hooks.iter().map(|line| {
                let (state, entry) = settings.plugin_hook_state(plugin, line);
                (line.clone(), state, entry)
            })
        });
        for (line, state, entry) in of_settings.chain(of_plugins) {
            let equal = |hook: &CataloguedHook| {
                hook.line.event == line.event && hook.line.matcher == line.matcher && hook.line.handler == line.handler
            };
            let repeated = state == HookState::Runs
                && !entry.as_ref().is_some_and(|entry| entry.runs_in_background)
                && hooks.iter().any(|hook| hook.state == HookState::Runs && equal(hook));
            let (state, entry) = if repeated { (HookState::Repeated, None) } else { (state, entry) };
            hooks.push(CataloguedHook { line, state, entry });
        }
        Ok(Self { hooks, exec })
    }

    /// Ends what hooks that were tried have left behind.
    pub async fn close(self) {
        self.exec.shutdown(gimlet_exec::KILL_GRACE).await;
    }
}

impl SessionSettings {
    fn hook_state(&self, line: &HookLine) -> (HookState, Option<HookEntry>) {
        let is_withheld = self.effective.withheld.iter().any(|item| {
            item.kind == ProjectItemKind::Hook && item.file == line.origin.file && item.line == Some(line.origin.line)
        });
        if is_withheld {
            return (HookState::WaitsForTrust, None);
        }
        if !self.running_hook_lines().contains(line) {
            return (HookState::SwitchedOff, None);
        }
        describe_entry(line, || self.entries_of(std::slice::from_ref(line)))
    }

    fn plugin_hook_state(&self, plugin: &LoadedPlugin, line: &HookLine) -> (HookState, Option<HookEntry>) {
        if !self.running_plugin_lines(plugin).contains(line) {
            return (HookState::SwitchedOff, None);
        }
        describe_entry(line, || self.entries_of_plugin(plugin, std::slice::from_ref(line)))
    }
}

/// Returns what becomes of a hook that nothing turns off.
fn describe_entry(
    line: &HookLine,
    make: impl FnOnce() -> (Vec<HookEntry>, Vec<HookProblem>),
) -> (HookState, Option<HookEntry>) {
    let Some(event) = HookEvent::from_name(&line.event) else {
        return (HookState::Unusable(format!("there is no event {}", line.event)), None);
    };
    if !event.row().fires {
        return (HookState::NotFired, None);
    }
    let (entries, problems) = make();
    {
        match (entries.into_iter().next(), problems.into_iter().next()) {
            (Some(entry), _) => (HookState::Runs, Some(entry)),
            (None, problem) => {
                let why = problem.map_or_else(|| "nobody runs it".to_owned(), |problem| problem.message);
                (HookState::Unusable(why), None)
            }
        }
    }
}
