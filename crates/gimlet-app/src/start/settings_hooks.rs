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
use gimlet_hooks::{HookHost, HookHostConfig, HookPolicy, HookTrustCheck, settings_hook_entries};
use gimlet_proto::SessionId;

use super::SessionSettings;
use super::key_helper::MODEL_CREDENTIALS;

impl SessionSettings {
    /// Lets the hooks of settings run with this executor. Returns them, and one line about each that cannot be used.
    pub(super) fn start_hooks(&mut self, exec: &Exec, session: &SessionId) -> (Vec<HookEntry>, Vec<String>) {
        self.hook_host = Some(Arc::new(HookHost::new(HookHostConfig {
            exec: exec.clone(),
            env: self.env.clone(),
            project_dir: self.around.cwd.clone(),
            session_id: session.to_string(),
            model_credentials: MODEL_CREDENTIALS,
        })));
        self.settings_hooks().unwrap_or_default()
    }

    /// Returns the hooks of settings, and one line about each that cannot be used; `None` before they can run.
    pub(super) fn settings_hooks(&self) -> Option<(Vec<HookEntry>, Vec<String>)> {
        let host = self.hook_host.as_ref()?;
        let settings = &self.effective.settings;
        let policy = HookPolicy {
            allowed_urls: settings.allowed_http_hook_urls.as_deref(),
            allowed_variables: settings.http_hook_allowed_env_vars.as_deref(),
        };
        let lines: Vec<HookLine> = match self.has_plugin_hooks_only() {
            true => self.effective.hooks.iter().filter(|line| line.origin.scope == Scope::Managed).cloned().collect(),
            false => self.effective.hooks.clone(),
        };
        let (entries, problems) = settings_hook_entries(host, &lines, &policy, |line| self.hook_trust_check(line));
        let problems = problems.into_iter().map(|problem| {
            let origin = problem.origin;
            format!("{}:{}: this hook is not run: {}", origin.file.display(), origin.line, problem.message)
        });
        Some((entries, problems.collect()))
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
