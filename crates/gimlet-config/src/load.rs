//! Reads all settings files, from the lowest precedence to the highest. A file that cannot be used is a problem with a
//! line and a reason, never a failure: gimlet starts with the rest.

mod file_author;
mod layer;
mod managed_layers;
mod restrictions;
mod seen_project_files;
mod validate;
mod value_limits;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_fs::{FileReadError, read_file, read_inside};

use crate::effective_settings::RuleBehavior;
use crate::file_ownership;
use crate::json::{self, JsonNode, JsonSyntaxError, JsonText, JsonValue};
use crate::locations::SettingsLocations;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::{Scope, SettingSources};
use crate::settings_lease::{self, LeaseWindow};
use crate::size_limits::SETTINGS_MAX_BYTES;
use validate::LayerValidator;

pub use layer::{FileAuthor, SettingsLayer};
pub use managed_layers::PolicyHelperOutput;
pub use seen_project_files::forget_seen_project_files;

/// Maximum size of `--settings`, which may be larger than a file: programs write it.
const FLAG_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// Message for a file that a sandboxed command may have written.
const WAITS: &str = "it changed while a sandboxed command runs that could have written it; until that has ended, only new \
rules in it that forbid count. What 'gimlet config' writes counts at once; another file that is new is moved away then";

/// Options for loading settings.
#[derive(Clone, Debug, Default)]
pub struct SettingsLoadOptions {
    /// The value of `--settings`: a path, or JSON.
    pub settings_flag: Option<String>,
    /// The value of `--setting-sources`.
    pub sources: SettingSources,
    /// Output of the administrator's policy program, once it has run.
    pub policy: Option<PolicyHelperOutput>,
    /// The value of `--managed-settings`: JSON of an embedding program.
    pub parent: Option<String>,
    /// Callback that returns the error in the text of a rule. The rule syntax is not known here.
    pub rule_objection: Option<fn(RuleBehavior, &str) -> Option<String>>,
}

/// Result of loading all settings.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    pub locations: SettingsLocations,
    pub sources: SettingSources,
    /// Layers, lowest precedence first.
    pub layers: Vec<SettingsLayer>,
    pub problems: Vec<SettingsProblem>,
    /// Reason why managed settings cannot be read, if they cannot: their restrictions are then unknown.
    pub unreadable_policy: Option<SettingsProblem>,
    /// Files that exist and cannot be read: their restrictions are unknown.
    pub unreadable_files: Vec<PathBuf>,
    /// Files that changed while a sandboxed command runs which could have written them. Their previous content stays
    /// in effect, together with the restrictions of the current one.
    pub pending_files: Vec<PathBuf>,
}

/// Reads the settings of every scope that the options leave.
pub fn load_settings(locations: &SettingsLocations, options: &SettingsLoadOptions) -> LoadedSettings {
    let mut loaded = LoadedSettings {
        locations: locations.clone(),
        sources: options.sources,
        layers: Vec::new(),
        problems: Vec::new(),
        unreadable_policy: None,
        unreadable_files: Vec::new(),
        pending_files: Vec::new(),
    };
    if options.sources.user {
        loaded.load_user_file();
    }
    if options.sources.project {
        loaded.load_project_file();
    }
    // Legacy location first: the repository's own file has precedence.
    for file in locations.legacy_local_file().into_iter().chain([locations.local_file()]) {
        // The author is determined after the read, because that can take a while. It is determined even if the file
        // does not count: the next run needs the result.
        let (standing, read) = LeaseWindow::read_with_leases(locations, || read_file(&file, SETTINGS_MAX_BYTES));
        let author = file_author::detect_author(locations, &file);
        if options.sources.local {
            loaded.add_file(
                &standing,
                LayerSource { scope: Scope::Local, file: &file, author, anchor: &locations.cwd },
                read,
            );
        }
    }
    if let Some(flag) = &options.settings_flag {
        loaded.load_settings_flag(flag);
    }
    loaded.load_managed(options);
    loaded
}

