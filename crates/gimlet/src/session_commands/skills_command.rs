//! `/skills`: lists the skills and commands of all sources, with who can use each.

use gimlet_app::start::{CataloguedSkill, SkillCatalogue};
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand, text_table};
use gimlet_proto::BoxFuture;
use gimlet_text::truncate_to_line;

use crate::report::Report;

/// Columns of a description.
const SHOWN_DESCRIPTION: usize = 60;

/// The command `/skills`.
pub(super) struct SkillsCommand {
    request: LaunchRequest,
    around: ProcessEnv,
}

impl SkillsCommand {
    pub(super) fn new(request: LaunchRequest, around: ProcessEnv) -> Self {
        Self { request, around }
    }
}

impl SlashCommand for SkillsCommand {
    fn name(&self) -> &str {
        "skills"
    }

    fn description(&self) -> &str {
        "Show the skills and custom commands, who can use each, and where it is defined"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        let (request, around) = (self.request.clone(), self.around.clone());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || describe_skills(&request, &around));
            let text = work.await.map_err(|error| format!("the skills cannot be read: {error}"))?;
            text.map(CommandOutput::Text).map_err(|report| report.text())
        })
    }
}

/// Lists the skills as people read it.
fn describe_skills(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, Report> {
    let catalogue = SkillCatalogue::read(request, around)?;
    let rows: Vec<Vec<String>> = catalogue.skills.iter().map(skill_row).collect();
    let mut text = match rows.is_empty() {
        true => "There are no skills. Write one to .claude/skills/NAME/SKILL.md; see docs/skills.md".to_owned(),
        false => text_table(&rows, false),
    };
    for entry in &catalogue.skills {
        let name = entry.skill.name();
        if !entry.withheld.is_empty() {
            text.push_str(&format!("\n{name}: waits for trust (gimlet trust): {}", entry.withheld.join(", ")));
        }
        if let Some(why) = entry.shadowed {
            text.push_str(&format!("\n{name}: cannot be typed: {why}"));
        }
    }
    for problem in &catalogue.problems {
        text.push_str(&format!("\n{problem}"));
    }
    for skipped in &catalogue.skipped {
        text.push_str(&format!("\n{skipped}"));
    }
    Ok(text)
}

fn skill_row(entry: &CataloguedSkill) -> Vec<String> {
    let callers = match (entry.usable_by_user, entry.usable_by_model) {
        (true, true) => "you and the model",
        (true, false) => "you",
        (false, true) => "the model",
        (false, false) => "nobody",
    };
    let place = entry.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    let summary = truncate_to_line(&entry.skill.summary(), SHOWN_DESCRIPTION);
    vec![format!("/{}", entry.skill.name()), entry.skill.source.as_str().to_owned(), callers.to_owned(), summary, place]
}
