//! The exact bytes of entries, the chain they form, and the rules about titles and prompts.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use gimlet_proto::{Block, EntryId, PermissionMode, TokenUsage};
use gimlet_store::*;

use crate::support::*;

/// A line with its changing parts replaced.
fn normalize_line(line: &str, known: &[(&EntryId, &str)]) -> String {
    let time = parse_line(line)["timestamp"].as_str().map(str::to_owned);
    let mut line = line.to_owned();
    if let Some(time) = time {
        assert_eq!((time.len(), &time[10..11], &time[19..20], &time[23..]), (24, "T", ".", "Z"), "{time}");
        line = line.replace(&time, "TIME");
    }
    for (id, name) in known {
        line = line.replace(id.as_str(), name);
    }
    line
}

#[test]
fn entries_have_the_published_members_in_order() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    let prompt = append_prompt(&mut transcript, "hello");
    let head = AssistantHead {
        request_id: Some("req_1".into()),
        stop_reason: Some("end_turn".into()),
        usage: TokenUsage { input_tokens: 3, output_tokens: 2, ..TokenUsage::default() },
        ..reply_head("msg_1")
    };
    let text = transcript.append_assistant(&head, &Block::text("hi"));
    let tool = transcript.append_assistant(&reply_head("msg_2"), &call_block("t1"));
    let answer = transcript.append_tool_result(&result_block("t1", "ok"), Some(&raw_json("{ \"n\" :\n 1.0 }")));
    transcript.end_turn();
    let known = [(&prompt, "U1"), (&text, "U2"), (&tool, "U3"), (&answer, "U4")];
    let lines: Vec<String> = home.transcript_lines().iter().map(|line| normalize_line(line, &known)).collect();
    let place = format!(
        r#""userType":"external","cwd":"/home/ada/app","sessionId":"{SESSION}","version":"2.1.325","gitBranch":"main""#
    );
    let none = r#"{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}"#;
    let expected = [
        format!(
            r#"{{"parentUuid":null,"isSidechain":false,{place},"entrypoint":"cli","type":"user","message":{{"role":"user","content":"hello"}},"uuid":"U1","timestamp":"TIME"}}"#
        ),
        format!(
            r#"{{"parentUuid":"U1","isSidechain":false,{place},"type":"assistant","message":{{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5","content":[{{"type":"text","text":"hi"}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}}},"requestId":"req_1","uuid":"U2","timestamp":"TIME"}}"#
        ),
        format!(
            r#"{{"parentUuid":"U2","isSidechain":false,{place},"type":"assistant","message":{{"id":"msg_2","type":"message","role":"assistant","model":"claude-sonnet-5","content":[{{"type":"tool_use","id":"t1","name":"Read","input":{{"file_path":"/a"}}}}],"stop_reason":null,"stop_sequence":null,"usage":{none}}},"uuid":"U3","timestamp":"TIME"}}"#
        ),
        format!(
            r#"{{"parentUuid":"U3","isSidechain":false,{place},"entrypoint":"cli","type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1","content":"ok"}}]}},"uuid":"U4","timestamp":"TIME","toolUseResult":{{"n":1.0}},"sourceToolAssistantUUID":"U3"}}"#
        ),
        format!(r#"{{"type":"last-prompt","lastPrompt":"hello","leafUuid":"U4","sessionId":"{SESSION}"}}"#),
    ];
    assert_eq!(lines, expected);
}

/// Whoever reads a transcript takes blocks with one id for one reply.
#[test]
fn replies_of_a_server_that_gives_all_the_same_id_or_none_stay_apart() {
    for given in ["msg_0", ""] {
        let home = StoreFixture::new();
        let mut transcript = home.create();
        let ask = |transcript: &mut Transcript, id: &str| {
            append_prompt(transcript, "go");
            let head = reply_head(&transcript.claim_reply_id(given));
            transcript.append_assistant(&head, &Block::text("looking"));
            transcript.append_assistant(&head, &call_block(id));
            transcript.append_tool_result(&result_block(id, "ok"), None);
            let head = reply_head(&transcript.claim_reply_id(given));
            transcript.append_assistant(&head, &Block::text("done"));
            transcript.end_turn();
        };
        ask(&mut transcript, "t1");
        drop(transcript);
        let (_, mut transcript) = home.resume();
        ask(&mut transcript, "t2");
        let loaded = home.load();
        assert!(loaded.damage.is_empty(), "{given:?}: {:?}", loaded.damage);
        let blocks: Vec<usize> = loaded.messages.iter().map(|message| message.blocks.len()).collect();
        assert_eq!(blocks, [1, 2, 1, 1, 1, 2, 1, 1], "{given:?}");
    }
}

