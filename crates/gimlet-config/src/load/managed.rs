//! Managed settings from several places: which one counts, and what of the others counts all the same.
//!
//! What the administrator's own program prints comes before the files beside it. What an embedding program gives counts
//! whole only where no administrator says anything; beside one it can at most forbid.

use std::path::{Path, PathBuf};

use super::{Author, Layer, Loaded, Options, Source, drop_in_files, forbids};
use crate::files::{self, ReadError, SETTINGS_MAX_BYTES};
use crate::json::{Json, Node};
use crate::ownership;
use crate::problem::{Problem, Severity};
use crate::scope::Scope;
use crate::settings::PolicyHelper;
use crate::vouched::Around;

/// What the administrator's program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The program.
    pub source: PathBuf,
    /// The settings, as JSON.
    pub text: String,
}

/// The name of the flag by which an embedding program gives managed settings.
pub(super) const PARENT: &str = "--managed-settings";

/// What counts from every place of the administrator's, also from one that another goes before.
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

/// What limits by naming all that is left.
const LIMITS: [&str; 7] = [
    "availableModels",
    "enforceAvailableModels",
    "allowedMcpServers",
    "strictKnownMarketplaces",
    "strictPluginOnlyCustomization",
    "requiredMinimumVersion",
    "requiredMaximumVersion",
];

impl Loaded {
    /// The program that the administrator's files name for their settings.
    pub fn policy_helper(&self) -> Option<PolicyHelper> {
        let files = self.layers.iter().rev().filter(|layer| layer.scope == Scope::Managed);
        let mut named = files.filter(|layer| layer.file.starts_with(&self.locations.managed_dir));
        named.find_map(|layer| serde_json::from_value(layer.root.get("policyHelper")?.to_value()).ok())
    }

    pub(super) fn managed(&mut self, options: &Options) {
        let files = self.apart(|loaded| loaded.managed_files());
        let printed = options
            .policy
            .as_ref()
            .map_or_else(Vec::new, |policy| self.apart(|loaded| loaded.given(&policy.source, &policy.text)));
        let parent = options
            .parent
            .as_ref()
            .map_or_else(Vec::new, |text| self.apart(|loaded| loaded.given(Path::new(PARENT), text)));
        let admin = if says_something(&printed) {
            let others = files.into_iter().map(|layer| only(layer, counts_from_every_place));
            others.chain(printed).collect()
        } else {
            files
        };
        let parent = match says_something(&admin) {
            false => parent,
            true => self.beside(&admin, parent),
        };
        // The administrator's word is the stronger one.
        self.layers.extend(parent);
        self.layers.extend(admin);
    }

    /// What of an embedding program's settings counts beside the administrator's.
    fn beside(&mut self, admin: &[Layer], parent: Vec<Layer>) -> Vec<Layer> {
        let behaviour = admin.iter().filter_map(|layer| layer.root.get("parentSettingsBehavior")).next_back();
        if behaviour.and_then(Node::as_str) == Some("merge") {
            return parent
                .into_iter()
                .map(|layer| only(layer, |path, value| forbids::only_forbids(path, value)))
                .collect();
        }
        self.problems.extend(parent.iter().map(|layer| Problem {
            severity: Severity::Warning,
            file: layer.file.clone(),
            line: None,
            column: None,
            key: String::new(),
            message: "not used: the administrator of this machine has managed settings".into(),
        }));
        Vec::new()
    }

    fn managed_files(&mut self) {
        let dir = self.locations.managed_dir.clone();
        let mut paths = vec![self.locations.managed_file()];
        let drop_ins = self.locations.managed_drop_ins();
        match drop_in_files(&drop_ins) {
            Ok(found) => paths.extend(found),
            Err(error) => self.unreadable(Scope::Managed, &drop_ins, &ReadError::Io(error)),
        }
        for path in paths {
            let before = self.layers.len();
            let read = files::read(&path, SETTINGS_MAX_BYTES);
            let source = Source { scope: Scope::Managed, file: &path, author: Author::Person, anchor: &dir };
            // No sandboxed command can write it.
            self.take(&Around::default(), source, read);
            self.narrow_if_doubtful(&path, before);
        }
    }

    /// A managed file has the strongest say and can name a program that runs. Where somebody could have written it who
    /// is neither root nor this user, only what it forbids is believed.
    fn narrow_if_doubtful(&mut self, file: &Path, first: usize) {
        let folder = file.parent().unwrap_or(file);
        let doubts = match self.layers.len() > first {
            true => self.locations.person.doubts(folder, file),
            false => return,
        };
        if doubts.is_empty() {
            return;
        }
        for layer in &mut self.layers[first..] {
            let limits = only(layer.clone(), |path, _| LIMITS.contains(&path)).root;
            layer.root = forbids::strict_part(layer.root.clone());
            if let (Some(kept), Json::Object(limits)) = (layer.root.members_mut(), limits.json) {
                kept.extend(limits);
            }
            layer.salvaged = true;
        }
        let what = "of these managed settings only what they forbid counts";
        self.problem(file, format!("{what}: {}", ownership::sentence(&doubts)));
    }

    fn given(&mut self, source: &Path, text: &str) {
        let dir = self.locations.managed_dir.clone();
        let source = Source { scope: Scope::Managed, file: source, author: Author::Person, anchor: &dir };
        self.bytes(source, text.as_bytes().to_vec());
    }

    /// The layers that something adds, not added yet.
    fn apart(&mut self, add: impl FnOnce(&mut Self)) -> Vec<Layer> {
        let before = self.layers.len();
        add(self);
        self.layers.split_off(before)
    }
}

fn says_something(layers: &[Layer]) -> bool {
    layers.iter().any(|layer| !layer.root.members().is_empty())
}

fn counts_from_every_place(path: &str, value: &mut Node) -> bool {
    // Of attribution, an administrator can only do without it everywhere.
    let hides = !path.starts_with("attribution.") || value.as_str() == Some("");
    FROM_EVERY_PLACE.contains(&path) && hides
}

/// The layer with what passes, and nothing else.
fn only(mut layer: Layer, keep: fn(&str, &mut Node) -> bool) -> Layer {
    forbids::retain(&mut layer.root, "", keep);
    layer
}
