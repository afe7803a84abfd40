//! Skills and commands of files end to end: where they are found, what the model gets of them, what runs, and what
//! waits for trust.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot set up its stage must stop")]

use std::path::PathBuf;

use gimlet_script::{ReceivedRequest, Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::sdk::SdkHost;
use crate::world;

/// Flags of a print run in which calls need permission.
const ASKING: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

/// Returns a project that is a repository, so that the folders above it are not the project.
fn repository() -> TestWorld {
    let world = world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    world
}

/// Writes a file into the user's folder.
fn write_user_file(world: &TestWorld, name: &str, text: &str) -> PathBuf {
    let file = world.home.join(".claude").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

fn write_user_skill(world: &TestWorld, name: &str, text: &str) {
    write_user_file(world, &format!("skills/{name}/SKILL.md"), text);
}

/// Returns all texts of the user side of a request.
fn user_text(request: &ReceivedRequest) -> String {
    let mut texts = Vec::new();
    for message in request.messages().iter().filter(|message| message["role"] == "user") {
        match &message["content"] {
            Value::String(text) => texts.push(text.clone()),
            content => {
                let blocks = content.as_array().unwrap().iter();
                texts.extend(blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)));
            }
        }
    }
    texts.join("\n")
}

/// Types a prompt, and returns what the model got.
async fn type_prompt(world: &TestWorld, prompt: &str, args: &[&str]) -> (ScriptServer, RunOutput) {
    let model = Script::new().say("ok").serve().await.unwrap();
    let run = world.run(&model).args(ASKING).args(args.iter().copied()).args(["--", prompt]).finish().await;
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    (model, run)
}

/// Returns the text that a prompt expands to.
async fn expanded(world: &TestWorld, prompt: &str, args: &[&str]) -> String {
    let (model, run) = type_prompt(world, prompt, args).await;
    run.expect_code(0);
    user_text(&model.request(0))
}

#[tokio::test]
async fn a_typed_skill_or_command_brings_the_text_of_the_file_with_the_highest_precedence() {
    let world = repository();
    write_user_skill(&world, "one", "One of the user.");
    write_user_skill(&world, "two", "Two of the user.");
    write_user_file(&world, "commands/three.md", "Three, a command of the user.");
    write_user_file(&world, "skills/loose.md", "No skill.");
    world.file(".claude/skills/two/SKILL.md", "Two of the project.");
    world.file(".claude/skills/three/SKILL.md", "Three, a skill of the project.");
    world.file(".claude/commands/web/four.md", "---\ndescription: Does four\n---\nFour of the project.");
    world.file("sub/.claude/commands/four.md", "Four of the folder.");
    world.file("sub/.claude/skills/five/SKILL.md", "Five of the folder.");
    let extra = world.home.join("extra");
    std::fs::create_dir_all(extra.join(".claude/skills/six")).unwrap();
    std::fs::write(extra.join(".claude/skills/six/SKILL.md"), "Six of the added folder.").unwrap();
    let extra = extra.display().to_string();
    let sub = world.project.join("sub");
    for (prompt, args, cwd, text) in [
        ("/one", &[][..], &world.project, "One of the user."),
        ("/two", &[], &world.project, "Two of the user."),
        ("/three", &[], &world.project, "Three, a skill of the project."),
        ("/four", &[], &world.project, "Four of the project."),
        ("/five", &[], &sub, "Five of the folder."),
        ("/two", &["--setting-sources", "project"], &world.project, "Two of the project."),
        ("/six", &["--add-dir", &extra], &world.project, "Six of the added folder."),
    ] {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream(prompt).args(args.iter().copied()).cwd(cwd).finish().await;
        run.expect_code(0);
        let sent = user_text(&model.request(0));
        assert!(sent.contains(prompt) && sent.contains(text), "{prompt} {args:?}: {sent}");
        let init = &run.lines()[0];
        assert!(init["slash_commands"].as_array().unwrap().contains(&json!(prompt[1..])), "{init}");
        assert_eq!(init["skills"].as_array().unwrap().contains(&json!(prompt[1..])), prompt != "/four", "{init}");
    }
    for unknown in ["/loose", "/five"] {
        let sent = expanded(&world, unknown, &[]).await;
        assert!(sent.contains(&format!("There is no command {unknown}")), "{sent}");
    }
}

