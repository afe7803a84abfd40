//! Reads every settings file there is, from the weakest to the strongest. A file that cannot be used is a problem with a
//! line and a reason, never a failure: gimlet starts with what is left.

mod forbids;
mod intake;
mod layer;
mod limits;
mod managed;
mod tracked;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::effective::RuleBehavior;
use crate::files::{self, ReadError, SETTINGS_MAX_BYTES};
use crate::json::{self, Json, JsonError, JsonText, Node};
use crate::locations::Locations;
use crate::ownership;
use crate::problem::{Problem, Severity};
use crate::scope::{Scope, Sources};
use intake::Intake;

pub use layer::{Author, Layer};
pub use managed::Policy;

/// `--settings` may be larger than a file: programs write it.
const FLAG_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// What a caller wants read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The value of `--settings`: a path, or JSON.
    pub settings_flag: Option<String>,
    /// The value of `--setting-sources`.
    pub sources: Sources,
    /// What the administrator's program printed, once it has been asked.
    pub policy: Option<Policy>,
    /// The value of `--managed-settings`: JSON of an embedding program.
    pub parent: Option<String>,
    /// Says what is wrong with the text of a rule. Their syntax is not known here.
    pub rule_objection: Option<fn(RuleBehavior, &str) -> Option<String>>,
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub locations: Locations,
    pub sources: Sources,
    /// The weakest first.
    pub layers: Vec<Layer>,
    pub problems: Vec<Problem>,
    /// What keeps settings of the administrator from being read, if anything does: nobody knows what they forbid.
    pub unread_policy: Option<Problem>,
}

/// Reads the settings of every scope that the options leave.
pub fn load(locations: &Locations, options: &Options) -> Loaded {
    let mut loaded = Loaded {
        locations: locations.clone(),
        sources: options.sources,
        layers: Vec::new(),
        problems: Vec::new(),
        unread_policy: None,
    };
    if options.sources.user {
        loaded.user_file();
    }
    if options.sources.project {
        loaded.project_file();
    }
    if options.sources.local {
        // The legacy place first: where both say something, the repository's own file wins.
        for file in locations.legacy_local_file().into_iter().chain([locations.local_file()]) {
            let author = tracked::author(locations, &file);
            loaded.file(Scope::Local, &file, author, &locations.cwd);
        }
    }
    if let Some(flag) = &options.settings_flag {
        loaded.flag(flag);
    }
    loaded.managed(options);
    loaded
}

/// What would be wrong with a file of this scope that says only this.
pub(crate) fn first_objection(scope: Scope, text: &str) -> Option<String> {
    let parsed = match json::parse(text) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.message),
    };
    let text = JsonText::new(text.to_owned());
    let mut problems = Vec::new();
    let mut intake = Intake { scope, file: Path::new(""), text: &text, problems: &mut problems };
    intake.admit(parsed.root);
    let objection = problems.into_iter().find(|problem| problem.severity > Severity::Info)?;
    // Said of a value that is not in any file yet.
    Some(objection.message.split("; the file is ignored").next().unwrap_or_default().to_owned())
}

