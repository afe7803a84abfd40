//! A session whose commands run in a sandbox: what that allows without a question, what it holds, and how a command gets
//! out of it.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::world;

async fn serve_calls(inputs: &[Value]) -> ScriptServer {
    let script = inputs.iter().fold(Script::new(), |script, input| script.call("Bash", input.clone()).then());
    script.say("done").serve().await.unwrap()
}

fn bash_input(text: &str) -> Value {
    json!({ "command": text })
}

/// Runs with the sandbox on and these settings beside it.
async fn run_with_settings(world: &TestWorld, model: &ScriptServer, settings: Value) -> RunOutput {
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, settings.to_string()).unwrap();
    let args = ["-p", "--output-format", "stream-json", "--verbose", "--", "go"];
    let run = world.run(model).args(args).finish().await;
    run.expect_code(0);
    run
}

/// The results of all calls, in order.
fn tool_results(model: &ScriptServer) -> Vec<String> {
    model.requests().iter().flat_map(|request| request.tool_results()).collect()
}

/// A place outside that the sandbox shows, unlike `/tmp`.
fn outside_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[tokio::test]
async fn commands_inside_need_no_question_and_cannot_write_outside() {
    let world = world();
    let folder = outside_dir();
    let outside = folder.path().join("outside");
    let model = serve_calls(&[
        bash_input("touch inside && echo made"),
        bash_input(&format!("touch {}", outside.display())),
        bash_input("echo x > \"$TMPDIR/t\" && cat \"$TMPDIR/t\""),
    ])
    .await;
    let run = run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(world.project.join("inside").exists(), "{}{:?}", run.stderr, tool_results(&model));
    assert!(!outside.exists());
    let results = tool_results(&model);
    assert!(results[0].contains("made"), "{results:?}");
    assert!(
        results[1].contains("The sandbox refused: writing") && results[1].contains("dangerouslyDisableSandbox"),
        "{results:?}"
    );
    assert_eq!(results[2].trim(), "x");
    assert_eq!(run.result()["permission_denials"], json!([]));
    let offered = model.request(0).body_text().into_owned();
    assert!(offered.contains("dangerouslyDisableSandbox") && offered.contains("Commands run in a sandbox"));
}

#[tokio::test]
async fn the_network_and_credentials_are_closed() {
    let world = world();
    let secret = world.home.join(".ssh/id");
    std::fs::create_dir_all(secret.parent().unwrap()).unwrap();
    std::fs::write(&secret, "a private key").unwrap();
    let model = serve_calls(&[
        bash_input("exec 3<>/dev/tcp/127.0.0.1/1 || echo closed"),
        bash_input(&format!("cat {}", secret.display())),
        bash_input("printenv ANTHROPIC_API_KEY || echo nothing"),
    ])
    .await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    let results = tool_results(&model);
    assert!(results[0].contains("closed") && !results[0].contains("refused\n"), "{results:?}");
    assert!(!results[1].contains("a private key"), "{results:?}");
    assert!(results[2].contains("nothing"), "{results:?}");
}

