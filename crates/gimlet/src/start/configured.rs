//! What settings, flags and trust say about a session that starts: read once here, and looked at again while it runs.

use std::path::PathBuf;

use gimlet_config::{Effective, Inventory, Options, Problem, Severity, Trust, TrustStore};
use gimlet_core::ReviewRules;
use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource, split_rules};
use gimlet_proto::Env;

use super::known_tools;
use crate::args::RunArgs;
use crate::report::Report;
use crate::settings;
use crate::surroundings::Surroundings;

/// The settings of a session.
pub(crate) struct Configured {
    pub(crate) effective: Effective,
    /// The environment with what settings add to it.
    pub(crate) env: Env,
    pub(crate) rules: RuleSet,
    pub(crate) directories: Vec<PathBuf>,
    /// For people, one line each.
    pub(crate) remarks: Vec<String>,
}

impl Configured {
    pub(crate) fn read(run: &RunArgs, around: &Surroundings) -> Result<Self, Report> {
        let options = Options { settings_flag: run.settings.clone(), sources: run.setting_sources.unwrap_or_default() };
        let loaded = gimlet_config::load(&settings::locations(around), &options);
        if let Some(problem) = loaded.errors().find(|problem| is_flag(run, around, problem)) {
            // What was asked for on this very command line is not passed over.
            return Err(Report::new(problem.to_string()).hint("Give --settings a readable file or a JSON object"));
        }
        let inventory = Inventory::collect(&loaded);
        let trust = if inventory.items.is_empty() { Trust::nothing() } else { trust(run, around, &loaded.locations) };
        let effective = loaded.effective(&inventory, &trust);
        let mut rules = flag_rules(run, around)?;
        let problems = settings::add_rules(&mut rules, &effective);
        let (directories, missing) = settings::directories(&effective, around);
        let errors =
            loaded.errors().chain(effective.problems.iter()).filter(|problem| problem.severity == Severity::Error);
        let mut remarks: Vec<String> = errors.map(ToString::to_string).collect();
        remarks.extend(problems.iter().map(ToString::to_string));
        remarks.extend(rules.remarks(&known_tools().collect::<Vec<_>>()).iter().map(ToString::to_string));
        remarks.extend(missing);
        remarks.extend(untrusted(&effective));
        let env = effective.env.iter().fold(around.env.clone(), |env, line| env.with(&line.name, &line.value));
        Ok(Self { effective, env, rules, directories, remarks })
    }

    /// How auto mode is to review; `None` where settings took the mode away.
    pub(crate) fn review_rules(&self) -> Option<ReviewRules> {
        let settings = &self.effective.settings;
        if settings.disable_auto_mode.is_some() || settings.permissions.disable_auto_mode.is_some() {
            return None;
        }
        let auto = settings.auto_mode.clone().unwrap_or_default();
        Some(ReviewRules {
            environment: auto.environment.unwrap_or_default(),
            allow: auto.allow.unwrap_or_default(),
            soft_deny: auto.soft_deny.unwrap_or_default(),
            hard_deny: auto.hard_deny.unwrap_or_default(),
        })
    }
}

fn is_flag(run: &RunArgs, around: &Surroundings, problem: &Problem) -> bool {
    let Some(flag) = &run.settings else { return false };
    problem.key.is_empty() && (problem.file.as_os_str() == "--settings" || problem.file == around.cwd.join(flag))
}

/// Nobody is asked here: trust was given before, by a flag, by a variable, or by a caller who names the project's files.
fn trust(run: &RunArgs, around: &Surroundings, locations: &gimlet_config::Locations) -> Trust {
    let named = run.setting_sources.is_some_and(|sources| sources.project);
    if run.trust || named || around.env.flag("GIMLET_TRUST") {
        return Trust::everything();
    }
    TrustStore::new(locations).trust()
}

fn untrusted(effective: &Effective) -> Option<String> {
    let line = gimlet_config::withheld_line(&effective.withheld)?;
    Some(format!("{line}. Add --trust to use them in this run"))
}

/// The rules of the command line. They are exact: one that cannot be used ends the start.
fn flag_rules(run: &RunArgs, around: &Surroundings) -> Result<RuleSet, Report> {
    let mut rules = RuleSet::default();
    let lists = [
        (Behavior::Allow, "--allowedTools", &run.allowed_tools),
        (Behavior::Deny, "--disallowedTools", &run.disallowed_tools),
    ];
    for (behavior, label, texts) in lists {
        let source = RuleSource::new(RuleScope::CommandLine, &around.cwd).called(label);
        for rule in texts.iter().flat_map(|text| split_rules(text)) {
            super::known_tool(rule, label)?;
            rules.add(behavior, rule, &source).map_err(|error| {
                Report::new(format!("{label}: {error}")).hint("Write rules as Tool or Tool(pattern)")
            })?;
        }
    }
    Ok(rules)
}