/// Returns the first problem that a file of this scope with only this text would have; `None` if it is valid.
pub(crate) fn first_problem_in(scope: Scope, text: &str) -> Option<String> {
    let parsed = match json::parse_json(text) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.message),
    };
    let text = JsonText::new(text.to_owned());
    let mut problems = Vec::new();
    let mut intake =
        LayerValidator { scope, file: Path::new(""), text: &text, problems: &mut problems, rejected: false };
    intake.validate(parsed.root);
    let objection = problems.into_iter().find(|problem| problem.severity > ProblemSeverity::Info)?;
    // The value is not in any file yet.
    let message = objection.message.trim_start_matches("ignored: ");
    Some(message.split("; the file is ignored").next().unwrap_or_default().to_owned())
}

impl LoadedSettings {
    /// Returns the problems that must be shown at every start.
    pub fn errors(&self) -> impl Iterator<Item = &SettingsProblem> {
        self.problems.iter().filter(|problem| problem.severity == ProblemSeverity::Error)
    }

    /// Returns true if a file of the user's is broken, or any file was rejected for a value: restrictions may be lost.
    pub fn has_damaged_file(&self) -> bool {
        let own = [self.locations.user_file(), self.locations.local_file()];
        let is_held = |file: &PathBuf| self.layers.iter().any(|layer| layer.is_previous_content && layer.file == *file);
        let is_broken = |problem: &SettingsProblem| {
            problem.key.is_empty() && own.contains(&problem.file) && !is_held(&problem.file)
        };
        self.errors().any(is_broken) || self.layers.iter().any(|layer| layer.is_rejected)
    }

    /// Returns true if the user turned the sandbox on, regardless of the project.
    pub fn has_user_enabled_sandbox(&self) -> bool {
        let mut persons = self.layers.iter().filter(|layer| layer.author == FileAuthor::User);
        persons.any(|layer| layer.to_value()["sandbox"]["enabled"] == true)
    }

    /// Returns the pending files whose current content applies from now on.
    pub fn released_files(&self) -> Vec<PathBuf> {
        self.pending_files.iter().filter(|file| settings_lease::is_released(&self.locations, file)).cloned().collect()
    }

    fn load_project_file(&mut self) {
        let locations = self.locations.clone();
        let path = locations.project_file();
        let read = || read_inside(locations.project_root(), &path, SETTINGS_MAX_BYTES);
        let (standing, read) = LeaseWindow::read_with_leases(&locations, read);
        let (scope, author) = (Scope::Project, FileAuthor::Project);
        self.add_file(&standing, LayerSource { scope, file: &path, author, anchor: &locations.cwd }, read);
    }

    /// Loads the user's own file. If others could have written it, only its restrictions are used.
    fn load_user_file(&mut self) {
        let locations = self.locations.clone();
        let file = locations.user_file();
        let source =
            LayerSource { scope: Scope::User, file: &file, author: FileAuthor::User, anchor: &locations.config_dir };
        let (standing, read) = LeaseWindow::read_with_leases(&locations, || read_file(&file, SETTINGS_MAX_BYTES));
        self.add_file(&standing, source, read);
        let doubts = locations.user.check_config_home(&locations.config_dir, &file);
        if doubts.is_empty() {
            return;
        }
        for layer in &mut self.layers {
            layer.root = restrictions::restrictive_part(layer.root.clone());
            layer.is_recovered = true;
        }
        let records = locations.user.check_config_home(&locations.config_dir, &locations.trust_file());
        let what = match (file.exists(), records.is_empty()) {
            (true, true) => "of these settings only what they forbid counts",
            (true, false) => "of these settings only what they forbid counts, and records of trust do not count",
            (false, _) => "records of trust do not count",
        };
        let place = if file.exists() { &file } else { &locations.config_dir };
        self.report_error(place, format!("{what}: {}", file_ownership::describe_problems(&doubts)));
    }

