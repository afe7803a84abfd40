//! Tests of a command's effects on the session: the working directory and the known files.

use std::path::Path;

use gimlet_core::files::{FileStamp, FileStates};
use gimlet_proto::{AgentPath, ToolUseId};
use serde_json::json;

use super::{run, run_for_error, run_for_text};
use crate::bash::command_harness::CommandBench;
use crate::edit::Edit;
use crate::write::Write;

#[tokio::test(flavor = "current_thread")]
async fn the_directory_carries_over_inside_the_project_and_variables_do_not() {
    let mut bench = CommandBench::new();
    std::fs::create_dir(bench.path("sub")).unwrap();
    assert_eq!(run_for_text(&mut bench, "cd sub; export X=1").await, "");
    assert_eq!(bench.state.cwd, bench.path("sub"));
    assert_eq!(run_for_text(&mut bench, "pwd; echo [$X]").await, format!("{}\n[]", bench.path("sub").display()));
    assert!(run_for_error(&mut bench, "cd ..; false").await.starts_with("Exit code 1"));
    assert_eq!(bench.state.cwd, bench.state.project_dir, "a failing command moves, too");
}

#[tokio::test(flavor = "current_thread")]
async fn leaving_the_project_is_undone_with_a_notice() {
    let mut bench = CommandBench::new();
    std::fs::create_dir(bench.path("sub")).unwrap();
    run_for_text(&mut bench, "cd sub").await;
    let given = run(&mut bench, "cd /usr; echo moved").await.unwrap();
    let notice = format!("Shell cwd was reset to {}", bench.state.project_dir.display());
    assert_eq!((given.text, &given.output["stderr"]), (format!("moved\n{notice}"), &json!(notice)));
    assert_eq!(bench.state.cwd, bench.state.project_dir);
    assert!(run_for_error(&mut bench, "cd /usr; exit 4").await.ends_with(&notice));
}

#[tokio::test(flavor = "current_thread")]
async fn an_agent_of_the_session_does_not_move_it() {
    let mut bench = CommandBench::new();
    std::fs::create_dir(bench.path("sub")).unwrap();
    bench.agent = AgentPath(vec![ToolUseId::new("toolu_parent")]);
    assert!(run_for_text(&mut bench, "cd sub").await.contains("Shell cwd was reset to"));
    assert_eq!(bench.state.cwd, bench.state.project_dir);
}

#[tokio::test(flavor = "current_thread")]
async fn carrying_over_can_be_switched_off() {
    let mut bench = CommandBench::with_env(&[("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR", "1")]);
    std::fs::create_dir(bench.path("sub")).unwrap();
    assert!(run_for_text(&mut bench, "cd sub").await.contains("Shell cwd was reset to"));
    assert_eq!(bench.state.cwd, bench.state.project_dir);
}

#[tokio::test(flavor = "current_thread")]
async fn a_deleted_directory_is_left_for_its_parent() {
    let mut bench = CommandBench::new();
    std::fs::create_dir_all(bench.path("a/b")).unwrap();
    run_for_text(&mut bench, "cd a/b").await;
    std::fs::remove_dir(bench.path("a/b")).unwrap();
    let text = run_for_text(&mut bench, "pwd").await;
    assert!(text.contains("no longer exists; the command ran in"), "{text}");
    assert_eq!(bench.state.cwd, bench.path("a"));
    assert_eq!(run_for_text(&mut bench, "pwd").await, bench.path("a").display().to_string());
}

fn is_whole(bench: &CommandBench, path: &Path) -> Option<bool> {
    bench.state.files.get(path).map(|known| known.whole)
}