/// What waited when a session was killed is told once, whatever is said before the next run has written anything.
#[test]
fn prompts_that_waited_make_way_for_those_that_wait_now() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "go");
    let queue = |transcript: &Transcript, change: QueueChange<'_>| transcript.beside().record_queue_change(change);
    queue(&transcript, QueueChange::Enqueued("old"));
    queue(&transcript, QueueChange::Enqueued(""));
    drop(transcript);
    let foreign = r#"{"type":"queue-operation","operation":"enqueue","content":[{"type":"image"}]}"#;
    home.write_transcript(format!("{}\n{foreign}\n", home.transcript_lines().join("\n")));
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.queued_prompts, ["old", "", ""]);
    queue(&transcript, QueueChange::Enqueued("new"));
    append_prompt(&mut transcript, "again");
    assert_eq!(home.load().queued_prompts, ["new"]);
    queue(&transcript, QueueChange::Dequeued);
    assert_eq!(home.load().queued_prompts, Vec::<String>::new());
}

#[test]
fn metadata_lines_begin_with_their_type_and_wait_for_the_first_prompt() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    transcript.set_title("My \"title\"");
    transcript.append_frozen_prefix(&["be brief".into()], "[{\"name\":\"Read\"}]", &[]);
    assert!(!home.path().exists(), "metadata alone is no session");
    let blocks = [Block::text("context")];
    transcript.user(UserEntry { origin: None, uuid: None, blocks: &blocks, plain: false, kind: UserEntryKind::Meta });
    append_prompt(&mut transcript, "go");
    tag_session(&home.files, Some("x")).unwrap();
    transcript.append_permission_mode(PermissionMode::AcceptEdits);
    let lines = home.transcript_lines();
    assert!(
        lines[0].contains(r#""content":[{"type":"text","text":"context"}]},"isMeta":true,"uuid":"#),
        "{}",
        lines[0]
    );
    assert_eq!(lines[2], format!(r#"{{"type":"custom-title","customTitle":"My \"title\"","sessionId":"{SESSION}"}}"#));
    assert_eq!(
        lines[3],
        format!(
            r#"{{"type":"gimlet-frozen","system":["be brief"],"tools":"[{{\"name\":\"Read\"}}]","sessionId":"{SESSION}"}}"#
        )
    );
    assert_eq!(lines[4], format!(r#"{{"type":"tag","tag":"x","sessionId":"{SESSION}"}}"#));
    assert_eq!(
        lines[5],
        format!(r#"{{"type":"permission-mode","permissionMode":"acceptEdits","sessionId":"{SESSION}"}}"#)
    );
}

#[test]
fn nothing_is_created_before_the_first_entry_and_then_only_for_the_owner() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    transcript.end_turn();
    transcript.close().wait_blocking().unwrap();
    assert!(!home.locations().projects_root().exists());
    append_prompt(&mut transcript, "x");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.path()), 0o600);
    assert_eq!((mode(home.path().parent().unwrap()), mode(&home.files.side_dir())), (0o700, 0o700));
}

#[test]
fn parallel_calls_fan_out_and_the_next_entry_follows_the_last_result() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "go");
    let first = transcript.append_assistant(&reply_head("m"), &call_block("t1"));
    // The first call is answered while the reply still streams.
    transcript.append_tool_result(&result_block("t1", "one"), None);
    let second = transcript.append_assistant(&reply_head("m"), &call_block("t2"));
    let last = transcript.append_tool_result(&result_block("t2", "two"), None);
    let next = transcript.append_assistant(&reply_head("n"), &Block::text("done"));
    let parents: Vec<_> = home.transcript_lines().iter().map(|line| parse_line(line)["parentUuid"].clone()).collect();
    assert_eq!(parents[2], first.as_str());
    assert_eq!(parents[3], first.as_str());
    assert_eq!(parents[4], second.as_str());
    assert_eq!(parents[5], last.as_str());
    assert_eq!(transcript.last_entry(), Some(&next));
}

