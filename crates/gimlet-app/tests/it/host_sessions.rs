//! Lists of sessions, searches, titles, and sessions that replace each other.

use gimlet_proto::{
    Host, PermissionMode, SessionChanges, SessionReplacement, SessionScope, SessionSearch, SettingsView,
};
use gimlet_script::Script;
use gimlet_testkit::TestWorld;

use crate::FrontEnd;

#[tokio::test]
async fn a_session_is_listed_found_cleared_and_resumed() {
    let world = TestWorld::new("unused");
    let script = Script::new().say("zebra one").then().say("two").then().say("three");
    let model = script.serve().await.unwrap();
    let mut front = FrontEnd::open(&world, &model.url()).await;
    let first = front.session.id.clone();
    front.say("tell me of a zebra").await;
    front.host.rename_session(&first, "Animals").unwrap();
    front.close_session().await;

    let mode = PermissionMode::AcceptEdits;
    let cleared = front.host.replace_session(SessionReplacement::Cleared { mode }).await.unwrap();
    front.follow(cleared.session);
    let second = front.session.id.clone();
    assert_ne!(second, first);
    assert_eq!(front.session.snapshot().mode, mode, "the mode stays");
    assert!(cleared.facts.models.iter().any(|model| model.alias == "sonnet"), "{:?}", cleared.facts.models);
    assert_eq!(cleared.facts.models, front.host.models());
    front.say("something else").await;
    assert_eq!(model.request(1).message_count(), 1, "the conversation is empty");

    let listed = front.host.list_sessions(SessionScope::Folder).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|session| session.id.clone()).collect();
    assert_eq!(ids, [second.clone(), first.clone()]);
    assert_eq!(listed[1].title.as_deref(), Some("Animals"));
    let search = SessionSearch { text: "zebra".to_owned(), scope: SessionScope::Folder, limit: 10 };
    let found = front.host.search_sessions(search).await.unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|hit| hit.session == first && hit.text[hit.marks[0].clone()] == *"zebra"), "{found:?}");

    front.close_session().await;
    let resumed = SessionReplacement::Resumed { session: first.to_string() };
    let resumed = front.host.replace_session(resumed).await.unwrap();
    front.follow(resumed.session);
    assert_eq!(front.session.id, first);
    front.say("go on").await;
    assert_eq!(model.request(2).message_count(), 3, "the conversation goes on");
    assert!(front.host.rename_session(&second, "Other").unwrap_err().contains("is over"));
    front.host.rename_session(&first, "Zebras").unwrap();
    front.finish().await;
}

#[tokio::test]
async fn changes_before_the_first_prompt_shape_the_session_and_wrong_ones_are_refused() {
    let world = TestWorld::new("unused");
    let model = Script::new().say("aye").serve().await.unwrap();
    let mut front = FrontEnd::open(&world, &model.url()).await;
    let wrong = SessionChanges { output_schema: Some("[]".to_owned()), ..SessionChanges::default() };
    assert!(front.host.check_changes(&wrong).unwrap_err().contains("jsonSchema of initialize"));
    let changes = SessionChanges { system_prompt: Some("You are a pirate.".to_owned()), ..SessionChanges::default() };
    front.host.check_changes(&changes).unwrap();
    front.close_session().await;
    let changed =
        SessionReplacement::Changed { changes: Box::new(changes), mode: PermissionMode::Default, mode_chosen: false };
    let opened = front.host.replace_session(changed).await.unwrap();
    front.follow(opened.session);
    front.say("hello").await;
    assert!(model.request(0).system_text().contains("You are a pirate."));
    front.finish().await;
}

#[tokio::test]
async fn a_session_that_does_not_exist_cannot_replace_another() {
    let world = TestWorld::new("unused");
    let front = FrontEnd::open(&world, "http://127.0.0.1:9").await;
    let SettingsView { output_style, .. } = front.host.settings().unwrap();
    assert_eq!(output_style, "default");
    let missing = SessionReplacement::Resumed { session: "no such title".to_owned() };
    let problem = front.host.replace_session(missing).await.err().unwrap();
    assert!(problem.contains("no such title"), "{problem}");
    front.finish().await;
}
