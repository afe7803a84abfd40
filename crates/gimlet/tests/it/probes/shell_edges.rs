//! Commands at the edges: very long, very loud, broken, or sawing at the branch that they sit on.

use gimlet_script::{Script, ScriptedReply};
use serde_json::json;

use super::*;
use crate::world;

#[tokio::test]
async fn a_command_longer_than_the_kernel_takes_is_refused_with_another_way() {
    let world = world();
    let text = |lines| "0123456789abcde\n".repeat(lines);
    let command = |lines| bash_call(format!("cat > big.txt <<'END'\n{}END\nwc -c < big.txt", text(lines)));
    let model = serve_one_by_one([command(8_000), command(20_000)]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 1), "128000");
    assert!(tool_error(&model, 2).contains("script file"), "{}", tool_error(&model, 2));
    assert_eq!(world.read("big.txt"), text(8_000));
}

#[tokio::test]
async fn every_way_to_end_badly_is_told_and_the_next_command_runs() {
    let world = world();
    world.file("sub/x", "");
    let endings = [
        ("exit 7", "Exit code 7"),
        ("kill -9 $$", "SIGKILL"),
        ("exec false", "Exit code 1"),
        ("if then", "Exit code 2"),
        ("echo 'open", "Exit code 2"),
        ("no-such-program-anywhere", "Exit code 127"),
        ("set -e; false; echo never", "Exit code 1"),
        ("exec 1>&- 2>&-; echo lost; exit 4", "Exit code 4"),
        ("ulimit -c 0; kill -SEGV $$", "SIGSEGV"),
    ];
    for (command, told) in endings {
        let model = serve_one_by_one([bash_call(command), bash_call("echo still here")]).await;
        run_to_end(&world, &model).await;
        assert!(tool_error(&model, 1).contains(told), "{command}: {}", tool_error(&model, 1));
        assert_eq!(tool_success(&model, 2), "still here", "{command}");
    }
}

#[tokio::test]
async fn a_session_survives_the_removal_of_its_own_directory() {
    let world = world();
    world.file("sub/x", "");
    let folder = world.project.join("sub");
    let script = Script::new()
        .call("Bash", json!({"command": "cd sub"}))
        .then()
        .reply_with(move |_| {
            std::fs::remove_dir_all(&folder).unwrap();
            ScriptedReply::call("Bash", json!({"command": "pwd"}))
        })
        .then()
        .call("Bash", json!({"command": "pwd"}))
        .then()
        .say("done");
    let model = serve_script(script).await;
    run_to_end(&world, &model).await;
    let noticed = tool_success(&model, 2);
    assert!(
        noticed.starts_with(&*world.project.to_string_lossy()) && noticed.contains("no longer exists"),
        "{noticed}"
    );
    assert_eq!(tool_success(&model, 3), world.project.to_string_lossy());
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_in_time_and_space() {
    let world = world();
    let begun = Instant::now();
    let model = serve_in_one_reply([bash_call("yes 'a line of output' | head -c 100000000; echo; echo the end")]).await;
    run_to_end(&world, &model).await;
    let text = tool_success(&model, 1);
    assert!(text.len() < 32_000 && text.contains("the end"), "{}", text.len());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let stored = text.split_whitespace().find(|word| word.contains("tool-results")).unwrap();
    let size = std::fs::metadata(stored.trim_end_matches(['.', ',', ')', ']', ':'])).unwrap().len();
    assert!(size <= 64 << 20, "{size}");
}

#[tokio::test]
async fn quoting_newlines_and_odd_characters_reach_the_shell_as_written() {
    let world = world();
    let command = "printf '%s\\n' \"it's\" 'a \"b\"' $'tab\\there' 'ünï → 😀' '$HOME `x` \\\\'\n\n# a comment\ntrue && \\\n  echo joined";
    let model = serve_in_one_reply([bash_call(command)]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 1), "it's\na \"b\"\ntab\there\nünï → 😀\n$HOME `x` \\\\\njoined");
}

#[tokio::test]
async fn output_still_comes_when_a_child_keeps_the_pipe() {
    let world = world();
    let sleep = unique_sleep_seconds();
    let begun = Instant::now();
    let model = serve_in_one_reply([bash_call(format!("sleep {sleep} & echo started; exit 0"))]).await;
    run_to_end(&world, &model).await;
    assert_eq!(tool_success(&model, 1), "started");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(count_processes("sleep", &sleep), 0);
}

#[tokio::test]
async fn file_names_that_look_like_something_else_are_found_and_read() {
    let world = world();
    let names = ["with space.txt", "-rf.txt", "ünï😀.txt", "[1].txt", "star*.txt", "quote'\".txt"];
    for name in names {
        world.file(name, "needle");
    }
    let script = names
        .into_iter()
        .fold(Script::new(), |script, name| script.call("Read", json!({"file_path": world.path(name)})));
    let script = script.call("Grep", json!({"pattern": "needle", "output_mode": "count"}));
    let model = serve_script(script.then().say("done")).await;
    world.run(&model).print_text("go").finish().await.expect_code(0);
    assert_all_played(&model);
    let answers = tool_answers(&model.request(1));
    for (name, (text, failed)) in names.iter().zip(&answers) {
        assert!(!failed && text == "1\tneedle", "{name:?}: {text}");
    }
    assert!(answers[names.len()].0.contains("6 files with 6 matches"), "{}", answers[names.len()].0);
}

#[tokio::test]
async fn writes_to_impossible_places_fail_with_words_and_leave_nothing() {
    let world = world();
    world.file("file", "content");
    world.file("dir/x", "");
    let write = |path: String| ("Write", json!({"file_path": path, "content": "new"}));
    let model = serve_in_one_reply([
        write(world.path("dir")),
        write(world.path("file/below")),
        write("/proc/version".to_owned()),
        write("/dev/null".to_owned()),
        write(world.path(&"n".repeat(300))),
        write(String::new()),
    ])
    .await;
    run_to_end(&world, &model).await;
    let answers = tool_answers(&model.request(1));
    assert!(answers.iter().all(|(text, failed)| *failed && text.len() > 20), "{answers:?}");
    assert_eq!(world.read("file"), "content");
    assert_eq!(std::fs::read_dir(&world.project).unwrap().count(), 2);
}
