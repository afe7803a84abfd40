//! What sessions may spend and what they have spent: ceilings over all agents, the ledger, `/cost`, `gimlet cost`.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_script::{ReceivedRequest, Script, ScriptServer, ScriptedReply};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Map, Value, json};

use crate::world;

fn usage(value: Value) -> Option<Map<String, Value>> {
    value.as_object().cloned()
}

/// Returns a step of an agent that reads another file for ever, with a reply of as many tokens as it may have, up to
/// this many.
fn endless_step(world: &TestWorld, output_tokens: u64) -> impl FnMut(&ReceivedRequest) -> ScriptedReply + use<> {
    let path = world.path("missing");
    move |request| {
        let allowed = request.json()["max_tokens"].as_u64().unwrap();
        let input = json!({"file_path": format!("{path}-{}", request.index())});
        let output_tokens = allowed.min(output_tokens);
        ScriptedReply { usage: usage(json!({"output_tokens": output_tokens})), ..ScriptedReply::call("Read", input) }
    }
}

/// Returns a model whose main conversation launches so many agents, all of which work for ever.
async fn busy_agents(world: &TestWorld, count: usize, output_tokens: u64) -> ScriptServer {
    let agent = |number| json!({"description": format!("d{number}"), "prompt": format!("work {number}"), "subagent_type": "general-purpose"});
    let launch = (0..count).fold(Script::new(), |script, number| script.call("Agent", agent(number)));
    let model = launch.then().forever().reply_with(endless_step(world, output_tokens)).serve();
    model.await.unwrap()
}

fn ledger(world: &TestWorld) -> Vec<Value> {
    let transcripts = world.transcripts();
    let found: Vec<_> = transcripts
        .iter()
        .map(|path| path.with_extension("").join("costs.ndjson"))
        .filter(|path| path.exists())
        .collect();
    assert_eq!(found.len(), 1, "{transcripts:?}");
    gimlet_testkit::entries_of(&found[0])
}

async fn run_command(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await
}

#[tokio::test]
async fn ten_agents_side_by_side_stay_below_the_budget_to_the_cent() {
    for (budget, output_tokens) in [("1", 9_000), ("0.5", 700), ("0.25", 40_000)] {
        let world = world();
        let model = busy_agents(&world, 10, output_tokens).await;
        let run = world.run(&model).stream("go").args(["--max-budget-usd", budget]).finish().await;
        let result = run.expect_code(1).result();
        assert_eq!(result["subtype"], "error_max_budget_usd", "{result}");
        assert_eq!(result["errors"], json!([format!("Reached maximum budget (${budget})")]));
        let (cost, most) = (result["total_cost_usd"].as_f64().unwrap(), budget.parse::<f64>().unwrap());
        assert!(cost <= most && cost > most * 0.6, "{cost} of {budget} with replies of {output_tokens}");
        assert!(model.rejections().is_empty() && model.failures().is_empty(), "{:?}", model.rejections());
        let lines = ledger(&world);
        assert_eq!(lines.len(), model.requests().len());
        let sum: f64 = lines.iter().map(|line| line["cost_usd"].as_f64().unwrap()).sum();
        assert!((sum - cost).abs() < 1e-9, "{sum} {cost}");
        assert!(lines.iter().filter(|line| line["agent"].is_string()).count() >= 10.min(lines.len() - 1), "{lines:?}");
        assert!(run.stdout.contains("of its budget of"), "the user is warned: {}", run.stdout);
        let id = result["session_id"].as_str().unwrap();
        let next = Script::new().say("going on").serve().await.unwrap();
        let run = world.run(&next).stream("go on").args(["--resume", id]).finish().await;
        assert_eq!(run.expect_code(0).result()["result"], "going on", "the session is whole");
        assert!(next.rejections().is_empty(), "{:?}", next.rejections());
    }
}

