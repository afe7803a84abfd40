//! Managed settings from several places: their precedence, and the parts of the others that still apply.
//!
//! The output of the administrator's policy program comes before the files beside it. Settings from an embedding
//! program count in full only where there are no settings of an administrator; beside those they can at most forbid.

use std::path::{Path, PathBuf};

use gimlet_fs::{FileReadError, read_file};

use super::{
    FileAuthor, LayerSource, LoadedSettings, SettingsLayer, SettingsLoadOptions, list_drop_in_files, restrictions,
};
use crate::file_ownership;
use crate::json::{JsonNode, JsonValue};
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::Scope;
use crate::settings::PolicyHelper;
use crate::settings_lease::LeaseWindow;
use crate::size_limits::SETTINGS_MAX_BYTES;

/// Output of the administrator's policy program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyHelperOutput {
    /// Path of the program.
    pub source: PathBuf,
    /// Settings, as JSON.
    pub text: String,
}

/// Name of the flag by which an embedding program passes managed settings.
pub(super) const PARENT: &str = "--managed-settings";

/// Keys that count from every place of the administrator's, even one without precedence.
const FROM_EVERY_PLACE: [&str; 16] = [
    "sandbox.network.allowManagedDomainsOnly",
    "sandbox.network.allowedDomains",
    "sandbox.network.strictAllowlist",
    "sandbox.filesystem.allowManagedReadPathsOnly",
    "sandbox.filesystem.allowRead",
    "sandbox.filesystem.disabled",
    "sandbox.bwrapPath",
    "sandbox.socatPath",
    "sandbox.ripgrep",
    "allowAllClaudeAiMcps",
    "useAutoModeDuringPlan",
    "syncClaudeAiSkills",
    "attribution.commit",
    "attribution.pr",
    "forceRemoteSettingsRefresh",
    "env",
];

/// Keys that limit by naming all that stays allowed.
const LIMITS: [&str; 7] = [
    "availableModels",
    "enforceAvailableModels",
    "allowedMcpServers",
    "strictKnownMarketplaces",
    "strictPluginOnlyCustomization",
    "requiredMinimumVersion",
    "requiredMaximumVersion",
];

impl LoadedSettings {
    /// Returns the policy program that the administrator's files name; `None` if there is none.
    pub fn policy_helper(&self) -> Option<PolicyHelper> {
        let files = self.layers.iter().rev().filter(|layer| layer.scope == Scope::Managed);
        let mut named = files.filter(|layer| layer.file.starts_with(&self.locations.managed_dir));
        named.find_map(|layer| serde_json::from_value(layer.root.get("policyHelper")?.to_value()).ok())
    }

    pub(super) fn load_managed(&mut self, options: &SettingsLoadOptions) {
        let files = self.collect_layers(|loaded| loaded.load_managed_files());
        let printed = options.policy.as_ref().map_or_else(Vec::new, |policy| {
            self.collect_layers(|loaded| loaded.add_given_text(&policy.source, &policy.text))
        });
        let parent = options
            .parent
            .as_ref()
            .map_or_else(Vec::new, |text| self.collect_layers(|loaded| loaded.add_given_text(Path::new(PARENT), text)));
        let admin = if has_settings(&printed) {
            let others = files.into_iter().map(|layer| retain_in_layer(layer, is_effective_from_every_source));
            others.chain(printed).collect()
        } else {
            files
        };
        let parent = match has_settings(&admin) {
            false => parent,
            true => self.restrict_parent_layers(&admin, parent),
        };
        // The administrator's settings have precedence.
        self.layers.extend(parent);
        self.layers.extend(admin);
    }

    /// Returns the parts of an embedding program's settings that apply beside the administrator's.
    fn restrict_parent_layers(&mut self, admin: &[SettingsLayer], parent: Vec<SettingsLayer>) -> Vec<SettingsLayer> {
        let behaviour = admin.iter().filter_map(|layer| layer.root.get("parentSettingsBehavior")).next_back();
        if behaviour.and_then(JsonNode::as_str) == Some("merge") {
            return parent
                .into_iter()
                .map(|layer| retain_in_layer(layer, |path, value| restrictions::is_restriction(path, value)))
                .collect();
        }
        self.problems.extend(parent.iter().map(|layer| SettingsProblem {
            severity: ProblemSeverity::Warning,
            file: layer.file.clone(),
            line: None,
            column: None,
            key: String::new(),
            message: "not used: the administrator of this machine has managed settings".into(),
        }));
        Vec::new()
    }

    fn load_managed_files(&mut self) {
        let dir = self.locations.managed_dir.clone();
        let mut paths = vec![self.locations.managed_file()];
        let drop_ins = self.locations.managed_drop_ins();
        match list_drop_in_files(&drop_ins) {
            Ok(found) => paths.extend(found),
            Err(error) => self.report_unreadable(Scope::Managed, &drop_ins, &FileReadError::Io(error)),
        }
        for path in paths {
            let before = self.layers.len();
            let read = read_file(&path, SETTINGS_MAX_BYTES);
            let source = LayerSource { scope: Scope::Managed, file: &path, author: FileAuthor::User, anchor: &dir };
            // No sandboxed command can write it.
            self.add_file(&LeaseWindow::default(), source, read);
            self.restrict_if_unsafe(&path, before);
        }
    }

    /// Reduces a managed file to its restrictions if a user other than root and this one could have written it. A
    /// managed file has the highest precedence and can name a program that runs.
    fn restrict_if_unsafe(&mut self, file: &Path, first: usize) {
        let folder = file.parent().unwrap_or(file);
        let doubts = match self.layers.len() > first {
            true => self.locations.user.check_file(folder, file),
            false => return,
        };
        if doubts.is_empty() {
            return;
        }
        for layer in &mut self.layers[first..] {
            let limits = retain_in_layer(layer.clone(), |path, _| LIMITS.contains(&path)).root;
            layer.root = restrictions::restrictive_part(layer.root.clone());
            if let (Some(kept), JsonValue::Object(limits)) = (layer.root.members_mut(), limits.json) {
                kept.extend(limits);
            }
            layer.is_recovered = true;
        }
        let what = "of these managed settings only what they forbid counts";
        self.report_error(file, format!("{what}: {}", file_ownership::describe_problems(&doubts)));
    }

    fn add_given_text(&mut self, source: &Path, text: &str) {
        let dir = self.locations.managed_dir.clone();
        let source = LayerSource { scope: Scope::Managed, file: source, author: FileAuthor::User, anchor: &dir };
        self.add_bytes(source, text.as_bytes().to_vec());
    }

    /// Returns the layers that `add` would add, without adding them.
    fn collect_layers(&mut self, add: impl FnOnce(&mut Self)) -> Vec<SettingsLayer> {
        let before = self.layers.len();
        add(self);
        self.layers.split_off(before)
    }
}

fn has_settings(layers: &[SettingsLayer]) -> bool {
    layers.iter().any(|layer| !layer.root.members().is_empty())
}

fn is_effective_from_every_source(path: &str, value: &mut JsonNode) -> bool {
    // For attribution, an administrator can only switch it off everywhere.
    let hides = !path.starts_with("attribution.") || value.as_str() == Some("");
    FROM_EVERY_PLACE.contains(&path) && hides
}

/// Returns the layer with only the values that `keep` accepts.
fn retain_in_layer(mut layer: SettingsLayer, keep: fn(&str, &mut JsonNode) -> bool) -> SettingsLayer {
    restrictions::retain_values(&mut layer.root, "", keep);
    layer
}
