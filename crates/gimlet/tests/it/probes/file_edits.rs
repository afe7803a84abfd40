//! Editing: exactly what was meant, in the file's own style, or not at all.

use serde_json::json;

use super::*;
use crate::world;

fn edit_call(world: &TestWorld, path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({"file_path": world.path(path), "old_string": old, "new_string": new}))
}

fn read_bytes(world: &TestWorld, path: &str) -> Vec<u8> {
    std::fs::read(world.project.join(path)).unwrap()
}

fn encode_utf16(text: &str) -> Vec<u8> {
    std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

#[tokio::test]
async fn probe_19_a_file_changed_elsewhere_is_edited_only_where_the_place_is_certain() {
    let world = world();
    world.file("a.txt", "alpha\nbeta\n");
    let model = serve_one_by_one([
        read_call(&world, "a.txt"),
        bash_call("printf 'alpha\\nbeta\\ngamma\\ngamma\\n' > a.txt"),
        edit_call(&world, "a.txt", "beta", "BETA"),
        bash_call("printf 'alpha\\nBETA\\ngamma\\ngamma\\ndelta\\n' > a.txt"),
        edit_call(&world, "a.txt", "gamma", "GAMMA"),
    ])
    .await;
    run_to_end(&world, &model).await;
    let noted = tool_success(&model, 3);
    assert!(noted.contains("other changes"), "{noted}");
    assert!(tool_error(&model, 5).contains("Read it again"), "{}", tool_error(&model, 5));
    assert_eq!(world.read("a.txt"), "alpha\nBETA\ngamma\ngamma\ndelta\n");
}

#[tokio::test]
async fn a_changed_file_outside_the_project_is_edited_where_it_may_be_read_unasked() {
    let world = world();
    let outside = world.home.join("notes.txt");
    std::fs::write(&outside, "alpha\n").unwrap();
    let path = outside.display().to_string();
    let model = serve_one_by_one([
        ("Read", json!({"file_path": path})),
        bash_call(format!("echo beta >> {path}")),
        ("Edit", json!({"file_path": path, "old_string": "alpha", "new_string": "ALPHA"})),
    ])
    .await;
    run_to_end(&world, &model).await;
    assert!(tool_success(&model, 3).contains("other changes"), "{}", tool_success(&model, 3));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "ALPHA\nbeta\n");
}

#[tokio::test]
async fn several_edits_in_one_call_are_understood_and_rules_about_edits_hold_for_them() {
    let edits = |world: &TestWorld| {
        json!({"file_path": world.path("a.txt"), "edits": [
            {"old_string": "alpha", "new_string": "ALPHA"}, {"old_string": "beta", "new_string": "BETA"}]})
    };
    for (flags, changed) in [(&[][..], true), (&["--disallowedTools", "Edit"][..], false)] {
        let world = world();
        world.file("a.txt", "alpha\nbeta\n");
        let model = serve_one_by_one([read_call(&world, "a.txt"), ("MultiEdit", edits(&world))]).await;
        world.run(&model).stream("go").args(flags.iter().copied()).finish().await.expect_code(0);
        let offered = model.request(0).tool_names();
        assert!(!offered.iter().any(|name| name == "MultiEdit"), "{offered:?}");
        let answers = tool_answers(&model.request(2));
        assert_eq!(answers[0].1, !changed, "{answers:?}");
        assert_eq!(world.read("a.txt"), if changed { "ALPHA\nBETA\n" } else { "alpha\nbeta\n" });
    }
}

