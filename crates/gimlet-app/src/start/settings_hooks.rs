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
use crate::launch_request::CustomizationLevel;

impl SessionSettings {
    /// Lets the hooks of settings run with this executor. Returns them, and one line about each that cannot be used.
    pub(super) fn start_hooks(&mut self, exec: &Exec, session: &SessionId) -> (Vec<HookEntry>, Vec<String>) {
        self.set_hook_host(exec, session);
        let (entries, mut problems) = self.settings_hooks().unwrap_or_default();
        problems.extend(self.create_plugin_data_folders());
        (entries, problems)
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
        let (mut entries, mut problems) = self.entries_of(&self.running_hook_lines());
        let (of_plugins, bad) = self.plugin_hook_entries();
        entries.extend(of_plugins);
        problems.extend(bad);
        let problems = problems.into_iter().map(|problem| {
            let origin = problem.origin;
            format!("{}:{}: this hook is not run: {}", origin.file.display(), origin.line, problem.message)
        });
        Some((entries, problems.collect()))
    }

    /// Returns the hooks that settings and switches leave.
    pub(super) fn running_hook_lines(&self) -> Vec<HookLine> {
        self.effective.hooks.iter().filter(|line| self.uses_hooks_of(line.origin.scope)).cloned().collect()
    }

    /// Returns true if hooks that a file of this scope defines are used in this run.
    fn uses_hooks_of(&self, scope: Scope) -> bool {
        match (scope, self.customization) {
            (Scope::Managed, _) => true,
            (_, CustomizationLevel::Safe) => false,
            (scope, CustomizationLevel::Bare) => scope == Scope::Flag && !self.has_plugin_hooks_only(),
            (_, CustomizationLevel::Full) => !self.has_plugin_hooks_only(),
        }
    }

    /// Returns these hooks as entries of the registry, and those that cannot be used; none before they can run.
    pub(super) fn entries_of(&self, lines: &[HookLine]) -> (Vec<HookEntry>, Vec<HookProblem>) {
        self.hook_entries_of(HookDefinition::Settings, lines, |line| self.hook_trust_check(line))
    }

    /// Returns the hooks of an agent file as entries, as far as hooks of such files may run. What cannot be used is left
    /// out; `doctor` names it.
    pub(super) fn agent_hook_entries(&self, name: &str, lines: &[HookLine]) -> Vec<HookEntry> {
        let may_run = |line: &&HookLine| {
            self.effective.allows_hooks_of(line.origin.scope) && self.uses_hooks_of(line.origin.scope)
        };
        let lines: Vec<HookLine> = lines.iter().filter(may_run).cloned().collect();
        let check = |line: &HookLine| self.item_trust_check(ProjectItemKind::Agent, line, None);
        self.hook_entries_of(HookDefinition::Agent { name }, &lines, check).0
    }

    pub(super) fn hook_entries_of(
        &self,
        definition: HookDefinition<'_>,
        lines: &[HookLine],
        trust: impl Fn(&HookLine) -> Option<HookTrustCheck>,
    ) -> (Vec<HookEntry>, Vec<HookProblem>) {
        let Some(host) = &self.hook_host else { return Default::default() };
        let settings = &self.effective.settings;
        let policy = HookPolicy {
            allowed_urls: settings.allowed_http_hook_urls.as_deref(),
            allowed_variables: settings.http_hook_allowed_env_vars.as_deref(),
        };
        hook_entries(host, definition, lines, &policy, trust)
    }

    /// Returns true if an administrator lets hooks come from plugins and managed settings only.
    fn has_plugin_hooks_only(&self) -> bool {
        self.is_plugin_only(CustomizationKind::Hooks)
    }

    /// Returns true if an administrator lets this kind of customization come from plugins and managed files only.
    pub(super) fn is_plugin_only(&self, kind: CustomizationKind) -> bool {
        match &self.effective.settings.strict_plugin_only_customization {
            Some(PluginOnlyCustomization::All(all)) => *all,
            Some(PluginOnlyCustomization::Kinds(kinds)) => kinds.contains(&kind),
            None => false,
        }
    }

    /// Returns the check whether a hook and the scripts that it names are still those that were trusted; `None` for a
    /// hook that needs no trust.
    fn hook_trust_check(&self, line: &HookLine) -> Option<HookTrustCheck> {
        let name = format!("{} {}", line.event, line.matcher.as_deref().unwrap_or("*"));
        self.item_trust_check(ProjectItemKind::Hook, line, Some(name))
    }

    /// Returns the check for a hook that is an item of this kind and name, or is part of the only item of its file;
    /// `None` for one that needs no trust.
    fn item_trust_check(&self, kind: ProjectItemKind, line: &HookLine, name: Option<String>) -> Option<HookTrustCheck> {
        let of_file = |item: &&ProjectItem| item.kind == kind && item.file == line.origin.file;
        let name = match name {
            Some(name) => name,
            None => self.inventory.items.iter().find(of_file)?.name.clone(),
        };
        let is_it = |item: &&ProjectItem| of_file(item) && item.name == name;
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
            let covers = |trust| now.covers(trust, kind, &file, &name);
            if covers(&trust) || covers(&TrustStore::new(&loaded.locations).load_trust()) {
                return None;
            }
            let shown = gimlet_config::escape_invisible_line(&file.display().to_string()).into_owned();
            let what = if kind == ProjectItemKind::Hook { format!("the hook {name}") } else { "a hook".to_owned() };
            Some(format!("a script of {what} of {shown} changed since it was trusted; review: gimlet trust"))
        }))
    }
}
