//! Conversion of settings and trust to the types of other crates: rules with their file and line, existing folders,
//! modes.

use std::path::{Path, PathBuf};

use gimlet_config::{
    AutoModeSettings, EffectiveSettings, LoadedSettings, MANAGED_DIR, ProblemSeverity, RuleBehavior, RuleLine, Scope,
    SettingsLocations, SettingsProblem, SourcedValue,
};
use gimlet_core::ReviewRules;
use gimlet_policy::{Behavior, Rule, RuleProblem, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{Env, PermissionMode};

use crate::process_env::ProcessEnv;

/// Returns the locations of the settings files.
pub fn find_locations(around: &ProcessEnv) -> SettingsLocations {
    SettingsLocations::resolve(gimlet_config::LocationContext {
        home: around.home.clone(),
        config_dir: around.config_home.clone(),
        config_dir_named: around.env.get("CLAUDE_CONFIG_DIR").is_some(),
        cwd: around.cwd.clone(),
        managed_dir: MANAGED_DIR.into(),
        xdg_config_home: around.env.exact("XDG_CONFIG_HOME").map(PathBuf::from),
        also_owner: alternate_owner(&around.env),
    })
}

/// Returns another user id that may own the config home: the one that is named, or the caller of `sudo`.
fn alternate_owner(env: &Env) -> Option<u32> {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse().ok());
    match number(env.get("GIMLET_CONFIG_OWNER")) {
        None if rustix::process::geteuid().is_root() => number(env.exact("SUDO_UID")),
        named => named,
    }
}

pub fn rule_behavior(rule: &RuleLine) -> Behavior {
    convert_behavior(rule.behavior)
}

fn convert_behavior(behavior: RuleBehavior) -> Behavior {
    match behavior {
        RuleBehavior::Allow => Behavior::Allow,
        RuleBehavior::Ask => Behavior::Ask,
        RuleBehavior::Deny => Behavior::Deny,
    }
}

/// Returns the source of a settings file's rule.
pub fn rule_source(rule: &RuleLine) -> RuleSource {
    RuleSource::new(rule_scope(rule.origin.scope), &rule.anchor)
        .with_label(rule.origin.scope.label())
        .in_file(&rule.origin.file, u32::try_from(rule.origin.line).ok())
}

fn rule_scope(scope: Scope) -> RuleScope {
    match scope {
        Scope::User => RuleScope::User,
        Scope::Project => RuleScope::Project,
        Scope::Local => RuleScope::Local,
        Scope::Flag => RuleScope::CommandLine,
        Scope::Managed => RuleScope::Managed,
    }
}

/// Returns the syntax error in a rule's text, if there is one.
pub fn rule_syntax_error(behavior: RuleBehavior, text: &str) -> Option<String> {
    let source = RuleSource::new(RuleScope::User, "/");
    Rule::parse(text, convert_behavior(behavior), &source).err().map(|error| error.to_string())
}

/// Returns a hint for a rule whose path seems absolute but is relative to the folder of its file, where it does not
/// exist.
pub fn absolute_path_hint(rule: &RuleLine) -> Option<String> {
    const FILE_TOOLS: [&str; 6] = ["Read", "Edit", "Write", "Glob", "Grep", "NotebookEdit"];
    let (tool, path) = rule.text.strip_suffix(')')?.split_once('(').filter(|(tool, _)| FILE_TOOLS.contains(tool))?;
    let first =
        path.strip_prefix('/')?.split('/').next().filter(|name| !name.is_empty() && !name.contains(['*', '?', '[']))?;
    let is_below = |folder: &Path| folder.join(first).exists();
    let meant = format!("{tool}(/{path})");
    let said = || format!("`{}` is about {}; did you mean `{meant}`?", rule.text, rule.anchor.join(first).display());
    (is_below(Path::new("/")) && !is_below(&rule.anchor)).then(said)
}

/// Adds the rules in force; returns those that cannot be parsed.
pub fn add_rules(rules: &mut RuleSet, effective: &EffectiveSettings) -> Vec<RuleProblem> {
    let mut problems = Vec::new();
    for line in &effective.rules {
        problems.extend(rules.load(rule_behavior(line), [(line.text.as_str(), rule_source(line))]));
    }
    problems
}

/// Limits the rules where only managed ones may allow something, and where files could not be read.
pub fn apply_managed_limits(mut rules: RuleSet, loaded: &LoadedSettings, effective: &EffectiveSettings) -> RuleSet {
    if effective.settings.allow_managed_permission_rules_only == Some(true) {
        rules = rules.with_managed_allows_only();
    }
    if !loaded.unreadable_files.is_empty() {
        rules = rules.with_unread_settings();
    }
    rules
}

/// Returns the allow rules of settings files that have no effect, since the administrator permits only managed ones.
pub fn unused_allow_rules(effective: &EffectiveSettings) -> Vec<SourcedValue> {
    if effective.settings.allow_managed_permission_rules_only != Some(true) {
        return Vec::new();
    }
    let rules = effective.merged.entries("permissions.allow").iter();
    rules.filter(|rule| rule.origin.scope != Scope::Managed).cloned().collect()
}

/// Reason why they have no effect.
pub const UNUSED_ALLOW: &str = "not used: only managed rules allow something here (allowManagedPermissionRulesOnly)";

/// Returns the rules for auto mode's reviewer besides its own instructions.
pub fn review_rules(auto: &AutoModeSettings) -> ReviewRules {
    let list = |entries: &Option<Vec<String>>| entries.clone().unwrap_or_default();
    ReviewRules {
        environment: list(&auto.environment),
        allow: list(&auto.allow),
        soft_deny: list(&auto.soft_deny),
        hard_deny: list(&auto.hard_deny),
    }
}

/// Returns the initial mode that settings name, and its scope.
pub fn default_mode(effective: &EffectiveSettings) -> Option<(RuleScope, PermissionMode)> {
    let (mode, origin) = effective.default_mode.as_ref()?;
    Some((rule_scope(origin.scope), mode.as_str().parse().ok()?))
}

/// Returns additional working folders, and a remark for each that does not exist.
pub fn additional_directories(
    effective: &EffectiveSettings,
    around: &ProcessEnv,
) -> (Vec<PathBuf>, Vec<SettingsProblem>) {
    let (mut found, mut remarks) = (Vec::new(), Vec::new());
    for line in &effective.directories {
        let path = match (line.path.strip_prefix("~/"), &around.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => around.cwd.join(Path::new(&line.path)),
        };
        match path.canonicalize().ok().filter(|path| path.is_dir()) {
            Some(path) => found.push(path),
            None => remarks.push(SettingsProblem {
                severity: ProblemSeverity::Warning,
                file: line.origin.file.clone(),
                line: Some(line.origin.line),
                column: None,
                key: "permissions.additionalDirectories".into(),
                message: format!("there is no folder {}", line.path),
            }),
        }
    }
    (found, remarks)
}