#[tokio::test]
async fn a_bare_edit_rule_covers_every_tool_that_edits_files() {
    let bypass = ["--permission-mode", "bypassPermissions"];
    let (ask, only_write) = (r#"{"permissions":{"ask":["Edit"]}}"#, r#"{"permissions":{"ask":["MultiEdit"]}}"#);
    for (flags, offered, written) in [
        ([bypass, ["--disallowedTools", "Edit"]].concat(), false, false),
        ([bypass, ["--disallowedTools", "Edit(other/**)"]].concat(), true, true),
        ([bypass, ["--settings", ask]].concat(), true, false),
        ([bypass, ["--settings", only_write]].concat(), true, true),
        (vec!["--allowedTools", "Edit"], true, true),
        (vec!["--allowedTools", "MultiEdit"], true, false),
        (vec!["--allowedTools", "Edit", "--disallowedTools", "Write"], false, false),
    ] {
        let world = world();
        let model = serve_one_by_one([("Write", json!({"file_path": world.path("a.txt"), "content": "x"}))]).await;
        let run = world.run(&model).args(flags.iter().copied()).args(["-p", "--", "go"]).finish().await;
        run.expect_code(0);
        assert_eq!(model.request(0).tool_names().contains(&"Write".to_owned()), offered, "{flags:?}");
        let answers = tool_answers(&model.request(1));
        assert_eq!((answers[0].1, world.project.join("a.txt").exists()), (!written, written), "{flags:?} {answers:?}");
    }
}

#[tokio::test]
async fn probe_19_line_ends_and_encodings_stay_as_they_were() {
    let world = world();
    world.file("crlf.txt", "one\r\ntwo\r\nthree\r\n");
    world.file("mixed.txt", "one\r\ntwo\nthree\r\nfour\n");
    world.file("wide.txt", encode_utf16("one\r\ntwo\r\n"));
    world.file("bom.txt", "\u{feff}one\ntwo\n");
    let names = ["crlf.txt", "mixed.txt", "wide.txt", "bom.txt"];
    let reads = names.map(|name| read_call(&world, name));
    let edits = names.map(|name| edit_call(&world, name, "one\ntwo", "one\nzwei\nhalf"));
    let calls: Vec<_> = reads.into_iter().chain(edits).collect();
    let model = serve_in_one_reply::<8>(calls.try_into().unwrap()).await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(answers.iter().all(|(_, failed)| !failed), "{answers:?}");
    assert!(answers[2].0.contains("1\tone\n2\ttwo"), "{answers:?}");
    assert_eq!(read_bytes(&world, "crlf.txt"), b"one\r\nzwei\r\nhalf\r\nthree\r\n");
    let mixed = String::from_utf8(read_bytes(&world, "mixed.txt")).unwrap();
    assert!(mixed.starts_with("one\r\nzwei") && mixed.ends_with("half\nthree\r\nfour\n"), "{mixed:?}");
    assert!(!mixed.contains("\r\r"), "{mixed:?}");
    assert_eq!(read_bytes(&world, "wide.txt"), encode_utf16("one\r\nzwei\r\nhalf\r\n"));
    assert_eq!(read_bytes(&world, "bom.txt"), "\u{feff}one\nzwei\nhalf\n".as_bytes());
}

#[tokio::test]
async fn probe_19_curly_quotes_are_found_when_unique_and_never_written_back() {
    let world = world();
    world.file("unique.txt", "say \u{201c}hello\u{201d} now\n");
    world.file("twice.txt", "\u{201c}hello\u{201d} and \u{201c}hello\u{201d}\n");
    let model = serve_in_one_reply([
        read_call(&world, "unique.txt"),
        read_call(&world, "twice.txt"),
        edit_call(&world, "unique.txt", "say \"hello\" now", "say \"bye\" now"),
        edit_call(&world, "twice.txt", "\"hello\"", "\"bye\""),
    ])
    .await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(!answers[2].1 && answers[3].1, "{answers:?}");
    assert_eq!(world.read("unique.txt"), "say \"bye\" now\n");
    assert_eq!(world.read("twice.txt"), "\u{201c}hello\u{201d} and \u{201c}hello\u{201d}\n");
}

#[tokio::test]
async fn probe_20_an_empty_old_text_creates_and_never_overwrites() {
    let world = world();
    world.file("full.txt", "content\n");
    world.file("blank.txt", "");
    let model = serve_in_one_reply([
        edit_call(&world, "new/deep.txt", "", "made\n"),
        edit_call(&world, "blank.txt", "", "filled\n"),
        read_call(&world, "full.txt"),
        edit_call(&world, "full.txt", "", "lost\n"),
    ])
    .await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(!answers[0].1 && answers[3].1, "{answers:?}");
    assert_eq!(world.read("new/deep.txt"), "made\n");
    assert_eq!(world.read("full.txt"), "content\n");
    assert!(answers[3].0.contains("Write"), "{answers:?}");
    assert_eq!((answers[1].1, world.read("blank.txt").as_str()), (false, "filled\n"), "{answers:?}");
}

#[tokio::test]
async fn a_file_must_be_read_before_it_is_changed_and_a_viewer_counts_as_reading() {
    let world = world();
    world.file("a.txt", "content\n");
    world.file("b.txt", "content\n");
    let model = serve_one_by_one([
        edit_call(&world, "a.txt", "content", "changed"),
        ("Write", json!({"file_path": world.path("a.txt"), "content": "lost"})),
        bash_call("cat b.txt"),
        edit_call(&world, "b.txt", "content", "changed"),
    ])
    .await;
    run_to_end(&world, &model).await;
    assert!(tool_error(&model, 1).contains("read"), "{}", tool_error(&model, 1));
    assert!(tool_error(&model, 2).contains("read"), "{}", tool_error(&model, 2));
    tool_success(&model, 4);
    assert_eq!((world.read("a.txt").as_str(), world.read("b.txt").as_str()), ("content\n", "changed\n"));
}

#[tokio::test]
async fn several_edits_of_one_file_in_one_reply_all_hold() {
    let world = world();
    world.file("a.txt", "one two three\n");
    let model = serve_in_one_reply([
        read_call(&world, "a.txt"),
        edit_call(&world, "a.txt", "one", "1"),
        edit_call(&world, "a.txt", "two", "2"),
        edit_call(&world, "a.txt", "three", "3"),
    ])
    .await;
    run_to_end(&world, &model).await;
    assert_eq!(world.read("a.txt"), "1 2 3\n");
}

#[tokio::test]
async fn links_rights_and_shared_files_survive_a_write() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let world = world();
    let target = world.file("real/run.sh", "old\n");
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("real/run.sh", world.project.join("link.sh")).unwrap();
    let shared = world.file("shared.txt", "old\n");
    std::fs::hard_link(&shared, world.project.join("twin.txt")).unwrap();
    let model = serve_in_one_reply([
        read_call(&world, "link.sh"),
        read_call(&world, "shared.txt"),
        edit_call(&world, "link.sh", "old", "new"),
        ("Write", json!({"file_path": world.path("shared.txt"), "content": "new\n"})),
    ])
    .await;
    run_to_end(&world, &model).await;
    assert!(tool_answers(&model.request(1)).iter().all(|(_, failed)| !failed), "{:?}", tool_answers(&model.request(1)));
    assert_eq!(world.read("real/run.sh"), "new\n");
    assert!(world.project.join("link.sh").is_symlink());
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!((world.read("twin.txt").as_str(), shared.metadata().unwrap().nlink()), ("new\n", 2));
    let left: Vec<_> = std::fs::read_dir(&world.project).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[tokio::test]
async fn an_edit_of_a_large_file_does_not_put_the_file_into_the_transcript() {
    let world = world();
    let big = format!("{}needle\n", "some line of text\n".repeat(60_000));
    world.file("big.txt", &big);
    let model = serve_one_by_one([
        ("Grep", json!({"pattern": "needle"})),
        ("Read", json!({"file_path": world.path("big.txt"), "offset": 60_001, "limit": 1})),
        edit_call(&world, "big.txt", "needle", "thread"),
    ])
    .await;
    run_to_end(&world, &model).await;
    tool_success(&model, 3);
    let transcript = world.transcripts()[0].metadata().unwrap().len();
    assert!(transcript < 100_000, "the transcript has {transcript} bytes");
}

#[tokio::test]
async fn a_command_that_rewrites_a_file_that_was_read_is_noticed() {
    let world = world();
    world.file("a.txt", "one\ntwo\n");
    let model =
        serve_one_by_one([read_call(&world, "a.txt"), bash_call("sed -i s/one/1/ a.txt"), bash_call("true")]).await;
    run_to_end(&world, &model).await;
    assert!(tool_success(&model, 2).contains("a.txt"), "{}", tool_success(&model, 2));
    assert!(!tool_success(&model, 3).contains("a.txt"), "{}", tool_success(&model, 3));
}
