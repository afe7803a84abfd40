//! Conversion of the flags of a session to a launch request.

use gimlet_app::{
    AgentOptions, CustomizationLevel, FrontEndKind, FrontEndOptions, LaunchRequest, LimitOptions, ModelOptions,
    OutputOptions, PermissionOptions, PluginOptions, RequestOrigin, RequestedJson, SessionOptions, SettingsOptions,
    SystemPromptOptions, ThinkingChoice, ToolOptions,
};
use gimlet_core::SetupTrigger;
use gimlet_proto::ThinkingDisplay;

use super::{OutputFormat, RunArgs, SnapshotFlag, ThinkingDisplayFlag, ThinkingFlag};

impl RunArgs {
    /// Returns the request that these flags make; `ignored_flags` were given and have no effect.
    pub(crate) fn to_launch_request(&self, ignored_flags: Vec<String>) -> LaunchRequest {
        LaunchRequest {
            model: self.model_options(),
            permissions: PermissionOptions {
                mode: self.permission_mode,
                skip: self.dangerously_skip_permissions,
                allow_skipping: self.allow_dangerously_skip_permissions,
                allowed_rules: self.allowed_tools.clone(),
                denied_rules: self.disallowed_tools.clone(),
                added_dirs: self.add_dir.clone(),
            },
            session: self.session_options(),
            settings: SettingsOptions {
                flag: self.settings.clone(),
                managed: self.managed_settings.clone(),
                sources: self.setting_sources,
                trusts_folder: self.trust,
                customization: match (self.safe_mode, self.bare) {
                    (true, _) => CustomizationLevel::Safe,
                    (false, true) => CustomizationLevel::Bare,
                    (false, false) => CustomizationLevel::Full,
                },
            },
            system_prompt: SystemPromptOptions {
                replace: self.system_prompt.clone(),
                replace_file: self.system_prompt_file.clone(),
                append: self.append_system_prompt.clone(),
                append_file: self.append_system_prompt_file.clone(),
                keeps_snapshot: self.system_prompt_snapshot.map(|kept| kept == SnapshotFlag::On),
                plan_instructions: None,
            },
            tools: ToolOptions {
                offered: self.tools.clone(),
                server_configs: self.mcp_config.clone(),
                only_flag_servers: self.strict_mcp_config,
                ..ToolOptions::default()
            },
            agents: AgentOptions {
                kinds: self.agents.as_deref().map(json_from_flag),
                main: self.agent.clone(),
                append_system_prompt: self.append_subagent_system_prompt.clone(),
            },
            plugins: PluginOptions {
                folders: self.plugin_dir.clone(),
                folders_without_servers: self.plugin_dir_no_mcp.clone(),
                of_host: Vec::new(),
            },
            output: OutputOptions { schema: self.json_schema.as_deref().map(json_from_flag) },
            limits: LimitOptions {
                max_turns: self.max_turns,
                max_budget_usd: self.max_budget_usd,
                max_total_tokens: self.max_total_tokens,
                max_time: self.max_time,
                compaction_window: self.autocompact,
            },
            front_end: FrontEndOptions {
                kind: self.front_end_kind(),
                reads_results: self.output_format != OutputFormat::Text,
                ignored_flags,
            },
        }
    }

    fn model_options(&self) -> ModelOptions {
        ModelOptions {
            name: self.model.clone(),
            fallbacks: self.fallback_model.clone(),
            effort: self.effort.clone(),
            thinking: self.thinking.map(|thinking| match thinking {
                ThinkingFlag::Adaptive => ThinkingChoice::Adaptive,
                ThinkingFlag::Disabled => ThinkingChoice::Disabled,
            }),
            max_thinking_tokens: self.max_thinking_tokens,
            thinking_display: self.thinking_display.map(|display| match display {
                ThinkingDisplayFlag::Summarized => ThinkingDisplay::Summarized,
                ThinkingDisplayFlag::Omitted => ThinkingDisplay::Omitted,
            }),
            task_budget: self.task_budget,
            betas: self.betas.clone(),
        }
    }

    fn session_options(&self) -> SessionOptions {
        SessionOptions {
            resume: self.resume.clone(),
            continue_latest: self.continue_session,
            fork: self.fork_session,
            resume_at: self.resume_session_at.clone(),
            drops_turn: self.resume_drops_turn.clone(),
            id: self.session_id.clone(),
            title: self.name.clone(),
            default_title: None,
            is_unsaved: self.no_session_persistence,
            ends_after_setup: self.init_only,
            setup: match (self.init || self.init_only, self.maintenance) {
                (true, _) => Some(SetupTrigger::Init),
                (_, true) => Some(SetupTrigger::Maintenance),
                _ => None,
            },
        }
    }

    fn front_end_kind(&self) -> FrontEndKind {
        if self.is_driven() {
            FrontEndKind::Driver
        } else if self.print || self.init_only {
            FrontEndKind::Print
        } else {
            FrontEndKind::Terminal
        }
    }
}

fn json_from_flag(text: &str) -> RequestedJson {
    RequestedJson { text: text.to_owned(), origin: RequestOrigin::Flag }
}