#[test]
fn a_second_driver_is_refused_until_the_first_is_gone() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "x");
    let loaded = home.load();
    let again = || Transcript::resume(&home.files, &loaded, sample_stamp(), TranscriptOptions::default());
    let refused = again().err().unwrap();
    assert!(matches!(refused, TranscriptError::Busy { .. }), "{refused}");
    assert!(matches!(
        Transcript::create(&home.files, sample_stamp(), TranscriptOptions::default()).err(),
        Some(TranscriptError::Exists { .. })
    ));
    drop(transcript);
    assert!(again().is_ok());
}

#[test]
fn a_title_given_by_another_process_survives_the_session() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "x");
    transcript.set_title("ours");
    let mut other = std::fs::OpenOptions::new().append(true).open(home.path()).unwrap();
    writeln!(other, r#"{{"type":"custom-title","customTitle":"theirs","sessionId":"{SESSION}"}}"#).unwrap();
    transcript.append_assistant(&reply_head("m"), &Block::text("y"));
    transcript.close().wait_blocking().unwrap();
    let titles: Vec<String> = home.transcript_lines().into_iter().filter(|line| line.contains("customTitle")).collect();
    assert!(titles.last().unwrap().contains("theirs"), "{titles:?}");
    assert_eq!(home.load().labels.title.as_deref(), Some("theirs"));

    // And the other way round: a later title of ours wins over an older one of theirs.
    writeln!(other, r#"{{"type":"custom-title","customTitle":"theirs again","sessionId":"{SESSION}"}}"#).unwrap();
    transcript.set_title("ours at last");
    transcript.append_assistant(&reply_head("n"), &Block::text("z"));
    transcript.close().wait_blocking().unwrap();
    assert_eq!(home.load().labels.title.as_deref(), Some("ours at last"));
}

#[test]
fn labels_stay_within_the_last_64_kib() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "the task");
    transcript.set_title("name");
    for number in 0..40 {
        transcript.append_assistant(&reply_head(&format!("m{number}")), &Block::text(&"x".repeat(5_000)));
        let bytes = std::fs::read(home.path()).unwrap();
        let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(65_536)..]).into_owned();
        assert!(tail.contains(r#""customTitle":"name""#), "after {number}");
    }
}

#[test]
fn a_200_kb_prompt_is_listed_even_if_the_process_dies_at_once() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, &"long ".repeat(40_000));
    std::mem::forget(transcript);
    let summary = read_summary(&home.path()).unwrap().unwrap();
    assert!(summary.line().unwrap().starts_with("long long"));
    assert_eq!(summary.first_prompt, None);
}

#[test]
fn unsaved_sessions_hand_out_ids_and_write_nothing() {
    let home = StoreFixture::new();
    let mut transcript = Transcript::new_unsaved(home.files.id().clone(), sample_stamp());
    let id = append_prompt(&mut transcript, "x");
    assert_eq!(transcript.last_entry(), Some(&id));
    transcript.close().wait_blocking().unwrap();
    assert!(transcript.is_complete() && !home.locations().config_home().exists());
}

