//! Tool servers that files and flags configure: programs on pipes and servers on the network.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

mod config_scopes;
mod failing_servers;
mod mcp_commands;
mod remote_servers;
mod resources_and_prompts;
mod server_questions;
mod session_changes;

use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use crate::world;

const STUB: &str = include_str!("mcp/stub_server.py");

/// A world with the stub server in its project, and the entry that starts it.
fn stub_world() -> TestWorld {
    let world = world();
    world.file("stub.py", STUB);
    world
}

/// Returns the entry of a stub that behaves like this, and notes its start in a file of this name.
fn stub_entry(world: &TestWorld, how: &str, note: &str) -> Value {
    json!({"command": "python3", "args": [world.path("stub.py"), how], "env": {"STUB_NOTE": world.path(note)}})
}

fn config(servers: Value) -> String {
    json!({ "mcpServers": servers }).to_string()
}

/// Returns the process ids that a stub has noted.
fn noted_pids(world: &TestWorld, note: &str) -> Vec<u32> {
    let noted = std::fs::read_to_string(world.project.join(note)).unwrap_or_default();
    noted.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}
