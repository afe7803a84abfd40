//! Detection of a model that repeats a call without effect.
//!
//! A call counts if it failed or only read, and returned the result of the last time, with no change in between.
//! Calls that are far apart, or with a wait between them, do not count: after a wait, a change is expected.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use tokio::time::Instant;

use crate::call::ToolCall;
use crate::call_result::CallResult;
use crate::tool::{ErrorClass, PreparedCall};
use gimlet_proto::{AccessNeed, ContentPart, ResultContent, StopCause, ToolUseId, TurnEnd};

/// Count at which the model is advised to change its approach.
const ADVISED_AT: u32 = 4;
/// Count at which the advice becomes stronger.
const URGED_AT: u32 = 8;
/// Count before which the user is asked.
pub(crate) const ASKED_AT: u32 = 12;
/// Count at which the turn ends.
const ENDED_AT: u32 = 20;
/// Interval above which calls do not count.
const APART: Duration = Duration::from_secs(10);
/// Running time above which a call may have been meant to wait.
const WAIT: Duration = Duration::from_secs(1);
/// Minimum length of call ids that are searched for in results.
const SHORTEST_ID: usize = 6;
/// Maximum number of different calls kept.
const MAX_CALLS: usize = 256;

/// Fingerprint of a call, regardless of its spelling: the tool and its input with repaired names and expanded paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallFingerprint(u64);

impl CallFingerprint {
    pub(crate) fn from_prepared(prepared: &PreparedCall) -> Self {
        Self::from_hash_of((&prepared.tool, &prepared.input))
    }

    /// Computes the fingerprint of a call that could not be parsed from its raw text.
    pub(crate) fn from_raw_call(call: &ToolCall) -> Self {
        Self::from_hash_of((&call.name, call.input.get()))
    }

    fn from_hash_of(parts: impl Hash) -> Self {
        Self(hash(parts))
    }
}

fn hash(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// Returns true if the call waits by itself.
pub(crate) fn sleeps(prepared: &PreparedCall) -> bool {
    let is_sleep = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "sleep");
    prepared.needs.iter().any(|need| matches!(need, AccessNeed::Run(text) if is_sleep(text)))
}

/// Properties of a call that matter for repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RepeatableCall {
    pub(crate) meaning: CallFingerprint,
    pub(crate) read_only: bool,
    /// Set if the call waits by itself.
    pub(crate) sleeps: bool,
    pub(crate) took: Duration,
}

/// Returns the digest of a result. File names that contain the call's id do not change it.
pub(crate) fn result_digest(call: &ToolUseId, settled: &CallResult) -> u64 {
    let id = call.as_str();
    // A short id could be part of any word.
    let plain = |text: &str| if id.len() < SHORTEST_ID { text.to_owned() } else { text.replace(id, "") };
    match &settled.content {
        ResultContent::Text(text) => hash((settled.error.is_some(), plain(text))),
        ResultContent::Parts(parts) => {
            let parts: Vec<String> = parts.iter().map(part_text).map(|text| plain(&text)).collect();
            hash((settled.error.is_some(), parts))
        }
    }
}

fn part_text(part: &ContentPart) -> String {
    match part {
        ContentPart::Text { text } => text.clone(),
        ContentPart::Image { source } | ContentPart::Document { source } => source.data().to_owned(),
    }
}

/// A call with the number of its repetitions without effect.
#[derive(Debug)]
struct RepeatRecord {
    result: u64,
    count: u32,
    last: Instant,
    /// Last reply that made the call. Several in one reply count as one.
    reply: u64,
}

/// Calls of a turn that had no effect.
#[derive(Default)]
pub(crate) struct RepeatedFailures {
    seen: HashMap<CallFingerprint, RepeatRecord>,
    reply: u64,
}

impl RepeatedFailures {
    /// Resets all counts, after a new prompt.
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Starts the next reply.
    pub(crate) fn begin_reply(&mut self) {
        self.reply += 1;
    }

    /// Returns the calls that need the user's confirmation before another repetition.
    pub(crate) fn questionable(&self) -> CallsToConfirm {
        let seen = self.seen.iter().filter(|(_, seen)| seen.count + 1 >= ASKED_AT);
        CallsToConfirm(seen.map(|(meaning, seen)| (*meaning, seen.last)).collect())
    }

    /// Counts a result and appends advice to it. Returns the end of the turn if the limit is reached.
    pub(crate) fn record_result(
        &mut self,
        made: &RepeatableCall,
        result: u64,
        settled: &mut CallResult,
    ) -> Option<TurnEnd> {
        let now = Instant::now();
        match settled.error {
            None if !made.read_only => {
                self.seen.clear();
                return None;
            }
            // The call did not run.
            Some(ErrorClass::Cancelled | ErrorClass::Interrupted) => return None,
            _ => {}
        }
        if made.took >= WAIT {
            self.seen.retain(|meaning, _| *meaning == made.meaning && !made.sleeps);
        }
        if self.seen.len() >= MAX_CALLS {
            self.seen.retain(|_, seen| now.duration_since(seen.last) < APART && seen.count > 1);
        }
        let count = self.count(made.meaning, result, now, settled.repeat_allowed);
        if let Some(advice) = advice(count) {
            append(&mut settled.content, &advice);
        }
        (count >= ENDED_AT).then(|| TurnEnd::Stopped {
            reason: format!("the model made the same call {count} times with the same result; the turn was ended"),
            because: StopCause::RepeatedCalls,
        })
    }

    fn count(&mut self, meaning: CallFingerprint, result: u64, now: Instant, allowed: bool) -> u32 {
        let first = RepeatRecord { result, count: 1, last: now, reply: self.reply };
        let seen = self.seen.entry(meaning).or_insert(RepeatRecord { count: 0, ..first });
        if allowed || seen.result != result || now.duration_since(seen.last) >= APART {
            *seen = first;
        } else if seen.reply != self.reply || seen.count == 0 {
            *seen = RepeatRecord { count: seen.count + 1, ..first };
        }
        seen.count
    }
}

/// Calls that need the user's confirmation before another repetition.
#[derive(Default)]
pub(crate) struct CallsToConfirm(HashMap<CallFingerprint, Instant>);

impl CallsToConfirm {
    /// Returns true if this call needs confirmation. Each call is confirmed once.
    pub(crate) fn take(&mut self, meaning: CallFingerprint) -> bool {
        self.0.remove(&meaning).is_some_and(|last| last.elapsed() < APART)
    }
}

/// Returns the advice for the model at this count, if any.
fn advice(count: u32) -> Option<String> {
    let what = match count {
        ENDED_AT.. => "The turn ends here. Do not make this call again before something has changed.",
        URGED_AT.. => {
            "Stop making it: nothing changes by itself, and the turn will be ended if it goes on. Do something else, or tell \
             the user what is in the way."
        }
        ADVISED_AT.. => {
            "Repeating it will not help: change the input, use another tool, or tell the user what is in the way."
        }
        _ => return None,
    };
    Some(format!("\n\nThis is the same call with the same result for the {count}th time. {what}"))
}

fn append(content: &mut ResultContent, advice: &str) {
    match content {
        ResultContent::Text(text) => text.push_str(advice),
        ResultContent::Parts(parts) => parts.push(ContentPart::Text { text: advice.trim_start().to_owned() }),
    }
}

#[cfg(test)]
#[path = "repeats_tests.rs"]
mod tests;