#[test]
fn subagents_write_side_chains_with_a_description() {
    let home = StoreFixture::new();
    let mut transcript = Transcript::for_agent(&home.files, "a1b2", sample_stamp(), TranscriptOptions::default());
    append_prompt(&mut transcript, "do this");
    transcript.append_assistant(&reply_head("m"), &Block::text("done"));
    let meta = AgentMeta {
        agent_type: "greeter".into(),
        description: "Say hi".into(),
        tool_use_id: "toolu_9".into(),
        spawn_depth: 1,
        ..AgentMeta::default()
    };
    write_agent_meta(&home.files, "a1b2", &meta).unwrap();
    let path = home.files.agent_transcript("a1b2");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(r#"{"parentUuid":null,"isSidechain":true,"agentId":"a1b2","userType""#), "{text}");
    assert_eq!(
        std::fs::read_to_string(home.files.agent_meta("a1b2")).unwrap(),
        r#"{"agentType":"greeter","description":"Say hi","toolUseId":"toolu_9","spawnDepth":1}"#
    );
    assert_eq!(load_conversation(&path, &LoadOptions::default()).unwrap().messages.len(), 2);
}

#[test]
fn a_subagent_of_an_earlier_run_is_known_and_its_record_goes_on() {
    let home = StoreFixture::new();
    let meta = |name: &str| AgentMeta { agent_type: "greeter".into(), name: Some(name.into()), ..AgentMeta::default() };
    let mut first = home.create();
    append_prompt(&mut first, "begin");
    let agents = first.agent_transcripts();
    let (mut transcript, written) = agents.create("a1", &meta("one"));
    written.unwrap();
    append_prompt(&mut transcript, "do this");
    let last = transcript.append_assistant(&reply_head("m"), &Block::text("done"));
    let (_second, written) = agents.create("a2", &meta("two"));
    written.unwrap();
    std::fs::write(home.files.agent_meta("bad"), "no json").unwrap();
    let known = agents.list_agents();
    assert_eq!(known.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(), ["a1", "a2"]);
    assert_eq!((known[0].meta.name.as_deref(), known[0].meta.stopped_by_user), (Some("one"), false));

    let (mut again, loaded) = agents.resume("a1", &LoadOptions::default()).unwrap().unwrap();
    assert_eq!((loaded.messages.len(), again.last_entry()), (2, Some(&last)));
    append_prompt(&mut again, "and this");
    assert_eq!(
        load_conversation(&home.files.agent_transcript("a1"), &LoadOptions::default()).unwrap().messages.len(),
        3
    );
    assert!(agents.resume("a9", &LoadOptions::default()).is_err(), "nobody has that id");
}

#[test]
fn that_a_person_stopped_a_subagent_is_kept_beside_what_others_wrote() {
    let home = StoreFixture::new();
    let mut first = home.create();
    append_prompt(&mut first, "begin");
    let agents = first.agent_transcripts();
    agents.create("a1", &AgentMeta::default()).1.unwrap();
    let path = home.files.agent_meta("a1");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen('{', r#"{"theirs":[1],"#, 1)).unwrap();
    agents.mark_stopped("a1").unwrap();
    assert!(agents.list_agents()[0].meta.stopped_by_user);
    assert!(std::fs::read_to_string(&path).unwrap().contains(r#""theirs":[1]"#));
}

#[test]
fn every_written_line_reaches_the_mirror_in_order() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    let (sender, receiver) = std::sync::mpsc::channel();
    transcript.set_mirror(Box::new(move |line| sender.send(line.to_owned()).unwrap()));
    append_prompt(&mut transcript, "x");
    transcript.set_title("t");
    transcript.end_turn();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), home.transcript_lines());
}

#[tokio::test]
async fn sync_can_be_awaited_later() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    append_prompt(&mut transcript, "x");
    let first = transcript.sync();
    append_prompt(&mut transcript, "y");
    let second = transcript.sync();
    second.await.unwrap();
    first.await.unwrap();
    let said = |line: &String| parse_line(line)["message"]["content"].clone();
    assert_eq!(home.transcript_lines().iter().map(said).collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn an_id_that_is_taken_does_not_cut_the_conversation() {
    let home = StoreFixture::new();
    let wanted = EntryId::new("11111111-2222-4333-8444-555555555555");
    let prompt = |transcript: &mut Transcript, text: &str| {
        let blocks = [Block::text(text)];
        let uuid = Some(wanted.clone());
        transcript.user(UserEntry { origin: None, blocks: &blocks, plain: true, kind: UserEntryKind::Prompt, uuid })
    };
    let mut transcript = home.create();
    assert_eq!(prompt(&mut transcript, "first"), wanted);
    assert_ne!(prompt(&mut transcript, "again"), wanted);
    drop(transcript);
    let (_, mut transcript) = home.resume();
    assert_ne!(prompt(&mut transcript, "after a resume"), wanted);
    drop(transcript);
    let loaded = home.load();
    assert_eq!(loaded.damage.total, 0, "{:?}", loaded.damage.items);
    let said: Vec<_> = loaded.messages.iter().flat_map(|message| &message.blocks).filter_map(Block::as_text).collect();
    assert_eq!(said, ["first", "again", "after a resume"]);
}
