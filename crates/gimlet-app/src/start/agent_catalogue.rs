//! The agents of a folder without a session: every definition, which of several with one name is used, and what keeps
//! the others from being used.

use std::path::PathBuf;

use gimlet_config::{SettingsProblem, SkippedDocument};
use gimlet_core::{AgentKind, AgentRoster, AgentSource};
use gimlet_policy::is_agent_removed;

use super::SessionSettings;
use super::main_agent;
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Every agent that a session with these flags in a folder could have.
pub struct AgentCatalogue {
    pub agents: Vec<CataloguedAgent>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
}

/// One definition of an agent.
pub struct CataloguedAgent {
    pub kind: AgentKind,
    /// File that defines it.
    pub file: Option<PathBuf>,
    /// Fields that wait for trust.
    pub withheld: Vec<&'static str>,
    /// Reason why it is not used, if it is not.
    pub unused: Option<String>,
    /// Entries of its lists that are no tools.
    pub unknown_tools: Vec<String>,
}

impl CataloguedAgent {
    /// Returns the word for where the definition comes from.
    pub fn source(&self) -> &'static str {
        match self.kind.source {
            AgentSource::BuiltIn => "built-in",
            AgentSource::Plugin => "plugin",
            AgentSource::User => "user",
            AgentSource::Project => "project",
            AgentSource::Caller => "flag",
            AgentSource::Managed => "managed",
        }
    }
}

impl AgentCatalogue {
    /// Reads the files. Starts nothing.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let settings = SessionSettings::read(request, around)?;
        let caller = main_agent::parse_agents(request)?;
        let roster = settings.agent_roster(&caller);
        let rules = settings.now().rules;
        let files = settings.agent_files();
        let mut agents = Vec::new();
        let mut add = |kind: AgentKind, file: Option<PathBuf>, withheld: Vec<&'static str>| {
            let used = roster.kinds().find(|used| used.name == kind.name);
            let overridden = used.filter(|used| used.source != kind.source).map(|used| used.source);
            let unused = match overridden {
                Some(source) => Some(format!("{} overrides it", describe_source(source))),
                None if is_agent_removed(&rules, &kind.name) => Some("a rule denies it".to_owned()),
                None => kind.spec.isolation.as_ref().map(|isolation| {
                    format!("isolation: {isolation} is not available in this version, so it cannot be launched")
                }),
            };
            let unknown_tools = main_agent::unknown_tools(&kind.spec);
            agents.push(CataloguedAgent { kind, file, withheld, unused, unknown_tools });
        };
        for kind in AgentRoster::built_in(&settings.env).kinds() {
            add(kind.clone(), None, Vec::new());
        }
        for file in &files.agents {
            let withheld = file.actions.withheld_fields(&settings.trust).to_vec();
            add(settings.agent_kind(file), Some(file.origin.path.clone()), withheld);
        }
        for (name, spec) in caller {
            add(AgentKind::new(name, spec, AgentSource::Caller), None, Vec::new());
        }
        Ok(Self { agents, skipped: files.skipped, problems: files.problems })
    }
}

fn describe_source(source: AgentSource) -> &'static str {
    match source {
        AgentSource::BuiltIn => "a built-in agent",
        AgentSource::Plugin => "an agent of a plugin",
        AgentSource::User => "an agent of the user",
        AgentSource::Project => "an agent of the project",
        AgentSource::Caller => "an agent of --agents",
        AgentSource::Managed => "a managed agent",
    }
}
