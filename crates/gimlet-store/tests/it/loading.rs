//! What comes back from disk.

use gimlet_proto::{Block, EntryId, Message, ModelUsage, PermissionMode, Role, ToolUseId};
use gimlet_store::*;

use crate::support::*;

#[test]
fn a_turn_comes_back_byte_for_byte() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    let odd = [
        r#"{"type":"thinking","thinking":"","signature":"a\/b\u002b="}"#,
        r#"{"type":"hologram","x":1.0,"y":1e400,"z":-0,"big":123456789012345678901234567890}"#,
        r#"{"type":"text","text":"half \ud800 a pair"}"#,
        r#"{"type":"tool_use","id":"t1","name":"Read","input":{"b":1e5,"a":"\u00e9","a ":[ ]}}"#,
        r#"{"type":"tool_use","id":"t2","name":"Read","input":{}}"#,
    ];
    let odd: Vec<Block> = odd.iter().map(|json| Block::from_json(json).unwrap()).collect();
    let prompt = Block::text("quote \" slash / tab \t é \u{1f600} \u{7f}");
    transcript.user(UserEntry {
        origin: None,
        uuid: None,
        blocks: std::slice::from_ref(&prompt),
        plain: true,
        kind: UserEntryKind::Prompt,
    });
    for block in &odd {
        transcript.append_assistant(&reply_head("m1"), block);
    }
    let results = [result_block("t1", "one"), result_block("t2", "two\n")];
    transcript.append_tool_result(&results[1], None);
    transcript.append_tool_result(&results[0], Some(&raw_json(r#"{"k":1.50}"#)));
    let last = transcript.append_assistant(&reply_head("m2"), &Block::text("done"));
    transcript.end_turn();
    let loaded = home.load();
    assert_eq!(
        loaded.messages,
        [
            Message::user(vec![prompt]),
            Message::assistant(odd),
            Message::user(results.to_vec()),
            Message::assistant(vec![Block::text("done")]),
        ]
    );
    assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    assert_eq!(loaded.last_entry, Some(last));
    assert_eq!(loaded.model.as_deref(), Some("claude-sonnet-5"));
    assert_eq!(loaded.outputs.calls().collect::<Vec<_>>(), [&ToolUseId::new("t1")]);
    assert_eq!(loaded.outputs.read("t1").unwrap().unwrap().get(), r#"{"k":1.50}"#);
    assert!(loaded.outputs.read("t2").unwrap().is_none());
}

#[test]
fn resuming_goes_on_in_the_same_chain_and_restores_what_was_recorded() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    let list = SegmentContextPart::new(ContextPartKind::Skills, "- tidy");
    let cost = ModelUsage { model: "m".into(), cost_usd: Some(0.25), ..ModelUsage::default() };
    transcript.append_frozen_prefix(
        &["sys 1".into(), "sys\n2".into()],
        "[ {\"name\": 1.0} ]",
        &[memory_part("be\r\nkind \u{1F980}"), list.clone()],
    );
    append_prompt(&mut transcript, "one");
    transcript.append_assistant(&reply_head("m1"), &Block::text("1"));
    transcript.append_permission_mode(PermissionMode::AcceptEdits);
    transcript.append_cost(std::slice::from_ref(&cost));
    tag_session(&home.files, Some("blue")).unwrap();
    transcript.end_turn();
    drop(transcript);
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.frozen.as_ref().unwrap().system, ["sys 1", "sys\n2"]);
    assert_eq!(loaded.frozen.as_ref().unwrap().tools_json, "[ {\"name\": 1.0} ]");
    assert_eq!(loaded.frozen.as_ref().unwrap().context, [memory_part("be\r\nkind \u{1F980}"), list]);
    assert_eq!(loaded.permission_mode, Some(PermissionMode::AcceptEdits));
    assert_eq!(loaded.cost, [cost]);
    assert_eq!(loaded.labels.tag.as_deref(), Some("blue"));
    assert_eq!(loaded.last_prompt.as_deref(), Some("one"));
    assert_eq!(loaded.cwd.as_deref(), Some("/home/ada/app".as_ref()));
    append_prompt(&mut transcript, "two");
    let again = home.load();
    assert_eq!(again.messages[..2], loaded.messages[..]);
    assert_eq!(again.messages[2], Message::user(vec![Block::text("two")]));
}

#[test]
fn what_a_compaction_carries_comes_back_with_the_words_after_it() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "old");
    transcript.append_assistant(&reply_head("m1"), &Block::text("old reply"));
    let output = serde_json::value::RawValue::from_string(r#"{"newTodos":[]}"#.into()).unwrap();
    let carried =
        CarriedRecord { words: vec!["old".into()], tools: vec![CarriedToolState { tool: "TodoWrite".into(), output }] };
    let compaction = CompactionRecord { carried, ..CompactionRecord::default() };
    transcript.append_compaction(&compaction, &[Block::text("summary")]);
    append_prompt(&mut transcript, "new");
    let loaded = home.load();
    assert_eq!(loaded.user_words, ["old", "new"]);
    assert_eq!(loaded.outputs.carried("TodoWrite").map(|output| output.get()), Some(r#"{"newTodos":[]}"#));
    assert!(loaded.outputs.carried("Other").is_none());
}

#[test]
fn a_conversation_starts_at_its_last_compact_boundary() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "old");
    transcript.append_frozen_prefix(&["old system".into()], "[]", &[]);
    transcript.append_assistant(&reply_head("m1"), &Block::text("old reply"));
    let compaction = CompactionRecord {
        manual: false,
        pre_tokens: 9,
        post_tokens: 1,
        duration_ms: 5,
        ..CompactionRecord::default()
    };
    let (boundary, summary) = transcript.append_compaction(&compaction, &[Block::text("summary")]);
    transcript.append_frozen_prefix(&["new system".into()], "[]", &[memory_part("new")]);
    transcript.append_assistant(&reply_head("m2"), &Block::text("new reply"));
    let loaded = home.load();
    assert_eq!(
        loaded.messages,
        [Message::user(vec![Block::text("summary")]), Message::assistant(vec![Block::text("new reply")])]
    );
    assert!(loaded.compacted);
    let frozen = loaded.frozen.unwrap();
    assert_eq!((frozen.system, frozen.context), (vec!["new system".to_owned()], vec![memory_part("new")]));
    let line = home.transcript_lines().into_iter().find(|line| line.contains("compact_boundary")).unwrap();
    let entry = parse_line(&line);
    assert_eq!(entry["uuid"], boundary.as_str());
    assert!(entry["parentUuid"].is_null() && entry["logicalParentUuid"].is_string());
    assert_eq!(
        entry["compactMetadata"],
        serde_json::json!({"trigger":"auto","preTokens":9,"postTokens":1,"durationMs":5})
    );

    // A cut before the boundary brings the old segment back, with the system prompt it was held under.
    let old = EntryId::new(parse_line(&home.transcript_lines()[2])["uuid"].as_str().unwrap());
    let cut = load_conversation(&home.path(), &LoadOptions::up_to(old)).unwrap();
    assert_eq!(cut.messages.len(), 2);
    let frozen = cut.frozen.unwrap();
    assert_eq!((frozen.system, frozen.context), (vec!["old system".to_owned()], vec![]));
    let cut = load_conversation(&home.path(), &LoadOptions::up_to(summary)).unwrap();
    assert_eq!(cut.messages.len(), 1);
    let nowhere = load_conversation(&home.path(), &LoadOptions::up_to(EntryId::new("nowhere")));
    assert!(matches!(nowhere, Err(LoadError::NoSuchEntry { .. })));
}

