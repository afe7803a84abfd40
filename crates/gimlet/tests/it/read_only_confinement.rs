//! Commands that run without a question only because they seem to read: whatever the analysis got wrong, they read
//! nothing secret and move nothing, and one that cannot work confined becomes a question.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use std::path::PathBuf;
use std::process::Command;

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::json;

use crate::sdk::SdkHost;
use crate::world;

const SECRET: &str = "-----A-PRIVATE-KEY-----";

async fn serve_commands(texts: &[&str]) -> ScriptServer {
    let script = texts.iter().fold(Script::new(), |script, text| script.call("Bash", json!({"command": text})).then());
    script.say("done").serve().await.unwrap()
}

fn tool_results(model: &ScriptServer) -> Vec<String> {
    model.requests().iter().flat_map(|request| request.tool_results()).collect()
}

fn write_private_key(world: &TestWorld) -> PathBuf {
    let key = world.home.join(".ssh/id_rsa");
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    std::fs::write(&key, SECRET).unwrap();
    key
}

async fn run_in(world: &TestWorld, model: &ScriptServer, mode: &str) -> RunOutput {
    let run = world.run(model).args(["-p", "--permission-mode", mode, "--output-format", "json", "--", "go"]);
    let run = run.finish().await;
    run.expect_code(0);
    run
}

