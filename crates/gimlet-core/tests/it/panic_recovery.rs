//! Panics anywhere around a call fail that call alone: every call has one result, and the session goes on.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Once;

use gimlet_core::tool::{PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult};
use gimlet_core::{ChangedSettings, EffectivePermissions, SandboxUpdate, SessionServices, SettingsSource};
use gimlet_policy::{PermissionUpdate, RuleSet};
use gimlet_proto::{
    AccessNeed, Block, DriverHook, EventBody, NoticeLevel, ResultContent, StopCause, TrustQuestion, TurnEnd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::hook_program::{HookProgram, hook};
use crate::hooks_on_calls;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

thread_local! {
    /// The next look at the tool's other names panics: with hooks, that is while the call is decided on.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Panics where it is told to.
pub(crate) struct FragileTool;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FragileInput {
    /// `needs`, `complete`, `decide`, `run` or nothing.
    at: String,
    #[serde(default)]
    parallel: bool,
}

impl Tool for FragileTool {
    const NAME: &'static str = "Fragile";
    type Input = FragileInput;
    type Output = String;
    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "A tool for tests.".into()
    }
    fn aliases(&self) -> &'static [&'static str] {
        assert!(!IS_ARMED.take(), "panic while deciding");
        &[]
    }
    fn needs(&self, input: &FragileInput, cx: &PathContext) -> Vec<AccessNeed> {
        assert!(input.at != "needs", "panic in needs");
        IS_ARMED.set(IS_ARMED.get() || input.at == "decide");
        vec![if input.parallel {
            AccessNeed::Read(cx.cwd.join("file"))
        } else {
            AccessNeed::Write(cx.cwd.join("file"))
        }]
    }
    fn complete_input(
        &self,
        input: &Map<String, Value>,
        _services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        assert!(input["at"] != "complete", "panic in complete");
        Ok(None)
    }
    async fn call(&self, input: FragileInput, _cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
        assert!(input.at != "run", "panic in run");
        Ok(ToolResult::new("fine".to_owned()))
    }
    fn to_blocks(&self, output: &String) -> ResultContent {
        output.clone().into()
    }
}

/// Notes places as the program does.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            gimlet_core::note_panic(info);
            before(info);
        }));
    });
}

#[tokio::test]
async fn a_panic_before_in_or_around_a_call_is_that_calls_error_and_is_logged_with_its_place() {
    install_panic_hook();
    for parallel in [false, true] {
        // Calls that begin while the reply streams are not completed.
        let spots = ["needs", "decide", "run", "complete"];
        for at in spots.into_iter().filter(|at| !(parallel && *at == "complete")) {
            let fragile = |id: &str, at: &str| call(id, "Fragile", json!({"at": at, "parallel": parallel}));
            let calls = [fragile("a", at), fragile("b", ""), fragile("c", "")];
            let replies = vec![reply(&calls), reply(&[Block::text("on")]), reply(&[Block::text("and on")])];
            // A hook that listens for another tool: matching it is part of deciding.
            let hooks = vec![DriverHook { matcher: Some("Touch".into()), ..hook("PreToolUse", &["h"]) }];
            let (mut bench, _) = hooks_on_calls::bench(
                BenchSetup::default(),
                HookProgram::default().with_answer("h", json!({})),
                hooks,
                replies,
            );
            let mut logged = Vec::new();
            bench.say("go");
            let report = bench
                .turn(|event, _| match &event.body {
                    EventBody::Notice(notice) if notice.level == NoticeLevel::Debug => logged.push(notice.text.clone()),
                    _ => {}
                })
                .await;
            assert!(matches!(report.end, TurnEnd::Completed), "{at}: {:?}", report.end);
            let results = bench.results(1);
            let errors: Vec<(&str, bool)> = results.iter().map(|(id, error, _)| (id.as_str(), *error)).collect();
            assert_eq!(errors, [("a", true), ("b", false), ("c", false)], "{at}: {results:?}");
            assert!(results[0].2.contains("failed inside gimlet"), "{at}: {}", results[0].2);
            let is_placed = |text: &String| text.contains("panic_recovery.rs:") && text.contains("Fragile");
            assert!(logged.iter().any(is_placed), "{at}: {logged:?}");
            assert!(matches!(bench.run("more").await.end, TurnEnd::Completed), "{at}");
            bench.close().await;
        }
    }
}

/// Settings that panic at one look.
struct PanickingSettings {
    looks: usize,
}

impl SettingsSource for PanickingSettings {
    fn poll_changes(&mut self) -> Vec<ChangedSettings> {
        self.looks += 1;
        assert!(self.looks != 2, "panic at a look at settings");
        Vec::new()
    }

    fn reload_settings(&mut self, _held: &[PathBuf]) -> EffectivePermissions {
        EffectivePermissions::default()
    }

    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions> {
        None
    }

    fn trust_question(&mut self) -> Option<TrustQuestion> {
        None
    }

    fn accept_trust(&mut self) -> EffectivePermissions {
        EffectivePermissions::default()
    }

    fn apply_session_rules(&mut self, _: &RuleSet) -> (SandboxUpdate, Vec<String>) {
        (SandboxUpdate::Unchanged, Vec::new())
    }

    fn save_update(&mut self, _update: &PermissionUpdate) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_outside_of_calls_ends_the_turn_and_the_next_one_goes_on() {
    install_panic_hook();
    let live: Option<Box<dyn SettingsSource>> = Some(Box::new(PanickingSettings { looks: 0 }));
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("on")])];
    let mut bench = SessionBench::new(BenchSetup { live, ..BenchSetup::default() }, replies);
    let end = bench.run("go").await.end;
    assert!(matches!(end, TurnEnd::Stopped { because: StopCause::InternalError, .. }), "{end:?}");
    assert!(matches!(bench.run("more").await.end, TurnEnd::Completed));
    let request = bench.model.requests().remove(1);
    let answered = request.messages.iter().flat_map(|message| message.blocks.iter());
    let answered = answered.filter(|block| block.as_tool_result().is_some()).count();
    assert_eq!(answered, 1, "the call that was cut off has its one result");
    bench.close().await;
}
