//! What a reply means for the turn: go on, run its calls, ask again, or end.

use gimlet_proto::{Block, BlockKind, CutCall, ErrorKind, Level, ModelError, ReplyEnd, StopReason, TurnEnd};

use super::Turn;
use crate::conversation::{Conversation, Mark};
use crate::reply::{Ending, Reply};
use crate::schedule::Calls;

/// How often a paused turn is sent again.
const MAX_PAUSES: u32 = 8;
/// How often a text cut by the output limit is continued.
const MAX_CONTINUATIONS: u32 = 3;
/// What the model is told when even more room was not enough for a call.
const SPLIT: &str = "Your last tool call was too long for one reply and was dropped. Split it into smaller calls.";

/// What the model is told when it stopped for no reason, or a server wants a word of ours behind its own.
const GO_ON: &str = "Please go on.";

/// Counters that keep every kind of "once more" finite.
#[derive(Default)]
pub(crate) struct Limits {
    /// Raised once after a tool call did not fit.
    pub(crate) max_tokens: Option<u64>,
    pauses: u32,
    continuations: u32,
    cut_calls: u32,
    empty_replies: u32,
    /// The server said that calls and results do not fit together.
    pairings: u32,
    /// The server said that a history cannot end with a reply.
    prefills: u32,
    /// How often hooks kept the turn from ending.
    pub(super) stop_blocks: u32,
}

