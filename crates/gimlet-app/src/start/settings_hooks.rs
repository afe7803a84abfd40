//! The hooks of settings files, as a session runs them: which act, and whether their scripts are still the trusted ones.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::{
    CustomizationKind, HookLine, PluginOnlyCustomization, ProjectItem, ProjectItemKind, Scope, TrustInventory,
    TrustStore,
};
use gimlet_core::HookEntry;
use gimlet_exec::Exec;
use gimlet_fs::MetadataStamp;
use gimlet_hooks::{HookDefinition, HookHost, HookHostConfig, HookPolicy, HookProblem, HookTrustCheck, hook_entries};
use gimlet_proto::SessionId;

use super::SessionSettings;
use super::key_helper::MODEL_CREDENTIALS;
use super::session_processes::session_env_file;

impl SessionSettings {
    /// Lets the hooks of settings run with this executor. Returns them, and one line about each that cannot be used.
    pub(super) fn start_hooks(&mut self, exec: &Exec, session: &SessionId) -> (Vec<HookEntry>, Vec<String>) {
        self.set_hook_host(exec, session);
        self.settings_hooks().unwrap_or_default()
    }

    /// Sets what handlers of hooks share.
    pub(super) fn set_hook_host(&mut self, exec: &Exec, session: &SessionId) {
        self.hook_host = Some(Arc::new(HookHost::new(HookHostConfig {
            exec: exec.clone(),
            env: self.env.clone(),
            project_dir: self.around.cwd.clone(),
            session_id: session.to_string(),
            env_file: Some(session_env_file(&self.around.config_home, session)),
            model_credentials: MODEL_CREDENTIALS,
        })));
    }

    /// Returns the hooks of settings, and one line about each that cannot be used; `None` before they can run.
    pub(super) fn settings_hooks(&self) -> Option<(Vec<HookEntry>, Vec<String>)> {
        self.hook_host.as_ref()?;
        let (entries, problems) = self.entries_of(&self.running_hook_lines());
        let problems = problems.into_iter().map(|problem| {
            let origin = problem.origin;
            format!("{}:{}: this hook is not run: {}", origin.file.display(), origin.line, problem.message)
        });
        Some((entries, problems.collect()))
    }

    /// Returns the hooks that settings and switches leave.
    pub(super) fn running_hook_lines(&self) -> Vec<HookLine> {
        let hooks = self.effective.hooks.iter();
        match self.has_plugin_hooks_only() {
            true => hooks.filter(|line| line.origin.scope == Scope::Managed).cloned().collect(),
            false => hooks.cloned().collect(),
        }
    }

    /// Returns these hooks as entries of the registry, and those that cannot be used; none before they can run.
    pub(super) fn entries_of(&self, lines: &[HookLine]) -> (Vec<HookEntry>, Vec<HookProblem>) {
        let Some(host) = &self.hook_host else { return Default::default() };
        let settings = &self.effective.settings;
        let policy = HookPolicy {
            allowed_urls: settings.allowed_http_hook_urls.as_deref(),
            allowed_variables: settings.http_hook_allowed_env_vars.as_deref(),
        };
        hook_entries(host, HookDefinition::Settings, lines, &policy, |line| self.hook_trust_check(line))
    }

    /// Returns true if an administrator lets hooks come from plugins and managed settings only.
    fn has_plugin_hooks_only(&self) -> bool {
        match &self.effective.settings.strict_plugin_only_customization {
            Some(PluginOnlyCustomization::All(all)) => *all,
            Some(PluginOnlyCustomization::Kinds(kinds)) => kinds.contains(&CustomizationKind::Hooks),
            None => false,
        }
    }

    /// Returns the check whether a hook and the scripts that it names are still those that were trusted; `None` for a
    /// hook that needs no trust.
    fn hook_trust_check(&self, line: &HookLine) -> Option<HookTrustCheck> {
        let name = format!("{} {}", line.event, line.matcher.as_deref().unwrap_or("*"));
        let is_it = |item: &&ProjectItem| {
            item.kind == ProjectItemKind::Hook && item.file == line.origin.file && item.name == name
        };
        let scripts: Vec<PathBuf> =
            self.inventory.items.iter().filter(is_it).flat_map(ProjectItem::script_files).cloned().collect();
        self.inventory.items.iter().find(is_it)?;
        let stamps: Vec<Option<MetadataStamp>> = scripts.iter().map(|script| MetadataStamp::read(script)).collect();
        let (loaded, trust, file) = (self.loaded.clone(), self.trust.clone(), line.origin.file.clone());
        Some(Arc::new(move || {
            if scripts.iter().map(|script| MetadataStamp::read(script)).eq(stamps.iter().copied()) {
                return None;
            }
            // The stamps alone say nothing about the content, and a change may have been accepted meanwhile.
            let now = TrustInventory::collect(&loaded);
            let covers = |trust| now.covers(trust, ProjectItemKind::Hook, &file, &name);
            if covers(&trust) || covers(&TrustStore::new(&loaded.locations).load_trust()) {
                return None;
            }
            let shown = gimlet_config::escape_invisible_line(&file.display().to_string()).into_owned();
            Some(format!("a script of the hook {name} of {shown} changed since it was trusted; review: gimlet trust"))
        }))
    }
}
