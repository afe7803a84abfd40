//! End to end: the real binary, real tools, real files, a scripted model.

mod agent_messages;
mod agents;
mod auto;
mod bad_settings;
mod basics;
mod choices;
mod config;
mod confined;
mod faults;
mod file_habits;
mod git_traps;
mod guide;
mod hostile;
mod key_helper;
mod leaving;
mod loops;
mod lost_output;
mod many_writers;
mod permissions;
mod poisoned;
mod print;
mod probes;
mod sandbox;
mod sandboxed;
mod sandboxed_lists;
mod sandboxed_live;
mod sandboxed_meanwhile;
mod sdk;
mod secrets;
mod sessions;
mod sessions_damage;
mod settings;
mod tidy;
mod trust;
mod why;

use gimlet_testkit::World;

fn world() -> World {
    World::new(env!("CARGO_BIN_EXE_gimlet"))
}
