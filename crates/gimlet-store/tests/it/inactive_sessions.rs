//! Sessions that nobody drives: told as a story, labelled, cut, deleted.

use gimlet_proto::{Block, EntryId};
use gimlet_store::*;

use crate::support::*;

fn item_kinds(story: &TranscriptView) -> Vec<(TranscriptItemKind, String)> {
    let text = |moment: &TranscriptItem| moment.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join(" ");
    story.items().map(|moment| moment.unwrap()).map(|moment| (moment.kind, text(&moment))).collect()
}

#[test]
fn a_story_goes_back_beyond_compactions_and_leaves_out_what_was_given_up() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "first");
    let kept = transcript.append_assistant(&reply_head("a"), &Block::text("one"));
    append_prompt(&mut transcript, "given up");
    transcript.rewind_to(Some(kept));
    append_prompt(&mut transcript, "second");
    transcript.append_assistant(&reply_head("b"), &call_block("t"));
    transcript.append_tool_result(&result_block("t", "r"), None);
    let compaction =
        CompactionRecord { manual: true, pre_tokens: 1, post_tokens: 1, duration_ms: 1, ..CompactionRecord::default() };
    transcript.append_compaction(&compaction, &[Block::text("what was")]);
    append_prompt(&mut transcript, "third");
    let story = open_transcript_view(&home.path()).unwrap();
    let expected = [
        (TranscriptItemKind::Prompt, "first"),
        (TranscriptItemKind::Reply, "one"),
        (TranscriptItemKind::Prompt, "second"),
        (TranscriptItemKind::Reply, ""),
        (TranscriptItemKind::Results, ""),
        (TranscriptItemKind::Compacted, "Conversation compacted"),
        (TranscriptItemKind::Summary, "what was"),
        (TranscriptItemKind::Prompt, "third"),
    ];
    assert_eq!(item_kinds(&story), expected.map(|(kind, text)| (kind, text.to_owned())));
    assert_eq!(count_turns(&home.path()).unwrap(), 4, "prompts of branches that were given up are prompts");
    let spaced: String = std::fs::read_to_string(home.path()).unwrap().replace("\":", "\" : ");
    std::fs::write(home.path(), spaced).unwrap();
    assert_eq!(count_turns(&home.path()).unwrap(), 4, "other programs put spaces around colons");
}

#[test]
fn labels_are_appended_on_a_line_of_their_own_and_the_running_session_keeps_them() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "hello");
    transcript.set_title("mine");
    // Somebody's write was cut short.
    std::fs::write(home.path(), [std::fs::read(home.path()).unwrap(), b"{\"type\":\"us".to_vec()].concat()).unwrap();
    assert_eq!(rename_session(&home.files, " a\nb ").unwrap(), "a b");
    tag_session(&home.files, Some("x")).unwrap();
    assert_eq!(home.load().labels.display_title(), Some("a b"));
    transcript.append_assistant(&reply_head("a"), &Block::text("hi"));
    drop(transcript.close());
    let labels = home.load().labels;
    assert_eq!((labels.display_title(), labels.tag.as_deref()), (Some("a b"), Some("x")));
    assert!(matches!(rename_session(&home.files, &"x".repeat(201)), Err(AnnotateError::LongTitle { length: 201 })));
}

#[test]
fn a_label_makes_no_session_where_there_is_none() {
    let home = StoreFixture::new();
    assert!(matches!(rename_session(&home.files, "x"), Err(AnnotateError::Append { .. })));
    assert!(!home.path().exists());
    home.write_transcript("");
    assert!(matches!(tag_session(&home.files, None), Err(AnnotateError::Empty { .. })));
}

#[test]
fn a_session_that_is_driven_is_not_deleted_and_one_that_is_not_goes_wholly() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "hello");
    assert!(matches!(remove_session(&home.locations(), &home.files), Err(RemoveError::Busy { .. })));
    drop(transcript);
    write_agent_meta(&home.files, "a", &AgentMeta::default()).unwrap();
    let outside = home.temp.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, home.files.tool_results()).unwrap();
    let removed = remove_session(&home.locations(), &home.files).unwrap();
    assert_eq!(removed.paths, [home.path(), home.files.side_dir()]);
    assert!(!home.path().exists() && !home.files.side_dir().exists());
    assert!(outside.exists(), "links are not followed");
}

