//! Every setting with a value of a wrong kind: the doctor names file, line and key, and what the file forbids stays forbidden.

use serde_json::{Value, json};

use super::{run_four_commands, settings_files, write_file};
use crate::world;

/// The value at a dotted path.
fn nest_value(path: &str, value: &Value) -> Value {
    path.rsplit('.').fold(value.clone(), |inner, step| json!({ step: inner }))
}

#[tokio::test]
async fn a_value_of_a_wrong_kind_is_named_with_file_line_and_key() {
    let world = world();
    let file = &settings_files(&world)[0];
    let mut silent = Vec::new();
    for key in gimlet_config::KEYS {
        let mut told = false;
        // One of these must be wrong for any setting.
        for value in [json!([[1]]), json!({"a": {"b": [[]]}}), json!("odd"), json!(-7.5), json!(true)] {
            write_file(file, format!("\n{}", nest_value(key.path, &value)));
            let run = world.run_at("http://127.0.0.1:9").args(["doctor", "--json"]).finish().await;
            let report: Value = run.json();
            told |= report["problems"].as_array().unwrap().iter().any(|problem| {
                let named = problem["key"].as_str().unwrap_or_default();
                named.split('.').next() == key.path.split('.').next()
                    && problem["line"] == 2
                    && problem["file"] == file.to_str().unwrap()
            });
            if told {
                break;
            }
        }
        if !told {
            silent.push(key.path);
        }
    }
    // Whatever stands there is somebody else's to read.
    let free =
        ["voice", "additionalMarketplaces", "disableDeepLinkRegistration", "sshConfigs", "browserExternalPageTools"];
    silent.retain(|key| !free.contains(key) && *key != "sandbox.credentials.sigv4");
    assert_eq!(silent, Vec::<&str>::new());
}

#[tokio::test]
async fn what_a_rejected_file_forbids_stays_forbidden_and_what_it_allows_is_not_allowed() {
    for (bad, key) in [
        (json!({"model": 5}), "model"),
        (json!({"env": ["A=1"]}), "env"),
        (json!({"hooks": "none"}), "hooks"),
        (json!({"sandbox": []}), "sandbox"),
        (json!({"permissions": {"additionalDirectories": "x"}}), "permissions.additionalDirectories"),
        (json!({"permissions": {"defaultMode": "everything"}}), "permissions.defaultMode"),
        (json!({"permissions": {"defaultMode": 1}}), "permissions.defaultMode"),
        (json!({"permissions": {"disableBypassPermissionsMode": true}}), "permissions.disableBypassPermissionsMode"),
        (json!({"permissions": {"allow": "Bash(chmod *)"}}), "permissions.allow"),
    ] {
        for scope in 0..3 {
            let world = world();
            world.file(".git/HEAD", "ref: refs/heads/main\n");
            let mut settings = bad.clone();
            let permissions = settings.as_object_mut().unwrap().entry("permissions").or_insert_with(|| json!({}));
            permissions["deny"] = json!(["Bash(rmdir *)"]);
            if permissions.get("allow").is_none() {
                permissions["allow"] = json!(["Bash(chmod *)"]);
            }
            let file = &settings_files(&world)[scope];
            write_file(file, serde_json::to_string_pretty(&settings).unwrap());
            let (run, done) = run_four_commands(&world, &["--trust"]).await;
            run.expect_code(0);
            assert_eq!(done, [true, false, false, false], "{key}, {scope}: {}", run.stderr);
            let named = |line: &str| line.contains(&format!("{}:", file.display())) && line.contains(key);
            assert!(run.stderr.lines().any(named), "{key}, {scope}: {}", run.stderr);
        }
    }
}

#[tokio::test]
async fn where_files_contradict_each_other_the_nearer_one_wins_and_what_forbids_wins_everywhere() {
    let world = world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    let [user, project, local] = settings_files(&world);
    let settings = |language: &str, list: &str| json!({"language": language, "permissions": {list: ["Bash(rmdir *)"]}});
    write_file(&user, settings("user", "deny").to_string());
    write_file(&project, settings("project", "allow").to_string());
    write_file(&local, settings("local", "allow").to_string());
    let (run, done) = run_four_commands(&world, &["--trust"]).await;
    assert_eq!(done, [true, false, false, false], "{}", run.stderr);
    let get = world.run_at("http://127.0.0.1:9").args(["config", "get", "language", "--json"]).env("GIMLET_TRUST", "1");
    let get = get.finish().await;
    assert_eq!(get.json()["value"], "local", "{}", get.stdout);

    // A mode that one file names, another cannot lift into the one that asks for nothing.
    write_file(&user, json!({"permissions": {"defaultMode": "plan"}}).to_string());
    write_file(&project, json!({"permissions": {"defaultMode": "bypassPermissions"}}).to_string());
    write_file(&local, json!({"permissions": {"disableBypassPermissionsMode": "disable"}}).to_string());
    let (run, done) = run_four_commands(&world, &["--trust", "--dangerously-skip-permissions"]).await;
    run.expect_code(1);
    assert_eq!(done, [true, false, false, false], "nothing more was done: {}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}
