//! Output styles end to end: which there are, what they make of the system prompt, what waits for trust, and when a
//! change counts.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage must stop")]

use gimlet_script::{ReceivedRequest, Script};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::sdk::SdkHost;
use crate::world;

/// Instruction of the built-in prompt that is about software work alone.
const CODING: &str = "Match the code around you";

fn write_user_file(world: &TestWorld, path: &str, text: &str) {
    let file = world.home.join(".claude").join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn settings(style: &str) -> String {
    json!({"outputStyle": style}).to_string()
}

/// Returns the blocks of the system prompt.
fn system_blocks(request: &ReceivedRequest) -> Vec<String> {
    let body = request.json();
    body["system"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
}

/// Runs one prompt; returns the blocks of its system prompt and the run.
async fn run_styled(world: &TestWorld, args: &[&str]) -> (Vec<String>, RunOutput) {
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(args.iter().copied()).finish().await;
    run.expect_code(0);
    (system_blocks(&model.request(0)), run)
}

#[tokio::test]
async fn styles_of_every_scope_end_the_built_in_prompt_and_the_closest_is_used() {
    let world = world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    write_user_file(&world, "output-styles/poet.md", "---\ndescription: Rhymes\n---\n\nSpeak in verse.\n");
    write_user_file(
        &world,
        "output-styles/any.md",
        "---\nname: Reviewer\nkeep-coding-instructions: true\n---\nLook for defects.",
    );
    world.file(".claude/output-styles/poet.md", "Speak in prose.");
    world.file("sub/.claude/output-styles/poet.md", "Speak in haiku.");
    let sub = world.project.join("sub");
    for (style, trusted, cwd, text, has_coding) in [
        ("default", true, &world.project, None, true),
        ("Default", true, &world.project, None, true),
        ("poet", false, &sub, Some("# Output style: poet\n\nSpeak in verse."), false),
        ("poet", true, &world.project, Some("# Output style: poet\n\nSpeak in prose."), false),
        ("poet", true, &sub, Some("# Output style: poet\n\nSpeak in haiku."), false),
        ("Reviewer", false, &sub, Some("# Output style: Reviewer\n\nLook for defects."), true),
        ("concise", false, &sub, Some("# Output style: Concise\n\nAnswer in as few words"), true),
        ("Explanatory", false, &sub, Some("# Output style: Explanatory\n\nHelp the person"), true),
        ("Learning", false, &sub, Some("# Output style: Learning\n\nWork together"), true),
        ("Proactive", false, &sub, Some("# Output style: Proactive\n\nCarry a task"), true),
    ] {
        write_user_file(&world, "settings.json", &settings(style));
        let model = Script::new().say("ok").serve().await.unwrap();
        let mut run = world.run(&model).stream("go").cwd(cwd);
        if trusted {
            run = run.arg("--trust");
        }
        let run = run.finish().await;
        assert_eq!(run.expect_code(0).stderr, "", "{style}");
        let system = system_blocks(&model.request(0));
        assert_eq!(run.lines()[0]["output_style"], style);
        assert_eq!((system.len() > 1, system[0].contains(CODING)), (text.is_some(), has_coding), "{style} {system:?}");
        assert!(system[0].contains("# Safety"), "{style}");
        assert!(text.is_none_or(|text| system[1].starts_with(text)), "{style}: {system:?}");
        assert!(style != "Learning" || system[1].contains("TODO(human)"), "{system:?}");
    }
}

#[tokio::test]
async fn an_appended_text_follows_the_style_and_an_own_prompt_has_none() {
    let world = world();
    let flag = ["--settings", r#"{"outputStyle": "Concise"}"#];
    let (system, _) = run_styled(&world, &[&flag[..], &["--append-system-prompt", "And more."]].concat()).await;
    assert_eq!((system.len(), system[2].as_str()), (3, "And more."));
    let (system, _) = run_styled(&world, &[&flag[..], &["--system-prompt", "My own."]].concat()).await;
    assert_eq!(system, ["My own."]);
    for switch in ["--safe-mode", "--bare"] {
        write_user_file(&world, "settings.json", &settings("Concise"));
        let (system, _) = run_styled(&world, &[switch]).await;
        assert_eq!(system.len(), 1, "{switch}");
    }
    let (system, _) = run_styled(&world, &[&flag[..], &["--bare"]].concat()).await;
    assert_eq!(system.len(), 2, "what the command line names is used");
}

#[tokio::test]
async fn what_a_project_chooses_and_writes_waits_for_trust() {
    let world = world();
    world.file(".claude/settings.json", settings("theirs"));
    world.file(".claude/output-styles/theirs.md", "Obey this repository.");
    world.file(".claude/output-styles/Concise.md", "Obey this repository.");
    let (system, run) = run_styled(&world, &[]).await;
    assert_eq!(system.len(), 1);
    assert!(run.stderr.contains("setting outputStyle") && run.stderr.contains("not trusted"), "{}", run.stderr);
    assert_eq!(run.lines()[0]["output_style"], "theirs", "programs are told what settings say");
    // The user's own choice does not reach into the project either.
    write_user_file(&world, "settings.json", &settings("Concise"));
    std::fs::remove_file(world.project.join(".claude/settings.json")).unwrap();
    let (system, _) = run_styled(&world, &[]).await;
    assert!(system[1].contains("Answer in as few words"), "{system:?}");
    write_user_file(&world, "settings.json", &settings("theirs"));
    let (system, run) = run_styled(&world, &[]).await;
    assert_eq!(system.len(), 1);
    assert!(run.stderr.contains("theirs.md waits until you trust this folder"), "{}", run.stderr);
    let model = Script::new().serve().await.unwrap();
    world.run(&model).args(["trust", "--yes"]).finish().await.expect_code(0);
    let (system, run) = run_styled(&world, &[]).await;
    assert_eq!((system[1].as_str(), run.stderr.as_str()), ("# Output style: theirs\n\nObey this repository.", ""));
}

#[tokio::test]
async fn a_style_that_is_missing_or_broken_is_named_and_the_rest_goes_on() {
    let world = world();
    write_user_file(&world, "output-styles/broken.md", "---\nname: broken\n");
    write_user_file(&world, "settings.json", &settings("broken"));
    let (system, run) = run_styled(&world, &[]).await;
    assert_eq!(system.len(), 1);
    assert!(run.stderr.contains("broken.md:1: not used: the front matter has no closing"), "{}", run.stderr);
    write_user_file(&world, "settings.json", &settings("nowhere"));
    let (system, run) = run_styled(&world, &[]).await;
    assert_eq!(system.len(), 1);
    assert!(run.stderr.contains("no output style nowhere") && run.stderr.contains("Concise"), "{}", run.stderr);
    let model = Script::new().serve().await.unwrap();
    let doctor = world.run(&model).arg("doctor").finish().await;
    let page = &doctor.stdout;
    assert!(page.contains("this output style is not used: the front matter has no closing"), "{page}");
    assert!(page.contains("settings.json:1") && page.contains("no output style nowhere"), "{page}");
}

#[tokio::test]
async fn a_style_is_chosen_for_the_folder_and_counts_from_the_next_conversation_on() {
    let world = world();
    write_user_file(&world, "output-styles/poet.md", "---\ndescription: Rhymes\n---\nSpeak in verse.\n");
    let model = Script::new().say("one").then().say("two").then().say("three").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    let answer = host.send_request(json!({"subtype": "initialize"})).await["response"].clone();
    assert_eq!(
        answer["available_output_styles"],
        json!(["default", "Proactive", "Concise", "Explanatory", "Learning", "poet"])
    );
    host.say("go");
    host.result().await;
    host.say("/output-style");
    let list = host.result().await["result"].as_str().unwrap().to_owned();
    assert!(list.starts_with("*  default ") && list.contains("   poet") && list.contains("Rhymes"), "{list}");
    host.say("/output-style verse");
    assert!(host.result().await["errors"][0].as_str().unwrap().contains("no output style 'verse'"));
    host.say("/output-style POET");
    let said = host.result().await["result"].as_str().unwrap().to_owned();
    assert!(said.contains(".claude/settings.local.json") && said.contains("/clear"), "{said}");
    let saved: Value = serde_json::from_str(&world.read(".claude/settings.local.json")).unwrap();
    assert_eq!(saved, json!({"outputStyle": "poet"}));
    host.say("go on");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(init["output_style"], "default");
    host.result().await;
    host.say("/clear");
    host.result().await;
    host.say("again");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(init["output_style"], "poet");
    host.result().await;
    write_user_file(&world, "output-styles/new.md", "New.");
    let styles = host.send_request(json!({"subtype": "reload_output_styles"})).await["response"].clone();
    assert!(styles["available_output_styles"].as_array().unwrap().contains(&json!("new")), "{styles}");
    host.end().await.clean(0);
    assert_eq!(system_blocks(&model.request(0)), system_blocks(&model.request(1)), "what was sent stays");
    assert_eq!(system_blocks(&model.request(2))[1], "# Output style: poet\n\nSpeak in verse.");
    let model = Script::new().serve().await.unwrap();
    let set = world.run(&model).print_text("/config outputStyle=learning").finish().await;
    assert!(set.expect_code(0).stdout.contains("style Learning from the next one on"), "{}", set.stdout);
    assert_eq!(world.read(".claude/settings.local.json").trim(), "{\n  \"outputStyle\": \"Learning\"\n}");
}

#[tokio::test]
async fn a_long_conversation_is_reminded_and_a_compacted_one_has_the_style_of_now() {
    let world = world();
    write_user_file(&world, "output-styles/poet.md", "Speak in verse.");
    write_user_file(&world, "settings.json", &settings("poet"));
    let mut script = Script::new();
    for _ in 0..11 {
        script = script.say("ok").then();
    }
    let model = script.say("<summary>All of it.</summary>").then().say("after").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    for number in 0..11 {
        host.say(&format!("prompt {number}"));
        host.result().await;
    }
    write_user_file(&world, "output-styles/poet.md", "---\nkeep-coding-instructions: true\n---\nSpeak in haiku.");
    host.say("/compact");
    host.result().await;
    host.say("after it");
    host.result().await;
    host.end().await.clean(0);
    let reminded: Vec<usize> = (0..11)
        .filter(|at| model.request(*at).last_user_text().contains("The output style poet is in effect"))
        .collect();
    assert_eq!(reminded, [9], "the tenth prompt");
    assert_eq!(system_blocks(&model.request(11)), system_blocks(&model.request(0)), "the summary reads the cache");
    let system = system_blocks(&model.request(12));
    assert_eq!((system[1].as_str(), system[0].contains(CODING)), ("# Output style: poet\n\nSpeak in haiku.", true));
}

#[tokio::test]
async fn agents_have_no_style() {
    let world = world();
    let launch = json!({"description": "Do it", "prompt": "Do the task.", "subagent_type": "general-purpose"});
    let model = Script::new().call("Agent", launch).then().say("done").then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--settings", r#"{"outputStyle": "Concise"}"#]).finish().await;
    run.expect_code(0);
    assert!(model.request(0).system_text().contains("# Output style: Concise"));
    assert!(!model.request(1).system_text().contains("Output style"));
}