    /// Adds a file's settings, unless a running sandboxed command could have written it.
    fn add_file(
        &mut self,
        standing: &LeaseWindow,
        mut source: LayerSource<'_>,
        read: Result<Option<Vec<u8>>, FileReadError>,
    ) {
        let bytes = read.as_ref().ok().and_then(Option::as_deref);
        if let Some(vouched) = standing.suspect_content(source.file, bytes) {
            self.pending_files.push(source.file.to_owned());
            self.report_error(source.file, WAITS.to_owned());
            self.problems.last_mut().into_iter().for_each(|problem| problem.severity = ProblemSeverity::Warning);
            if let Some(before) = &vouched.text {
                self.add_bytes(source, before.clone().into_bytes());
            }
            return self.add_restrictions(source, read.ok().flatten());
        }
        if source.scope == Scope::Local && standing.is_abandoned_change(source.file, bytes) {
            // Its author is unknown, so it is accepted as it is or not at all.
            source.author = FileAuthor::Project;
        }
        match read {
            Ok(None) => {}
            Ok(Some(bytes)) => self.add_bytes(source, bytes),
            Err(error) => self.report_unreadable(source.scope, source.file, &error),
        }
    }

    /// Adds the restrictions of a file. Its other problems are reported when the file counts.
    fn add_restrictions(&mut self, source: LayerSource<'_>, bytes: Option<Vec<u8>>) {
        let Some(bytes) = bytes else { return };
        let (problems, layers) = (self.problems.len(), self.layers.len());
        self.add_bytes(source, bytes);
        self.problems.truncate(problems);
        for layer in &mut self.layers[layers..] {
            restrictions::retain_values(&mut layer.root, "", |path, _| restrictions::LISTS.contains(&path));
            layer.is_recovered = true;
        }
    }

    fn load_settings_flag(&mut self, flag: &str) {
        let cwd = self.locations.cwd.clone();
        if flag.trim_start().starts_with('{') {
            let path = Path::new("--settings");
            if flag.len() as u64 > FLAG_MAX_BYTES {
                return self.report_unreadable(Scope::Flag, path, &FileReadError::TooLarge(FLAG_MAX_BYTES));
            }
            let source = LayerSource { scope: Scope::Flag, file: path, author: FileAuthor::User, anchor: &cwd };
            return self.add_bytes(source, flag.as_bytes().to_vec());
        }
        let path = cwd.join(flag);
        let anchor = path.parent().unwrap_or(&cwd);
        let (standing, read) = LeaseWindow::read_with_leases(&self.locations, || read_file(&path, FLAG_MAX_BYTES));
        if matches!(read, Ok(None)) {
            self.report_error(&path, "--settings names this file, and it does not exist".into());
        }
        self.add_file(
            &standing,
            LayerSource { scope: Scope::Flag, file: &path, author: FileAuthor::User, anchor },
            read,
        );
    }

    fn add_bytes(&mut self, source: LayerSource<'_>, bytes: Vec<u8>) {
        let LayerSource { scope, file: path, author, anchor } = source;
        let DecodedText { text, trouble } = decode_text(bytes);
        let text = JsonText::new(text);
        // A local file that came with the project may set no more than the project's own.
        let limits = if author == FileAuthor::Project { Scope::Project } else { scope };
        let mut intake =
            LayerValidator { scope: limits, file: path, text: &text, problems: &mut self.problems, rejected: false };
        let parsed = match trouble {
            Some(error) => Err(error),
            None => json::parse_json(text.as_str()),
        };
        let (root, salvaged) = match parsed {
            Err(error) => {
                let kept = json::recover_restrictions(text.as_str());
                let what = match kept.members().is_empty() {
                    true if scope == Scope::Flag => "nothing of it counts",
                    true => "the file is ignored, and with it every rule in it",
                    false => "the file is ignored, except its restrictions, as far as they can be read",
                };
                intake.report(ProblemSeverity::Error, Some(error.offset), "", format!("{}; {what}", error.message));
                (kept, true)
            }
            Ok(parsed) => {
                for remark in parsed.warnings {
                    intake.report(ProblemSeverity::Warning, Some(remark.offset), "", remark.message);
                }
                let is_object = matches!(parsed.root.json, JsonValue::Object(_));
                let mut root = intake.validate(parsed.root);
                if parsed.has_duplicate_keys || !is_object {
                    merge_shadowed_rules(&mut root, &json::recover_restrictions(text.as_str()));
                }
                (root, !is_object)
            }
        };
        let rejected = intake.rejected;
        if salvaged && root.members().is_empty() {
            return;
        }
        let (file, anchor) = (path.to_owned(), anchor.to_owned());
        self.layers.push(SettingsLayer {
            scope,
            file,
            author,
            anchor,
            text: Arc::new(text),
            root,
            is_recovered: salvaged,
            is_rejected: rejected,
            is_previous_content: false,
        });
    }

