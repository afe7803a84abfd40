//! Print mode as scripts and programs meet it: what goes in, what comes out, how it ends, and what is on disk then.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod file_mentions;
mod output_formats;
mod print_signals;
mod prompt_input;
mod session_flags;
mod startup_errors;
mod structured_output;

use gimlet_testkit::{RunOutput, RunningChild};

/// Does something that blocks with a run, without holding up the scripted model.
async fn block_on_child(
    mut child: RunningChild,
    work: impl FnOnce(&mut RunningChild) + Send + 'static,
) -> RunningChild {
    let work = move || {
        work(&mut child);
        child
    };
    tokio::task::spawn_blocking(work).await.expect("the work ends")
}

/// Waits for the end of a run.
async fn wait_for_exit(mut child: RunningChild) -> RunOutput {
    tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("the run ends")
}
