//! Which session is meant, and copies of sessions.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gimlet_proto::{Block, EntryId, Message, SessionId};
use gimlet_store::*;

use crate::support::*;

/// Makes a session with one prompt, `age` seconds old.
fn create_session(places: &StoreLocations, cwd: &Path, entrypoint: &str, prompt: &str, age: u64) -> SessionFiles {
    let files = places.project(cwd).session_files(&new_session_id());
    let stamp =
        EntryStamp { cwd: cwd.display().to_string(), git_branch: "dev".into(), entrypoint: Some(entrypoint.into()) };
    let mut transcript = Transcript::create(&files, stamp, TranscriptOptions::default()).unwrap();
    append_prompt(&mut transcript, prompt);
    transcript.append_assistant(&reply_head("m"), &Block::text("ok"));
    transcript.end_turn();
    drop(transcript);
    let time = SystemTime::now() - Duration::from_secs(age);
    File::options()
        .append(true)
        .open(files.transcript())
        .unwrap()
        .set_times(FileTimes::new().set_modified(time))
        .unwrap();
    files
}

fn append_title(files: &SessionFiles, title: &str) {
    let line = format!("{{\"type\":\"custom-title\",\"customTitle\":\"{title}\",\"sessionId\":\"{}\"}}\n", files.id());
    let mut file = File::options().append(true).open(files.transcript()).unwrap();
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
}

#[test]
fn continue_takes_the_newest_session_of_a_person_and_print_mode_takes_any() {
    let home = StoreFixture::new();
    let (places, cwd) = (home.locations(), home.cwd());
    let old = create_session(&places, &cwd, "cli", "old", 30);
    let mine = create_session(&places, &cwd, "cli", "mine", 20);
    let printed = create_session(&places, &cwd, "sdk-cli", "printed", 10);
    let sessions = ProjectSessions::new(&places, &cwd, &[]);
    assert_eq!(&sessions.latest_session(SessionFilter::Interactive).unwrap().id, mine.id());
    assert_eq!(&sessions.latest_session(SessionFilter::All).unwrap().id, printed.id());
    let listed: Vec<SessionId> =
        sessions.list(SessionFilter::Interactive).into_iter().map(|session| session.id).collect();
    assert_eq!(listed, [mine.id().clone(), old.id().clone()]);
    let summary = sessions.latest_session(SessionFilter::All).unwrap();
    assert_eq!(summary.first_prompt.as_deref(), Some("printed"));
    assert_eq!(summary.git_branch.as_deref(), Some("dev"));
    assert_eq!(summary.cwd.as_deref(), Some(cwd.as_path()));
}

#[test]
fn empty_files_side_chains_and_directories_with_the_same_key_do_not_count() {
    let home = StoreFixture::new();
    let places = home.locations();
    let dotted = home.temp.path().join("a.b");
    let dashed = home.temp.path().join("a-b");
    for dir in [&dotted, &dashed] {
        std::fs::create_dir(dir).unwrap();
    }
    let [dotted, dashed] = [dotted, dashed].map(|dir: PathBuf| dir.canonicalize().unwrap());
    let mine = create_session(&places, &dotted, "cli", "mine", 20);
    let theirs = create_session(&places, &dashed, "cli", "theirs", 10);
    assert_eq!(mine.transcript().parent(), theirs.transcript().parent());
    let dir = mine.transcript().parent().unwrap().to_owned();
    File::create(dir.join("00000000-0000-4000-8000-000000000000.jsonl")).unwrap();
    let side =
        "{\"parentUuid\":null,\"isSidechain\":true,\"type\":\"user\",\"message\":{\"content\":\"x\"},\"uuid\":\"u\"}\n";
    std::fs::write(dir.join("00000000-0000-4000-8000-000000000001.jsonl"), side).unwrap();
    let latest = ProjectSessions::new(&places, &dotted, &[]).latest_session(SessionFilter::All).unwrap();
    assert_eq!(&latest.id, mine.id());
}

