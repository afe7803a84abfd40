//! What a person reads when the model cannot be reached or will not answer: one line that says what to do.

use gimlet_script::Script;
use gimlet_testkit::RunOutput;

use crate::world;

/// Exit 1, one line on stdout with these words in it, and nothing that only a programmer could read.
#[track_caller]
fn assert_one_clear_line(run: &RunOutput, words: &[&str]) {
    run.expect_code(1);
    let all = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.stdout.lines().count(), 1, "{all}");
    for word in words {
        assert!(run.stdout.contains(word), "{word:?} is missing: {all}");
    }
    for noise in ["panicked", "backtrace", "reqwest", "hyper", "Os {", "Error("] {
        assert!(!all.contains(noise), "{all}");
    }
}

#[tokio::test]
async fn an_unreachable_host_is_told_in_one_line() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let world = world();
    let run = world.run_at(&url).print_text("go").env("GIMLET_MAX_RETRIES", "1").env("GIMLET_TEST_RETRY_DELAY_MS", "5");
    let run = run.finish().await;
    assert_one_clear_line(&run, &["API Error: nothing listens at 127.0.0.1:", "ANTHROPIC_BASE_URL"]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("trying again in 0.0 s (attempt 1 of 1); Ctrl-C stops"), "{}", run.stderr);
}

#[tokio::test]
async fn a_wrong_key_is_told_in_one_line() {
    let world = world();
    let model = Script::new().key("another").say("never").serve().await.unwrap();
    let run = world.run(&model).print_text("go").finish().await;
    assert_one_clear_line(&run, &["API Error: 401", "ANTHROPIC_API_KEY"]);
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains("test-key"));
}

#[tokio::test]
async fn an_unknown_model_is_told_in_one_line_with_those_that_exist() {
    let world = world();
    let model = Script::new().error(404, "model: claude-sonet-5-5").serve().await.unwrap();
    let run = world.run(&model).print_text("go").args(["--model", "claude-sonet-5-5"]).finish().await;
    assert_one_clear_line(&run, &["API Error: 404", "claude-sonet-5-5", "claude-sonnet-5-5"]);
}

#[tokio::test]
async fn pages_in_place_of_an_answer_are_told_in_one_line() {
    let page = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>502</h1>proxy9</body></html>";
    let bodies = [
        ("502 with a page", 502, page, &["API Error: 502", "Bad gateway"][..]),
        ("200 with a page", 200, page, &["Bad gateway", "ANTHROPIC_BASE_URL"]),
        ("200 with nothing", 200, "", &["empty answer"]),
        ("200 with other JSON", 200, "{\"hello\": 1}", &["JSON instead of a stream"]),
        ("500 with half an error", 500, "{\"type\":\"error\",\"error\":{\"type\":\"api_er", &["API Error: 500"]),
        ("503 with nothing", 503, "", &["API Error: 503", "unavailable"]),
    ];
    for (name, status, body, words) in bodies {
        let world = world();
        let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
        let model = Script::new().status(status).body(body).header("content-type", kind).forever();
        let model = model.serve().await.unwrap();
        let run =
            world.run(&model).print_text("go").env("GIMLET_MAX_RETRIES", "1").env("GIMLET_TEST_RETRY_DELAY_MS", "5");
        let run = run.finish().await;
        assert!(!run.stdout.contains("<h1>"), "{name}: {}", run.stdout);
        assert_one_clear_line(&run, words);
    }
}