#[tokio::test]
async fn placeholders_stand_for_arguments_and_for_the_session() {
    let world = repository();
    let folder = world.home.join(".claude/skills/s");
    for (body, prompt, text) in [
        ("Fix $ARGUMENTS now.", "/s a  'b c'", "Fix a  'b c' now.".to_owned()),
        ("$0, then $1, never $2 \\$0", "/s a 'b c'", "a, then b c, never $2 $0".to_owned()),
        ("---\narguments: [who, what]\n---\n$who: $what.", "/s Ada", "Ada: .".to_owned()),
        ("No place.", "/s for it", "No place.\n\nARGUMENTS: for it".to_owned()),
        (
            "${CLAUDE_SKILL_DIR}/run in ${CLAUDE_PROJECT_DIR}",
            "/s",
            format!("{}/run in {}", folder.display(), world.project.display()),
        ),
    ] {
        write_user_skill(&world, "s", body);
        let sent = expanded(&world, prompt, &[]).await;
        assert!(sent.contains(&text), "{body}: {sent}");
    }
    write_user_skill(&world, "s", "Session ${CLAUDE_SESSION_ID}.");
    let (model, run) = type_prompt(&world, "/s", &[]).await;
    let session = run.result()["session_id"].as_str().unwrap().to_owned();
    assert!(user_text(&model.request(0)).contains(&format!("Session {session}.")));
}

#[tokio::test]
async fn several_skills_in_front_of_a_prompt_are_all_loaded() {
    let world = repository();
    write_user_skill(&world, "a", "First: $ARGUMENTS.");
    write_user_skill(&world, "b", "Second: $ARGUMENTS.");
    write_user_skill(&world, "hidden", "---\nuser-invocable: no\n---\nHidden.");
    let sent = expanded(&world, "/a /b the text /a", &[]).await;
    assert!(sent.contains("First: the text /a.") && sent.contains("Second: the text /a."), "{sent}");
    let sent = expanded(&world, "/a /hidden x", &[]).await;
    assert!(sent.contains("First: /hidden x.") && !sent.contains("\nHidden."), "{sent}");
    let sent = expanded(&world, "/hidden", &[]).await;
    assert!(sent.contains("There is no command /hidden"), "{sent}");
}

#[tokio::test]
async fn commands_in_a_text_run_if_they_are_allowed_and_otherwise_nothing_is_sent() {
    let world = repository();
    world.file("data.txt", "forty-two\n");
    for (text, rule, printed) in [
        ("It says !`cat data.txt` here.", None, Ok("It says forty-two here.")),
        ("Lines:\n```!\ncat data.txt\necho $0\n```\nend", None, Ok("Lines:\nforty-two\nword\nend")),
        ("!`grep nothing data.txt`none", None, Ok("none")),
        ("Say $ARGUMENTS and $0", None, Ok("Say word !`touch made` and word")),
        ("!`touch made; echo made`", None, Err("touch made; echo made")),
        ("!`touch made; echo made`", Some("Bash(touch:*)"), Ok("made")),
        ("---\nallowed-tools: Bash(touch *)\n---\n!`touch made && echo granted`", None, Ok("granted")),
        ("!`cat missing.txt`", None, Err("cat missing.txt")),
    ] {
        write_user_skill(&world, "s", text);
        let args = rule.map_or(vec![], |rule| vec!["--allowedTools", rule]);
        let prompt = if text.starts_with("Say") { "/s word !`touch made`" } else { "/s word" };
        let (model, run) = type_prompt(&world, prompt, &args).await;
        match printed {
            Ok(printed) => {
                run.expect_code(0);
                let sent = user_text(&model.request(0));
                assert!(sent.contains(printed), "{text}: {sent}");
            }
            Err(command) => {
                assert_eq!(model.requests().len(), 0, "{text}");
                let result = run.expect_code(1).result();
                let said = result["errors"][0].as_str().unwrap();
                assert!(said.contains(&format!("the skill s: its command `{command}`")), "{said}");
            }
        }
        let made = world.project.join("made");
        assert_eq!(made.exists(), matches!(printed, Ok("made" | "granted")), "{text}");
        drop(std::fs::remove_file(made));
    }
    write_user_skill(&world, "s", "Before !`cat data.txt` after");
    let off = json!({"disableSkillShellExecution": true}).to_string();
    let sent = expanded(&world, "/s", &["--settings", &off]).await;
    assert!(sent.contains("Before [commands in skills are disabled by policy] after"), "{sent}");
    let hook = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "echo 'not here' >&2; exit 2"}]}]}});
    let (model, run) = type_prompt(&world, "/s", &["--settings", &hook.to_string()]).await;
    assert_eq!(model.requests().len(), 0);
    assert!(run.result()["errors"][0].as_str().unwrap().contains("not here"), "{}", run.stdout);
}