#[test]
fn ids_are_looked_up_here_then_in_worktrees_then_everywhere() {
    let home = StoreFixture::new();
    let (places, cwd) = (home.locations(), home.cwd());
    let other = home.temp.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let far = create_session(&places, &other.canonicalize().unwrap(), "cli", "far", 0);
    let sessions = ProjectSessions::new(&places, &cwd, &[]);
    assert_eq!(sessions.find_by_id(far.id().as_str()).unwrap(), far);
    assert_eq!(sessions.find_by_id(&far.id().as_str().to_uppercase()).unwrap(), far);
    let loud = far.id().as_str().replace(|c: char| c.is_ascii_hexdigit(), "A").replacen("AAA", "aBc", 1);
    let path = far.transcript().with_file_name(format!("{loud}.jsonl"));
    std::fs::copy(far.transcript(), &path).unwrap();
    for spelled in [loud.clone(), loud.to_lowercase(), loud.to_uppercase()] {
        assert_eq!(sessions.find_by_id(&spelled).unwrap().transcript(), path, "{spelled}");
    }
    std::fs::remove_file(path).unwrap();
    let missing = new_session_id();
    let error = sessions.find_by_id(missing.as_str()).unwrap_err();
    assert_eq!(error.to_string(), format!("No conversation found with session ID: {missing}"));
    assert!(sessions.latest_session(SessionFilter::All).is_none());
    assert_eq!(&ProjectSessions::new(&places, &cwd, &[other]).latest_session(SessionFilter::All).unwrap().id, far.id());
    let twin = places.projects_root().join("-twin");
    std::fs::create_dir(&twin).unwrap();
    std::fs::copy(far.transcript(), twin.join(format!("{}.jsonl", far.id()))).unwrap();
    assert!(matches!(sessions.find_by_id(far.id().as_str()), Err(FindError::AmbiguousId { .. })));
}

#[test]
fn titles_are_matched_exactly() {
    let home = StoreFixture::new();
    let (places, cwd) = (home.locations(), home.cwd());
    let one = create_session(&places, &cwd, "cli", "x", 2);
    let two = create_session(&places, &cwd, "sdk-cli", "y", 1);
    append_title(&one, "the plan");
    append_title(&two, "another");
    let sessions = ProjectSessions::new(&places, &cwd, &[]);
    assert_eq!(&sessions.find_by_title("the plan").unwrap().id, one.id());
    assert_eq!(&sessions.find_by_title("another").unwrap().id, two.id());
    assert!(matches!(sessions.find_by_title("plan"), Err(FindError::NoSuchTitle { .. })));
    append_title(&two, "the plan");
    assert!(matches!(sessions.find_by_title("the plan"), Err(FindError::AmbiguousTitle { .. })));
}

#[test]
fn first_prompts_are_what_a_person_wrote() {
    let home = StoreFixture::new();
    let user = |content: &str, more: &str| {
        format!(
            "{{\"parentUuid\":null,\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":{content}}}{more},\"uuid\":\"u\"}}\n"
        )
    };
    let machine = [
        user("\"hidden\"", ",\"isMeta\":true"),
        user("\"summary\"", ",\"isCompactSummary\":true"),
        user("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"x\"}]", ""),
        user("\"<local-command-stdout>x</local-command-stdout>\"", ""),
        user("[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]", ""),
        user("\"<ide_opened_file>x</ide_opened_file>\"", ""),
        user("\"<command-name>/init</command-name> \"", ""),
    ]
    .concat();
    home.write_transcript(&machine);
    assert_eq!(read_summary(&home.path()).unwrap().unwrap().first_prompt.as_deref(), Some("/init"));
    home.write_transcript(machine + &user(&format!("\" fix\\nthis {}\"", "é".repeat(300)), ""));
    let prompt = read_summary(&home.path()).unwrap().unwrap().first_prompt.unwrap();
    assert!(prompt.starts_with("fix this é") && prompt.ends_with("é…"), "{prompt}");
    assert_eq!(prompt.chars().count(), 201);
}

