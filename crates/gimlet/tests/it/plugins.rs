//! Plugins end to end: where they come from, what each of their parts does, what waits for trust, and what is wrong with
//! those that are not used.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage must stop")]

mod plugin_sources;
mod plugin_trust;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use crate::sdk::SdkHost;
use crate::world;

const STUB: &str = include_str!("mcp/stub_server.py");

fn write(path: PathBuf, text: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    if text.starts_with("#!") {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

fn write_json(path: PathBuf, value: &Value) -> PathBuf {
    write(path, &serde_json::to_string_pretty(value).unwrap())
}

fn write_manifest(root: &Path, manifest: &Value) {
    write_json(root.join(".claude-plugin/plugin.json"), manifest);
}

fn write_user_settings(world: &TestWorld, settings: &Value) {
    write_json(world.home.join(".claude/settings.json"), settings);
}

/// A hook that appends its input to a file in the home directory.
fn log_hook(file: &str) -> Value {
    json!({"type": "command", "command": format!("cat >> \"$HOME/{file}\"")})
}

/// Writes a plugin with every part that there is.
fn write_whole_plugin(root: &Path, name: &str) {
    write_manifest(root, &json!({"name": name, "version": "1.2.0", "description": "Helps"}));
    write(
        root.join("agents/reviewer.md"),
        "---\nname: reviewer\ndescription: Reviews\ntools: Read\npermissionMode: bypassPermissions\nhooks:\n  Stop:\n    \
         - hooks:\n        - type: command\n          command: touch \"$HOME/agent-hook\"\n---\nYour lists are in \
         ${CLAUDE_PLUGIN_ROOT}/lists.\n",
    );
    write(root.join("agents/deep/checker.md"), "---\ndescription: Checks\n---\nYou check.\n");
    write(root.join("output-styles/terse.md"), "Short words of ${CLAUDE_PLUGIN_ROOT}.");
    let script =
        "#!/bin/sh\n{ echo \"$CLAUDE_PLUGIN_ROOT|$CLAUDE_PLUGIN_DATA|$1\"; } >> \"$HOME/$(basename \"$0\").log\"\n";
    write(root.join("hooks/shell.sh"), script);
    write(root.join("hooks/exec.sh"), script);
    let hooks = json!({"description": "notes", "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [
        {"type": "command", "command": "\"$CLAUDE_PLUGIN_ROOT\"/hooks/shell.sh \"$CLAUDE_PLUGIN_DATA\""},
        {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/hooks/exec.sh", "args": ["${CLAUDE_PLUGIN_DATA}"]},
    ]}]}});
    write_json(root.join("hooks/hooks.json"), &hooks);
    write(root.join("server/stub.py"), STUB);
    let servers = json!({"mcpServers": {"stub": {"command": "python3",
        "args": ["${CLAUDE_PLUGIN_ROOT}/server/stub.py", "good"],
        "env": {"STUB_NOTE": "${CLAUDE_PLUGIN_DATA}/note"}}}});
    write_json(root.join(".mcp.json"), &servers);
}

async fn serve_command() -> ScriptServer {
    Script::new().call("Bash", json!({"command": "true"})).then().say("ok").serve().await.unwrap()
}

async fn run_with(world: &TestWorld, args: &[&str]) -> (ScriptServer, RunOutput) {
    let model = serve_command().await;
    let run = world.run(&model).stream("go").args(args.iter().copied()).finish().await;
    run.expect_code(0);
    (model, run)
}

