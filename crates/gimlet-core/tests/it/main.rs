//! The core with tools and a model made for the test: scheduling, permission, results, interrupts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken bench is a failed test")]

mod agent_messaging;
mod call_scheduling;
mod context_in_front;
mod context_notes;
mod external_tools;
mod hook_program;
mod hooks_at_gate;
mod hooks_on_calls;
mod hooks_on_turns;
mod large_results;
mod move_to_background;
mod panic_recovery;
mod permission_prompts;
mod planning_tools;
mod question_tools;
mod reader_views;
mod rejected_content;
mod repeating;
mod rewind;
mod sandbox_hosts;
mod session_bench;
mod settings_changes;
mod slash_commands;
mod stalled_agents;
mod structured_answers;
mod subagents;
mod superseded_asks;