    fn report_unreadable(&mut self, scope: Scope, path: &Path, error: &FileReadError) {
        let what = match scope {
            Scope::Managed => "what the administrator says there is not known".into(),
            _ => format!(
                "{} are not used, and since nobody knows what they forbid, nothing is allowed but by a rule elsewhere",
                scope.label()
            ),
        };
        self.report_error(path, format!("{error}; {what}"));
        match scope {
            Scope::Managed => self.unreadable_policy = self.problems.last().cloned(),
            _ => self.unreadable_files.push(path.to_owned()),
        }
    }

    fn report_error(&mut self, path: &Path, message: String) {
        self.problems.push(SettingsProblem {
            severity: ProblemSeverity::Error,
            file: path.to_owned(),
            line: None,
            column: None,
            key: String::new(),
            message,
        });
    }
}

/// Source of a settings layer.
#[derive(Clone, Copy)]
struct LayerSource<'a> {
    scope: Scope,
    file: &'a Path,
    author: FileAuthor,
    anchor: &'a Path,
}

/// Text of a file, and the problem with its bytes.
struct DecodedText {
    text: String,
    trouble: Option<JsonSyntaxError>,
}

/// Settings are UTF-8. Other texts are made out as far as they can be: they may still forbid something.
fn decode_text(bytes: Vec<u8>) -> DecodedText {
    let wide = match bytes.as_slice() {
        [0xff, 0xfe, ..] | [b'{', 0, ..] => Some(u16::from_le_bytes as fn([u8; 2]) -> u16),
        [0xfe, 0xff, ..] | [0, b'{', ..] => Some(u16::from_be_bytes as fn([u8; 2]) -> u16),
        _ => None,
    };
    if let Some(unit) = wide {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let message = "this is UTF-16, and settings are UTF-8: save it in that encoding".to_owned();
        return DecodedText {
            text: String::from_utf16_lossy(&units),
            trouble: Some(JsonSyntaxError { offset: 0, message }),
        };
    }
    match String::from_utf8(bytes) {
        Ok(text) => DecodedText { text, trouble: None },
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            DecodedText {
                text,
                trouble: Some(JsonSyntaxError { offset, message: "this byte is not UTF-8".to_owned() }),
            }
        }
    }
}

/// Adds the entries of lists that a duplicate key hides, and a sandbox that one of several blocks switches on: a
/// restriction in any of them applies.
fn merge_shadowed_rules(root: &mut JsonNode, all: &JsonNode) {
    for list in restrictions::LISTS {
        let Some(rules) = all.find(list.split('.')) else { continue };
        let Some(known) =
            get_or_create_path(root, list, || JsonValue::Array(Vec::new())).and_then(JsonNode::elements_mut)
        else {
            continue;
        };
        for rule in rules.elements() {
            if !known.iter().any(|other| other.as_str() == rule.as_str()) {
                known.push(rule.clone());
            }
        }
    }
    if all.find(["sandbox", "enabled"]).is_some()
        && let Some(switch) = get_or_create_path(root, "sandbox.enabled", || JsonValue::Bool(true))
    {
        switch.json = JsonValue::Bool(true);
    }
}

/// Returns the value at a path, created if it is missing.
fn get_or_create_path<'n>(root: &'n mut JsonNode, path: &str, json: fn() -> JsonValue) -> Option<&'n mut JsonNode> {
    let (groups, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut block = root;
    for group in groups.split('.').filter(|group| !group.is_empty()) {
        block = block.get_or_insert(group, || JsonValue::Object(Vec::new()))?;
    }
    block.get_or_insert(last, json)
}

/// Lists the drop-in files, in the order in which they are applied.
pub(crate) fn list_drop_in_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.starts_with('.') && name.ends_with(".json") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
