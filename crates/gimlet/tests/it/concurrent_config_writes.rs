//! Many processes that change the same settings at once: every change is there in the end, and nothing else was touched.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like the tests themselves")]

use serde_json::Value;
use tokio::task::JoinSet;

use crate::world;

const WRITERS: usize = 50;

#[tokio::test]
async fn fifty_processes_that_change_one_file_lose_nothing() {
    let world = std::sync::Arc::new(world());
    let file = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "{\n\t\"theirs\": [1,2]\n}\n").unwrap();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    let mut runs = JoinSet::new();
    for n in 0..WRITERS {
        let world = world.clone();
        runs.spawn(async move {
            // Half of them through a file that is not there yet and has to be hidden from git by the first one.
            let scope = if n % 2 == 0 { "user" } else { "local" };
            let (key, value) = (format!("env.WRITER_{n}"), format!("value {n}"));
            let run = world.run_at("http://127.0.0.1:9").args(["config", "set", &key, &value, "--scope", scope]);
            run.finish().await.expect_code(0);
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
    let local = world.project.join(".claude/settings.local.json");
    for (path, first) in [(&file, 0), (&local, 1)] {
        let text = std::fs::read_to_string(path).unwrap();
        let settings: Value = serde_json::from_str(&text).unwrap();
        for n in (first..WRITERS).step_by(2) {
            assert_eq!(settings["env"][format!("WRITER_{n}")], format!("value {n}"), "{text}");
        }
        let left: Vec<_> = path.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().contains(".tmp")), "{left:?}");
    }
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\n\t\"theirs\": [1,2],"));
    let hidden = world.read(".git/info/exclude");
    assert_eq!(hidden.matches("settings.local.json").count(), 1, "{hidden}");
}