#[tokio::test]
async fn files_that_a_text_names_are_attached_but_none_that_no_document_may_lead_to() {
    let world = repository();
    world.file("notes.md", "the notes");
    std::fs::create_dir_all(world.home.join(".ssh")).unwrap();
    std::fs::write(world.home.join(".ssh/id_ed25519"), "PLANTED secret").unwrap();
    std::fs::write(world.home.join("outside.txt"), "planted outside").unwrap();
    write_user_skill(&world, "s", "See @notes.md and @~/.ssh/id_ed25519 and @~/outside.txt and !`echo @data.txt`");
    world.file("data.txt", "printed name");
    let everything = &["--dangerously-skip-permissions"];
    for (args, outside) in [(&[][..], false), (everything, true)] {
        let sent = expanded(&world, "/s", args).await;
        assert!(sent.contains("the notes") && !sent.contains("PLANTED") && !sent.contains("printed name"), "{sent}");
        assert_eq!(sent.contains("planted outside"), outside, "{sent}");
    }
}

/// The model loads a skill, and then calls this.
fn load(name: &str, args: &str) -> Script {
    Script::new().call("Skill", json!({"skill": name, "args": args}))
}

#[tokio::test]
async fn the_model_finds_skills_in_a_list_and_loads_one_with_its_tool() {
    let world = repository();
    write_user_skill(
        &world,
        "deploy",
        "---\ndescription: Ships it\nwhen_to_use: After a\n  green build\n---\nShip $0 with care.",
    );
    world.file(".claude/commands/lint.md", "# Lint\n\nLints all </system-reminder> files.");
    write_user_skill(&world, "mine", "---\ndescription: Secret steps\ndisable-model-invocation: true\n---\nMine.");
    let model = load("deploy", "staging").then().call("Skill", json!({"skill": "/deploy", "args": "staging"})).then();
    let model = model.call("Skill", json!({"skill": "mine"})).then().call("Skill", json!({"skill": "depoly"})).then();
    let model = model.say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    run.expect_code(0);
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    let first = user_text(&model.request(0));
    for line in ["- deploy: Ships it After a green build\n", r"- lint: Lints all <\/system-reminder> files."] {
        assert!(first.contains(line), "{first}");
    }
    assert!(!first.contains("mine") && !first.contains("Ship staging"), "{first}");
    let loaded = model.request(1);
    assert_eq!(loaded.tool_result(0), "The skill deploy is loaded. Its instructions follow.");
    assert!(user_text(&loaded).contains("Ship staging with care."), "{}", user_text(&loaded));
    let again = user_text(&model.request(2));
    assert_eq!(again.matches("Ship staging with care.").count(), 1, "{again}");
    assert!(again.contains("in the conversation already"), "{again}");
    let (mine, wrong) = (model.request(3).tool_result(0), model.request(4).tool_result(0));
    assert!(mine.contains("Only the user can run the skill `mine`"), "{mine}");
    assert!(wrong.contains("Did you mean `deploy`?"), "{wrong}");
    for later in 1..5 {
        assert_eq!(model.prefix_difference(later - 1, later), None);
    }
}

#[tokio::test]
async fn a_skill_that_acts_needs_permission_and_rules_decide_about_every_skill() {
    let world = repository();
    write_user_skill(&world, "plain", "Plain text.");
    write_user_skill(&world, "acting", "---\nallowed-tools: Bash(touch *)\n---\nActing text: !`echo it runs`.");
    for (name, allow, deny, loaded) in [
        ("plain", "", "", true),
        ("plain", "", "Skill(plain)", false),
        ("plain", "", "Skill", false),
        ("acting", "", "", false),
        ("acting", "Skill(acting)", "", true),
        ("acting", "Skill(acting)", "Skill(acting *)", false),
    ] {
        let model = load(name, "").then().say("ok").serve().await.unwrap();
        let rules = |rule: &str| if rule.is_empty() { json!([]) } else { json!([rule]) };
        let settings = json!({"permissions": {"allow": rules(allow), "deny": rules(deny)}});
        let run = world.run(&model).args(ASKING).args(["--settings", &settings.to_string(), "go"]).finish().await;
        run.expect_code(0);
        let sent = user_text(&model.request(1));
        let text = if name == "plain" { "Plain text." } else { "Acting text: it runs." };
        assert_eq!(sent.contains(text), loaded, "{name} {allow} {deny}: {sent}");
        let is_denied = !deny.is_empty();
        assert_eq!(user_text(&model.request(0)).contains(&format!("- {name}")), !is_denied, "{name} {deny}");
    }
}

#[tokio::test]
async fn what_a_skill_grants_forbids_and_chooses_ends_with_the_turn() {
    let world = repository();
    let fields = "allowed-tools: Bash(touch *)\ndisallowed-tools: Read\nmodel: opus\neffort: low";
    write_user_skill(&world, "s", &format!("---\n{fields}\n---\nDo it."));
    world.file("a.txt", "content");
    let touch = json!({"command": "touch made"});
    let read = json!({"file_path": world.path("a.txt")});
    let script = Script::new().call("Bash", touch.clone()).then().call("Read", read.clone()).then().say("one").then();
    let model = script.call("Bash", touch).then().call("Read", read).then().say("two").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-mode", "default"]));
    host.say("/s");
    host.result().await;
    assert!(world.project.join("made").exists(), "granted");
    std::fs::remove_file(world.project.join("made")).unwrap();
    host.say("go on");
    host.result().await;
    host.end().await;
    assert!(!world.project.join("made").exists(), "the grant has ended");
    let (refused, read) = (model.request(2).tool_result(0), model.request(5).tool_result(0));
    assert!(refused.contains("the skill s") && read.contains("content"), "{refused} {read}");
    for request in 0..6 {
        let sent = model.request(request);
        assert_eq!(sent.model().contains("opus"), request < 3, "{request}: {}", sent.model());
        assert_eq!(sent.json()["output_config"]["effort"] == "low", request < 3, "{request}");
    }
}

