//! Print mode as scripts and programs meet it: what goes in, what comes out, how it ends, and what is on disk then.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

mod input;
mod mentions;
mod output;
mod sessions;
mod signals;
mod structured;
mod trouble;

use gimlet_testkit::{RunOutput, RunningChild};

/// Does something that blocks with a run, without holding up the scripted model.
async fn with(mut child: RunningChild, work: impl FnOnce(&mut RunningChild) + Send + 'static) -> RunningChild {
    let work = move || {
        work(&mut child);
        child
    };
    tokio::task::spawn_blocking(work).await.expect("the work ends")
}

/// Waits for the end of a run.
async fn ended(mut child: RunningChild) -> RunOutput {
    tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("the run ends")
}