fn transcript_lines(rows: &[&str]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

#[test]
fn only_what_belongs_to_a_turn_may_be_dropped_with_it() {
    let user = |uuid: &str, parent: &str, more: &str| {
        format!(
            r#"{{"parentUuid":{parent},"type":"user","message":{{"role":"user","content":"{uuid}"}},"uuid":"{uuid}"{more}}}"#
        )
    };
    let assistant = |uuid: &str, parent: &str| {
        format!(
            r#"{{"parentUuid":"{parent}","type":"assistant","message":{{"id":"m{uuid}","content":[{{"type":"text","text":"x"}}]}},"uuid":"{uuid}"}}"#
        )
    };
    let attachment = |uuid: &str, parent: &str, kind: &str| {
        format!(r#"{{"parentUuid":"{parent}","type":"attachment","attachment":{{"type":"{kind}"}},"uuid":"{uuid}"}}"#)
    };
    let start = [user("p1", "null", ""), assistant("a1", "p1")];
    let queue = |operation: &str| format!(r#"{{"type":"queue-operation","operation":"{operation}","content":"hi"}}"#);
    let turn = || vec![user("p2", "\"a1\"", ""), assistant("a2", "p2")];
    let with = |more: &[String]| turn().into_iter().chain(more.iter().cloned()).collect::<Vec<_>>();
    let cases: [(&str, Vec<String>, Option<&str>); 13] = [
        (
            "a waiting prompt as the last of all",
            with(&[attachment("q", "a2", "queued_command")]),
            Some("line 5: a prompt that was waiting"),
        ),
        ("another attachment as the last of all", with(&[attachment("o", "a2", "structured_output")]), None),
        ("a prompt that waits", with(&[queue("enqueue")]), Some("line 5: a prompt that was waiting")),
        ("a prompt that was taken up", [vec![queue("enqueue"), queue("dequeue")], turn()].concat(), None),
        ("a prompt that was taken back", with(&[queue("enqueue"), queue("remove")]), None),
        ("the turn", vec![user("p2", "\"a1\"", ""), assistant("a2", "p2")], None),
        (
            "its note before it",
            vec![user("n", "\"a1\"", r#","isMeta":true"#), user("p2", "\"n\"", ""), assistant("a2", "p2")],
            None,
        ),
        ("nothing", vec![], Some("is not behind")),
        ("another turn", vec![user("p3", "\"a1\"", ""), assistant("a3", "p3")], Some("begins the turn p3")),
        (
            "two turns",
            vec![user("p2", "\"a1\"", ""), assistant("a2", "p2"), user("p3", "\"a2\"", "")],
            Some("another prompt"),
        ),
        (
            "a reply before it",
            vec![assistant("a9", "a1"), user("p2", "\"a9\"", "")],
            Some("a reply to the prompt before it"),
        ),
        (
            "a waiting prompt",
            vec![user("p2", "\"a1\"", ""), attachment("q", "p2", "queued_command"), assistant("a2", "q")],
            Some("was waiting"),
        ),
        (
            "an output before it",
            vec![attachment("o", "a1", "structured_output"), user("p2", "\"o\"", "")],
            Some("structured output"),
        ),
    ];
    for (name, rest, refused) in cases {
        let home = StoreFixture::new();
        let all: Vec<&str> = start.iter().chain(&rest).map(String::as_str).collect();
        home.write_transcript(transcript_lines(&all));
        let checked = check_dropped_turn(&home.path(), &EntryId::new("a1"), "p2");
        match refused {
            None => assert!(checked.is_ok(), "{name}: {checked:?}"),
            Some(part) => {
                let error = checked.unwrap_err().to_string();
                assert!(error.contains(part), "{name}: {error}");
            }
        }
    }
}

#[test]
fn the_size_of_a_conversation_is_limited_before_it_is_in_memory() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    for _ in 0..20 {
        append_prompt(&mut transcript, &"x".repeat(100_000));
    }
    let limited = LoadOptions { max_bytes: Some(1_000_000), ..LoadOptions::default() };
    let Err(LoadError::TooLarge { bytes, fits_up_to: Some(entry), .. }) = load_conversation(&home.path(), &limited)
    else {
        panic!("two megabytes are more than one");
    };
    assert!(bytes > 2_000_000);
    let fitting = load_conversation(&home.path(), &LoadOptions { up_to: Some(entry), ..limited }).unwrap();
    assert_eq!(fitting.messages[0].blocks.len(), 4);
}
