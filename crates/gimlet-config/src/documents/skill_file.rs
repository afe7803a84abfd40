//! Skills, and commands that users and projects write as Markdown files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::agent_file::{self, EFFORTS};
use super::field_reader::FieldReader;
use super::front_matter::{self, FieldTable};
use super::skill_body::SkillBody;
use super::trust_gate::{TrustGate, TrustGated};
use super::{DocumentContent, DocumentOrigin, DocumentScope, FoundDocument, PathPatterns, SkippedDocument};
use crate::effective_settings::HookLine;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::settings::ShellChoice;
use crate::trust::ProjectItem;

const FIELDS: FieldTable = FieldTable {
    names: &[
        "name",
        "description",
        "when_to_use",
        "argument-hint",
        "arguments",
        "disable-model-invocation",
        "user-invocable",
        "allowed-tools",
        "disallowed-tools",
        "model",
        "effort",
        "context",
        "agent",
        "background",
        "hooks",
        "paths",
        "shell",
    ],
    old_names: &[("args", "arguments"), ("globs", "paths"), ("usage", "argument-hint")],
    inert: &[
        "metadata",
        "license",
        "compatibility",
        "version",
        "author",
        "tags",
        "category",
        "keywords",
        "homepage",
        "repository",
        "title",
        "created",
        "updated",
        "mode",
    ],
    structured: &["hooks", "metadata"],
};

/// Form of a document that is called by `/name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillKind {
    /// Folder with a `SKILL.md`.
    Skill,
    /// Markdown file in `commands`.
    Command,
}

/// Skill or command. An untrusted project may give its text; what it grants and sets is in `actions`, and its commands
/// are in the body.
#[derive(Clone, Debug)]
pub struct SkillFile {
    pub origin: DocumentOrigin,
    pub kind: SkillKind,
    /// Name that it is called by.
    pub name: String,
    /// Folder of its files, without symlinks.
    pub folder: PathBuf,
    pub listing: SkillListing,
    pub invocation: SkillInvocation,
    pub execution: SkillExecution,
    pub actions: TrustGated<SkillActions>,
    pub body: SkillBody,
}

/// Text about a skill in lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillListing {
    /// `name` of the front matter.
    pub label: Option<String>,
    /// Description, or the first paragraph of the body.
    pub description: Option<String>,
    pub when_to_use: Option<String>,
    pub argument_hint: Option<String>,
    /// Folders below `commands`, with colons between them.
    pub namespace: Option<String>,
}

/// Callers of a skill, and what it is given.
#[derive(Clone, Debug)]
pub struct SkillInvocation {
    /// Names of its arguments.
    pub arguments: Vec<String>,
    /// False hides it from the model.
    pub by_model: bool,
    /// False hides it from the user.
    pub by_user: bool,
    /// Files whose reading activates it; `None` for any.
    pub paths: Option<PathPatterns>,
}

/// Way in which a skill is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillExecution {
    pub disallowed_tools: Vec<String>,
    /// True if a subagent carries it out.
    pub in_fork: bool,
    /// Type of that subagent.
    pub agent: Option<String>,
    /// False if the turn waits for that subagent.
    pub background: bool,
    /// Shell of its commands.
    pub shell: Option<ShellChoice>,
}

/// Fields of a skill that wait for trust.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillActions {
    /// Rules that hold for the turn that calls it.
    pub allowed_tools: Vec<String>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub hooks: Vec<HookLine>,
}

/// Skills and commands of all files.
#[derive(Clone, Debug, Default)]
pub struct SkillFiles {
    /// Skills by precedence, then commands by precedence.
    pub skills: Vec<SkillFile>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
    /// Paths without symlinks of what was found, so that a file with two names counts once.
    pub(super) seen: HashSet<PathBuf>,
}

impl SkillFiles {
    /// Returns the skill or command of this name with the highest precedence.
    pub fn find(&self, name: &str) -> Option<&SkillFile> {
        self.skills.iter().find(|skill| skill.name == name)
    }

    /// Returns the items that the skills of projects are for trust.
    pub fn trust_items(&self) -> Vec<ProjectItem> {
        self.skills.iter().filter_map(|skill| skill.actions.trust_item().cloned()).collect()
    }

    /// Adds a skill, unless one of the same name has precedence over it.
    pub(super) fn add(&mut self, skill: SkillFile) {
        let is_same = |other: &&SkillFile| {
            // Commands of one name in several folders stand side by side.
            let both_commands = other.kind == SkillKind::Command && skill.kind == SkillKind::Command;
            other.name == skill.name && (!both_commands || other.listing.namespace == skill.listing.namespace)
        };
        let Some(other) = self.skills.iter().find(is_same) else {
            self.skills.push(skill);
            return;
        };
        let reason = format!("{} has the same name `{}` and precedence", other.origin.path.display(), skill.name);
        self.skipped.push(SkippedDocument::new(&skill.origin.path, reason));
    }
}