#[tokio::test]
async fn leaving_the_sandbox_is_a_question_whatever_rules_allow() {
    let world = world();
    let folder = outside_dir();
    let out = folder.path().join("out");
    let leave = json!({"command": format!("touch {}", out.display()), "dangerouslyDisableSandbox": true});
    let allow = json!({"allow": ["Bash(touch *)"]});
    let model = serve_calls(std::slice::from_ref(&leave)).await;
    let run_on = run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}, "permissions": allow})).await;
    assert!(!out.exists());
    assert_eq!(run_on.result()["permission_denials"].as_array().unwrap().len(), 1);
    assert!(tool_results(&model)[0].contains("outside the sandbox"), "{:?}", tool_results(&model));

    // Where nobody may leave, the word means nothing and the walls hold.
    let model = serve_calls(&[leave]).await;
    let sandbox = json!({"enabled": true, "allowUnsandboxedCommands": false});
    run_with_settings(&world, &model, json!({"sandbox": sandbox, "permissions": allow})).await;
    assert!(!out.exists());
    assert!(tool_results(&model)[0].contains("The sandbox refused"), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn deny_rules_and_exact_questions_hold_inside_and_excluded_commands_run_outside() {
    let world = world();
    let folder = outside_dir();
    let out = folder.path().join("out");
    let model = serve_calls(&[
        bash_input("touch denied"),
        bash_input("mkdir asked"),
        bash_input(&format!("install /dev/null {}", out.display())),
    ])
    .await;
    let settings = json!({
        "sandbox": {"enabled": true, "excludedCommands": ["install *"]},
        "permissions": {"deny": ["Bash(touch *)"], "ask": ["Bash(mkdir *)", "Bash"], "allow": ["Bash(install *)"]},
    });
    run_with_settings(&world, &model, settings).await;
    assert!(!world.project.join("denied").exists() && !world.project.join("asked").exists());
    // The question about every command is not answered by walls that are not there.
    assert!(!out.exists());
    let model = serve_calls(&[bash_input(&format!("install /dev/null {}", out.display()))]).await;
    let settings = json!({
        "sandbox": {"enabled": true, "excludedCommands": ["install *"]},
        "permissions": {"allow": ["Bash(install *)"]},
    });
    run_with_settings(&world, &model, settings).await;
    assert!(out.exists(), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn protected_files_of_the_project_stay_as_they_are() {
    let world = world();
    world.file(".git/config", "[core]\n");
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    let model = serve_calls(&[
        bash_input("echo '[core] fsmonitor=x' >> .git/config"),
        bash_input("mkdir -p .claude; echo '{}' > .claude/settings.json"),
    ])
    .await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert_eq!(world.read(".git/config"), "[core]\n");
    assert!(!world.project.join(".claude/settings.json").exists(), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_had_is_said_or_ends_the_start() {
    let world = world();
    let model = serve_calls(&[bash_input("touch made")]).await;
    // There is no place for what the walls need.
    let settings = |sandbox: &Value| json!({"sandbox": sandbox, "env": {"CLAUDE_CODE_TMPDIR": "/proc/nowhere"}});
    let run = run_with_settings(&world, &model, settings(&json!({"enabled": true}))).await;
    assert!(run.stderr.contains("there is no sandbox"), "{}", run.stderr);
    assert!(!world.project.join("made").exists(), "without walls a command asks as usual");
    let program = serve_calls(&[bash_input("true")]).await;
    let flags = ["-p", "--output-format", "stream-json", "--verbose", "--", "go"];
    let init = world.run(&program).args(flags).finish().await.lines().remove(0);
    let missing = init["gimlet_sandbox_missing"].as_str().unwrap_or_default();
    assert!(init["subtype"] == "init" && missing.contains("there is no sandbox"), "{init}");
    let strict = settings(&json!({"enabled": true, "failIfUnavailable": true}));
    std::fs::write(world.home.join(".claude/settings.json"), strict.to_string()).unwrap();
    let refused = world.run(&model).args(["-p", "--", "go"]).finish().await;
    refused.expect_code(1);
    assert!(refused.stderr.contains("failIfUnavailable"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_project_cannot_answer_questions_by_turning_the_sandbox_on_nor_open_it() {
    let world = world();
    world.file(".claude/settings.json", json!({"sandbox": {"enabled": true}}).to_string());
    let model = serve_calls(&[bash_input("touch made")]).await;
    let asked = run_with_settings(&world, &model, json!({})).await;
    assert!(!world.project.join("made").exists(), "{:?}", tool_results(&model));
    assert_eq!(asked.result()["permission_denials"].as_array().unwrap().len(), 1);

    let folder = outside_dir();
    let out = folder.path().join("out");
    world.file(".claude/settings.local.json", json!({"sandbox": {"enabled": false}}).to_string());
    let model = serve_calls(&[bash_input(&format!("touch {}", out.display()))]).await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(!out.exists(), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn what_a_background_command_plants_is_taken_away_and_told() {
    let world = world();
    // What it does is not to be seen from outside.
    let planting = "all:\n\tmkdir -p a/b/c/d/e/.git\n\techo '[core] fsmonitor = evil' > a/b/c/d/e/.git/config\n\techo {} > .mcp.json\n\ttouch planted\n";
    world.file("Makefile", planting);
    let model = serve_calls(&[
        json!({"command": "make", "run_in_background": true}),
        // Ends after the other did, whose end is told with the next request.
        bash_input(
            "until [ -e planted ] && [ ! -e .mcp.json ] && [ ! -e a/b/c/d/e/.git/config ]; do :; done; sleep 0.3",
        ),
    ])
    .await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(!world.project.join(".mcp.json").exists());
    assert!(!world.project.join("a/b/c/d/e/.git/config").exists());
    let told = model.requests().last().unwrap().body_text().into_owned();
    assert!(told.contains("Background task") && told.contains(".mcp.json is protected"), "{told}");
}

#[tokio::test]
async fn a_command_does_not_finish_what_another_has_planted() {
    let world = world();
    world.file("Makefile", "all:\n\tmkdir -p .claude\n\techo '{\"sandbox\": {\"enabled\": false}}' > .claude/settings.local.json\n\techo evil > .envrc\n\ttouch planted\n\tuntil [ -e begun ]; do sleep 0.1; done\n");
    // Begins while the planted files are there and held, and goes on when they have been taken away.
    world.file(
        "second.sh",
        "touch begun; until [ ! -e .envrc ] && [ ! -e .claude/settings.local.json ]; do sleep 0.1; done; \
         echo '{\"sandbox\": {\"enabled\": false}}' > .claude/settings.local.json; echo evil > .envrc; echo wrote",
    );
    let model = serve_calls(&[
        json!({"command": "make", "run_in_background": true}),
        bash_input("until [ -e planted ]; do :; done"),
        bash_input("bash second.sh"),
    ])
    .await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    let results = tool_results(&model);
    assert!(results[2].contains("wrote") && results[2].contains(".envrc is protected"), "{results:?}");
    assert!(!world.project.join(".envrc").exists(), "{results:?}");
    assert!(!world.project.join(".claude/settings.local.json").exists(), "{results:?}");
}

#[tokio::test]
async fn what_a_command_planted_before_it_was_killed_is_taken_away() {
    let world = world();
    world.file("Makefile", "all:\n\techo {} > .mcp.json\n\tsleep 60\n");
    let model = serve_calls(&[json!({"command": "sleep 0; make", "timeout": 1500})]).await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(!world.project.join(".mcp.json").exists());
    let results = tool_results(&model);
    assert!(results[0].contains("Timed out") && results[0].contains(".mcp.json is protected"), "{results:?}");
}

#[tokio::test]
async fn what_a_background_command_planted_by_the_end_of_the_session_is_taken_away() {
    let world = world();
    world.file("Makefile", "all:\n\techo {} > .mcp.json\n\ttouch planted\n\tsleep 60\n");
    let model = serve_calls(&[
        json!({"command": "make", "run_in_background": true}),
        bash_input("until [ -e planted ]; do :; done"),
    ])
    .await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(world.project.join("planted").exists() && !world.project.join(".mcp.json").exists());
}

#[tokio::test]
async fn patterns_that_close_files_hold_for_programs_too() {
    let world = world();
    for file in [".env", "deep/er/.env", "deep/x.pem", "deep/open"] {
        world.file(file, format!("content of {file}"));
    }
    world.file("Makefile", "all:\n\t@cat .env deep/er/.env deep/x.pem deep/open 2>/dev/null; true\n");
    let model = serve_calls(&[bash_input("make")]).await;
    let settings = json!({
        "sandbox": {"enabled": true, "filesystem": {"denyRead": [format!("{}/**/*.pem", world.project.display())]}},
        "permissions": {"deny": ["Read(.env)"]},
    });
    run_with_settings(&world, &model, settings).await;
    assert_eq!(tool_results(&model)[0].trim(), "content of deep/open");
}

#[tokio::test]
async fn patterns_that_keep_files_from_being_changed_hold_for_programs_too() {
    let world = world();
    let files = [".env", "deep/er/.env", "deep/x.pem", "deep/open"];
    for file in files {
        world.file(file, "before");
    }
    world.file("Makefile", format!("all:\n\t@for f in {}; do echo after > $$f; done; true\n", files.join(" ")));
    let model = serve_calls(&[bash_input("make")]).await;
    let settings = json!({
        "sandbox": {"enabled": true, "filesystem": {"denyWrite": [format!("{}/**/*.pem", world.project.display())]}},
        "permissions": {"deny": ["Edit(.env)"]},
    });
    run_with_settings(&world, &model, settings).await;
    let held = files.map(|file| std::fs::read_to_string(world.project.join(file)).unwrap());
    assert_eq!(held, ["before", "before", "before", "after\n"], "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_flood_of_files_opens_none_that_patterns_close_and_has_commands_asked_about() {
    let world = world();
    world.file("zz/deep/.env", "TOKEN=1");
    world.file("flood.sh", "mkdir flood && cd flood && seq 100001 | xargs touch && echo made");
    world.file("look.sh", "cat zz/deep/.env");
    let look = || bash_input("bash look.sh");
    world.file("dry.sh", "rm -r flood");
    let then = ["touch asked", "bash dry.sh", "touch seen"].map(bash_input);
    let model = serve_calls(&[&[bash_input("bash flood.sh"), look(), look()], then.as_slice()].concat()).await;
    let rules = json!({"deny": ["Read(**/.env)"], "allow": ["Bash(bash look.sh)", "Bash(bash dry.sh)"]});
    let run = run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}, "permissions": rules})).await;
    let results = tool_results(&model);
    assert!(results[0].contains("made"), "{results:?}");
    // It was judged before anybody knew; from then on a rule or a person has to let it.
    assert!(results[1].contains("Not run: the sandbox does not see everything"), "{results:?}");
    assert!(!results[2].contains("TOKEN=1") && !results[2].contains("Not run"), "{results:?}");
    assert!(!world.project.join("asked").exists(), "{results:?}");
    assert!(world.project.join("seen").exists(), "everything is seen again: {results:?}");
    assert_eq!(run.result()["permission_denials"].as_array().unwrap().len(), 1);
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(told.contains("the sandbox does not see everything"), "{told}");
}

#[tokio::test]
async fn what_cannot_be_taken_away_stops_commands_also_outside() {
    let world = world();
    // The quarantine can not be made, and what is so deep is not removed.
    std::fs::create_dir_all(world.home.join(".claude/gimlet")).unwrap();
    std::fs::write(world.home.join(".claude/gimlet/quarantine"), "").unwrap();
    world.file("plant.sh", "echo x > .envrc");
    world.file("deep.sh", "d=.vscode; for n in {1..600}; do d=$d/a; done; mkdir -p $d");
    let model = serve_calls(&[
        bash_input("bash plant.sh"),
        bash_input("bash deep.sh"),
        bash_input("touch inside"),
        bash_input("install /dev/null outside"),
    ])
    .await;
    let sandbox = json!({"enabled": true, "excludedCommands": ["install *"]});
    let settings = json!({"sandbox": sandbox, "permissions": {"allow": ["Bash(install *)"]}});
    let run = run_with_settings(&world, &model, settings).await;
    let results = tool_results(&model);
    assert!(results[0].contains(".envrc is protected; the change was removed"), "{results:?}");
    assert!(!world.project.join(".envrc").exists());
    assert!(results[1].contains(".vscode is protected and was made or changed"), "{results:?}");
    for stopped in &results[2..4] {
        assert!(stopped.contains("No command runs: ") && stopped.contains("remove it"), "{results:?}");
    }
    assert!(!world.project.join("inside").exists() && !world.project.join("outside").exists());
    let told = format!("{}{}", run.stdout, run.stderr);
    assert!(told.contains("no further command runs until it is gone"), "{told}");
}

#[tokio::test]
async fn what_a_flag_denies_is_closed_to_programs_too() {
    let world = world();
    world.file("keys/one", "content of one");
    world.file("Makefile", "all:\n\t@cat keys/one 2>/dev/null; echo done\n");
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, json!({"sandbox": {"enabled": true}}).to_string()).unwrap();
    for (flags, wanted) in [(vec![], "content of onedone"), (vec!["--disallowedTools", "Read(./keys/one)"], "done")] {
        let model = serve_calls(&[bash_input("make")]).await;
        world.run(&model).args(["-p", "go"]).args(flags).finish().await.expect_code(0);
        assert_eq!(tool_results(&model)[0].trim(), wanted);
    }
}

#[tokio::test]
async fn variables_with_credentials_are_hidden_or_masked() {
    let world = world();
    let model = serve_calls(&[bash_input("echo \"[$HIDDEN_THING] [$MASKED_THING] [$OTHER_THING]\"")]).await;
    let variables = json!([{"name": "HIDDEN_THING", "mode": "deny"}, {"name": "MASKED_THING", "mode": "mask"}]);
    let settings = json!({"sandbox": {"enabled": true, "credentials": {"envVars": variables}}, "env": {
        "HIDDEN_THING": "secret", "MASKED_THING": "secret", "OTHER_THING": "plain",
    }});
    run_with_settings(&world, &model, settings).await;
    assert_eq!(tool_results(&model)[0].trim(), "[] [masked-by-the-sandbox] [plain]");
}

#[tokio::test]
async fn with_files_open_commands_ask_as_usual_and_the_network_stays_closed() {
    let world = world();
    let folder = outside_dir();
    let out = folder.path().join("out");
    let reach = "exec 3<>/dev/tcp/127.0.0.1/1 || echo closed";
    let calls_made = [bash_input(&format!("touch {}", out.display())), bash_input("mkdir unasked"), bash_input(reach)];
    let model = serve_calls(&calls_made).await;
    let settings = json!({
        "sandbox": {"enabled": true, "filesystem": {"disabled": true}},
        "permissions": {"allow": [format!("Bash(touch {})", out.display()), format!("Bash({reach})"), "Bash(exec *)"]},
    });
    let run = run_with_settings(&world, &model, settings).await;
    assert!(out.exists(), "{:?}", tool_results(&model));
    assert!(!world.project.join("unasked").exists(), "nothing is allowed for being inside");
    assert!(run.stderr.contains("sandbox.filesystem.disabled"), "{}", run.stderr);
}

#[tokio::test]
async fn refusals_that_are_expected_are_not_told() {
    let world = world();
    let model = serve_calls(&[bash_input("touch /etc/expected"), bash_input("touch /etc/unexpected")]).await;
    let settings = json!({"sandbox": {"enabled": true, "ignoreViolations": {"touch": ["/etc/expected"]}}});
    run_with_settings(&world, &model, settings).await;
    let results = tool_results(&model);
    assert!(!results[0].contains("The sandbox refused"), "{results:?}");
    assert!(results[1].contains("The sandbox refused"), "{results:?}");
}

/// Asks for a page the way programs do.
const FETCH: &str = "python3 -S -c \"
import urllib.request, urllib.error
try: print(urllib.request.urlopen('http://unlisted.example/').read().decode())
except urllib.error.HTTPError as e: print(e.code, e.read().decode())
except Exception as e: print('no way', e)\"";

#[tokio::test]
async fn a_proxy_of_the_persons_own_is_used_and_null_is_none() {
    use std::io::{Read, Write};
    let world = world();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        let len = client.read(&mut bytes).unwrap();
        client.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello").unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    });
    let model = serve_calls(&[bash_input(FETCH)]).await;
    let network = json!({"httpProxyPort": port, "socksProxyPort": null});
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true, "network": network}})).await;
    assert_eq!(tool_results(&model)[0].trim(), "hello");
    assert!(server.join().unwrap().starts_with("GET http://unlisted.example/"));
    let model = serve_calls(&[bash_input(FETCH)]).await;
    let network = json!({"httpProxyPort": null, "socksProxyPort": null});
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true, "network": network}})).await;
    assert!(tool_results(&model)[0].contains("no way"), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_host_that_a_flag_denies_is_denied_to_programs_too() {
    let world = world();
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let network = json!({"allowedDomains": ["unlisted.example"]});
    std::fs::write(&file, json!({"sandbox": {"enabled": true, "network": network}}).to_string()).unwrap();
    let denial = vec!["--disallowedTools", "WebFetch(domain:unlisted.example)"];
    for (flags, expected) in [(vec![], "502"), (denial, "403")] {
        let model = serve_calls(&[bash_input(FETCH)]).await;
        world.run(&model).args(["-p", "go"]).args(flags).finish().await.expect_code(0);
        assert!(tool_results(&model)[0].starts_with(expected), "{:?}", tool_results(&model));
    }
}

#[tokio::test]
async fn hosts_on_no_list_follow_the_mode_unless_only_lists_count() {
    let world = world();
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (strict, expected) in [(false, "502"), (true, "403")] {
        let network = json!({"allowedDomains": ["listed.example"], "strictAllowlist": strict});
        std::fs::write(&file, json!({"sandbox": {"enabled": true, "network": network}}).to_string()).unwrap();
        let model = serve_calls(&[bash_input(FETCH)]).await;
        let args = ["-p", "--dangerously-skip-permissions", "--", "go"];
        let run = world.run(&model).args(args).env("IS_SANDBOX", "1").finish().await;
        run.expect_code(0);
        // Let through, the name turns out to lead nowhere.
        assert!(tool_results(&model)[0].starts_with(expected), "{strict}: {:?}", tool_results(&model));
    }
    // With nobody to ask and nothing listed there is no way out at all.
    let model = serve_calls(&[bash_input(FETCH)]).await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    assert!(tool_results(&model)[0].contains("no way"), "{:?}", tool_results(&model));
}

#[tokio::test]
async fn a_clone_of_the_sessions_own_can_go_and_the_model_hears_what_git_could_not_check_out() {
    let world = world();
    let make = "git init -q made && cd made && git config user.email a@b && git config user.name a \
                && git commit -q --allow-empty -m a && git checkout -q -b two && echo x > .envrc && git add .envrc \
                && git commit -q -m b && git checkout -q - && ls -A";
    // In a script, since the text of a command that names such a file is asked about.
    std::fs::write(world.project.join("make.sh"), make).unwrap();
    let [switch, remove] = ["git -C made checkout -q two && echo on two", "rm -rf made && ls -A"].map(bash_input);
    let model = serve_calls(&[bash_input("bash make.sh"), switch, remove]).await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    let results = tool_results(&model);
    assert_eq!(results[0].trim(), ".git", "{results:?}");
    assert!(results[1].contains("on two") && results[1].contains(".envrc is protected"), "{results:?}");
    assert!(results[1].contains("Leave them out of commits"), "{results:?}");
    assert!(!results[2].contains("made") && !world.project.join("made").exists(), "{results:?}");
}

#[tokio::test]
async fn a_pipe_in_place_of_a_repository_holds_nobody_up() {
    let world = world();
    std::fs::write(world.project.join("make.sh"), "mkdir sub && mkfifo sub/.git && echo made").unwrap();
    let model = serve_calls(&[bash_input("bash make.sh"), bash_input("ls -A sub && echo seen")]).await;
    run_with_settings(&world, &model, json!({"sandbox": {"enabled": true}})).await;
    let results = tool_results(&model);
    assert!(results[0].contains("made") && results[0].contains("sub/.git is protected"), "{results:?}");
    assert_eq!(results[1].trim(), "seen", "{results:?}");
}
