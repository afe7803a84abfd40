//! Collects memory: the administrator's, the user's, that of the folders from the root of the file system down to the
//! working directory, rules, and what all of these import. A file with several names is delivered once.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::field_reader::FieldReader;
use super::front_matter::{self, FieldTable};
use super::memory_file::{ConditionalRule, MemoryFile, MemoryFiles, MemoryOptions, MemoryReason, MemoryScope};
use super::memory_text;
use super::{DocumentContent, DocumentReader, PathPatterns, SkippedDocument, skill_discovery};
use crate::file_ownership;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::trust::{self, ProjectTrust};

/// Maximum size of a memory file.
const MEMORY_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum number of files from one that is found to one that it leads to.
const MAX_HOPS: usize = 4;

const RULE_FIELDS: FieldTable = FieldTable {
    names: &["paths"],
    old_names: &[("globs", "paths"), ("path", "paths"), ("applyTo", "paths")],
    inert: &[
        "name",
        "title",
        "description",
        "alwaysApply",
        "type",
        "version",
        "author",
        "tags",
        "category",
        "metadata",
        "priority",
        "created",
        "updated",
    ],
    structured: &["metadata"],
};

impl DocumentReader {
    /// Reads the memory that a session begins with.
    pub fn memory(&self, options: &MemoryOptions<'_>) -> MemoryFiles {
        let mut collector = MemoryCollector::new(self, options, HashSet::new());
        collector.add_managed();
        collector.add_user();
        collector.add_folders();
        for folder in options.added_folders {
            let Ok(folder) = folder.canonicalize() else { continue };
            collector.add_folder(&folder, &MemorySource::for_project(&folder, MemoryReason::AddedFolder));
        }
        collector.finish()
    }

    /// Reads the memory that a file below the working directory brings when it is read, without the files that were
    /// delivered before.
    pub fn nested_memory(&self, file: &Path, options: &MemoryOptions<'_>, delivered: &HashSet<PathBuf>) -> MemoryFiles {
        let mut collector = MemoryCollector::new(self, options, delivered.clone());
        let source = MemorySource::for_project(self.locations.project_root(), MemoryReason::NestedTraversal);
        for folder in skill_discovery::folders_below(&self.locations.cwd, file) {
            collector.add_folder(folder, &source);
        }
        let mut found = collector.finish();
        let (matching, other) = std::mem::take(&mut found.conditional).into_iter().partition(|rule| rule.matches(file));
        found.conditional = other;
        let matching: Vec<ConditionalRule> = matching;
        found.files.extend(matching.into_iter().flat_map(|rule| rule.files));
        found
    }

    /// Returns the items that imports and symlinks of the project's memory are for trust.
    pub(crate) fn memory_items(&self) -> Vec<trust::ProjectItem> {
        let options = MemoryOptions {
            trust: &ProjectTrust::none(),
            may_read: &|_| true,
            managed_text: None,
            excludes: &[],
            added_folders: &[],
        };
        let mut collector = MemoryCollector::new(self, &options, HashSet::new());
        collector.add_folders();
        collector.finish().waiting
    }
}

/// Author of memory, which decides where it may lead.
#[derive(Clone, Debug)]
enum MemoryAuthor {
    /// The user or the administrator: anywhere.
    Own,
    /// A project: inside this folder without trust.
    Project(PathBuf),
    /// Somebody above the project: inside this folder, which must be safe from others.
    Ancestor(PathBuf),
}

/// Origin of the files that are being added.
#[derive(Clone, Debug)]
struct MemorySource {
    scope: MemoryScope,
    reason: MemoryReason,
    author: MemoryAuthor,
    hops: usize,
}

impl MemorySource {
    fn for_project(border: &Path, reason: MemoryReason) -> Self {
        Self { scope: MemoryScope::Project, reason, author: MemoryAuthor::Project(border.to_owned()), hops: 0 }
    }

    fn for_own(scope: MemoryScope) -> Self {
        Self { scope, reason: MemoryReason::SessionStart, author: MemoryAuthor::Own, hops: 0 }
    }
}

/// File that was read.
struct ReadMemory {
    document: Arc<DocumentContent>,
    real: PathBuf,
    /// True if it is outside the project, accepted by the user.
    is_outside: bool,
}

/// Rule that waits until all unconditional files are known.
struct PendingRule {
    folder: PathBuf,
    patterns: Vec<String>,
    path: PathBuf,
    read: ReadMemory,
    text: String,
    source: MemorySource,
}

struct MemoryCollector<'a> {
    reader: &'a DocumentReader,
    options: &'a MemoryOptions<'a>,
    excludes: PathPatterns,
    seen: HashSet<PathBuf>,
    pending: Vec<PendingRule>,
    found: MemoryFiles,
}

