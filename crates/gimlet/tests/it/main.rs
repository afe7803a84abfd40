//! End to end: the real binary, real tools, real files, a scripted model.

mod agent_files;
mod agent_messages;
mod agents;
mod api_key_helper;
mod auto_mode;
mod basics;
mod compaction;
mod concurrent_config_writes;
mod config;
mod damaged_sessions;
mod faults;
mod file_settings;
mod git_traps;
mod guide;
mod help_texts;
mod hostile_repo;
mod invalid_settings;
mod loops;
mod lost_output;
mod mcp;
mod media;
mod memory;
mod model_hooks;
mod output_styles;
mod permissions;
mod plugins;
mod poisoned_history;
mod print;
mod probes;
mod read_only_confinement;
mod sandbox;
mod sandbox_escape;
mod sandbox_host_lists;
mod sandbox_reload;
mod sandboxed_session;
mod sdk;
mod secrets;
mod sessions;
mod settings;
mod settings_effects;
mod settings_hooks;
mod settings_tampering;
mod skills;
mod slash_commands;
mod spending;
mod terminal;
mod tidy;
mod trust;
mod why;

use gimlet_testkit::TestWorld;

fn world() -> TestWorld {
    TestWorld::new(env!("CARGO_BIN_EXE_gimlet"))
}