#[tokio::test(flavor = "current_thread")]
async fn showing_one_file_counts_as_reading_it_as_far_as_it_was_shown() {
    let mut bench = CommandBench::new();
    let paths = ["a", "b", "c", "d", "e"].map(|name| bench.file(name, "one\ntwo\nthree\n"));
    run_for_text(&mut bench, "cat a").await;
    run_for_text(&mut bench, "cat -n b").await;
    run_for_text(&mut bench, "head -2 c").await;
    run_for_text(&mut bench, "sed -n '1,2p' c").await;
    run_for_text(&mut bench, "cat d | sort").await;
    run_for_text(&mut bench, "wc -l e").await;
    let known = paths.map(|path| is_whole(&bench, &path));
    assert_eq!(known, [Some(true), Some(true), Some(false), None, None]);
}

#[tokio::test(flavor = "current_thread")]
async fn lines_that_a_command_showed_are_enough_to_edit_and_not_to_overwrite() {
    let mut bench = CommandBench::new();
    for command in ["head -1", "tail -1", "sed -n '1,2p'", "grep three", "grep -n three", "nl"] {
        let path = bench.file("f", "one\ntwo\n\nthree\n");
        bench.state.files = FileStates::default();
        run_for_text(&mut bench, &format!("{command} f")).await;
        bench.restart();
        let write = bench.call(Write, json!({"file_path": path, "content": "new"})).await.unwrap_err();
        assert!(write.model_text.contains("only in part"), "{command}: {write}");
        let edit = json!({"file_path": path, "old_string": "two", "new_string": "2"});
        bench.call(Edit, edit).await.unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    for command in ["grep -c three", "tail -n 0"] {
        let path = bench.file("f", "one\ntwo\n\nthree\n");
        bench.state.files = FileStates::default();
        run_for_text(&mut bench, &format!("{command} f")).await;
        bench.restart();
        let edit = json!({"file_path": path, "old_string": "two", "new_string": "2"});
        let refused = bench.call(Edit, edit).await.unwrap_err();
        assert!(refused.model_text.contains("has not been read"), "{command}: {refused}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn showing_a_long_file_is_no_whole_read() {
    let mut bench = CommandBench::new();
    let path = bench.file("long", &"a line of text\n".repeat(10_000));
    run_for_text(&mut bench, "cat long").await;
    assert_eq!(is_whole(&bench, &path), None);
}

#[tokio::test(flavor = "current_thread")]
async fn a_writing_command_names_known_files_that_changed_and_only_once() {
    let mut bench = CommandBench::new();
    for name in ["changed.rs", "touched.rs", "same.rs"] {
        let path = bench.file(name, "let x = 1;\n");
        let stamp = FileStamp::from_bytes(b"let x = 1;\n", &path.metadata().unwrap());
        bench.state.files.record_read(path, stamp, true, None);
    }
    bench.file("unknown.rs", "let x = 1;\n");
    bench.restart();
    let given = run(&mut bench, "sed -i s/1/2/ changed.rs unknown.rs; touch -d tomorrow touched.rs").await.unwrap();
    let hint = "Note: files you have read are different now; read them again before editing: changed.rs";
    assert_eq!((given.text.as_str(), &given.output["staleReadFileStateHint"]), (hint, &json!(hint)));
    assert_eq!(run_for_text(&mut bench, "sed -i s/x/y/ unknown.rs").await, "");
    assert!(run_for_error(&mut bench, "sed -i s/2/3/ changed.rs; exit 1").await.contains("changed.rs"));
    assert_eq!(run_for_text(&mut bench, "echo no writer").await, "no writer");
}

#[tokio::test(flavor = "current_thread")]
async fn what_git_did_is_told_to_programs_and_not_to_the_model() {
    let mut bench = CommandBench::new();
    let identity = "-c user.name=ada -c user.email=ada@example.org";
    let given =
        run(&mut bench, &format!("git init -q . && touch a && git add a && git {identity} commit -m first")).await;
    let given = given.unwrap();
    let commit = &given.output["gitOperation"]["commit"];
    assert_eq!(commit["kind"], "committed");
    assert!(given.text.contains(commit["sha"].as_str().unwrap()) && given.text.starts_with('['));
}