impl SkillFile {
    /// Reads a skill that is part of the program.
    pub fn from_bundled_text(name: &str, text: &str) -> Self {
        let path = PathBuf::from(format!("{name}/SKILL.md"));
        let found = FoundDocument {
            scope: DocumentScope::Managed,
            real: path.clone(),
            path,
            project: None,
            plugin: None,
            document: Arc::new(DocumentContent::new(text.as_bytes().to_vec())),
        };
        Self::parse(&found, SkillKind::Skill, name.to_owned(), TrustGate::Open, &mut Vec::new())
    }

    /// Reads a skill or command; fields that cannot be read are reported, and its text remains.
    pub(super) fn parse(
        found: &FoundDocument,
        kind: SkillKind,
        name: String,
        gate: TrustGate,
        problems: &mut Vec<SettingsProblem>,
    ) -> Self {
        let text = &found.document.text;
        let mut parts = front_matter::split_document(text);
        let mut fail = |line, message| {
            problems.push(SettingsProblem {
                severity: ProblemSeverity::Error,
                file: found.path.clone(),
                line: Some(line),
                column: None,
                key: String::new(),
                message,
            });
        };
        if !parts.is_closed {
            fail(1, "the front matter has no closing `---`, so all of the file is text".to_owned());
            parts.front_matter = 0..0;
            parts.body = 0..text.len();
        }
        let fields = FieldReader::parse(&found.path, &text[parts.front_matter], &FIELDS);
        let mut fields = fields.unwrap_or_else(|error| {
            fail(error.line, format!("the front matter cannot be read and has no effect: {}", error.message));
            FieldReader::empty(&found.path)
        });
        let (actions, set) = SkillActions::read(&mut fields, found);
        let body = SkillBody::new(found.document.clone(), parts.body, gate.clone());
        let skill = Self {
            origin: found.origin(),
            kind,
            name,
            folder: found.real.parent().unwrap_or(&found.real).to_owned(),
            listing: SkillListing::read(&mut fields, &body),
            invocation: SkillInvocation::read(&mut fields, kind),
            execution: SkillExecution::read(&mut fields),
            actions: TrustGated::new(actions, set, gate),
            body,
        };
        problems.extend(fields.into_problems().into_iter().chain(found.encoding_problem()));
        skill
    }
}

impl SkillListing {
    fn read(fields: &mut FieldReader, body: &SkillBody) -> Self {
        Self {
            label: fields.text("name"),
            description: fields.text("description").or_else(|| body.first_paragraph()),
            when_to_use: fields.text("when_to_use"),
            argument_hint: fields.text("argument-hint"),
            namespace: None,
        }
    }
}

impl SkillInvocation {
    fn read(fields: &mut FieldReader, kind: SkillKind) -> Self {
        let paths = fields.patterns("paths").filter(|paths| kind == SkillKind::Skill && !paths.is_empty());
        Self {
            arguments: fields.names("arguments").unwrap_or_default(),
            by_model: !fields.flag("disable-model-invocation").unwrap_or(false),
            by_user: fields.flag("user-invocable").unwrap_or(true),
            paths: paths.map(PathPatterns::new),
        }
    }
}

impl SkillExecution {
    fn read(fields: &mut FieldReader) -> Self {
        Self {
            disallowed_tools: fields.names("disallowed-tools").unwrap_or_default(),
            in_fork: fields.word("context", &[("fork", true), ("inline", false)]).unwrap_or(false),
            agent: fields.text("agent"),
            background: fields.flag("background").unwrap_or(true),
            shell: fields.word("shell", &[("bash", ShellChoice::Bash), ("powershell", ShellChoice::Powershell)]),
        }
    }
}

impl SkillActions {
    /// Takes the fields that act, with the names of those that are set.
    fn read(fields: &mut FieldReader, found: &FoundDocument) -> (Self, Vec<&'static str>) {
        const ACTING: [&str; 4] = ["allowed-tools", "model", "effort", "hooks"];
        let set = ACTING.into_iter().filter(|name| fields.line_of(name).is_some()).collect();
        let actions = Self {
            allowed_tools: fields.names("allowed-tools").unwrap_or_default(),
            model: fields.text("model"),
            effort: fields.word("effort", &EFFORTS).map(str::to_owned),
            hooks: agent_file::read_hooks(fields, found),
        };
        (actions, set)
    }
}
