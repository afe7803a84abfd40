//! The protocol by which a program (the host) drives a session: lines in both directions, requests in both directions.
//!
//! One loop owns the output, so that lines keep their order: events published before a question are written before the
//! question. The loop never waits for the host or the session; it only forwards.

mod control_frames;
mod control_requests;
mod elicitation_request;
mod host_content;
mod host_driver;
mod host_lines;
mod host_prompt;
mod initialize;
mod mirror;
pub(crate) mod permission_question;
mod prompt_lifecycle;
mod session_loop;
mod session_state;
mod truncate;

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{Host, SessionFacts, SessionHandle};
use tokio::sync::mpsc;

use crate::line_output::{LineOutput, OutputEnd};
use crate::print::DRAIN;
use crate::wire::InitFacts;

pub use host_driver::{HostDriver, HostRequests};
pub use host_lines::{HostLine, HostLineError, HostLines};
pub use initialize::InitializeRequest;
pub use mirror::{MirrorFeed, TranscriptMirror, mirror_channel};
pub use session_state::StateAudience;

/// Inputs of the protocol.
pub struct SdkJob {
    /// Line that was read before the session was opened.
    pub first: Option<Result<HostLine, HostLineError>>,
    /// Contents of that line if it was an initialize request; the session was opened with it.
    pub initialize: Option<InitializeRequest>,
    pub lines: HostLines,
    pub host: HostDriver,
    pub requests: HostRequests,
    pub backend: Arc<dyn Host>,
    /// Facts about the first session.
    pub facts: SessionFacts,
    /// Returns the current time in the format of transcripts.
    pub clock: fn() -> String,
    pub partial: bool,
    pub replay_prompts: bool,
    pub hook_events: bool,
    /// Includes the text and thinking of subagents besides their actions.
    pub subagent_text: bool,
    pub state_audience: StateAudience,
    pub responder: PermissionResponder,
    pub mirror: Option<MirrorFeed>,
    /// Maximum time that subagents may run after the host's last line; `None` for no limit.
    pub agent_timeout: Option<Duration>,
    /// Output for the protocol.
    pub out: LineOutput,
    /// Output for remarks.
    pub notes: LineOutput,
    /// One message per request to stop.
    pub interrupts: mpsc::UnboundedReceiver<()>,
}

/// Responder for permission questions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionResponder {
    Unattended,
    /// The host, through control requests.
    Host,
    /// A tool of a server, by its full name.
    Tool(String),
}

/// Outcome of the protocol; the binary turns it into an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SdkEnd {
    Success,
    /// The last turn failed, or the host broke the protocol.
    Failure,
    Interrupted,
    /// The reader of the output has gone away.
    OutputClosed,
}

/// Returns the facts about a session for the first line of each turn.
fn init_facts(facts: &SessionFacts) -> InitFacts {
    InitFacts {
        capabilities: vec![
            "interrupt_receipt_v1",
            "interrupt_cancel_queued_v1",
            prompt_lifecycle::CAPABILITY,
            "mcp_read_resource_v1",
        ],
        ..InitFacts::from_session(facts)
    }
}

/// Returns the error answer to an initialize request for which no session can be opened.
pub fn refuse_initialize(greeting: &HostLine, problem: String) -> String {
    truncate::truncate_answer(&greeting.get("request_id").unwrap_or_default(), Err(problem))
}

/// Drives a session for a host to its end.
pub async fn run(session: SessionHandle, job: SdkJob) -> SdkEnd {
    let session_loop::LoopEnd { end, out, notes, remark } = session_loop::run_session_loop(session, job).await;
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
