//! Where the prompt comes from: the argument, a pipe, both, or a pipe that never ends.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimlet_script::{Fault, FaultPoint, Script};
use rustix::process::{Pid, Signal, kill_process};

use super::{block_on_child, wait_for_exit};
use crate::world;

#[tokio::test]
async fn argument_and_pipe_make_one_prompt() {
    let table = [
        (Some("review this"), "", "review this"),
        (Some("review this"), " \n", "review this"),
        (Some("review this"), "a change\n", "review this\n\n<stdin>\na change\n</stdin>"),
        (None, "  do it\n", "do it"),
    ];
    for (argument, piped, wanted) in table {
        let world = world();
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).arg("-p").args(argument).stdin(piped).finish().await;
        run.expect_code(0);
        assert!(model.request(0).last_user_text().ends_with(wanted), "{:?}", model.request(0).last_user_text());
        assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ok\n", ""));
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced_not_refused() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    world.run(&model).print_text("what is it?").stdin(b"caf\xe9\n".to_vec()).finish().await.expect_code(0);
    assert!(model.request(0).last_user_text().contains("caf\u{fffd}"));
}

#[tokio::test]
async fn an_unreadable_or_closed_input_leaves_the_argument() {
    let outer = world();
    let model = Script::new().say("ok").forever().serve().await.unwrap();
    let unreadable = outer.with_shell_prelude("exec </");
    let run = unreadable.run(&model).print_text("hello").finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.lines().count()), ("ok\n", 1), "{}", run.stderr);
    assert!(run.stderr.contains("cannot be read") && run.stderr.contains("the prompt alone"), "{}", run.stderr);
    let run = unreadable.run(&model).arg("-p").finish().await;
    run.expect_code(1);
    assert!(run.stderr.lines().count() == 1 && run.stderr.contains("as an argument"), "{}", run.stderr);
    let run = outer.with_shell_prelude("exec <&-").run(&model).print_text("hello").finish().await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("ok\n", ""));
}

#[tokio::test]
async fn no_prompt_at_all_is_one_line_and_no_request() {
    for (argument, piped) in [(None, ""), (None, " \n\t"), (Some("  "), "")] {
        let world = world();
        let model = Script::new().serve().await.unwrap();
        let run = world.run(&model).arg("-p").args(argument).stdin(piped).finish().await;
        run.expect_code(1);
        assert_eq!((run.stdout.as_str(), model.requests().len()), ("", 0));
        assert_eq!(
            run.stderr,
            "Error: Input must be provided either through stdin or as a prompt argument when using --print. Give one: gimlet -p \"what to do\", or pipe it in\n"
        );
    }
}

#[tokio::test]
async fn more_than_ten_megabytes_are_refused() {
    let world = world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("sum it up").stdin(vec![b'x'; (10 << 20) + 1]);
    let run = tokio::task::spawn_blocking({
        let mut child = run.start();
        move || child.wait_with_output()
    });
    let run = run.await.unwrap();
    run.expect_code(1);
    assert_eq!((run.stdout.as_str(), model.requests().len(), run.stderr.lines().count()), ("", 0, 1));
    assert!(run.stderr.contains("larger than 10 MB; pass a file's path"), "{}", run.stderr);
}

#[tokio::test]
async fn a_pipe_that_stays_open_starts_with_what_came_and_goes_on_line_by_line() {
    let world = world();
    let model = Script::new().say("ok").forever().serve().await.unwrap();
    let run = world.run(&model).stream("watch this").stdin("first\n").hold_stdin().start();
    model.wait_for_requests(1).await;
    assert!(model.request(0).last_user_text().ends_with("watch this\n\n<stdin>\nfirst\n</stdin>"));
    let run = block_on_child(run, |run| {
        run.read_until("\"type\":\"result\"");
        run.stdin.as_mut().unwrap().write_all(b"second\nthird\n").unwrap();
    });
    let run = run.await;
    model.wait_for_requests(2).await;
    assert_eq!(model.request(1).last_user_text(), "<stdin>\nsecond\nthird\n</stdin>");
    let run = block_on_child(run, |run| {
        run.read_until("\"type\":\"result\"");
        run.stdin.as_mut().unwrap().write_all(b"the rest without a line end").unwrap();
        run.stdin = None;
    });
    let run = wait_for_exit(run.await).await;
    run.expect_code(0);
    assert_eq!(model.requests().len(), 3);
    assert_eq!(model.request(2).last_user_text(), "<stdin>\nthe rest without a line end\n</stdin>");
    let results = run.lines().iter().filter(|line| line["type"] == "result").count();
    assert_eq!((results, model.rejections().len()), (3, 0));
    assert!(model.prefix_equal(0, 1) && model.prefix_equal(1, 2));
}