#[tokio::test]
async fn tokens_and_time_end_a_session_in_good_order() {
    let world = world();
    let model = busy_agents(&world, 10, 3_000).await;
    let run = world.run(&model).stream("go").args(["--max-total-tokens", "200k"]).finish().await;
    let result = run.expect_code(1).result();
    assert_eq!(
        (&result["subtype"], &result["terminal_reason"]),
        (&json!("error_during_execution"), &json!("max_total_tokens"))
    );
    let tokens: u64 = ledger(&world)
        .iter()
        .flat_map(|line| {
            ["input", "cache_read", "cache_write_5m", "cache_write_1h", "output"]
                .map(|part| line[part].as_u64().unwrap())
        })
        .sum();
    assert!(tokens <= 200_000 && tokens > 120_000, "{tokens}");
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());

    let world = crate::world();
    let input = json!({"command": "while true; do sleep 1; done"});
    let model = Script::new().call("Bash", input).then().say("never").serve().await.unwrap();
    let args = ["--max-time", "1s", "--permission-mode", "bypassPermissions"];
    let run = world.run(&model).stream("wait").args(args).finish().await;
    let result = run.expect_code(1).result();
    assert_eq!(result["terminal_reason"], "max_time", "{result}");
    assert!(result["errors"][0].as_str().unwrap().contains("time limit of 1 s"), "{result}");
    let id = result["session_id"].as_str().unwrap();
    let next = Script::new().say("going on").serve().await.unwrap();
    world.run(&next).stream("go on").args(["--resume", id]).finish().await.expect_code(0);
    assert!(next.rejections().is_empty(), "{:?}", next.rejections());
}

#[tokio::test]
async fn a_budget_below_one_request_sends_nothing() {
    let world = world();
    let model = Script::new().say("never").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--max-budget-usd", "0.0001"]).finish().await;
    assert_eq!(run.expect_code(1).result()["subtype"], "error_max_budget_usd");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn limits_and_prices_come_from_settings_too() {
    let world = world();
    let write = |settings: Value| world.file("../home/.claude/settings.json", settings.to_string());
    let costly = || ScriptedReply { usage: usage(json!({"output_tokens": 20_000})), ..ScriptedReply::say("hi") };
    let price = json!({"input": 0, "output": 50});
    write(json!({"modelPrices": {"claude-sonnet-*": price}, "limits": {"maxBudgetUsd": 2}}));
    let model = Script::new().reply(costly()).serve().await.unwrap();
    let result = world.run(&model).stream("go").finish().await.expect_code(0).result();
    assert_eq!(result["total_cost_usd"], 1.0, "{result}");
    let model = Script::new().reply(costly()).serve().await.unwrap();
    let result =
        world.run(&model).stream("go").args(["--max-budget-usd", "0.01"]).finish().await.expect_code(1).result();
    assert_eq!(result["subtype"], "error_max_budget_usd", "a flag comes first: {result}");
    for (wrong, words) in [
        (json!({"modelPrices": {"m": {"input": -1, "output": 2}}}), "a price of m is below 0"),
        (json!({"limits": {"maxBudgetUsd": -5}}), "expected a number above 0"),
        (json!({"limits": {"maxTime": "soon"}}), "'soon' is no time"),
    ] {
        write(wrong);
        let run = run_command(&world, &["doctor"]).await;
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
    }
    write(json!({}));
    let negative = r#"{"claude-sonnet-5-5": {"price": {"input": -1, "output": 2}}}"#;
    let run = world.run_at("http://127.0.0.1:9").print_text("go").env("GIMLET_MODELS", negative).finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("a price of claude-sonnet-5-5 is below 0"), "{}", run.stderr);
    for (flag, value) in
        [("--max-total-tokens", "none"), ("--max-total-tokens", "0"), ("--max-time", "-1"), ("--max-time", "1.5h")]
    {
        let run = run_command(&world, &["-p", "go", flag, value]).await;
        assert!(run.code != 0 && run.stderr.contains(flag), "{flag} {value}: {}", run.stderr);
    }
}