fn names(list: &Value) -> Vec<String> {
    let name = |one: &Value| one.as_str().or_else(|| one["name"].as_str()).unwrap().to_owned();
    list.as_array().unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn every_part_of_a_plugin_acts_under_its_name() {
    let world = world();
    let root = world.home.join("tools/helper");
    write_whole_plugin(&root, "helper");
    let launch = json!({"description": "Do it", "prompt": "Do the task.", "subagent_type": "helper:reviewer"});
    let model = Script::new()
        .call("Bash", json!({"command": "true"}))
        .call("mcp__plugin_helper_stub__echo", json!({"words": "hello"}))
        .then()
        .call("Agent", launch)
        .then()
        .say("reviewed")
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let dir = root.to_string_lossy().into_owned();
    let args = ["--plugin-dir", &dir, "--settings", r#"{"outputStyle": "helper:terse"}"#];
    let run = world.run(&model).stream("go").args(args).finish().await;
    assert_eq!(run.expect_code(0).stderr, "");
    let init = &run.lines()[0];
    assert_eq!(init["plugins"], json!([{"name": "helper", "path": dir, "version": "1.2.0"}]));
    assert_eq!(init.get("plugin_errors"), None, "{init}");
    let agents = names(&init["agents"]);
    assert!(
        ["helper:reviewer", "helper:deep:checker"].iter().all(|name| agents.iter().any(|it| it == name)),
        "{agents:?}"
    );
    assert_eq!(init["mcp_servers"], json!([{"name": "plugin:helper:stub", "status": "connected", "source": "plugin"}]));
    let first = model.request(0);
    assert!(first.system_text().contains(&format!("# Output style: helper:terse\n\nShort words of {dir}.")));
    assert_eq!(model.request(1).tool_results()[1], "echo: hello");
    let agent = model.request(2);
    assert!(agent.system_text().starts_with(&format!("Your lists are in {dir}/lists.")), "{}", agent.system_text());
    assert_eq!(agent.tool_names(), ["Read"]);
    let data = world.home.join(".claude/plugins/data/helper-inline");
    let noted = format!("{dir}|{0}|{0}\n", data.display());
    for log in ["shell.sh.log", "exec.sh.log"] {
        assert_eq!(std::fs::read_to_string(world.home.join(log)).unwrap(), noted, "{log}");
    }
    assert!(data.join("note").exists(), "its servers have the folder");
    assert!(!world.home.join("agent-hook").exists(), "agents of plugins have no hooks of their own");
}

#[tokio::test]
async fn switches_leave_plugins_or_their_parts_out() {
    let world = world();
    let root = world.home.join("tools/helper");
    write_whole_plugin(&root, "helper");
    let dir = root.to_string_lossy().into_owned();
    let log = world.home.join("shell.sh.log");
    for (args, is_used, has_hooks, has_server) in [
        (&[][..], true, true, true),
        (&["--bare"], true, true, true),
        (&["--safe-mode"], false, false, false),
        (&["--settings", r#"{"disableAllHooks": true}"#], true, false, true),
        (&["--managed-settings", r#"{"allowManagedHooksOnly": true}"#], true, false, true),
        (&["--strict-mcp-config"], true, true, false),
        (&["--settings", r#"{"enabledPlugins": {"helper@inline": false}}"#], false, false, false),
    ] {
        drop(std::fs::remove_file(&log));
        let (_, run) = run_with(&world, &[&["--plugin-dir", &dir], args].concat()).await;
        let init = &run.lines()[0];
        assert_eq!(!names(&init["plugins"]).is_empty(), is_used, "{args:?}: {init}");
        assert_eq!(log.exists(), has_hooks, "{args:?}: {}", run.stderr);
        assert_eq!(!names(&init["mcp_servers"]).is_empty(), has_server, "{args:?}: {init}");
    }
    let (_, run) = run_with(&world, &["--plugin-dir-no-mcp", &dir]).await;
    assert_eq!(
        (names(&run.lines()[0]["plugins"]), names(&run.lines()[0]["mcp_servers"])),
        (vec!["helper".into()], vec![])
    );
    let model = Script::new().serve().await.unwrap();
    let refused = world.run(&model).print_text("go").args(["--plugin-dir", &dir]);
    let refused = refused.args(["--managed-settings", r#"{"disableSideloadFlags": true}"#]).finish().await;
    assert!(refused.expect_code(1).stderr.contains("--plugin-dir is not used here"), "{}", refused.stderr);
}

#[tokio::test]
async fn paths_of_a_manifest_take_the_place_of_folders_or_join_them() {
    let world = world();
    let root = world.home.join("p");
    let manifest = json!({"name": "p", "agents": ["./one.md", "./more"], "outputStyles": "./styles",
        "hooks": ["./a.json", {"Stop": [{"hooks": [log_hook("inline.log")]}]}],
        "mcpServers": {"inline": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/stub.py", "good"]}}});
    write_manifest(&root, &manifest);
    write(root.join("stub.py"), STUB);
    for (file, name) in [("one.md", "one"), ("more/two.md", "two"), ("agents/three.md", "three")] {
        write(root.join(file), &format!("---\nname: {name}\ndescription: It is {name}\n---\nYou are {name}.\n"));
    }
    write(root.join("styles/a.md"), "---\nforce-for-plugin: true\n---\nForced words.");
    write_json(root.join("a.json"), &json!({"hooks": {"Stop": [{"hooks": [log_hook("a.log")]}]}}));
    write_json(root.join("hooks/hooks.json"), &json!({"hooks": {"Stop": [{"hooks": [log_hook("default.log")]}]}}));
    write_json(
        root.join(".mcp.json"),
        &json!({"direct": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/stub.py", "good"]}}),
    );
    let (model, run) = run_with(&world, &["--plugin-dir", root.to_str().unwrap()]).await;
    assert_eq!(run.stderr, "");
    let init = &run.lines()[0];
    let agents: Vec<String> = names(&init["agents"]).into_iter().filter(|name| name.starts_with("p:")).collect();
    assert_eq!(agents, ["p:one", "p:two"]);
    assert_eq!(names(&init["mcp_servers"]), ["plugin:p:direct", "plugin:p:inline"]);
    assert!(model.request(0).system_text().contains("# Output style: p:a\n\nForced words."));
    for log in ["a.log", "inline.log", "default.log"] {
        assert!(world.home.join(log).exists(), "{log}");
    }
}

/// Manifest, target of a symlink, further files, kind of the error, and words of it.
type BadPlugin<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

#[tokio::test]
async fn a_bad_plugin_is_named_with_file_and_line_and_the_others_work() {
    let world = world();
    let good = world.home.join("good");
    write_manifest(&good, &json!({"name": "good"}));
    write(good.join("agents/a.md"), "---\nname: a\ndescription: Does\n---\nYou do.\n");
    write(world.home.join("secret.md"), "---\nname: secret\ndescription: Secret\n---\nA secret.\n");
    let hook = json!({"hooks": {"Stop": [{"hooks": [log_hook("stop.log")]}]}}).to_string();
    let cases: [BadPlugin<'_>; 14] = [
        (
            "{\"name\": \"x\",\n \"agents\": 7}",
            "",
            &[],
            "manifest-validation-error",
            "plugin.json:2: `agents` should be a path",
        ),
        ("{\n\"version\": \"1\"}", "", &[], "manifest-validation-error", "plugin.json:1: `name` is missing"),
        (
            "{\"name\": \"x\",\n\n\"version\": 1}",
            "",
            &[],
            "manifest-validation-error",
            "plugin.json:3: `version` should be a text",
        ),
        ("{\"name\": \"two words\"}", "", &[], "manifest-validation-error", "plugin.json:1: `name` should consist of"),
        ("{\"name\": \"x\",}", "", &[], "manifest-parse-error", "plugin.json:1:"),
        ("[]", "", &[], "manifest-validation-error", "plugin.json:1: the manifest is no JSON object"),
        ("{\"name\": \"x\", \"agents\": \"../..\"}", "", &[], "manifest-validation-error", "should begin with `./`"),
        (
            "{\"name\": \"x\", \"agents\": \"./../secret.md\"}",
            "",
            &[],
            "manifest-validation-error",
            "leads out of the plugin",
        ),
        ("{\"name\": \"x\", \"agents\": \"/etc\"}", "", &[], "manifest-validation-error", "should begin with `./`"),
        (
            "{\"name\": \"x\", \"agents\": \"./link\"}",
            "link",
            &[],
            "manifest-validation-error",
            "leads out of the plugin, to",
        ),
        ("{\"name\": \"x\"}", "agents", &[], "path-outside-plugin", "it leads out of the plugin, to"),
        (
            "{\"name\": \"x\"}",
            "",
            &[("hooks/hooks.json", "{\"hooks\":\n [}")],
            "component-parse-error",
            "hooks.json:2:",
        ),
        (
            "{\"name\": \"x\"}",
            "",
            &[("hooks/hooks.json", "{\"hooks\": {\n\"Stop\": {}}}")],
            "component-validation-error",
            "hooks.json:2: `hooks.Stop` should be a list",
        ),
        (
            "{\"name\": \"x\"}",
            "",
            &[(".mcp.json", "{\"mcpServers\": []}")],
            "component-validation-error",
            ".mcp.json:1: `mcpServers` should be an object",
        ),
    ];
    for (at, (manifest, link, files, kind, message)) in cases.into_iter().enumerate() {
        let root = world.home.join(format!("bad{at}/x"));
        write(root.join(".claude-plugin/plugin.json"), manifest);
        if !files.iter().any(|(path, _)| *path == "hooks/hooks.json") {
            write(root.join("hooks/hooks.json"), &hook);
        }
        files.iter().for_each(|(path, text)| drop(write(root.join(path), text)));
        if !link.is_empty() {
            std::os::unix::fs::symlink(&world.home, root.join(link)).unwrap();
        }
        let dirs = ["--plugin-dir", root.to_str().unwrap(), "--plugin-dir", good.to_str().unwrap()];
        let (_, run) = run_with(&world, &dirs).await;
        let init = &run.lines()[0];
        assert_eq!(names(&init["plugins"]), ["good"], "{manifest}");
        assert!(names(&init["agents"]).contains(&"good:a".to_owned()));
        let error = &init["plugin_errors"][0];
        assert_eq!((&error["plugin"], &error["type"]), (&json!("inline[0]"), &json!(kind)), "{manifest}: {error}");
        assert!(error["path"].as_str().unwrap().contains("bad"), "{error}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{manifest}: {}", run.stderr);
        assert!(
            lines[0].contains("the plugin inline[0] is not used: ") && lines[0].contains(message),
            "{manifest}: {}",
            lines[0]
        );
    }
    assert!(!world.home.join("stop.log").exists(), "nothing of a bad plugin runs");
    let (_, run) = run_with(&world, &["--plugin-dir", "nowhere", "--plugin-dir", good.to_str().unwrap()]).await;
    assert_eq!(run.lines()[0]["plugin_errors"][0]["type"], "path-not-found");
    assert!(run.stderr.contains("/nowhere: it is not there"), "{}", run.stderr);
}

#[tokio::test]
async fn a_document_that_leads_out_of_a_plugin_is_left_out_and_a_bad_hook_alone() {
    let world = world();
    let root = world.home.join("p");
    write_manifest(&root, &json!({"name": "p", "lspServers": {}}));
    write(world.home.join("outside.md"), "---\nname: outside\ndescription: Outside\n---\nOutside.\n");
    write(root.join("agents/inside.md"), "---\nname: inside\ndescription: Inside\n---\nInside.\n");
    std::os::unix::fs::symlink(world.home.join("outside.md"), root.join("agents/linked.md")).unwrap();
    let hooks = "{\"hooks\": {\"Stop\": [\n{\"hooks\": [{\"type\": \"command\", \"command\": \"touch $HOME/good\"}]},\n\
                 {\"hooks\": [{\"type\": \"shout\"}]}]}}";
    write(root.join("hooks/hooks.json"), hooks);
    let (_, run) = run_with(&world, &["--plugin-dir", root.to_str().unwrap()]).await;
    let agents: Vec<String> =
        names(&run.lines()[0]["agents"]).into_iter().filter(|name| name.starts_with("p:")).collect();
    assert_eq!(agents, ["p:inside"]);
    assert!(world.home.join("good").exists());
    assert!(run.stderr.contains("hooks.json:3: hooks.Stop: these hooks are left out"), "{}", run.stderr);
}

#[tokio::test]
async fn options_reach_hooks_servers_and_texts_and_secrets_stay_out_of_texts() {
    let world = world();
    let root = world.home.join("p");
    let option = |kind: &str, more: Value| {
        let mut option = json!({"type": kind, "title": "t", "description": "d"});
        option.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        option
    };
    write_manifest(
        &root,
        &json!({"name": "p", "userConfig": {
            "team": option("string", json!({})), "size": option("number", json!({"default": 3})),
            "key": option("string", json!({"sensitive": true})), "place": option("directory", json!({"required": true}))}}),
    );
    write(
        root.join("agents/a.md"),
        "---\nname: a\ndescription: Does\n---\nTeam ${user_config.team}, size ${user_config.size}, key ${user_config.key}.\n",
    );
    let hooks = json!({"hooks": {"PreToolUse": [{"hooks": [
        {"type": "command", "command": "echo \"$CLAUDE_PLUGIN_OPTION_team $CLAUDE_PLUGIN_OPTION_SIZE $CLAUDE_PLUGIN_OPTION_KEY\" >> \"$HOME/shell\""},
        {"type": "command", "command": "/usr/bin/touch", "args": [format!("{}/${{user_config.team}}", world.home.display())]},
        {"type": "command", "command": "echo ${user_config.team}"}]}]}});
    write_json(root.join("hooks/hooks.json"), &hooks);
    let options = json!({"team": "blue", "size": "many"});
    write_user_settings(&world, &json!({"pluginConfigs": {"p@inline": {"options": options}}}));
    let launch = json!({"description": "Do it", "prompt": "Do the task.", "subagent_type": "p:a"});
    let model = Script::new().call("Agent", launch).then().say("done").then().say("ok").serve().await.unwrap();
    let run = world.run(&model).stream("go").args(["--plugin-dir", root.to_str().unwrap()]);
    let run = run.env("CLAUDE_PLUGIN_OPTION_KEY", "sesame-77").finish().await;
    run.expect_code(0);
    assert_eq!(std::fs::read_to_string(world.home.join("shell")).unwrap(), "blue 3 sesame-77\n");
    assert!(world.home.join("blue").exists(), "options are filled into arguments");
    let agent = model.request(1).system_text();
    assert!(agent.starts_with("Team blue, size 3, key ${user_config.key}."), "{agent}");
    assert!(model.requests().iter().all(|request| !request.body_text().contains("sesame-77")));
    for said in [
        "userConfig.size: does not have its type",
        "userConfig.place: is required and has no value",
        "$CLAUDE_PLUGIN_OPTION_<KEY>",
    ] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
}

#[tokio::test]
async fn programs_name_plugins_in_initialize() {
    let world = world();
    let (one, two) = (world.home.join("one"), world.home.join("two"));
    write_whole_plugin(&one, "one");
    write_manifest(&two, &json!({"name": "two"}));
    let model = Script::new().say("ok").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--plugin-dir", two.to_str().unwrap()]));
    let plugins = json!([{"type": "local", "path": one}, {"type": "npm", "package": "x"}]);
    let answer = host.send_request(json!({"subtype": "initialize", "plugins": plugins})).await["response"].clone();
    assert_eq!(answer["plugins_applied"], true);
    assert!(names(&answer["agents"]).contains(&"one:reviewer".to_owned()), "{answer}");
    host.say("go");
    let init = host.until(|line| line["subtype"] == "init").await;
    assert_eq!(names(&init["plugins"]), ["two", "one"]);
    assert_eq!(init["plugin_errors"][0]["type"], "not-available");
    host.result().await;
    let again = host.send_request(json!({"subtype": "reload_plugins"})).await["response"].clone();
    assert_eq!(
        (names(&again["plugins"]), &again["error_count"]),
        (vec!["two".to_owned(), "one".to_owned()], &json!(1))
    );
    host.end().await;
}

async fn run_gimlet(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await
}

#[tokio::test]
async fn plugins_are_listed_with_what_they_bring_and_why_they_are_not_used() {
    let world = world();
    assert!(run_gimlet(&world, &["plugin", "list"]).await.expect_code(0).stdout.contains("There are no plugins"));
    let skills = world.home.join(".claude/skills");
    write_whole_plugin(&skills.join("helper"), "helper");
    write_manifest(&skills.join("off"), &json!({"name": "off", "defaultEnabled": false}));
    write_manifest(&skills.join("again"), &json!({"name": "helper"}));
    write_manifest(&skills.join("bad"), &json!({"name": 7}));
    let page = run_gimlet(&world, &["plugins", "ls"]).await.expect_code(0).stdout.clone();
    for part in [
        "helper@skills-dir  ",
        "off@skills-dir",
        "off (enabledPlugins in settings)",
        "another plugin of its name is used",
        "bad/.claude-plugin/plugin.json:2: `name` should be a text",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let typed = world.run_at("http://127.0.0.1:9").print_text("/plugin").finish().await;
    assert!(typed.expect_code(0).stdout.contains("another plugin of its name is used"), "{}", typed.stdout);
    std::fs::remove_dir_all(skills.join("again")).unwrap();
    let list = run_gimlet(&world, &["plugin", "list", "--json"]).await.json();
    let helper = &list["plugins"][0];
    assert_eq!(
        (&helper["id"], &helper["version"], &helper["origin"]),
        (&json!("helper@skills-dir"), &json!("1.2.0"), &json!("user-skills"))
    );
    assert_eq!(helper["agents"], json!(["helper:deep:checker", "helper:reviewer"]));
    assert_eq!((&helper["outputStyles"], &helper["mcpServers"]), (&json!(["helper:terse"]), &json!(["stub"])));
    assert_eq!(helper["hooks"], json!([{"event": "PreToolUse", "count": 2}]));
    assert_eq!(
        (&list["unused"][0]["reason"], &list["errors"][0]["type"]),
        (&json!("disabled"), &json!("manifest-validation-error"))
    );
    let hooks = run_gimlet(&world, &["hooks", "list"]).await.expect_code(0).stdout.clone();
    assert!(hooks.contains("helper/hooks/hooks.json:"), "{hooks}");
    let doctor = run_gimlet(&world, &["doctor"]).await.stdout;
    assert!(doctor.contains("the plugin bad@skills-dir is not used: `name` should be a text"), "{doctor}");
}

#[tokio::test]
async fn a_plugin_is_checked_without_being_used() {
    let world = world();
    let root = world.home.join("p");
    write_whole_plugin(&root, "p");
    let path = root.to_str().unwrap();
    let valid = run_gimlet(&world, &["plugin", "validate", path]).await;
    assert!(
        valid.expect_code(0).stdout.contains("p 1.2.0 brings agents p:deep:checker, p:reviewer; output styles p:terse"),
        "{}",
        valid.stdout
    );
    assert!(valid.stdout.ends_with("It is valid.\n") && valid.stdout.contains("permissionMode"), "{}", valid.stdout);
    run_gimlet(&world, &["plugin", "validate", path, "--strict"]).await.expect_code(0);
    write_manifest(&root, &json!({"name": "p", "colour": "red"}));
    let odd = run_gimlet(&world, &["plugin", "validate", path]).await;
    assert!(odd.expect_code(0).stdout.contains("plugin.json:3: colour: unknown, and ignored"), "{}", odd.stdout);
    run_gimlet(&world, &["plugin", "validate", path, "--strict"]).await.expect_code(1);
    write_manifest(&root, &json!({"name": "p", "agents": "./../x"}));
    let bad = run_gimlet(&world, &["plugin", "validate", path]).await;
    assert!(
        bad.expect_code(1).stdout.contains("plugin.json:3: `agents`: the path `./../x` leads out"),
        "{}",
        bad.stdout
    );
    assert!(
        run_gimlet(&world, &["plugin", "validate", "nowhere"]).await.expect_code(1).stdout.contains("it is not there")
    );
    assert!(!world.home.join("shell.sh.log").exists() && !world.home.join(".claude/plugins/data").exists());
}

/// The plugin of the page is written as it stands there, and does what the page says.
#[tokio::test]
async fn the_plugin_of_the_page_works() {
    let page = include_str!("../../../../docs/plugins.md");
    let world = world();
    let mut files = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(path) = line.strip_prefix("`notes/").and_then(|rest| rest.split('`').next()) else { continue };
        let block = lines.by_ref().skip_while(|line| !line.starts_with("```")).skip(1);
        let text: Vec<&str> = block.take_while(|line| *line != "```").collect();
        write(world.project.join("notes").join(path), &text.join("\n"));
        files += 1;
    }
    assert_eq!(files, 3);
    assert!(
        run_gimlet(&world, &["plugin", "validate", "notes", "--strict"])
            .await
            .expect_code(0)
            .stdout
            .contains("notes:reader")
    );
    let launch = json!({"description": "Ask", "prompt": "What about the parser?", "subagent_type": "notes:reader"});
    let model = Script::new()
        .call("Bash", json!({"command": "echo hello"}))
        .then()
        .call("Agent", launch)
        .then()
        .say("Nothing.")
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(["--plugin-dir", "notes"]).finish().await;
    assert_eq!(run.expect_code(0).stderr, "");
    let format = world.project.join("notes/format.md");
    assert!(model.request(2).system_text().contains(format.to_str().unwrap()));
    assert_eq!(model.request(2).tool_names(), ["Read", "Glob", "Grep"]);
    let log = world.home.join(".claude/plugins/data/notes-inline/commands.jsonl");
    assert!(std::fs::read_to_string(log).unwrap().contains("echo hello"));
}

#[tokio::test]
async fn skills_and_commands_of_a_plugin_are_typed_and_loaded_by_name() {
    let world = world();
    let root = world.home.join("p");
    write_manifest(&root, &json!({"name": "p", "skills": "./extra"}));
    let skill = |name: &str, text: &str| {
        format!("---\n{name}description: Does {text}\n---\nText {text} in ${{CLAUDE_PLUGIN_ROOT}}: $ARGUMENTS\n")
    };
    write(root.join("skills/one/SKILL.md"), &skill("", "one"));
    write(root.join("skills/two/SKILL.md"), &skill("name: second\n", "two"));
    write(root.join("extra/SKILL.md"), &skill("", "three"));
    write(root.join("SKILL.md"), &skill("name: whole\n", "four"));
    write(root.join("commands/deep/go.md"), "Go to $ARGUMENTS, with !`echo \"${CLAUDE_PLUGIN_DATA}\"`\n");
    let dir = root.to_string_lossy().into_owned();
    let args = ["--plugin-dir", &dir];
    let model = Script::new()
        .call("Skill", json!({"skill": "p:second", "args": "there"}))
        .then()
        .say("ok")
        .serve()
        .await
        .unwrap();
    let run = world.run(&model).stream("go").args(args).finish().await;
    assert_eq!(run.expect_code(0).stderr, "");
    let skills: Vec<String> =
        names(&run.lines()[0]["skills"]).into_iter().filter(|name| name.starts_with("p:")).collect();
    assert_eq!(skills, ["p:extra", "p:one", "p:second", "p:whole"]);
    assert!(names(&run.lines()[0]["slash_commands"]).contains(&"p:deep:go".to_owned()));
    assert!(model.request(0).body_text().contains("- p:one: Does one"), "it is in the list of skills");
    assert!(model.request(1).body_text().contains(&format!("Text two in {dir}: there")));
    let data = world.home.join(".claude/plugins/data/p-inline");
    for (typed, text) in [
        ("/p:one x", format!("Text one in {dir}: x")),
        ("/second y", format!("Text two in {dir}: y")),
        ("/whole z", format!("Text four in {dir}: z")),
        ("/p:deep:go home", format!("Go to home, with {}", data.display())),
    ] {
        let model = Script::new().say("ok").serve().await.unwrap();
        let run = world.run(&model).stream(typed).args(args).finish().await;
        assert_eq!(run.expect_code(0).stderr, "", "{typed}");
        assert!(model.request(0).last_user_text().contains(&text), "{typed}: {}", model.request(0).last_user_text());
    }
    let list = world.run_at("http://127.0.0.1:9").print_text("/skills").args(args).finish().await;
    assert!(list.expect_code(0).stdout.contains("p:deep:go"), "{}", list.stdout);
}
