use super::*;
use crate::tool::ToolError;

fn made(name: &str) -> RepeatableCall {
    RepeatableCall {
        meaning: CallFingerprint::from_hash_of(name),
        read_only: true,
        sleeps: false,
        took: Duration::ZERO,
    }
}

fn read(text: &str) -> CallResult {
    CallResult::from_text(text.to_owned())
}

fn failed(text: &str) -> CallResult {
    CallResult::from_error(ToolError::failed(text))
}

/// Conversation in which every call is a reply of its own.
#[derive(Default)]
struct RepeatFixture {
    repeats: RepeatedFailures,
}

impl RepeatFixture {
    /// Records a call; returns the text for the model, and the end of the turn.
    fn call(&mut self, made: &RepeatableCall, mut settled: CallResult) -> (String, Option<TurnEnd>) {
        self.repeats.begin_reply();
        let result = result_digest(&ToolUseId::new("toolu_1"), &settled);
        let end = self.repeats.record_result(made, result, &mut settled);
        (settled.content.to_text(), end)
    }

    /// Repeats a call with a constant result and returns the counts at which the model is warned.
    fn warned(&mut self, made: &RepeatableCall, times: u32, settled: impl Fn() -> CallResult) -> Vec<u32> {
        (1..=times).filter(|_| self.call(made, settled()).0.contains("same call")).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_reads_are_told_ever_more_clearly_and_end_the_turn() {
    for settled in [|| failed("no such file"), || read("content")] {
        let mut talk = RepeatFixture::default();
        for count in 1..=20 {
            let (text, end) = talk.call(&made("a"), settled());
            assert_eq!(text.contains(&format!("for the {count}th time")), count >= 4, "{count}: {text}");
            assert_eq!(text.contains("Repeating it will not help"), (4..8).contains(&count), "{count}: {text}");
            assert_eq!(text.contains("Stop making it"), (8..20).contains(&count), "{count}: {text}");
            assert_eq!(text.contains("The turn ends here"), count == 20, "{count}: {text}");
            let is_end = matches!(end, Some(TurnEnd::Stopped { because: StopCause::RepeatedCalls, .. }));
            assert_eq!(is_end, count == 20, "{count}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_result_a_change_or_new_words_begin_anew_and_other_reads_do_not() {
    let warned_after = |between: &dyn Fn(&mut RepeatFixture)| {
        let mut talk = RepeatFixture::default();
        talk.warned(&made("a"), 3, || read("x"));
        between(&mut talk);
        talk.call(&made("a"), read("x")).0.contains("4th time")
    };
    assert!(warned_after(&|_| ()));
    assert!(warned_after(&|talk| drop(talk.call(&made("b"), read("y")))), "another read");
    assert!(warned_after(&|talk| drop(talk.call(&made("b"), failed("y")))), "another failure");
    let write = RepeatableCall { read_only: false, ..made("b") };
    assert!(!warned_after(&|talk| drop(talk.call(&write, read("written")))), "something was changed");
    assert!(warned_after(&|talk| drop(talk.call(&write, failed("not written")))), "nothing was changed");
    assert!(!warned_after(&|talk| drop(talk.call(&made("a"), read("new")))), "another result");
    assert!(!warned_after(&|talk| talk.repeats.clear()));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_change_something_counts_only_when_it_fails() {
    let write = RepeatableCall { read_only: false, ..made("a") };
    assert_eq!(RepeatFixture::default().warned(&write, 30, || read("written")), [0; 0]);
    assert_eq!(RepeatFixture::default().warned(&write, 5, || failed("full")), [4, 5]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_far_apart_do_not_count() {
    for (apart, counts) in [(9_999, true), (10_000, false)] {
        let mut talk = RepeatFixture::default();
        let mut last = String::new();
        for _ in 0..6 {
            last = talk.call(&made("a"), failed("x")).0;
            tokio::time::advance(Duration::from_millis(apart)).await;
        }
        assert_eq!(last.contains("6th time"), counts, "{apart} ms: {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_between_two_calls_begins_anew() {
    let slow = |name| RepeatableCall { took: WAIT, ..made(name) };
    let warned_after = |between: RepeatableCall| {
        let mut talk = RepeatFixture::default();
        for _ in 0..6 {
            talk.call(&made("a"), read("x"));
            talk.call(&between, read("waited"));
        }
        talk.call(&made("a"), read("x")).0.contains("same call")
    };
    assert!(warned_after(made("b")));
    assert!(!warned_after(slow("b")), "another call that took its time");
    let mut talk = RepeatFixture::default();
    assert_eq!(talk.warned(&slow("a"), 5, || failed("x")), [4, 5], "a slow call is no wait by itself");
    let sleeping = RepeatableCall { sleeps: true, ..slow("a") };
    assert_eq!(RepeatFixture::default().warned(&sleeping, 9, || failed("x")), [0; 0]);
    let fast = RepeatableCall { took: Duration::ZERO, ..sleeping };
    assert_eq!(RepeatFixture::default().warned(&fast, 5, || failed("x")), [4, 5], "it did not wait");
}

#[tokio::test(start_paused = true)]
async fn the_user_is_asked_before_the_twelfth_call_and_a_yes_begins_anew() {
    let mut talk = RepeatFixture::default();
    let meaning = made("a").meaning;
    for count in 1..=11 {
        assert!(!talk.repeats.questionable().take(meaning), "{count}");
        talk.call(&made("a"), failed("x"));
    }
    let mut questionable = talk.repeats.questionable();
    assert!(questionable.take(meaning) && !questionable.take(meaning), "once");
    tokio::time::advance(APART).await;
    assert!(!talk.repeats.questionable().take(meaning), "the call comes too late to count");
    let mut talk = RepeatFixture::default();
    talk.warned(&made("a"), 11, || failed("x"));
    let (text, _) = talk.call(&made("a"), CallResult { repeat_allowed: true, ..failed("x") });
    assert!(!text.contains("same call"), "{text}");
    assert!(!talk.repeats.questionable().take(meaning));
}

#[test]
fn several_calls_in_one_reply_count_as_one_and_names_of_files_make_no_difference() {
    let mut repeats = RepeatedFailures::default();
    repeats.begin_reply();
    for _ in 0..30 {
        let mut settled = failed("x");
        assert!(repeats.record_result(&made("a"), 1, &mut settled).is_none());
        assert!(!settled.content.to_text().contains("same call"));
    }
    let digest = |call: &str| result_digest(&ToolUseId::new(call), &read(&format!("see /results/{call}.txt")));
    assert_eq!(digest("toolu_1"), digest("toolu_2"));
    assert_ne!(result_digest(&ToolUseId::new("t"), &read("x")), result_digest(&ToolUseId::new("t"), &failed("x")));
}