#[tokio::test]
async fn a_failed_turn_does_not_end_a_pipe_and_its_prompt_stays_in_history() {
    let world = world();
    let model =
        Script::new().error(400, "not now").then().think("hm").say("ok").then().say("fine").serve().await.unwrap();
    let run = world.run(&model).stream("watch this").stdin("first\n").hold_stdin().start();
    let run = block_on_child(run, |run| {
        run.read_until("\"type\":\"result\"");
        run.stdin.as_mut().unwrap().write_all(b"second\n").unwrap();
        run.read_until("\"result\":\"ok\"");
        run.stdin.as_mut().unwrap().write_all(b"third\n").unwrap();
        run.stdin = None;
    });
    let run = wait_for_exit(run.await).await;
    run.expect_code(1);
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    assert!(model.prefix_equal(0, 1) && model.prefix_equal(1, 2));
    // A strict model still takes the thinking when the session is resumed.
    let next = Script::new().say("ok").serve().await.unwrap();
    world.run(&next).args(["-p", "--continue", "and now?"]).finish().await.expect_code(0);
    assert!(next.rejections().is_empty(), "{:?}", next.rejections());
}

#[tokio::test]
async fn a_fast_pipe_waits_for_a_slow_model_and_loses_nothing() {
    const LINES: usize = 20_000;
    let line = |n: usize| format!("{n:07} {}\n", "x".repeat(40));
    let world = world();
    let stalled = Fault::Stall { at: FaultPoint::BeforeHeaders, ping_every_ms: None, for_ms: Some(1_500) };
    let model = Script::new().say("ok").fault(stalled).then().say("ok").forever().serve().await.unwrap();
    let mut run = world.run(&model).stream("watch this").stdin(line(0)).hold_stdin().start();
    model.wait_for_requests(1).await;
    let mut pipe = run.stdin.take().unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let writer = std::thread::spawn(move || {
        for n in 1..LINES {
            pipe.write_all(line(n).as_bytes()).unwrap();
            count.store(n, Ordering::Relaxed);
        }
    });
    let run = block_on_child(run, |run| run.read_until("\"type\":\"result\"")).await;
    // A megabyte was ready all the time that the first turn took; only what fits into small buffers was taken.
    let taken = written.load(Ordering::Relaxed) * line(0).len();
    assert!(taken < 600 << 10, "{taken} bytes were taken in advance");
    let run = wait_for_exit(run).await;
    writer.join().unwrap();
    run.expect_code(0);
    let seen: String =
        model.requests()[1..].iter().map(|request| strip_stdin_tags(&request.last_user_text())).collect();
    let sent: String = (1..LINES).map(line).collect();
    assert!(seen == sent, "{} bytes of {} arrived", seen.len(), sent.len());
}

#[tokio::test]
async fn a_pipe_that_is_never_quiet_gets_its_turns_before_it_ends() {
    let world = world();
    let model = Script::new().say("ok").forever().serve().await.unwrap();
    let mut run = world.run(&model).stream("watch this").hold_stdin().start();
    let mut pipe = run.stdin.take().unwrap();
    // Like `yes`: until nobody reads any more.
    let writer = std::thread::spawn(move || while pipe.write_all(&b"y\n".repeat(1 << 15)).is_ok() {});
    model.wait_for_requests(2).await;
    let opening = model.request(0).last_user_text();
    assert!(opening.contains("watch this\n\n<stdin>\ny\ny\n") && opening.ends_with("\ny\ny\n</stdin>"));
    assert!(opening.len() < 300 << 10 && opening.contains(" bytes came too fast"), "{} bytes", opening.len());
    assert!(strip_stdin_tags(&model.request(1).last_user_text()).lines().all(|line| line == "y"));
    kill_process(Pid::from_raw(i32::try_from(run.pid()).unwrap()).unwrap(), Signal::INT).unwrap();
    let run = wait_for_exit(run).await;
    writer.join().unwrap();
    assert!(run.lines().iter().any(|line| line["type"] == "result" && line["result"] == "ok"));
}