#[test]
fn a_fork_has_the_same_history_under_its_own_id_and_leaves_the_source_alone() {
    let home = StoreFixture::new();
    let mut transcript = home.create();
    transcript.append_frozen_prefix(&["system".into()], "[]", &[memory_part("remember")]);
    append_prompt(&mut transcript, "one");
    transcript.append_assistant(&reply_head("m"), &call_block("t1"));
    transcript.append_assistant(&reply_head("m"), &call_block("t2"));
    transcript.append_tool_result(&result_block("t2", "2"), Some(&raw_json("{\"sessionId\":\"nested\"}")));
    let cut = transcript.append_tool_result(&result_block("t1", "1"), None);
    transcript.append_assistant(&reply_head("n"), &Block::text("dropped"));
    transcript.end_turn();
    let before = std::fs::read(home.path()).unwrap();
    let target = home.locations().project(&home.cwd()).session_files(&new_session_id());
    let options = LoadOptions::up_to(cut);
    assert_eq!(fork(&home.files, &options, &target).unwrap(), ForkSummary { entries: 5 });
    assert_eq!(std::fs::read(home.path()).unwrap(), before);
    let copy = load_conversation(&target.transcript(), &LoadOptions::default()).unwrap();
    assert_eq!(copy.messages, load_conversation(&home.path(), &options).unwrap().messages);
    assert_eq!(copy.frozen.as_ref().unwrap().system, ["system"]);
    assert_eq!(copy.frozen.as_ref().unwrap().context, [memory_part("remember")]);
    assert!(copy.damage.is_empty(), "{:?}", copy.damage);
    let text = std::fs::read_to_string(target.transcript()).unwrap();
    for line in text.lines() {
        let entry = parse_line(line);
        assert_eq!(entry["sessionId"], target.id().as_str());
        if entry["uuid"].is_string() {
            assert_eq!(entry["forkedFrom"]["sessionId"], SESSION);
            assert_eq!(entry["forkedFrom"]["messageUuid"], entry["uuid"]);
        }
    }
    assert!(text.contains("{\"sessionId\":\"nested\"}"));
    let mut resumed = Transcript::resume(&target, &copy, sample_stamp(), TranscriptOptions::default()).unwrap();
    append_prompt(&mut resumed, "on");
    assert!(matches!(fork(&home.files, &options, &target), Err(ForkError::Exists { .. })));
    let names: Vec<_> = std::fs::read_dir(home.path().parent().unwrap()).unwrap().flatten().collect();
    assert!(names.iter().all(|name| !name.file_name().to_string_lossy().ends_with(".part")));
}

#[test]
fn a_fork_made_by_the_sdk_in_the_middle_of_a_turn_resumes() {
    let home = StoreFixture::new();
    let entry = |kind: &str, uuid: &str, parent: &str, message: &str| {
        format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/w\",\"sessionId\":\"{SESSION}\",\
             \"type\":\"{kind}\",\"message\":{message},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-01-02T03:04:05.678Z\",\
             \"forkedFrom\":{{\"sessionId\":\"old\",\"messageUuid\":\"x\"}}}}\n"
        )
    };
    let calls = |id: &str| {
        format!(
            "{{\"id\":\"m\",\"role\":\"assistant\",\"model\":\"claude-x\",\"content\":[{}]}}",
            call_block(id).json()
        )
    };
    let file = entry("user", "n1", "null", "{\"role\":\"user\",\"content\":\"go\"}")
        + &entry("assistant", "n2", "\"n1\"", &calls("t1"))
        + &entry("assistant", "n3", "\"n2\"", &calls("t2"))
        + &entry(
            "user",
            "n4",
            "\"n2\"",
            &format!("{{\"role\":\"user\",\"content\":[{}]}}", result_block("t1", "1").json()),
        )
        + &format!(
            "{{\"type\":\"content-replacement\",\"sessionId\":\"{SESSION}\",\"replacements\":[],\"uuid\":\"c\",\"timestamp\":\"t\"}}\n"
        )
        + &format!(
            "{{\"type\":\"custom-title\",\"sessionId\":\"{SESSION}\",\"customTitle\":\"x (fork)\",\"uuid\":\"d\",\"timestamp\":\"t\"}}\n"
        );
    home.write_transcript(file);
    let (loaded, mut transcript) = home.resume();
    assert_eq!(loaded.messages[0], Message::user(vec![Block::text("go")]));
    assert_eq!(loaded.messages[1], Message::assistant(vec![call_block("t1"), call_block("t2")]));
    assert_eq!(loaded.messages[2].blocks[0], result_block("t1", "1"));
    assert_eq!(history_fault(&loaded.messages), None);
    assert_eq!(loaded.labels.title.as_deref(), Some("x (fork)"));
    assert_eq!(loaded.last_entry, Some(EntryId::new("n4")));
    assert_eq!(loaded.unknown_entries, 0);
    append_prompt(&mut transcript, "on");
    assert_eq!(history_fault(&home.load().messages), None);
}
