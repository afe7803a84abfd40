//! Whatever happens to a file, it loads, and what comes out can be sent.

use std::sync::OnceLock;

use gimlet_proto::Block;
use gimlet_store::*;
use proptest::prelude::*;

use crate::support::*;

/// A transcript with prompts, parallel calls, results, metadata, a compaction and an open end.
fn sample_transcript(turns: usize) -> Vec<u8> {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    for turn in 0..turns {
        append_prompt(&mut transcript, &format!("prompt {turn} with \"quotes\" and é"));
        let calls = [format!("t{turn}a"), format!("t{turn}b")];
        let head = reply_head(&format!("m{turn}"));
        transcript.append_assistant(&head, &Block::text("I look"));
        for id in &calls {
            transcript.append_assistant(&head, &call_block(id));
        }
        for id in calls.iter().rev() {
            transcript.append_tool_result(&result_block(id, "line\nline"), Some(&raw_json(r#"{"ok":true}"#)));
        }
        transcript.append_assistant(&reply_head(&format!("n{turn}")), &Block::text("done"));
        transcript.end_turn();
        if turn == turns / 2 {
            let compaction = CompactionRecord {
                manual: true,
                pre_tokens: 1,
                post_tokens: 1,
                duration_ms: 1,
                ..CompactionRecord::default()
            };
            transcript.append_compaction(&compaction, &[Block::text("summary")]);
        }
    }
    append_prompt(&mut transcript, "and then");
    transcript.append_assistant(&reply_head("open"), &call_block("last"));
    std::fs::read(home.path()).unwrap()
}

fn large_transcript() -> &'static [u8] {
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| sample_transcript(72))
}

fn load_and_check(home: &StoreFixture, bytes: &[u8]) -> LoadedSession {
    home.write_transcript(bytes);
    let loaded = home.load();
    assert_eq!(history_fault(&loaded.messages), None, "{:?}", loaded.damage);
    loaded
}

#[test]
fn the_sample_is_what_the_properties_are_about() {
    let lines = large_transcript().iter().filter(|byte| **byte == b'\n').count();
    assert!((500..600).contains(&lines), "{lines}");
    let loaded = load_and_check(&StoreFixture::new(), large_transcript());
    assert_eq!(loaded.messages.len(), 35 * 4 + 3);
    assert_eq!(loaded.damage.items.len(), 1, "{:?}", loaded.damage);
}

#[test]
fn a_small_file_survives_a_cut_at_every_byte_and_loses_only_the_cut_record() {
    let (home, bytes) = (StoreFixture::new(), sample_transcript(1));
    for end in 0..bytes.len() {
        let loaded = load_and_check(&home, &bytes[..end]);
        let broken = loaded.damage.items.iter().filter(|damage| matches!(damage, Damage::TornTail { .. })).count();
        // A record that only lacks its line break is whole.
        let whole = end == 0 || bytes[end - 1] == b'\n' || bytes[end] == b'\n';
        assert_eq!(broken, usize::from(!whole), "cut at {end}");
    }
}

#[test]
fn a_small_file_survives_a_changed_byte_anywhere() {
    let (home, bytes) = (StoreFixture::new(), sample_transcript(1));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= [0x01, 0x20, 0x80][at % 3];
        load_and_check(&home, &changed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_damage_to_a_large_file_loads_and_repairs(
        cut in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        zeros in prop::collection::vec((any::<prop::sample::Index>(), 1usize..5000), 0..4),
    ) {
        let mut bytes = large_transcript().to_vec();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for (at, count) in zeros {
            let at = at.index(bytes.len());
            bytes.splice(at..at, std::iter::repeat_n(0, count));
        }
        bytes.truncate(bytes.len() / 2 + cut.index(bytes.len() / 2 + 1));
        let home = StoreFixture::new();
        let loaded = load_and_check(&home, &bytes);
        // Going on after the damage neither loses nor fuses anything.
        let mut transcript =
            Transcript::resume(&home.files, &loaded, sample_stamp(), TranscriptOptions::default()).unwrap();
        append_prompt(&mut transcript, "after the damage");
        let again = load_and_check(&home, &std::fs::read(home.path()).unwrap());
        let last = again.messages.last().unwrap();
        prop_assert_eq!(last.blocks.last().unwrap(), &Block::text("after the damage"));
        prop_assert!(again.messages.len() >= loaded.messages.len());
    }

    #[test]
    fn noise_never_panics(lines in prop::collection::vec("[ -~\\x00{}\":,\\[\\]\\\\]{0,60}", 0..30)) {
        load_and_check(&StoreFixture::new(), lines.join("\n").as_bytes());
    }

    #[test]
    fn text_blocks_come_back_as_they_went(text in "\\PC*", other in any::<String>()) {
        prop_assume!(!text.trim().is_empty() && !other.trim().is_empty());
        let home = StoreFixture::new();
        let mut transcript = home.create();
        append_prompt(&mut transcript, &text);
        transcript.append_assistant(&reply_head("m"), &Block::text(&other));
        let messages = home.load().messages;
        prop_assert_eq!(messages[0].blocks[0].json(), Block::text(&text).json().to_owned());
        prop_assert_eq!(messages[1].blocks[0].json(), Block::text(&other).json().to_owned());
    }
}
