//! What the session does at the moment, in one line: the activity, for how long, and how to stop it.

use gimlet_proto::RetryNotice;

use super::row_layout::{NARROW, format_running, format_tokens, join_facts};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// Milliseconds for which a frame of the activity mark stands.
pub const SPINNER_FRAME_MS: u64 = 120;

/// Whether marks move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MotionMode {
    #[default]
    Animated,
    /// Nothing moves by itself; figures still change.
    Reduced,
}

/// Step of a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum TurnStep {
    #[default]
    Starting,
    /// A request was sent and nothing came yet.
    Waiting,
    Thinking,
    Writing,
    /// A call is being written, of this tool if known.
    Preparing(Option<String>),
    /// A remark about the wait.
    Remark(String),
    Retrying {
        notice: String,
        until_ms: u64,
    },
    /// A question is open.
    Asking,
}

impl TurnStep {
    /// Returns the step for a request that will be sent again.
    pub(crate) fn from_retry(retry: &RetryNotice, now_ms: u64) -> Self {
        let notice = format!("{}; attempt {} of {}", first_sentence(&retry.error.message), retry.attempt, retry.max);
        TurnStep::Retrying { notice, until_ms: now_ms + retry.delay_ms }
    }
}

fn first_sentence(text: &str) -> String {
    clean_line(text.lines().next().unwrap_or_default().trim_end_matches('.')).into_owned()
}

/// A turn under way.
#[derive(Clone, Debug)]
pub(crate) struct TurnActivity {
    pub(crate) started_ms: u64,
    pub(crate) step: TurnStep,
    pub(crate) step_started_ms: u64,
    /// Bytes of the replies so far, of which tokens are estimated.
    pub(crate) received_bytes: u64,
}

/// Bytes of text per token, roughly.
const BYTES_PER_TOKEN: u64 = 4;

impl TurnActivity {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { started_ms: now_ms, step: TurnStep::Starting, step_started_ms: now_ms, received_bytes: 0 }
    }

    pub(crate) fn set_step(&mut self, step: TurnStep, now_ms: u64) {
        if self.step != step {
            self.step = step;
            self.step_started_ms = now_ms;
        }
    }

    /// Renders the line; `None` while the user is asked. `running` names the calls that run.
    pub(crate) fn render(
        &self,
        running: Option<String>,
        now_ms: u64,
        motion: MotionMode,
        cx: &RenderContext<'_>,
    ) -> Option<StyledLine> {
        let frames = cx.glyphs.spinner;
        let frame = match motion {
            MotionMode::Animated => (now_ms / SPINNER_FRAME_MS) as usize % frames.len().max(1),
            MotionMode::Reduced => frames.len() / 2,
        };
        let (text, tone) = match (&self.step, running) {
            (TurnStep::Retrying { notice, until_ms }, _) => {
                let left = until_ms.saturating_sub(now_ms).div_ceil(1000);
                let when = if left > 0 { format!(" in {left} s") } else { String::new() };
                (format!("{notice}{when}"), TextTone::Warn)
            }
            // The question says all that is to be said.
            (TurnStep::Asking, _) => return None,
            (_, Some(running)) => (format!("Running {running}"), TextTone::Accent),
            (TurnStep::Starting | TurnStep::Waiting, None) => ("Waiting for the model".to_owned(), TextTone::Accent),
            (TurnStep::Thinking, None) => ("Thinking".to_owned(), TextTone::Accent),
            (TurnStep::Writing, None) => ("Writing".to_owned(), TextTone::Accent),
            (TurnStep::Preparing(Some(name)), None) => (format!("Preparing {name}"), TextTone::Accent),
            (TurnStep::Preparing(None), None) => ("Preparing a call".to_owned(), TextTone::Accent),
            (TurnStep::Remark(text), None) => (text.clone(), TextTone::Accent),
        };
        let mut facts = vec![format_running(now_ms.saturating_sub(self.started_ms))];
        let tokens = self.received_bytes / BYTES_PER_TOKEN;
        if tokens > 0 && cx.width >= NARROW {
            facts.push(format!("{} {} tokens", cx.glyphs.down, format_tokens(tokens)));
        }
        facts.push(if cx.width >= NARROW { "esc to stop" } else { "esc" }.to_owned());
        let facts = join_facts(&facts, cx.glyphs);
        let mark = frames.get(frame).copied().unwrap_or_default();
        let mark = StyledLine::of(format!("{mark} "), tone);
        let room = cx.width.saturating_sub(crate::text_width::display_width(&facts) + 4);
        let text = StyledLine::of(format!("{text}{}", cx.glyphs.ellipsis), TextStyle::of(tone));
        let mut line = mark;
        for span in truncate_line(&text, room.max(16)).spans {
            line.push(span.text, span.style);
        }
        line.push(format!(" {facts}"), TextTone::Dim);
        Some(truncate_line(&line, cx.width))
    }
}