/// What to do after a reply.
pub(crate) enum Next {
    /// Run the reply's calls; with words, tell the model those behind the results.
    RunCalls(Option<&'static str>),
    /// Send the request again (history has what it needs).
    Again,
    /// Forget the reply's calls, then send again.
    Discard,
    Aborted,
    End(TurnEnd),
}

impl Reply {
    /// The text of this reply, if it has any.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.blocks.iter().filter_map(Block::as_text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

/// Takes a reply into history and says what follows from it. `prompt` is where the turn's own prompt begins.
pub(crate) fn settle(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut Limits,
    reply: Reply,
    calls: &Calls,
    prompt: &Mark,
) -> Next {
    match reply.ending {
        Ending::Failed(error) => {
            let cured = reply.blocks.is_empty()
                && match error.kind {
                    ErrorKind::InvalidRequest => {
                        mend(conversation, turn, limits, &error) || shed(conversation, turn, &error, prompt)
                    }
                    ErrorKind::RequestTooLarge | ErrorKind::PromptTooLong => lighten(conversation, turn, prompt),
                    _ => false,
                };
            if cured {
                return Next::Again;
            }
            conversation.push_assistant(reply.blocks);
            fail(conversation, turn, error)
        }
        Ending::Aborted => {
            conversation.push_assistant(reply.blocks);
            Next::Aborted
        }
        Ending::Complete(end) => complete(conversation, turn, limits, reply.blocks, *end, calls),
    }
}

fn complete(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut Limits,
    blocks: Vec<Block>,
    end: ReplyEnd,
    calls: &Calls,
) -> Next {
    if end.stop_reason == Some(StopReason::Refusal) {
        return refuse(conversation, turn, end.explanation);
    }
    if let Some(cut) = end.cut_tool_call {
        return cut_call(conversation, turn, limits, blocks, calls, cut);
    }
    let empty = blocks.is_empty();
    if let Some(interruption) = &end.interrupted {
        let text = format!("the reply was cut ({}); it may be incomplete", interruption.message);
        turn.notice(Level::Warning, text);
    }
    conversation.push_assistant(blocks);
    if !calls.is_empty() {
        return Next::RunCalls(None);
    }
    match end.stop_reason {
        Some(StopReason::PauseTurn) if limits.pauses < MAX_PAUSES && conversation.ends_with_assistant() => {
            limits.pauses += 1;
            Next::Again
        }
        Some(StopReason::MaxTokens) if limits.continuations < MAX_CONTINUATIONS && !empty => {
            limits.continuations += 1;
            say(conversation, "Your reply was cut at the output limit. Go on exactly where it stopped.");
            Next::Again
        }
        Some(StopReason::ContextWindowExceeded) => fail(conversation, turn, window_full()),
        _ if empty && conversation.ends_with_results() && limits.empty_replies == 0 => {
            limits.empty_replies += 1;
            say(conversation, GO_ON);
            Next::Again
        }
        _ => Next::End(TurnEnd::Completed),
    }
}

/// The reply ended inside a tool call: once with more room where there is any, then with the advice to split the call.
fn cut_call(
    conversation: &mut Conversation,
    turn: &Turn,
    limits: &mut Limits,
    blocks: Vec<Block>,
    calls: &Calls,
    cut: CutCall,
) -> Next {
    limits.cut_calls += 1;
    match cut.more.filter(|_| limits.cut_calls == 1) {
        Some(more) => {
            limits.max_tokens = Some(more);
            turn.notice(Level::Info, "a tool call did not fit into the reply; asking again with more room");
            conversation.record.rewind_reply();
            turn.publish(gimlet_proto::Body::Discarded);
            return Next::Discard;
        }
        None if limits.cut_calls == 1 => {
            let why = cut.advice.unwrap_or_else(|| "there is no more room".to_owned());
            let text =
                format!("a tool call did not fit into a reply of {} tokens: {why}; asking for it in parts", cut.room);
            turn.notice(Level::Warning, text);
        }
        None => {}
    }
    conversation.push_assistant(blocks);
    if !calls.is_empty() {
        return Next::RunCalls(Some(SPLIT));
    }
    if limits.cut_calls > 3 {
        return Next::End(TurnEnd::Completed);
    }
    say(conversation, SPLIT);
    Next::Again
}

/// Says something to the model in gimlet's own name, on disk first.
pub(crate) fn say(conversation: &mut Conversation, text: &str) {
    conversation.record.meta(text);
    conversation.push_user(vec![Block::text(text)]);
}

/// Mends a history that the server says is none. By construction it never has to, so it is tried once and told.
fn mend(conversation: &mut Conversation, turn: &Turn, limits: &mut Limits, error: &ModelError) -> bool {
    let words = error.message.to_ascii_lowercase();
    let about_pairs = words.contains("tool_use") && words.contains("tool_result");
    if about_pairs && limits.pairings == 0 {
        limits.pairings += 1;
        let mended = conversation.repair_all();
        if mended == 0 {
            // The same words again would get the same answer.
            return false;
        }
        let text = format!(
            "the server says that calls and results do not fit together ({mended} mended); asking again. Please report \
             this: {error}"
        );
        turn.notice(Level::Warning, text);
        return true;
    }
    let about_the_end = words.contains("prefill") || words.contains("must end with a user message");
    if about_the_end && limits.prefills == 0 && conversation.ends_with_assistant() {
        limits.prefills += 1;
        say(conversation, GO_ON);
        return true;
    }
    false
}

/// Leaves out what the server refuses and the conversation can go on without.
fn shed(conversation: &mut Conversation, turn: &Turn, error: &ModelError, prompt: &Mark) -> bool {
    let words = error.message.to_ascii_lowercase();
    // A transcript of another version may hold what this server has never heard of.
    if conversation.shed_unknown(&words) > 0 {
        turn.notice(
            Level::Warning,
            "the server refused a part of a type that it does not know; a note stands in its place now",
        );
        return true;
    }
    shed_attachments(conversation, turn, &words, prompt)
}

/// Leaves out images and documents that the server refuses: first those that it sees for the first time, then all. What
/// the person shows with this very prompt is not left out: without it the prompt would say something else. Whatever else
/// waits for an answer is, or every later prompt would fail for it: what was only to be known, what joined the turn, and
/// what an earlier turn could not send.
fn shed_attachments(conversation: &mut Conversation, turn: &Turn, words: &str, prompt: &Mark) -> bool {
    let is_about_them = ["image", "document", "pdf"].iter().any(|word| words.contains(word));
    if !is_about_them {
        return false;
    }
    // Each time there is less of them, so this comes to an end.
    let why = "the server refused it";
    let is_lighter = conversation.shed_unanswered(prompt, why) > 0
        || !conversation.shows_attachments(prompt) && conversation.shed_all(why) > 0;
    if is_lighter {
        turn.notice(Level::Warning, "the server refused an image or a document; a note stands in its place now");
    }
    is_lighter
}

/// Makes a request smaller that is too large: without the images and documents that the model has seen, then without
/// those that it has not. What the person shows with this very prompt stays.
fn lighten(conversation: &mut Conversation, turn: &Turn, prompt: &Mark) -> bool {
    let why = "the request was too large";
    let is_lighter = conversation.shed_seen(prompt, why) > 0 || conversation.shed_unanswered(prompt, why) > 0;
    if is_lighter {
        let text = "the request was too large; notes stand in the place of earlier images and documents now";
        turn.notice(Level::Warning, text);
    }
    is_lighter
}

/// Ends the turn with an error.
fn fail(conversation: &mut Conversation, turn: &Turn, error: ModelError) -> Next {
    stand_in(conversation, turn, &error.in_place_of_answer(), &error);
    Next::End(TurnEnd::Failed(error))
}

/// Ends the turn because the model would not answer. What it said before it refused is void.
fn refuse(conversation: &mut Conversation, turn: &Turn, explanation: Option<String>) -> Next {
    let text = refusal(explanation.as_deref());
    let kind = ErrorKind::InvalidRequest;
    let error = ModelError { kind, status: None, message: text.clone(), hint: None, request_id: None };
    stand_in(conversation, turn, &text, &error);
    Next::End(TurnEnd::Refused { explanation })
}

/// What people read in place of an answer that the model refused to give.
pub(crate) fn refusal(explanation: Option<&str>) -> String {
    const ADVICE: &str = "Rephrase the request, or choose another model.";
    match explanation.map(|why| why.trim_end_matches(['.', ' '])) {
        Some(why) => format!("The model refused to answer: {why}. {ADVICE}"),
        None => format!("The model refused to answer. {ADVICE}"),
    }
}

/// Keeps words about a failure where people and programs look for an answer. They are not part of history; on disk
/// they also stand behind whatever was taken back, so that a resumed session does not end with that.
fn stand_in(conversation: &mut Conversation, turn: &Turn, text: &str, error: &ModelError) {
    let uuid = conversation.record.api_error(text);
    turn.publish(gimlet_proto::Body::Block(Box::new(gimlet_proto::AssistantBlock {
        uuid: uuid.clone(),
        message_id: uuid.to_string(),
        model: "<synthetic>".to_owned(),
        request_id: error.request_id.clone(),
        block: Block::text(text),
        usage: gimlet_proto::Usage::default(),
        aborted: false,
        error: Some(error.clone()),
    })));
}

fn window_full() -> ModelError {
    ModelError {
        kind: ErrorKind::PromptTooLong,
        status: None,
        message: "the conversation filled the model's context window".to_owned(),
        hint: Some("Start a new session, or continue in one forked from an earlier point".to_owned()),
        request_id: None,
    }
}

/// A prompt longer than this may be what a server does not take.
const HEAVY_PROMPT: usize = 100_000;

/// Whether a prompt has something that a server may refuse: it is long, or more than text.
pub(super) fn may_be_too_much(prompt: &[Block]) -> bool {
    let bytes: usize = prompt.iter().map(|block| block.json().len()).sum();
    bytes > HEAVY_PROMPT || prompt.iter().any(|block| block.kind() != BlockKind::Text)
}

/// Takes a prompt back that the server refused for what it is, so that it is not sent with every later one.
pub(super) fn take_back(conversation: &mut Conversation, turn: &Turn, end: &TurnEnd, before: Mark) {
    let TurnEnd::Failed(error) = end else { return };
    let refused =
        matches!(error.kind, ErrorKind::InvalidRequest | ErrorKind::PromptTooLong | ErrorKind::RequestTooLarge);
    if refused && conversation.withdraw(before) {
        // On disk this stands behind what is kept, so that a resumed session does not end with what was taken back.
        conversation.record.api_error(&error.in_place_of_answer());
        turn.notice(Level::Warning, "the server refused the prompt; it was taken out of the conversation again");
    }
}

/// Tells the model, on resume too, that the person stopped the turn.
pub(crate) fn mark_interrupted(conversation: &mut Conversation, turn: &Turn, in_tools: bool) {
    let (uuid, text) = conversation.record.interrupted(in_tools);
    let block = Block::text(text);
    conversation.push_user(vec![block.clone()]);
    turn.publish(gimlet_proto::Body::Prompt(gimlet_proto::Prompt {
        uuid,
        blocks: vec![block],
        plain: false,
        synthetic: true,
        origin: None,
    }));
}
