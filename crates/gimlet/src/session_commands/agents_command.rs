//! `/agents`: lists the agents of all sources, with what becomes of each.

use gimlet_app::start::{AgentCatalogue, CataloguedAgent};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand, text_table};
use gimlet_proto::BoxFuture;
use gimlet_text::truncate_to_line;

use crate::report::Report;

/// Columns of a description.
const SHOWN_DESCRIPTION: usize = 60;

/// The command `/agents`.
pub(super) struct AgentsCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl AgentsCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for AgentsCommand {
    fn name(&self) -> &str {
        "agents"
    }

    fn description(&self) -> &str {
        "Show the agents that can be launched, and where each is defined"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around) = (self.request.clone(), self.around.clone());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || describe_agents(&request, &around));
            let text = work.await.map_err(|error| format!("the agents cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}

/// Lists the agents as people read it.
fn describe_agents(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, Report> {
    let catalogue = AgentCatalogue::read(request, around)?;
    let rows: Vec<Vec<String>> = catalogue.agents.iter().map(agent_row).collect();
    let mut text = text_table(&rows, false);
    for agent in catalogue.agents.iter().filter(|agent| agent.unused.is_none()) {
        let name = &agent.kind.name;
        if !agent.withheld.is_empty() {
            let fields = agent.withheld.join(", ");
            text.push_str(&format!("\n{name}: waits for trust (gimlet trust): {fields}"));
        }
        if !agent.unknown_tools.is_empty() {
            text.push_str(&format!("\n{name}: no such tool: {}", agent.unknown_tools.join(", ")));
        }
    }
    for skipped in &catalogue.skipped {
        text.push_str(&format!("\n{skipped}"));
    }
    Ok(text)
}

fn agent_row(agent: &CataloguedAgent) -> Vec<String> {
    let spec = &agent.kind.spec;
    let place = agent.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let what = match &agent.unused {
        Some(why) => format!("not used: {why}"),
        None => truncate_to_line(&spec.description, SHOWN_DESCRIPTION),
    };
    let model = spec.model.clone().unwrap_or_else(|| "inherit".to_owned());
    vec![agent.kind.name.clone(), agent.source().to_owned(), model, what, place]
}