#[tokio::test]
async fn the_ledger_is_shown_by_session_day_and_project() {
    let world = world();
    let run = run_command(&world, &["cost"]).await;
    assert_eq!(run.expect_code(0).stdout, "No costs are recorded here.\n");
    world.file("a.txt", "alpha\n");
    let big = "word ".repeat(4_000);
    let model = Script::new()
        .say(&big)
        .call("Read", json!({"file_path": world.path("a.txt")}))
        .then()
        .say("done")
        .serve()
        .await
        .unwrap();
    let result = world.run(&model).stream("look").finish().await.expect_code(0).result();
    let (id, cost) = (result["session_id"].as_str().unwrap(), result["total_cost_usd"].as_f64().unwrap());
    // Another prompt with other tools: the cache misses it.
    let other = Script::new().say("again").serve().await.unwrap();
    let run =
        world.run(&other).stream("again").args(["--resume", id, "--tools", "Read", "--system-prompt", "Be brief."]);
    run.finish().await.expect_code(0);

    let shown = run_command(&world, &["cost", "--session", id, "--json"]).await.expect_code(0).json();
    assert_eq!((&shown["by"], &shown["total"]["requests"]), (&json!("model"), &json!(3)), "{shown}");
    let requests = shown["requests"].as_array().unwrap();
    let of_first_run: f64 = requests[..2].iter().map(|line| line["cost_usd"].as_f64().unwrap()).sum();
    assert!((of_first_run - cost).abs() < 1e-9, "{of_first_run} {cost}");
    assert!(requests[1]["cache_read"].as_u64() > Some(0) && requests[1]["rates"]["output"] == 10.0, "{shown}");
    assert_eq!(shown["groups"][0]["name"], "claude-sonnet-5-5");
    let text = run_command(&world, &["cost", "--session", id]).await.expect_code(0).stdout.clone();
    for part in ["claude-sonnet-5-5", "conversation", "Total: $", "1 session", "█"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let day = run_command(&world, &["cost", "--day"]).await.expect_code(0).stdout.clone();
    assert!(day.contains(&id[..8]) && day.contains("again"), "{day}");
    let days = run_command(&world, &["cost", "--project", "--json"]).await.expect_code(0).json();
    assert_eq!((&days["by"], days["groups"].as_array().unwrap().len()), (&json!("day"), 1), "{days}");
    let elsewhere = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere.path().to_str().unwrap();
    let none = run_command(&world, &["cost", "--project", elsewhere]).await.expect_code(0).stdout.clone();
    assert_eq!(none, "No costs are recorded here.\n");
    let wrong = run_command(&world, &["cost", "--day", "yesterday"]).await;
    assert!(wrong.expect_code(1).stderr.contains("'yesterday' is no day"), "{}", wrong.stderr);

    let run = world.run_at("http://127.0.0.1:9").print_text("/cost").args(["--resume", id]).finish().await;
    assert!(
        run.expect_code(0).stdout.contains("% of the prompts came from the cache, which saved $"),
        "{}",
        run.stdout
    );
}

#[tokio::test]
async fn a_miss_names_the_first_part_that_differed() {
    let world = world();
    let big = "word ".repeat(4_000);
    // The second reply reports no read, as if the entry had been dropped.
    let miss = json!({"cache_read_input_tokens": 0, "input_tokens": 9_000, "cache_creation_input_tokens": 0});
    let model = Script::new()
        .say(&big)
        .call("Read", json!({"file_path": world.path("missing")}))
        .then()
        .reply(ScriptedReply { usage: usage(miss), ..ScriptedReply::say("done") })
        .serve()
        .await
        .unwrap();
    let result = world.run(&model).stream("look").finish().await.expect_code(0).result();
    let lines = ledger(&world);
    assert!(lines[0].get("miss").is_none(), "{}", lines[0]);
    assert_eq!(lines[1]["miss"]["changed"], json!([]), "nothing had changed: {}", lines[1]);
    let id = result["session_id"].as_str().unwrap();
    let text = run_command(&world, &["cost", "--session", id]).await.expect_code(0).stdout.clone();
    assert!(text.contains("Cache misses:") && text.contains("nothing changed"), "{text}");
    let run = world.run_at("http://127.0.0.1:9").print_text("/cost").args(["--resume", id]).finish().await;
    assert!(run.stdout.contains("The cache missed 1 request:"), "{}", run.stdout);
}
