//! The skills and commands of a session: those of files, as far as they are trusted. Files that change are taken up
//! while the session runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_config::{CustomizationKind, DocumentScope, SkillFile, SkillFiles};
use gimlet_core::commands::CommandRegistry;
use gimlet_core::{LiveSkillSet, SessionSkill, SkillSet, SkillSource};

use super::SessionSettings;
use super::file_stamps::FileStamps;

impl SessionSettings {
    /// Reads the skills and commands of all files that count.
    pub(super) fn skill_files(&self) -> SkillFiles {
        let mut files = self.document_reader.skills(&self.skill_folders());
        let managed_only = self.is_plugin_only(CustomizationKind::Skills);
        let without_managed = self.env.flag("CLAUDE_CODE_DISABLE_POLICY_SKILLS");
        files.skills.retain(|skill| match skill.origin.scope {
            DocumentScope::Managed => !without_managed,
            DocumentScope::Plugin => true,
            DocumentScope::User | DocumentScope::Project | DocumentScope::AddedFolder => !managed_only,
        });
        files
    }

    /// Returns the added folders that bring skills.
    fn skill_folders(&self) -> Vec<&Path> {
        self.flag_directories.iter().map(PathBuf::as_path).collect()
    }

    /// Returns all skills and commands, by precedence.
    pub(super) fn skill_set(&self) -> SkillSet {
        let trust = Arc::new(self.trust.clone());
        let skills = self.skill_files().skills.into_iter().map(|file| {
            let source = skill_source(&file);
            let mut skill = SessionSkill::new(file, source, trust.clone());
            self.apply_skill_settings(&mut skill);
            Arc::new(skill)
        });
        SkillSet::new(skills.collect())
    }

    /// Applies what settings say about a skill.
    fn apply_skill_settings(&self, skill: &mut SessionSkill) {
        let settings = &self.effective.settings;
        if settings.disable_skill_shell_execution == Some(true) && skill.source != SkillSource::Managed {
            skill.runs_commands = false;
        }
        let visibility = settings.skill_overrides.as_ref().and_then(|overrides| overrides.get(skill.name()));
        // Those of plugins are turned off with their plugin.
        if let Some(visibility) = visibility.filter(|_| skill.source != SkillSource::Plugin) {
            skill.visibility = *visibility;
        }
    }
}

fn skill_source(file: &SkillFile) -> SkillSource {
    match file.origin.scope {
        DocumentScope::Managed => SkillSource::Managed,
        DocumentScope::User => SkillSource::User,
        DocumentScope::Project => SkillSource::Project,
        DocumentScope::AddedFolder => SkillSource::AddedFolder,
        DocumentScope::Plugin => SkillSource::Plugin,
    }
}

/// The skills of a running session, and the files that they come from.
pub(super) struct LiveSkills {
    skills: LiveSkillSet,
    commands: CommandRegistry,
    /// Files and folders as they were when they were last read.
    seen: FileStamps,
    /// Folder that stands for all of them.
    folder: PathBuf,
}

impl LiveSkills {
    /// Reads the skills and adds those that can be typed to the commands.
    pub(super) fn new(settings: &SessionSettings, commands: CommandRegistry) -> Self {
        let skills = LiveSkillSet::new(settings.skill_set());
        commands.set_skills(&skills.current());
        let folder = settings.around.cwd.join(".claude/skills");
        Self { skills, commands, seen: stamp_paths(settings), folder }
    }

    pub(super) fn skills(&self) -> LiveSkillSet {
        self.skills.clone()
    }

    /// Returns a name for the files if any of them has changed since they were last read.
    pub(super) fn changed_path(&self) -> Option<PathBuf> {
        (!self.seen.are_unchanged()).then(|| self.folder.clone())
    }

    /// Takes up the files as the settings have read them.
    pub(super) fn refresh(&mut self, settings: &SessionSettings) {
        self.skills.replace(settings.skill_set());
        self.commands.set_skills(&self.skills.current());
        self.seen = stamp_paths(settings);
    }
}

fn stamp_paths(settings: &SessionSettings) -> FileStamps {
    FileStamps::take(settings.document_reader.skill_paths(&settings.skill_folders()))
}
