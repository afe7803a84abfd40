//! Settings and trust through the host.

use gimlet_proto::{Host, PromptHistoryEntry, SavedSetting, SessionScope};
use gimlet_testkit::TestWorld;
use serde_json::json;

use crate::FrontEnd;

/// Address at which no model answers; these tests send no request.
const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn settings_change_for_this_run_or_for_good() {
    let world = TestWorld::new("unused");
    let front = FrontEnd::open(&world, NOWHERE).await;
    let change = json!({"outputStyle": "terse", "cleanupPeriodDays": 7});
    front.host.change_settings(change.as_object().unwrap().clone()).unwrap();
    let settings = front.host.settings().unwrap();
    assert_eq!((settings.output_style.as_str(), &settings.effective["cleanupPeriodDays"]), ("terse", &json!(7)));
    assert!(settings.layers.iter().any(|layer| layer.source == "flag"), "{:?}", settings.layers);
    let taken_back = json!({"outputStyle": null});
    front.host.change_settings(taken_back.as_object().unwrap().clone()).unwrap();
    assert_eq!(front.host.settings().unwrap().output_style, "default");

    front.host.save_setting(SavedSetting::EffortLevel("high".to_owned())).unwrap();
    assert_eq!(front.host.settings().unwrap().effective["effortLevel"], "high");
    let refused = front.host.save_setting(SavedSetting::EffortLevel("max".to_owned())).unwrap_err();
    assert!(refused.contains("not 'max'"), "{refused}");
    front.finish().await;
}

#[tokio::test]
async fn a_folder_is_trusted_as_it_was_shown() {
    let world = TestWorld::new("unused");
    world.file(".claude/settings.json", r#"{"permissions": {"allow": ["Bash(make)"]}}"#);
    let front = FrontEnd::open(&world, NOWHERE).await;
    let shown = front.host.trust().unwrap();
    assert!(!shown.is_accepted && shown.pending.len() == 1, "{shown:?}");
    assert_eq!(shown.pending[0].title, "allow rule Bash(make)");

    world.file(".claude/settings.json", r#"{"permissions": {"allow": ["Bash(make)", "Bash(rm *)"]}}"#);
    let problem = front.host.accept_trust(&shown).unwrap_err();
    assert!(problem.contains("changed since they were shown"), "{problem}");
    assert!(!front.host.trust().unwrap().is_accepted);

    let shown = front.host.trust().unwrap();
    assert_eq!(shown.pending.len(), 2);
    front.host.accept_trust(&shown).unwrap();
    let after = front.host.trust().unwrap();
    assert!(after.is_accepted && after.pending.is_empty(), "{after:?}");
    front.finish().await;
}

#[tokio::test]
async fn files_are_suggested_by_parts_of_their_path() {
    let world = TestWorld::new("unused");
    for file in ["src/alpha.rs", "src/beta.rs", "docs/alphabet.md"] {
        world.file(file, "");
    }
    let front = FrontEnd::open(&world, NOWHERE).await;
    let found = front.host.suggest_files(world.project.clone(), "alp".to_owned()).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|path| path.to_string_lossy().contains("alpha")), "{found:?}");
    front.finish().await;
}

#[tokio::test]
async fn prompts_are_kept_for_later_sessions_of_the_folder() {
    let world = TestWorld::new("unused");
    let front = FrontEnd::open(&world, NOWHERE).await;
    let session = gimlet_proto::SessionId::new("5d2c8a2e-0000-4000-8000-000000000000");
    let entry = PromptHistoryEntry { text: "hello".to_owned(), pasted: Vec::new(), at_ms: 3 };
    front.host.append_prompt_history(&session, entry.clone()).await.unwrap();
    for scope in [SessionScope::Folder, SessionScope::Everywhere] {
        assert_eq!(front.host.prompt_history(scope).await.unwrap(), std::slice::from_ref(&entry));
    }
    front.finish().await;
}