fn run_git(world: &TestWorld, words: &[&str]) {
    #[allow(clippy::disallowed_methods, reason = "the test makes a repository by hand")]
    let done = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(&world.project)
        .env("HOME", &world.home)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

#[tokio::test]
async fn the_text_of_a_command_is_no_variable_of_it() {
    for mode in ["default", "plan", "dontAsk"] {
        let world = world();
        let key = write_private_key(&world);
        let texts =
            ["__gimlet_command", "__gimlet_text", "OPTERR", "BASH_EXECUTION_STRING", "1", "@", "_", "BASH_COMMAND"]
                .map(|name| format!("cat ${name} # {}", key.display()));
        let model = serve_commands(&texts.each_ref().map(String::as_str)).await;
        run_in(&world, &model, mode).await;
        let results = tool_results(&model);
        assert_eq!(results.len(), texts.len());
        assert!(!results.iter().any(|result| result.contains(SECRET)), "{mode}: {results:?}");
    }
}

#[tokio::test]
async fn a_removal_cannot_reach_its_own_text_either() {
    let world = world();
    let kept = world.home.join("kept");
    std::fs::create_dir_all(&kept).unwrap();
    let texts =
        ["__gimlet_command", "__gimlet_text", "OPTERR"].map(|name| format!("rm -rf ${name} # {}", kept.display()));
    let model = serve_commands(&texts.each_ref().map(String::as_str)).await;
    run_in(&world, &model, "bypassPermissions").await;
    assert!(kept.exists(), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_removal_behind_a_value_that_no_text_shows_asks_even_when_permissions_are_bypassed() {
    let world = world();
    let kept = world.home.join("kept");
    std::fs::create_dir_all(&kept).unwrap();
    let home = world.home.display();
    let texts = [format!("rm -rf \"$UNSET{home}\""), format!("rm -rf $nothing{home}/"), "rm -rf $DIRSTACK".to_owned()];
    let model = serve_commands(&texts.each_ref().map(String::as_str)).await;
    let run = run_in(&world, &model, "bypassPermissions").await;
    assert!(kept.exists() && world.project.exists(), "{:?}", tool_results(&model));
    assert_eq!(run.json()["permission_denials"].as_array().unwrap().len(), texts.len(), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_command_cannot_write_where_its_directory_is_reported() {
    let world = world();
    let elsewhere = world.home.join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("secret-name"), SECRET).unwrap();
    world.file("here", "");
    std::os::unix::fs::symlink(&elsewhere, world.project.join("link")).unwrap();
    let link = world.project.join("link");
    let mut texts: Vec<String> =
        [3, 10, 11, 63, 255].iter().map(|number| format!("printf '%s\\n' {} >&{number}", link.display())).collect();
    texts.extend(["pwd", "ls", "grep -r PRIVATE ."].map(str::to_owned));
    for mode in ["default", "bypassPermissions"] {
        let model = serve_commands(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        run_in(&world, &model, mode).await;
        let results = tool_results(&model);
        assert!(
            results[5].ends_with("/project") || results[5].contains(&world.project.display().to_string()),
            "{results:?}"
        );
        assert!(!results.iter().any(|result| result.contains("secret-name") || result.contains(SECRET)), "{results:?}");
    }
}

#[tokio::test]
async fn a_symlink_in_the_project_does_not_move_the_session_out() {
    let world = world();
    let elsewhere = world.home.join("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, world.project.join("link")).unwrap();
    let model = serve_commands(&["cd link", "pwd"]).await;
    run_in(&world, &model, "bypassPermissions").await;
    let results = tool_results(&model);
    assert!(results[0].contains("Shell cwd was reset"), "{results:?}");
    assert_eq!(PathBuf::from(results[1].trim()).canonicalize().unwrap(), world.project.canonicalize().unwrap());
}

#[tokio::test]
async fn inherited_variables_and_credentials_do_not_reach_what_nobody_was_asked_about() {
    let world = world();
    let key = write_private_key(&world);
    let model =
        serve_commands(&["cat $npm_package_config_k", "cat ${npm_package_config_k}", "head -c 99 $k/id_rsa"]).await;
    let run = world
        .run(&model)
        .env("npm_package_config_k", key.display().to_string())
        .env("k", key.parent().unwrap().display().to_string())
        .args(["-p", "--", "go"]);
    run.finish().await.expect_code(0);
    assert!(!tool_results(&model).iter().any(|result| result.contains(SECRET)), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_command_that_fails_confined_becomes_a_question_and_says_so() {
    let world = world();
    world.file("a.txt", "plain\n");
    run_git(&world, &["init", "-q"]);
    run_git(&world, &["add", "."]);
    run_git(&world, &["commit", "-qm", "first"]);
    // The user's own configuration includes a file from a place that is closed to confined commands.
    write_private_key(&world);
    std::fs::write(world.home.join(".ssh/git.inc"), "[user]\n\tname = Included\n").unwrap();
    std::fs::write(world.home.join(".gitconfig"), "[include]\n\tpath = ~/.ssh/git.inc\n").unwrap();

    let model = serve_commands(&["git log --oneline"]).await;
    let run = run_in(&world, &model, "default").await;
    let said = tool_results(&model).concat();
    assert!(said.contains("Permission denied") && said.contains("it ran confined"), "{said}");
    assert!(said.contains("Bash was not run again unconfined"), "{said}");
    assert_eq!(run.json()["permission_denials"].as_array().unwrap().len(), 1);

    // A rule says yes, so that nothing is confined.
    std::fs::write(
        world.home.join(".claude/settings.json"),
        json!({"permissions": {"allow": ["Bash(git log *)"]}}).to_string(),
    )
    .unwrap();
    let model = serve_commands(&["git log --oneline"]).await;
    run_in(&world, &model, "default").await;
    assert!(tool_results(&model)[0].contains("first"), "{:?}", tool_results(&model));

    // So does the user who turns it off.
    std::fs::write(
        world.home.join(".claude/settings.json"),
        json!({"sandbox": {"confineReadOnlyCommands": false}}).to_string(),
    )
    .unwrap();
    let model = serve_commands(&["git log --oneline"]).await;
    run_in(&world, &model, "default").await;
    assert!(tool_results(&model)[0].contains("first"), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn after_a_yes_it_runs_unconfined_and_after_a_no_it_does_not() {
    for answer in ["allow", "deny"] {
        let world = world();
        run_git(&world, &["init", "-q"]);
        run_git(&world, &["commit", "-q", "--allow-empty", "-m", "first"]);
        write_private_key(&world);
        std::fs::write(world.home.join(".ssh/git.inc"), "").unwrap();
        std::fs::write(world.home.join(".gitconfig"), "[include]\n\tpath = ~/.ssh/git.inc\n").unwrap();
        let model = serve_commands(&["git log --oneline"]).await;
        let mut host = SdkHost::start(world.run(&model).args(["--permission-prompt-tool", "stdio"]));
        host.say("go");
        let question = host.wait_for_request("can_use_tool").await;
        assert_eq!(question["request"]["input"]["command"], "git log --oneline");
        assert!(question["request"]["decision_reason"].as_str().unwrap_or_default().contains("confined"), "{question}");
        let suggested = question["request"]["permission_suggestions"].to_string();
        assert!(suggested.contains("git log"), "a rule would settle it for good: {suggested}");
        host.answer(
            &question,
            json!({"behavior": answer, "message": "not that", "updatedInput": {"command": "git log --oneline"}}),
        );
        host.result().await;
        host.end().await.output.expect_code(0);
        let results = tool_results(&model);
        assert_eq!(results.len(), 1, "one call has one result");
        assert_eq!(results[0].contains("first"), answer == "allow", "{results:?}");
        assert_eq!(results[0].contains("not that"), answer == "deny", "{results:?}");
    }
}

#[tokio::test]
async fn a_project_cannot_turn_confinement_off() {
    let world = world();
    run_git(&world, &["init", "-q"]);
    write_private_key(&world);
    std::fs::write(world.home.join(".ssh/git.inc"), "").unwrap();
    std::fs::write(world.home.join(".gitconfig"), "[include]\n\tpath = ~/.ssh/git.inc\n").unwrap();
    for file in [".claude/settings.json", ".claude/settings.local.json"] {
        world.file(file, json!({"sandbox": {"confineReadOnlyCommands": false}}).to_string());
    }
    let model = serve_commands(&["git status"]).await;
    world.run(&model).args(["-p", "--trust", "--", "go"]).finish().await.expect_code(0);
    assert!(tool_results(&model)[0].contains("it ran confined"), "{:?}", tool_results(&model));
}
