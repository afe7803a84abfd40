//! Slash commands that need what only the application has: settings files and the flags of this run.

mod agents_command;
mod config_command;
mod doctor_command;
mod hooks_command;
mod memory_command;
mod output_style_command;
mod plugin_command;
mod sandbox_command;
mod skills_command;
mod status_command;
mod why_command;

use std::sync::Arc;

use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_core::commands::SlashCommand;
use gimlet_mcp::McpSlashCommand;

use agents_command::AgentsCommand;
use config_command::ConfigSlashCommand;
use doctor_command::DoctorCommand;
use hooks_command::HooksSlashCommand;
use memory_command::MemoryCommand;
use output_style_command::OutputStyleCommand;
use plugin_command::PluginSlashCommand;
use sandbox_command::SandboxSlashCommand;
use skills_command::SkillsCommand;
use status_command::StatusCommand;
use why_command::WhyCommand;

/// Returns the commands for sessions that these flags start.
pub(crate) fn application_commands(request: &LaunchRequest, around: &ProcessEnv) -> Vec<Arc<dyn SlashCommand>> {
    vec![
        Arc::new(AgentsCommand::new(request.clone(), around.clone())),
        Arc::new(ConfigSlashCommand::new(request.clone(), around.clone())),
        Arc::new(DoctorCommand::new(around.clone())),
        Arc::new(HooksSlashCommand::new(request.clone(), around.clone())),
        Arc::new(McpSlashCommand::without_servers()),
        Arc::new(MemoryCommand::new(request.clone(), around.clone())),
        Arc::new(OutputStyleCommand::new(request.clone(), around.clone())),
        Arc::new(PluginSlashCommand::new(request.clone(), around.clone())),
        Arc::new(SandboxSlashCommand::new(around.clone())),
        Arc::new(SkillsCommand::new(request.clone(), around.clone())),
        Arc::new(StatusCommand::new(request.clone(), around.clone())),
        Arc::new(WhyCommand::new(around.clone())),
    ]
}
