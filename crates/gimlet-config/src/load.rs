//! Reads every settings file there is, from the weakest to the strongest. A file that cannot be used is a problem with a
//! line and a reason, never a failure: gimlet starts with what is left.

mod forbids;
mod intake;
mod layer;
mod limits;
mod managed;
mod shipped;
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
use crate::vouched::{self, Around};
use intake::Intake;

pub use layer::{Author, Layer};
pub use managed::Policy;
pub use shipped::forget_shipped;

/// `--settings` may be larger than a file: programs write it.
const FLAG_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// What is said of a file that a command may have written.
const WAITS: &str = "it changed while a sandboxed command runs that could have written it; until that has ended, only new \
rules in it that forbid count. What 'gimlet config' writes counts at once; another file that is new is moved away then";

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
    /// Files that are there and cannot be read: nobody knows what they forbid.
    pub unread: Vec<PathBuf>,
    /// Files that changed while a sandboxed command runs which could have written them. They go on saying what they said
    /// before, and forbid what they forbid now.
    pub waiting: Vec<PathBuf>,
}

/// Reads the settings of every scope that the options leave.
pub fn load(locations: &Locations, options: &Options) -> Loaded {
    let mut loaded = Loaded {
        locations: locations.clone(),
        sources: options.sources,
        layers: Vec::new(),
        problems: Vec::new(),
        unread_policy: None,
        unread: Vec::new(),
        waiting: Vec::new(),
    };
    if options.sources.user {
        loaded.user_file();
    }
    if options.sources.project {
        loaded.project_file();
    }
    // The legacy place first: where both say something, the repository's own file wins.
    for file in locations.legacy_local_file().into_iter().chain([locations.local_file()]) {
        // Who wrote it is asked about what was read: the answer can take a while. It is asked also where the file does not
        // count: the next run has to know what this one could see.
        let (standing, read) = Around::read(locations, || files::read(&file, SETTINGS_MAX_BYTES));
        let author = tracked::author(locations, &file);
        if options.sources.local {
            loaded.take(&standing, Source { scope: Scope::Local, file: &file, author, anchor: &locations.cwd }, read);
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
    let mut intake = Intake { scope, file: Path::new(""), text: &text, problems: &mut problems, rejected: false };
    intake.admit(parsed.root);
    let objection = problems.into_iter().find(|problem| problem.severity > Severity::Info)?;
    // Said of a value that is not in any file yet.
    let message = objection.message.trim_start_matches("ignored: ");
    Some(message.split("; the file is ignored").next().unwrap_or_default().to_owned())
}

impl Loaded {
    /// Problems that must be said at every start.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// Whether a file of the person's own is broken, or any was rejected for a value: some of what it closes may be lost.
    pub fn is_damaged(&self) -> bool {
        let own = [self.locations.user_file(), self.locations.local_file()];
        let is_held = |file: &PathBuf| self.layers.iter().any(|layer| layer.held && layer.file == *file);
        let is_broken =
            |problem: &Problem| problem.key.is_empty() && own.contains(&problem.file) && !is_held(&problem.file);
        self.errors().any(is_broken) || self.layers.iter().any(|layer| layer.rejected)
    }

    /// Whether the person turned the sandbox on, whatever a project says.
    pub fn person_wants_sandbox(&self) -> bool {
        let mut persons = self.layers.iter().filter(|layer| layer.author == Author::Person);
        persons.any(|layer| layer.value()["sandbox"]["enabled"] == true)
    }

    /// The files that waited and say what they say from now on.
    pub fn settled(&self) -> Vec<PathBuf> {
        self.waiting.iter().filter(|file| vouched::is_over(&self.locations, file)).cloned().collect()
    }

    fn project_file(&mut self) {
        let locations = self.locations.clone();
        let path = locations.project_file();
        let read = || files::read_inside(locations.project_root(), &path, SETTINGS_MAX_BYTES);
        let (standing, read) = Around::read(&locations, read);
        let (scope, author) = (Scope::Project, Author::Project);
        self.take(&standing, Source { scope, file: &path, author, anchor: &locations.cwd }, read);
    }

    /// The person's own file. Where others could have written it, only what it forbids is believed.
    fn user_file(&mut self) {
        let locations = self.locations.clone();
        let file = locations.user_file();
        let source = Source { scope: Scope::User, file: &file, author: Author::Person, anchor: &locations.config_dir };
        let (standing, read) = Around::read(&locations, || files::read(&file, SETTINGS_MAX_BYTES));
        self.take(&standing, source, read);
        let doubts = locations.person.home_doubts(&locations.config_dir, &file);
        if doubts.is_empty() {
            return;
        }
        for layer in &mut self.layers {
            layer.root = forbids::strict_part(layer.root.clone());
            layer.salvaged = true;
        }
        let records = locations.person.home_doubts(&locations.config_dir, &locations.trust_file());
        let what = match (file.exists(), records.is_empty()) {
            (true, true) => "of these settings only what they forbid counts",
            (true, false) => "of these settings only what they forbid counts, and records of trust do not count",
            (false, _) => "records of trust do not count",
        };
        let place = if file.exists() { &file } else { &locations.config_dir };
        self.problem(place, format!("{what}: {}", ownership::sentence(&doubts)));
    }

    /// Takes up what a file says, unless a sandboxed command that runs could have written it.
    fn take(&mut self, standing: &Around, mut source: Source<'_>, read: Result<Option<Vec<u8>>, ReadError>) {
        let bytes = read.as_ref().ok().and_then(Option::as_deref);
        if let Some(vouched) = standing.doubts(source.file, bytes) {
            self.waiting.push(source.file.to_owned());
            self.problem(source.file, WAITS.to_owned());
            self.problems.last_mut().into_iter().for_each(|problem| problem.severity = Severity::Warning);
            if let Some(before) = &vouched.text {
                self.bytes(source, before.clone().into_bytes());
            }
            return self.forbidding(source, read.ok().flatten());
        }
        if source.scope == Scope::Local && standing.was_abandoned(source.file, bytes) {
            // Nobody knows whose it is, so it is accepted as it is or not at all.
            source.author = Author::Project;
        }
        match read {
            Ok(None) => {}
            Ok(Some(bytes)) => self.bytes(source, bytes),
            Err(error) => self.unreadable(source.scope, source.file, &error),
        }
    }

    /// Takes up the lists by which a file forbids something. Whatever else is wrong with it is said when it counts.
    fn forbidding(&mut self, source: Source<'_>, bytes: Option<Vec<u8>>) {
        let Some(bytes) = bytes else { return };
        let (problems, layers) = (self.problems.len(), self.layers.len());
        self.bytes(source, bytes);
        self.problems.truncate(problems);
        for layer in &mut self.layers[layers..] {
            forbids::retain(&mut layer.root, "", |path, _| forbids::LISTS.contains(&path));
            layer.salvaged = true;
        }
    }

    fn flag(&mut self, flag: &str) {
        let cwd = self.locations.cwd.clone();
        if flag.trim_start().starts_with('{') {
            let path = Path::new("--settings");
            if flag.len() as u64 > FLAG_MAX_BYTES {
                return self.unreadable(Scope::Flag, path, &ReadError::TooLarge(FLAG_MAX_BYTES));
            }
            let source = Source { scope: Scope::Flag, file: path, author: Author::Person, anchor: &cwd };
            return self.bytes(source, flag.as_bytes().to_vec());
        }
        let path = cwd.join(flag);
        let anchor = path.parent().unwrap_or(&cwd);
        let (standing, read) = Around::read(&self.locations, || files::read(&path, FLAG_MAX_BYTES));
        if matches!(read, Ok(None)) {
            self.problem(&path, "--settings names this file, and it does not exist".into());
        }
        self.take(&standing, Source { scope: Scope::Flag, file: &path, author: Author::Person, anchor }, read);
    }

    fn bytes(&mut self, source: Source<'_>, bytes: Vec<u8>) {
        let Source { scope, file: path, author, anchor } = source;
        let Decoded { text, trouble } = decode(bytes);
        let text = JsonText::new(text);
        // A local file that came with the project may say no more than the project's own.
        let limits = if author == Author::Project { Scope::Project } else { scope };
        let mut intake =
            Intake { scope: limits, file: path, text: &text, problems: &mut self.problems, rejected: false };
        let parsed = match trouble {
            Some(error) => Err(error),
            None => json::parse(text.as_str()),
        };
        let (root, salvaged) = match parsed {
            Err(error) => {
                let kept = json::restrictions(text.as_str());
                let what = match kept.members().is_empty() {
                    true if scope == Scope::Flag => "nothing of it counts",
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
                let is_object = matches!(parsed.root.json, Json::Object(_));
                let mut root = intake.admit(parsed.root);
                if parsed.hides_keys || !is_object {
                    keep_hidden_rules(&mut root, &json::restrictions(text.as_str()));
                }
                (root, !is_object)
            }
        };
        let rejected = intake.rejected;
        if salvaged && root.members().is_empty() {
            return;
        }
        let (file, anchor) = (path.to_owned(), anchor.to_owned());
        self.layers.push(Layer {
            scope,
            file,
            author,
            anchor,
            text: Arc::new(text),
            root,
            salvaged,
            rejected,
            held: false,
        });
    }

    fn unreadable(&mut self, scope: Scope, path: &Path, error: &ReadError) {
        let what = match scope {
            Scope::Managed => "what the administrator says there is not known".into(),
            _ => format!(
                "{} are not used, and since nobody knows what they forbid, nothing is allowed but by a rule elsewhere",
                scope.label()
            ),
        };
        self.problem(path, format!("{error}; {what}"));
        match scope {
            Scope::Managed => self.unread_policy = self.problems.last().cloned(),
            _ => self.unread.push(path.to_owned()),
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

/// Where settings come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    scope: Scope,
    file: &'a Path,
    author: Author,
    anchor: &'a Path,
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

/// Adds what stands in lists that another one of the same name hides, and a sandbox that one of several blocks switches on:
/// what one of them forbids is forbidden.
fn keep_hidden_rules(root: &mut Node, all: &Node) {
    for list in forbids::LISTS {
        let Some(rules) = all.find(list.split('.')) else { continue };
        let Some(known) = made(root, list, || Json::Array(Vec::new())).and_then(Node::elements_mut) else { continue };
        for rule in rules.elements() {
            if !known.iter().any(|other| other.as_str() == rule.as_str()) {
                known.push(rule.clone());
            }
        }
    }
    if all.find(["sandbox", "enabled"]).is_some()
        && let Some(switch) = made(root, "sandbox.enabled", || Json::Bool(true))
    {
        switch.json = Json::Bool(true);
    }
}

/// The value at a path, made if there is none.
fn made<'n>(root: &'n mut Node, path: &str, json: fn() -> Json) -> Option<&'n mut Node> {
    let (groups, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut block = root;
    for group in groups.split('.').filter(|group| !group.is_empty()) {
        block = block.entry(group, || Json::Object(Vec::new()))?;
    }
    block.entry(last, json)
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