impl<'a> MemoryCollector<'a> {
    fn new(reader: &'a DocumentReader, options: &'a MemoryOptions<'a>, seen: HashSet<PathBuf>) -> Self {
        let home = reader.locations.home.as_deref();
        let expand = |pattern: &String| match (pattern.strip_prefix("~/"), home) {
            (Some(below), Some(home)) => home.join(below).to_string_lossy().into_owned(),
            _ => pattern.clone(),
        };
        let excludes = PathPatterns::new(options.excludes.iter().map(expand).collect());
        Self { reader, options, excludes, seen, pending: Vec::new(), found: MemoryFiles::default() }
    }

    /// Adds the rules for certain files, which may import what no other file did.
    fn finish(mut self) -> MemoryFiles {
        for rule in std::mem::take(&mut self.pending) {
            let before = std::mem::take(&mut self.found.files);
            let seen = self.seen.clone();
            let source =
                MemorySource { reason: MemoryReason::PathGlobMatch { patterns: rule.patterns.clone() }, ..rule.source };
            self.deliver(&rule.path, rule.read, rule.text, &source);
            self.seen = seen;
            let files = std::mem::replace(&mut self.found.files, before);
            if !files.is_empty() {
                let patterns = PathPatterns::new(rule.patterns);
                self.found.conditional.push(ConditionalRule { folder: rule.folder, patterns, files });
            }
        }
        self.found
    }

    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        self.found.skipped.push(SkippedDocument::new(path, reason));
    }

    fn add_managed(&mut self) {
        let dir = self.reader.locations.managed_dir.clone();
        let file = dir.join("CLAUDE.md");
        if let Some(text) = self.options.managed_text.filter(|text| !text.trim().is_empty()) {
            self.found.files.push(MemoryFile {
                path: dir.clone(),
                real_path: dir.clone(),
                scope: MemoryScope::Managed,
                reason: MemoryReason::SessionStart,
                text: text.to_owned(),
            });
        }
        let doubts = self.reader.locations.user.check_file(&dir, &file);
        if doubts.is_empty() {
            self.add_file(&file, &MemorySource::for_own(MemoryScope::Managed));
        } else if file.exists() {
            self.skip(&file, file_ownership::describe_problems(&doubts));
        }
    }

    fn add_user(&mut self) {
        if !self.reader.sources.user {
            return;
        }
        let locations = &self.reader.locations;
        let file = locations.config_dir.join("CLAUDE.md");
        let rules = locations.config_dir.join("rules");
        let source = MemorySource::for_own(MemoryScope::User);
        for path in [&file, &rules] {
            let doubts =
                if path.exists() { locations.user.check_config_home(&locations.config_dir, path) } else { Vec::new() };
            if !doubts.is_empty() {
                self.skip(path, file_ownership::describe_problems(&doubts));
            } else if path == &file {
                self.add_file(path, &source);
            } else {
                self.add_rules(path, locations.project_root(), &source);
            }
        }
    }

    /// Adds the folders from the root of the file system to the working directory.
    fn add_folders(&mut self) {
        let locations = &self.reader.locations;
        let root = locations.project_root();
        let mut folders: Vec<&Path> = locations.cwd.ancestors().collect();
        folders.reverse();
        for folder in folders {
            let mut source = MemorySource::for_project(root, MemoryReason::SessionStart);
            if !folder.starts_with(root) {
                source.author = MemoryAuthor::Ancestor(folder.to_owned());
            }
            self.add_folder(folder, &source);
        }
    }

    fn add_folder(&mut self, folder: &Path, source: &MemorySource) {
        let claude_dir = folder.join(".claude");
        // The user's own memory is not the project's.
        let is_own = claude_dir == self.reader.locations.config_dir || claude_dir == self.reader.config_dir;
        let (main, hidden, local) =
            (folder.join("CLAUDE.md"), claude_dir.join("CLAUDE.md"), folder.join("CLAUDE.local.md"));
        let exists = |path: &Path| path.symlink_metadata().is_ok();
        if self.reader.sources.project {
            if !exists(&main) && (is_own || !exists(&hidden)) && !exists(&local) {
                self.add_file(&folder.join("AGENTS.md"), source);
            }
            self.add_file(&main, source);
            if !is_own {
                self.add_file(&hidden, source);
                self.add_rules(&claude_dir.join("rules"), folder, source);
            }
        }
        if self.reader.sources.local {
            let source = MemorySource { scope: MemoryScope::Local, ..source.clone() };
            self.add_file(&local, &source);
            if !is_own {
                self.add_file(&claude_dir.join("CLAUDE.local.md"), &source);
            }
        }
    }

    fn add_rules(&mut self, top: &Path, folder: &Path, source: &MemorySource) {
        if top.symlink_metadata().is_err() {
            return;
        }
        let border = match &source.author {
            MemoryAuthor::Own => None,
            MemoryAuthor::Project(border) | MemoryAuthor::Ancestor(border) => Some(border.clone()),
        };
        let walk = self.reader.walk(top, border.as_deref());
        self.found.skipped.extend(walk.skipped.iter().cloned());
        for file in walk.files.iter().filter(|file| super::is_markdown(&file.path)) {
            self.add_rule(&file.path, Some(&file.real), folder, source);
        }
        for link in &walk.outside {
            if self.accept_outside(&link.path, &link.real, source) {
                let walk = self.reader.walk(&link.real, None);
                self.found.skipped.extend(walk.skipped.iter().cloned());
                // The user accepted the folder with what is in it.
                let own = MemorySource { author: MemoryAuthor::Own, ..source.clone() };
                for file in walk.files.iter().filter(|file| super::is_markdown(&file.path)) {
                    self.add_rule(&file.path, Some(&file.real), folder, &own);
                }
            }
        }
    }

    fn add_file(&mut self, path: &Path, source: &MemorySource) {
        if let Some(read) = self.read(path, None, source) {
            let text = read.document.text.clone();
            self.deliver(path, read, text, source);
        }
    }

    fn add_rule(&mut self, path: &Path, real: Option<&Path>, folder: &Path, source: &MemorySource) {
        let Some(read) = self.read(path, real, source) else { return };
        let text = read.document.text.as_str();
        let parts = front_matter::split_document(text);
        if !parts.is_closed {
            let skipped = SkippedDocument {
                path: path.to_owned(),
                line: Some(1),
                reason: "the front matter has no closing `---`".to_owned(),
            };
            self.found.skipped.push(skipped);
            return;
        }
        let mut fields = match FieldReader::parse(path, &text[parts.front_matter], &RULE_FIELDS) {
            Ok(fields) => fields,
            Err(error) => {
                // Without its patterns the rule would be about every file.
                let reason = format!("the front matter cannot be read: {}", error.message);
                self.found.skipped.push(SkippedDocument { path: path.to_owned(), line: Some(error.line), reason });
                return;
            }
        };
        let patterns = fields.patterns("paths").unwrap_or_default();
        self.found.problems.extend(fields.into_problems());
        let body = text[parts.body].to_owned();
        // A pattern for every file is no condition.
        if patterns.is_empty() || patterns.iter().any(|pattern| matches!(pattern.as_str(), "**" | "**/*")) {
            self.deliver(path, read, body, source);
        } else {
            let (folder, path, source) = (folder.to_owned(), path.to_owned(), source.clone());
            self.pending.push(PendingRule { folder, patterns, path, read, text: body, source });
        }
    }

    /// Reads a file that may be used; `None` if it does not exist, was delivered, or is skipped.
    fn read(&mut self, path: &Path, real: Option<&Path>, source: &MemorySource) -> Option<ReadMemory> {
        let real = match real {
            Some(real) => real.to_owned(),
            None => {
                path.symlink_metadata().ok()?;
                let Ok(real) = path.canonicalize() else {
                    self.skip(path, "it is a link that leads nowhere");
                    return None;
                };
                real
            }
        };
        if self.seen.contains(&real) {
            return None;
        }
        let is_excluded = |path: &Path| self.excludes.matches_absolute(path);
        if source.scope != MemoryScope::Managed && (is_excluded(path) || is_excluded(&real)) {
            self.skip(path, "`claudeMdExcludes` leaves it out");
            return None;
        }
        let is_named_elsewhere = real != path || matches!(source.reason, MemoryReason::Include { .. });
        if is_named_elsewhere && !((self.options.may_read)(path) && (self.options.may_read)(&real)) {
            self.skip(path, "a rule forbids reading it");
            return None;
        }
        let border = self.border_for(&real, &source.author);
        let is_outside = border.is_none() && !matches!(source.author, MemoryAuthor::Own);
        if is_outside && !self.accept_outside(self.naming_file(path, source), &real, source) {
            return None;
        }
        if let Some(reason) = self.ownership_reason(path, &real, source, is_outside) {
            self.skip(path, reason);
            return None;
        }
        let opened = if is_outside { &real } else { path };
        let document = match self.reader.read(opened, border.as_deref(), MEMORY_MAX_BYTES) {
            Ok(document) => document?,
            Err(error) => {
                self.skip(path, error.to_string());
                return None;
            }
        };
        if let Some(reason) = document.binary_reason() {
            self.skip(path, reason);
            return None;
        }
        if let Err(error) = std::str::from_utf8(document.bytes()) {
            let message = format!("byte {} is not UTF-8 and replaced; save the file as UTF-8", error.valid_up_to());
            self.found.problems.push(SettingsProblem {
                severity: ProblemSeverity::Warning,
                file: path.to_owned(),
                line: None,
                column: None,
                key: String::new(),
                message,
            });
        }
        self.seen.insert(real.clone());
        Some(ReadMemory { document, real, is_outside })
    }

    /// Returns the folder that a file must be read inside; `None` if it is outside, or the user's own.
    fn border_for(&self, real: &Path, author: &MemoryAuthor) -> Option<PathBuf> {
        let root = self.reader.locations.project_root();
        match author {
            MemoryAuthor::Own => None,
            MemoryAuthor::Project(border) => real.starts_with(border).then(|| border.clone()),
            MemoryAuthor::Ancestor(folder) if real.starts_with(folder) => Some(folder.clone()),
            MemoryAuthor::Ancestor(_) => real.starts_with(root).then(|| root.to_owned()),
        }
    }

    /// Returns the file that leads to a path: the importing one, or the symlink itself.
    fn naming_file<'p>(&self, path: &'p Path, source: &'p MemorySource) -> &'p Path {
        match &source.reason {
            MemoryReason::Include { from } => from,
            _ => path,
        }
    }

    /// Returns true if the user accepted that a file of the project leads to this one.
    fn accept_outside(&mut self, file: &Path, target: &Path, source: &MemorySource) -> bool {
        if matches!(source.author, MemoryAuthor::Own) {
            return true;
        }
        let item = trust::import_item(self.reader.locations.project_root(), file, target);
        if self.options.trust.covers(&item) {
            return true;
        }
        let reason =
            format!("it leads out of the project, to {}, and waits for trust in this folder", target.display());
        self.skip(file, reason);
        if !self.found.waiting.contains(&item) {
            self.found.waiting.push(item);
        }
        false
    }

    /// Returns the reason why a file could be somebody else's; `None` if it could not, or if that does not matter.
    fn ownership_reason(&self, path: &Path, real: &Path, source: &MemorySource, is_outside: bool) -> Option<String> {
        let user = self.reader.locations.user;
        let doubts = match &source.author {
            _ if is_outside => user.check_single_file(real).into_iter().collect(),
            MemoryAuthor::Own => user.check_single_file(real).into_iter().collect(),
            MemoryAuthor::Project(_) => Vec::new(),
            MemoryAuthor::Ancestor(folder) => {
                let mut doubts = user.check_file(folder, path);
                if let Some(parent) = path.parent().filter(|parent| parent != folder) {
                    doubts.extend(user.check_file(parent, path));
                }
                doubts
            }
        };
        (!doubts.is_empty()).then(|| file_ownership::describe_problems(&doubts))
    }

    /// Adds a file, and what it imports behind it.
    fn deliver(&mut self, path: &Path, read: ReadMemory, text: String, source: &MemorySource) {
        let document = read.document.clone();
        let kept = memory_text::strip_comments(&text);
        let imports = memory_text::find_imports(&kept);
        let text = super::trim_blank_lines(&kept).to_owned();
        if !text.is_empty() {
            self.found.files.push(MemoryFile {
                path: path.to_owned(),
                real_path: read.real,
                scope: source.scope,
                reason: source.reason.clone(),
                text,
            });
        }
        let author = if read.is_outside { MemoryAuthor::Own } else { source.author.clone() };
        let reason = MemoryReason::Include { from: path.to_owned() };
        let source = MemorySource { scope: source.scope, reason, author, hops: source.hops + 1 };
        for target in imports {
            self.add_import(path, &document, &target, &source);
        }
    }

    fn add_import(&mut self, from: &Path, document: &DocumentContent, target: &str, source: &MemorySource) {
        let Some(path) = self.resolve_import(from, target) else { return };
        let is_path_like = memory_text::is_path_like(target);
        let problem = match path.metadata() {
            Ok(metadata) if metadata.is_dir() && !is_path_like => return,
            Ok(_) if self.is_delivered(&path) => return,
            Ok(_) if source.hops > MAX_HOPS => format!("imports are followed through {MAX_HOPS} files"),
            Ok(_) => {
                self.add_file(&path, source);
                return;
            }
            Err(_) if !is_path_like => return,
            Err(_) => "the file does not exist".to_owned(),
        };
        let mention = format!("@{target}");
        self.found.skipped.push(SkippedDocument {
            path: from.to_owned(),
            line: document.text.lines().position(|line| line.contains(&mention)).map(|at| at + 1),
            reason: format!("the import {mention}: {problem}"),
        });
    }

    fn is_delivered(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|real| self.seen.contains(&real))
    }

    fn resolve_import(&self, from: &Path, target: &str) -> Option<PathBuf> {
        let joined = match target.strip_prefix("~/") {
            Some(below) => self.reader.locations.home.as_ref()?.join(below),
            None => from.parent()?.join(target),
        };
        let here = |part: &Component<'_>| *part == Component::CurDir;
        Some(joined.components().filter(|part| !here(part)).collect())
    }
}