impl Loaded {
    /// Problems that must be said at every start.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error)
    }

    fn project_file(&mut self) {
        let locations = self.locations.clone();
        let path = locations.project_file();
        match files::read_inside(locations.project_root(), &path, SETTINGS_MAX_BYTES) {
            Ok(None) => {}
            Ok(Some(bytes)) => self.bytes(Scope::Project, &path, Author::Project, &locations.cwd, bytes),
            Err(error) => self.unreadable(Scope::Project, &path, &error),
        }
    }

    /// The person's own file. Where others could have written it, only what it forbids is believed.
    fn user_file(&mut self) {
        let locations = self.locations.clone();
        let file = locations.user_file();
        self.file(Scope::User, &file, Author::Person, &locations.config_dir);
        let doubts = locations.person.home_doubts(&locations.config_dir, &file);
        if doubts.is_empty() {
            return;
        }
        for layer in &mut self.layers {
            layer.root = forbids::strict_part(layer.root.clone());
            layer.salvaged = true;
        }
        let what = match file.exists() {
            true => "of these settings only what they forbid counts, and records of trust do not count",
            false => "records of trust do not count",
        };
        let place = if file.exists() { &file } else { &locations.config_dir };
        self.problem(place, format!("{what}: {}", ownership::sentence(&doubts)));
    }

    fn file(&mut self, scope: Scope, path: &Path, author: Author, anchor: &Path) {
        match files::read(path, SETTINGS_MAX_BYTES) {
            Ok(None) => {}
            Ok(Some(bytes)) => self.bytes(scope, path, author, anchor, bytes),
            Err(error) => self.unreadable(scope, path, &error),
        }
    }

    fn flag(&mut self, flag: &str) {
        let cwd = self.locations.cwd.clone();
        if flag.trim_start().starts_with('{') {
            let path = Path::new("--settings");
            if flag.len() as u64 > FLAG_MAX_BYTES {
                return self.unreadable(Scope::Flag, path, &ReadError::TooLarge(FLAG_MAX_BYTES));
            }
            return self.bytes(Scope::Flag, path, Author::Person, &cwd, flag.as_bytes().to_vec());
        }
        let path = cwd.join(flag);
        match files::read(&path, FLAG_MAX_BYTES) {
            Ok(Some(bytes)) => {
                let anchor = path.parent().map_or(cwd, Path::to_owned);
                self.bytes(Scope::Flag, &path, Author::Person, &anchor, bytes);
            }
            Ok(None) => {
                self.problem(&path, "--settings names this file, and it does not exist".into());
            }
            Err(error) => self.unreadable(Scope::Flag, &path, &error),
        }
    }

    fn bytes(&mut self, scope: Scope, path: &Path, author: Author, anchor: &Path, bytes: Vec<u8>) {
        let Decoded { text, trouble } = decode(bytes);
        let text = JsonText::new(text);
        // A local file that came with the project may say no more than the project's own.
        let limits = if author == Author::Project { Scope::Project } else { scope };
        let mut intake = Intake { scope: limits, file: path, text: &text, problems: &mut self.problems };
        let parsed = match trouble {
            Some(error) => Err(error),
            None => json::parse(text.as_str()),
        };
        let (root, salvaged) = match parsed {
            Err(error) => {
                let kept = json::restrictions(text.as_str());
                let what = match kept.members().is_empty() {
                    true => "the file is ignored, and with it every rule in it",
                    false => "the file is ignored except for what it forbids, as far as that can be made out",
                };
                intake.say(Severity::Error, Some(error.offset), "", format!("{}; {what}", error.message));
                (kept, true)
            }
            Ok(parsed) => {
                for remark in parsed.remarks {
                    intake.say(Severity::Warning, Some(remark.offset), "", remark.message);
                }
                let mut root = intake.admit(parsed.root);
                if parsed.hides_keys {
                    keep_hidden_rules(&mut root, json::restrictions(text.as_str()));
                }
                (root, false)
            }
        };
        if salvaged && root.members().is_empty() {
            return;
        }
        let (file, anchor) = (path.to_owned(), anchor.to_owned());
        self.layers.push(Layer { scope, file, author, anchor, text: Arc::new(text), root, salvaged, held: false });
    }

    fn unreadable(&mut self, scope: Scope, path: &Path, error: &ReadError) {
        let what = if scope == Scope::Managed {
            "what the administrator says there is not known".into()
        } else {
            format!("{} are not used", scope.label())
        };
        self.problem(path, format!("{error}; {what}"));
        if scope == Scope::Managed {
            self.unread_policy = self.problems.last().cloned();
        }
    }

    fn problem(&mut self, path: &Path, message: String) {
        self.problems.push(Problem {
            severity: Severity::Error,
            file: path.to_owned(),
            line: None,
            column: None,
            key: String::new(),
            message,
        });
    }
}

/// A file's text, and what is wrong with its bytes.
struct Decoded {
    text: String,
    trouble: Option<JsonError>,
}

/// Settings are UTF-8. Other texts are made out as far as they can be: they may still forbid something.
fn decode(bytes: Vec<u8>) -> Decoded {
    let wide = match bytes.as_slice() {
        [0xff, 0xfe, ..] | [b'{', 0, ..] => Some(u16::from_le_bytes as fn([u8; 2]) -> u16),
        [0xfe, 0xff, ..] | [0, b'{', ..] => Some(u16::from_be_bytes as fn([u8; 2]) -> u16),
        _ => None,
    };
    if let Some(unit) = wide {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        let message = "this is UTF-16, and settings are UTF-8: save it in that encoding".to_owned();
        return Decoded { text: String::from_utf16_lossy(&units), trouble: Some(JsonError { offset: 0, message }) };
    }
    match String::from_utf8(bytes) {
        Ok(text) => Decoded { text, trouble: None },
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Decoded { text, trouble: Some(JsonError { offset, message: "this byte is not UTF-8".to_owned() }) }
        }
    }
}

/// Adds rules of lists that another one of the same name hides: what one of them forbids is forbidden.
fn keep_hidden_rules(root: &mut Node, all: Node) {
    for list in ["deny", "ask"] {
        let Some(rules) = all.find(["permissions", list]) else { continue };
        let block = root.entry("permissions", || Json::Object(Vec::new()));
        let target = block.and_then(|block| block.entry(list, || Json::Array(Vec::new())));
        let Some(known) = target.and_then(Node::elements_mut) else { continue };
        for rule in rules.elements() {
            if !known.iter().any(|other| other.as_str() == rule.as_str()) {
                known.push(rule.clone());
            }
        }
    }
}

/// The drop-in files, in the order in which they count.
pub(crate) fn drop_in_files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
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
