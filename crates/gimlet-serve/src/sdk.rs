//! The protocol by which a program (the host) drives a session: its lines in, ours out, requests in both directions.
//!
//! One loop owns the output, so that lines keep their order: what a session published before it asked something is
//! written before the question. The loop never waits for the host or the session; it only passes on.

mod content;
mod fit;
mod frames;
mod host;
mod initialize;
mod lifecycle;
mod lines;
mod link;
mod mirror;
mod permission;
mod prompts;
mod requests;
mod state;

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::SessionHandle;
use tokio::sync::mpsc;

use crate::print::DRAIN;
use crate::wire::Face;
use crate::writer::{Output, OutputEnd};

pub use host::{Host, HostRequests};
pub use initialize::{AgentCard, Initialize, ModelCard, Welcome};
pub use lifecycle::CAPABILITY as LIFECYCLE_CAPABILITY;
pub use lines::{HostLine, HostLines, LineError};
pub use mirror::{Mirror, MirrorFeed, mirror};
pub use prompts::{LOCAL_COMMANDS, unavailable_command};
pub use requests::{Backstage, Reopen, Reopened, SavedSetting};
pub use state::StateLines;

/// What the protocol runs with.
pub struct SdkJob {
    /// Read before the session was opened.
    pub first: Option<Result<HostLine, LineError>>,
    /// What it asked for if it was a greeting; the session was opened with that.
    pub wishes: Option<Initialize>,
    pub lines: HostLines,
    pub host: Host,
    pub requests: HostRequests,
    pub backstage: Arc<dyn Backstage>,
    pub welcome: Welcome,
    pub face: Face,
    pub partial: bool,
    pub replay_prompts: bool,
    pub hook_events: bool,
    /// What subagents say and think, besides what they do.
    pub subagent_text: bool,
    pub states: StateLines,
    pub answers: Answers,
    pub mirror: Option<MirrorFeed>,
    /// How long subagents may go on after the host's last line; `None` for as long as they take.
    pub patience: Option<Duration>,
    /// For the protocol.
    pub out: Output,
    /// For remarks.
    pub notes: Output,
    /// One message per request to stop.
    pub interrupts: mpsc::UnboundedReceiver<()>,
}

/// Who answers permission questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answers {
    Nobody,
    /// The host, through requests of its own kind.
    Host,
    /// A tool of a server, by its full name.
    Tool(String),
}

/// How it went; the binary turns this into an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkEnd {
    Success,
    /// The last turn failed, or the host broke the protocol.
    Failure,
    Interrupted,
    /// Nobody reads the output any more.
    OutputClosed,
}

/// The answer to a greeting that no session can be opened for.
pub fn refusal(greeting: &HostLine, problem: String) -> String {
    fit::answer(&greeting.get("request_id").unwrap_or_default(), Err(problem))
}

/// Drives a session for a host to its end.
pub async fn run(session: SessionHandle, job: SdkJob) -> SdkEnd {
    let link::Ended { end, out, notes, remark } = link::drive(session, job).await;
    let end = match out.finish(None).await {
        OutputEnd::Complete => end,
        OutputEnd::Closed => SdkEnd::OutputClosed,
        OutputEnd::Failed(_) | OutputEnd::Late => SdkEnd::Failure,
    };
    if let Some(remark) = remark {
        notes.line(format!("Error: {}\n", crate::sanitise(&remark)).into_bytes()).await;
    }
    notes.finish(Some(DRAIN)).await;
    end
}