fn entry_line(kind: &str, uuid: &str, parent: Option<&str>, more: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!("{{\"parentUuid\":{parent},\"isSidechain\":false,\"type\":\"{kind}\",{more},\"uuid\":\"{uuid}\"}}\n")
}

fn user_line(uuid: &str, parent: Option<&str>, text: &str) -> String {
    entry_line("user", uuid, parent, &format!(r#""message":{{"role":"user","content":"{text}"}}"#))
}

fn assistant_line(uuid: &str, parent: &str, id: &str, block: &Block) -> String {
    entry_line("assistant", uuid, Some(parent), &format!(r#""message":{{"content":[{}],"id":"{id}"}}"#, block.json()))
}

fn result_line(uuid: &str, parent: &str, id: &str) -> String {
    let block = result_block(id, id);
    entry_line("user", uuid, Some(parent), &format!(r#""message":{{"role":"user","content":[{}]}}"#, block.json()))
}

fn message_texts(loaded: &LoadedSession) -> Vec<String> {
    loaded.messages.iter().map(Message::text).collect()
}

#[test]
fn the_newest_branch_wins_and_metadata_entries_do_not_hide_it() {
    let home = StoreFixture::new();
    let base = user_line("u1", None, "one") + &assistant_line("a1", "u1", "m1", &Block::text("abandoned"));
    let newer = user_line("u2", Some("u1"), "retry") + &assistant_line("a2", "u2", "m2", &Block::text("kept"));
    let note = entry_line("system", "s1", Some("a2"), r#""subtype":"informational","content":"x""#);
    home.write_transcript(base.clone() + &newer + &note);
    let loaded = home.load();
    assert_eq!(message_texts(&loaded), ["one\nretry", "kept"]);
    assert_eq!(loaded.last_entry, Some(EntryId::new("s1")));

    // A hidden entry alone is no reason to leave the newest visible leaf …
    let meta = |parent: &str| entry_line("user", "x1", Some(parent), r#""message":{"content":"hidden"},"isMeta":true"#);
    home.write_transcript(base.clone() + &meta("u1"));
    assert_eq!(message_texts(&home.load()), ["one", "abandoned"]);
    // … but one that ends the newest branch does not send us back to an abandoned one.
    home.write_transcript(base + &newer + &meta("a2"));
    assert_eq!(message_texts(&home.load()), ["one\nretry", "kept", "hidden"]);
}

#[test]
fn linear_and_fanned_out_parallel_results_load_alike() {
    let home = StoreFixture::new();
    let calls = user_line("u", None, "go")
        + &assistant_line("a1", "u", "m", &call_block("t1"))
        + &assistant_line("a2", "a1", "m", &call_block("t2"))
        + &assistant_line("a3", "a2", "m", &call_block("t3"));
    let fanned = calls.clone()
        + &result_line("r2", "a2", "t2")
        + &result_line("r3", "a3", "t3")
        + &result_line("r1", "a1", "t1");
    let linear =
        calls + &result_line("r1", "a3", "t1") + &result_line("r2", "r1", "t2") + &result_line("r3", "r2", "t3");
    let mixed = user_line("u", None, "go")
        + &assistant_line("a1", "u", "m", &call_block("t1"))
        + &result_line("r1", "a1", "t1")
        + &assistant_line("a2", "r1", "m", &call_block("t2"))
        + &result_line("r2", "a2", "t2")
        + &assistant_line("a3", "r2", "m", &call_block("t3"))
        + &result_line("r3", "a3", "t3");
    let expected = [
        Message::user(vec![Block::text("go")]),
        Message::assistant(vec![call_block("t1"), call_block("t2"), call_block("t3")]),
        Message::user(vec![result_block("t1", "t1"), result_block("t2", "t2"), result_block("t3", "t3")]),
    ];
    for file in [fanned, linear, mixed] {
        home.write_transcript(&file);
        let loaded = home.load();
        assert_eq!(loaded.messages, expected, "{file}");
        assert!(loaded.damage.is_empty(), "{:?}", loaded.damage);
    }
}

#[test]
fn a_stray_result_is_found_by_the_id_of_its_call() {
    let home = StoreFixture::new();
    home.write_transcript(
        user_line("u", None, "go")
            + &assistant_line("a1", "u", "m", &call_block("t1"))
            + &result_line("r1", "u", "t1")
            + &assistant_line("a2", "a1", "n", &Block::text("done")),
    );
    let loaded = home.load();
    assert_eq!(loaded.messages[2], Message::user(vec![result_block("t1", "t1")]));
    assert!(loaded.open_calls.is_empty());
}

#[test]
fn calls_without_results_are_marked_as_interrupted_the_same_way_every_time() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "go");
    transcript.append_assistant(&reply_head("m"), &call_block("t1"));
    let asked = transcript.append_assistant(&reply_head("m"), &call_block("t2"));
    transcript.append_tool_result(&result_block("t1", "ok"), None);
    drop(transcript);
    let loaded = home.load();
    assert_eq!(loaded.open_calls, [(ToolUseId::new("t2"), asked)]);
    assert_eq!(loaded.damage.items, [Damage::MissingResult { call: ToolUseId::new("t2") }]);
    let interrupted = Block::tool_result("t2", &INTERRUPTED_CALL.into(), true);
    assert_eq!(loaded.messages[2], Message::user(vec![result_block("t1", "ok"), interrupted]));
    let (_, mut transcript) = home.resume();
    append_prompt(&mut transcript, "go on");
    let again = home.load();
    assert_eq!(again.messages[..3], loaded.messages[..]);
    assert_eq!(again.messages[3].blocks, [Block::text("go on")]);
}

#[test]
fn damage_is_skipped_counted_and_the_chain_linked_again() {
    let home = StoreFixture::new();
    let first = user_line("u1", None, "one");
    let lost = assistant_line("a1", "u1", "m1", &Block::text("lost"));
    let after = user_line("u2", Some("a1"), "two") + &assistant_line("a2", "u2", "m2", &Block::text("fine"));
    let torn = &lost[..lost.len() / 2];
    let file = format!("{first}{torn}\n\0\0\0\0\n[1]\nnot json\n{{\"type\":\"from-the-future\"}}\n\0\0{after}{torn}");
    home.write_transcript(file);
    let loaded = home.load();
    assert_eq!(message_texts(&loaded), ["one\ntwo", "fine"]);
    assert_eq!(loaded.unknown_entries, 1);
    let expected = [
        Damage::BrokenLine { line: 2 },
        Damage::ZeroBytes { line: 3 },
        Damage::BrokenLine { line: 4 },
        Damage::BrokenLine { line: 5 },
        Damage::ZeroBytes { line: 7 },
        Damage::TornTail { line: 9 },
        Damage::MissingParent { line: 7 },
    ];
    assert_eq!(loaded.damage.items, expected);

    // A record fused onto a torn one, and two on one line, are recovered.
    let second = assistant_line("a1", "u1", "m1", &Block::text("second"));
    home.write_transcript(format!("{torn}{first}{}{}", second.trim_end(), user_line("u2", Some("a1"), "third")));
    let loaded = home.load();
    assert_eq!(message_texts(&loaded), ["one", "second", "third"]);
    assert_eq!(loaded.damage.total, 2);
}

#[test]
fn circles_and_self_parents_end() {
    let home = StoreFixture::new();
    home.write_transcript(
        user_line("a", Some("b"), "a") + &user_line("b", Some("a"), "b") + &user_line("c", Some("c"), "c"),
    );
    assert_eq!(message_texts(&home.load()), ["c"]);
    home.write_transcript(
        user_line("a", Some("b"), "a") + &user_line("b", Some("a"), "b") + &user_line("d", Some("b"), "d"),
    );
    let loaded = home.load();
    assert_eq!(message_texts(&loaded), ["a\nb\nd"]);
    assert!(matches!(loaded.damage.items[..], [Damage::Cycle { .. }]));
}

#[test]
fn a_file_rewritten_with_other_key_order_loads_the_same() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "go");
    transcript.append_assistant(&reply_head("m"), &call_block("t1"));
    transcript.append_tool_result(&result_block("t1", "ok"), Some(&raw_json("{}")));
    transcript.append_assistant(&reply_head("n"), &Block::text("done"));
    transcript.end_turn();
    drop(transcript);
    let before = home.load();
    let reversed: String = home
        .transcript_lines()
        .iter()
        .map(|line| {
            let entry = parse_line(line);
            let members: serde_json::Map<_, _> = entry.as_object().unwrap().clone().into_iter().rev().collect();
            serde_json::to_string_pretty(&members).unwrap().replace('\n', "") + "\n"
        })
        .collect();
    home.write_transcript(reversed);
    let after = home.load();
    assert_eq!(after.messages, before.messages);
    assert_eq!(after.last_entry, before.last_entry);
}

#[test]
fn repair_leaves_what_was_checked_alone() {
    let checked = vec![Message::user(vec![Block::text("a")]), Message::assistant(vec![call_block("t1")])];
    let (fixed, damage) = repair_messages(checked.clone(), 2);
    assert_eq!(fixed[..2], checked[..]);
    assert_eq!(damage, [Damage::MissingResult { call: ToolUseId::new("t1") }]);
    let (same, damage) = repair_messages(fixed.clone(), 3);
    assert_eq!((same, damage.len()), (fixed.clone(), 0));
    // A message that was sent alone is not joined to what follows.
    let mut next = fixed;
    next.push(Message::user(vec![Block::text("b")]));
    for checked in [3, 0] {
        let (same, damage) = repair_messages(next.clone(), checked);
        assert_eq!((same, damage.len()), (next.clone(), 0));
    }
}

#[test]
fn a_paused_turn_that_went_on_stays_as_it_was_sent_and_is_no_damage() {
    let [first, second] = ["one", "two"].map(|text| Message::assistant(vec![Block::text(text)]));
    let messages = vec![Message::user(vec![Block::text("a")]), first, second];
    let (same, damage) = repair_messages(messages.clone(), 0);
    assert_eq!((same, damage.len()), (messages, 0));
}

#[test]
fn what_was_sent_apart_comes_back_apart_and_what_was_sent_together_comes_back_together() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "context");
    append_prompt(&mut transcript, "prompt");
    transcript.mark_sent();
    // A report of a failure is no reply, and no reply leaves no trace at all.
    transcript.append_assistant(&AssistantHead { is_api_error: true, ..reply_head("e") }, &Block::text("it failed"));
    append_prompt(&mut transcript, "again");
    transcript.mark_sent();
    append_prompt(&mut transcript, "please go on");
    transcript.mark_sent();
    transcript.append_assistant(&reply_head("m"), &call_block("t1"));
    transcript.append_tool_result(&result_block("t1", "ok"), None);
    append_prompt(&mut transcript, "said meanwhile");
    drop(transcript);
    let texts = |loaded: &LoadedSession| loaded.messages.iter().map(|message| message.blocks.len()).collect::<Vec<_>>();
    assert_eq!(texts(&home.load()), [2, 1, 1, 1, 2]);
    // Nobody knows whether the end of it was sent.
    let (_, mut transcript) = home.resume();
    append_prompt(&mut transcript, "more");
    assert_eq!(texts(&home.load()), [2, 1, 1, 1, 2, 1]);
}

#[test]
fn repair_puts_every_kind_of_disorder_right() {
    let messages = vec![
        Message::assistant(vec![
            Block::text("who began?"),
            call_block("t1"),
            call_block("t2"),
            call_block("t1"),
            call_block("bad id"),
        ]),
        Message::user(vec![
            Block::text("note"),
            result_block("t2", "2"),
            result_block("t2", "twice"),
            result_block("ghost", "?"),
        ]),
        Message::user(vec![result_block("t1", "1"), Block::text(" \n")]),
        Message::assistant(vec![Block::text("")]),
        Message::user(vec![Block::text("next")]),
        Message::assistant(vec![call_block("t3")]),
        Message::assistant(vec![Block::text("more")]),
        Message::user(vec![result_block("t3", "too late")]),
        Message::assistant(vec![Block::text("end")]),
    ];
    assert!(history_fault(&messages).is_some());
    let (fixed, damage) = repair_messages(messages, 0);
    assert_eq!(history_fault(&fixed), None, "{fixed:?}");
    assert_eq!(fixed[0].text(), MISSING_START);
    assert_eq!(
        fixed[2].blocks,
        [result_block("t1", "1"), result_block("t2", "2"), Block::text("note"), Block::text("next")]
    );
    let last: Vec<String> = fixed[5..].iter().map(Message::text).collect();
    assert_eq!(last, ["more", "end"]);
    assert_eq!(fixed.last().unwrap().role, Role::Assistant);
    for expected in [Damage::ResultOrder, Damage::BlankText, Damage::EmptyMessage, Damage::MissingStart] {
        assert!(damage.contains(&expected), "{expected}");
    }
    let (again, damage) = repair_messages(fixed.clone(), 0);
    assert_eq!((again, damage.len()), (fixed, 0));
}

#[test]
fn a_search_that_words_did_not_wait_for_is_dropped_and_any_other_stays() {
    let block = |json: &str| Block::from_json(json).unwrap();
    let search = block(r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#);
    let found = block(r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#);
    let history = |reply: &[&Block], answer: &[&Block]| {
        let of = |blocks: &[&Block]| blocks.iter().map(|block| (*block).clone()).collect();
        vec![Message::user(vec![Block::text("go")]), Message::assistant(of(reply)), Message::user(of(answer))]
    };
    let (call, result, words) = (call_block("t1"), result_block("t1", "1"), Block::text("wait"));
    let (fixed, damage) = repair_messages(history(&[&search, &call], &[&result, &words]), 0);
    assert_eq!(fixed, history(&[&call], &[&result, &words]));
    assert_eq!(damage, [Damage::OvertakenCall { call: "s1".to_owned() }]);
    assert_eq!(find_invalid(&fixed), None);
    for fine in [history(&[&search, &call], &[&result]), history(&[&search, &found, &call], &[&result, &words])] {
        assert_eq!(repair_messages(fine.clone(), 0), (fine, Vec::new()));
    }
}

#[test]
fn an_id_means_the_same_however_another_program_writes_it() {
    let home = StoreFixture::new();
    home.write_transcript(
        r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"one"},"uuid":"a\/\u0062"}
{"parentUuid":"a\u002fb","type":"assistant","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"two"}]},"uuid":"c\u0064"}
"#,
    );
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.messages.len(), 2, "{:?}", loaded.damage);
    assert_eq!(loaded.last_entry, Some(EntryId::new("cd")));
    append_prompt(&mut transcript, "three");
    assert_eq!(home.load().messages.len(), 3, "the new entry follows the one that it names");
    let cut = load_conversation(&home.path(), &LoadOptions::up_to(EntryId::new("a/b"))).unwrap();
    assert_eq!(cut.messages, [Message::user(vec![Block::text("one")])]);
}

#[test]
fn of_two_ids_in_one_record_every_reading_takes_the_same() {
    let home = StoreFixture::new();
    home.write_transcript(
        r#"{"parentUuid":null,"uuid":"first","type":"user","message":{"role":"user","content":[1]},"uuid":"second"}
"#,
    );
    let last = home.load().last_entry.unwrap();
    assert_eq!(last, EntryId::new("second"));
    assert!(load_conversation(&home.path(), &LoadOptions::up_to(last)).is_ok());
}

#[test]
fn an_entry_whose_id_is_no_text_is_damage_and_nothing_goes_on_from_it() {
    let home = StoreFixture::new();
    let entry = |parent: &str, id: &[u8], text: &str| {
        let head =
            format!(r#"{{"parentUuid":{parent},"type":"user","message":{{"role":"user","content":"{text}"}},"uuid":""#);
        [head.as_bytes(), id, b"\"}\n"].concat()
    };
    home.write_transcript([entry("null", b"a", "one"), entry("\"gone\"", b"b\xC3(", "two")].concat());
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.last_entry, Some(EntryId::new("a")));
    assert_eq!(loaded.damage.items, [Damage::BrokenLine { line: 2 }]);
    append_prompt(&mut transcript, "three");
    let again = home.load();
    assert_eq!(again.messages, ["one", "three"].map(|text| Message::user(vec![Block::text(text)])));
}

#[test]
fn a_call_that_was_left_for_later_is_no_damage_until_something_else_follows() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "go");
    let call = Block::from_json(r#"{"type":"tool_use","id":"t1","name":"Bash","input":{}}"#).unwrap();
    transcript.append_assistant(&reply_head("m1"), &call);
    transcript.append_deferred(&ToolUseId::new("t1"));
    transcript.end_turn();
    drop(transcript);
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.messages, [Message::user(vec![Block::text("go")])]);
    assert_eq!(loaded.deferred, Some(Message::assistant(vec![call.clone()])));
    assert_eq!((loaded.damage.total, check_transcript(&home.path()).unwrap().total), (0, 0));

    transcript.resumed(&ToolUseId::new("t1"));
    let cut_off = home.load();
    assert_eq!(cut_off.deferred, None, "it may have run by now");
    let lost = Block::tool_result("t1", &INTERRUPTED_CALL.into(), true);
    assert_eq!(cut_off.messages[1..], [Message::assistant(vec![call.clone()]), Message::user(vec![lost])]);
    transcript.append_deferred(&ToolUseId::new("t1"));
    assert!(home.load().deferred.is_some(), "it was left for later once more");

    transcript.resumed(&ToolUseId::new("t1"));
    let result = Block::tool_result("t1", &"ran".into(), false);
    transcript.append_tool_result(&result, None);
    let again = home.load();
    assert_eq!(again.deferred, None);
    assert_eq!(again.messages[1..], [Message::assistant(vec![call]), Message::user(vec![result])]);
    assert_eq!(again.damage.total, 0, "{:?}", again.damage);
}