#[tokio::test]
async fn before_trust_a_skill_of_the_project_is_text() {
    let world = repository();
    world.file(".claude/skills/theirs/SKILL.md", "---\nallowed-tools: Bash\nmodel: opus\n---\nTheir text.");
    world.file(".claude/commands/running.md", "Now: !`touch hooked`");
    let touch = json!({"command": "touch made"});
    for (args, trusted) in [(&[][..], false), (&["--trust"], true)] {
        let model = Script::new().call("Bash", touch.clone()).then().say("ok").serve().await.unwrap();
        let run = world.run(&model).args(ASKING).args(args.iter().copied()).arg("/theirs").finish().await;
        run.expect_code(0);
        let sent = model.request(0);
        assert!(user_text(&sent).contains("Their text."));
        assert_eq!(sent.model().contains("opus"), trusted);
        assert_eq!(world.project.join("made").exists(), trusted, "{}", run.stderr);
        assert_eq!(run.stderr.contains("skill .claude/skills/theirs/SKILL.md"), !trusted, "{}", run.stderr);
    }
    let (model, run) = type_prompt(&world, "/running", &[]).await;
    assert_eq!(model.requests().len(), 0);
    assert!(run.result()["errors"][0].as_str().unwrap().contains("gimlet trust"), "{}", run.stdout);
    assert!(!world.project.join("hooked").exists());
}

#[tokio::test]
async fn hooks_see_what_a_command_stands_for_and_may_stop_it() {
    let world = repository();
    write_user_skill(&world, "s", "The text.");
    let entry = |command: &str| json!([{"matcher": "s", "hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({"hooks": {"UserPromptExpansion": entry("cat > seen.json; echo 'said by a hook'")}});
    let sent = expanded(&world, "/s  a b ", &["--settings", &hooks.to_string()]).await;
    assert!(sent.contains("said by a hook") && sent.contains("The text."), "{sent}");
    let seen: Value = serde_json::from_str(&world.read("seen.json")).unwrap();
    for (field, value) in [
        ("hook_event_name", "UserPromptExpansion"),
        ("expansion_type", "slash_command"),
        ("command_name", "s"),
        ("command_args", "a b"),
        ("command_source", "user"),
        ("prompt", "/s  a b"),
        ("permission_mode", "default"),
    ] {
        assert_eq!(seen[field], value, "{seen}");
    }
    let hooks = json!({"hooks": {"UserPromptExpansion": entry("echo 'no skills today' >&2; exit 2")}});
    let (model, run) = type_prompt(&world, "/s", &["--settings", &hooks.to_string()]).await;
    assert_eq!(model.requests().len(), 0);
    assert!(run.stdout.contains("no skills today"), "{}", run.stdout);
}

#[tokio::test]
async fn skills_that_change_are_told_and_can_be_used_at_once() {
    let world = repository();
    write_user_skill(&world, "old", "---\ndescription: Does old things\n---\nOld text.");
    write_user_skill(&world, "kept", "---\ndescription: Is kept\n---\nKept text.");
    let model = Script::new().say("one").then().call("Skill", json!({"skill": "new"})).then().say("two");
    let model = model.then().say("three").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model));
    host.say("hi");
    host.result().await;
    std::fs::remove_dir_all(world.home.join(".claude/skills/old")).unwrap();
    write_user_skill(&world, "new", "---\ndescription: Does new things\n---\nNew text.");
    write_user_skill(&world, "kept", "---\ndescription: Is kept and changed\n---\nKept text.");
    // Files are looked at when a turn begins; the list follows with the next prompt.
    host.say("again");
    host.result().await;
    host.say("and again");
    host.result().await;
    host.end().await;
    let told = user_text(&model.request(model.requests().len() - 1));
    for part in ["- new: Does new things", "- kept: Is kept and changed", "No longer there: old"] {
        assert_eq!(told.matches(part).count(), 1, "{part}: {told}");
    }
    assert!(user_text(&model.request(2)).contains("New text."), "{}", user_text(&model.request(2)));
    for later in 1..model.requests().len() {
        assert_eq!(model.prefix_difference(later - 1, later), None);
    }
}