#[tokio::test]
async fn a_pipe_is_not_read_on_when_the_conversation_takes_no_more() {
    let world = world();
    let model = Script::new().say("ok").forever().serve().await.unwrap();
    let run = world.run(&model).print_text("count the errors").env("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "60000");
    let mut run = run.hold_stdin().start();
    let mut pipe = run.stdin.take().unwrap();
    let writer = std::thread::spawn(move || while pipe.write_all(&b"y\n".repeat(1 << 15)).is_ok() {});
    let run = wait_for_exit(run).await;
    writer.join().unwrap();
    run.expect_code(1);
    assert_eq!(run.stdout.matches("The prompt was not taken up").count(), 1, "{}", run.stdout);
}

#[tokio::test]
async fn lines_that_come_first_during_the_first_turn_get_the_next_one() {
    let world = world();
    let stalled = Fault::Stall { at: FaultPoint::BeforeHeaders, ping_every_ms: None, for_ms: Some(1_000) };
    let model = Script::new().say("ok").fault(stalled).then().say("ok").serve().await.unwrap();
    let mut run = world.run(&model).stream("watch this").hold_stdin().start();
    model.wait_for_requests(1).await;
    let mut pipe = run.stdin.take().unwrap();
    pipe.write_all(b"a late line\n").unwrap();
    drop(pipe);
    wait_for_exit(run).await.expect_code(0);
    assert_eq!(model.requests().len(), 2);
    assert_eq!(model.request(1).last_user_text(), "<stdin>\na late line\n</stdin>");
}

#[tokio::test]
async fn a_pipe_that_never_says_anything_does_not_keep_gimlet_waiting() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).print_text("hello").hold_stdin().start();
    let run = wait_for_exit(run).await;
    run.expect_code(0);
    assert_eq!((run.stdout.as_str(), model.requests().len()), ("ok\n", 1));
    assert!(run.stderr.contains("nothing came on standard input") && run.stderr.contains("--follow"), "{}", run.stderr);
}

#[tokio::test]
async fn follow_waits_for_a_quiet_pipe_and_goes_on_until_it_ends() {
    let world = world();
    let model = Script::new().say("one").then().say("two").serve().await.unwrap();
    let mut run = world.run(&model).stream("watch this").arg("--follow").hold_stdin().start();
    let mut pipe = run.stdin.take().unwrap();
    pipe.write_all(b"a first line\n").unwrap();
    model.wait_for_requests(1).await;
    let first = model.request(0).last_user_text();
    assert!(first.ends_with("watch this\n\n<stdin>\na first line\n</stdin>"), "{first}");
    pipe.write_all(b"a second line\n").unwrap();
    model.wait_for_requests(2).await;
    drop(pipe);
    let run = wait_for_exit(run).await;
    run.expect_code(0);
    assert_eq!(model.request(1).last_user_text(), "<stdin>\na second line\n</stdin>");
    assert!(!run.stderr.contains("nothing came"), "{}", run.stderr);

    let refused = world.run(&model).args(["-p", "--follow"]).stdin("some lines\n").finish().await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("--follow needs a prompt"), "{}", refused.stderr);
}

/// What a batch carries, without the mark that says it is data.
fn strip_stdin_tags(text: &str) -> String {
    let inner = text.strip_prefix("<stdin>\n").and_then(|text| text.strip_suffix("</stdin>"));
    inner.unwrap_or_else(|| panic!("not marked as piped: {text}")).to_owned()
}

#[tokio::test]
async fn what_was_most_likely_meant_is_said_and_nothing_else() {
    let world = world();
    for (args, part) in [
        (&["-p", "hi", "there"][..], "Put the prompt in quotes"),
        (&["-p", "hi", "--debug", "api"], "Write --debug=api"),
        (&["-p", "hi", "--continue", "--resume", "x"], "See 'gimlet --help'"),
        (&["-p", "hi", "--system-prompt", "a", "--system-prompt-file", "f"], "See 'gimlet --help'"),
        (&["-p", "hi", "--json-schema", "s.json"], "Give the JSON itself, not a file"),
        (&["-p", "hi", "--agents", "nosuch.json"], "Give the JSON itself, not a file"),
        (&["-p", "hi", "--max-budget-usd", "-1"], "it must be a positive number"),
        (&["-p", "--resume", "go on"], "'go on' counts as the session of --resume"),
        (&["-p", "--betas", "a", "hi"], "A flag that takes a list took it"),
        (&["demoo"], "Did you mean 'gimlet demo'?"),
        (&["sesions"], "Did you mean 'gimlet sessions'? To send it as a prompt: gimlet -p \"sesions\""),
        (&["login"], "To send it as a prompt: gimlet -p \"login\". The commands are "),
        (&["ls"], "there is no command 'ls'"),
        (&["Fix_it"], "there is no command 'Fix_it'"),
        (&["-p", "hi", "--dangerously-load-development-channels", "x"], "belongs to a hosted service"),
    ] {
        let run = world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains(part) && run.stderr.lines().count() == 1, "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_single_word_is_a_prompt_only_where_it_is_said_to_be_one() {
    let world = world();
    let model = Script::new().say("ok").then().say("ok").then().say("ok").serve().await.unwrap();
    for (args, sent) in [(&["login"][..], 0), (&["-p", "login"], 1), (&["log in"], 2), (&["login?"], 3)] {
        let run = world.run(&model).args(args.iter().copied()).finish().await;
        run.expect_code(i32::from(sent == 0));
        assert_eq!(model.requests().len(), sent, "{args:?}");
    }
}
