//! Hooks of the program that drives the session: each is a callback into it.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{BoxFuture, Driver, DriverError, DriverHook, HookCall};

use super::hook_event::requires_answer;
use super::{
    HandlerCall, HandlerError, HandlerReport, HookEntry, HookEvent, HookFailurePolicy, HookHandler, HookMatcher,
    HookMatcherError,
};

/// Timeout of a callback unless the program sets another.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Source of these hooks.
const SOURCE: &str = "the driving program";

struct DriverCallback {
    driver: Arc<dyn Driver>,
    id: Arc<str>,
}

impl HookHandler for DriverCallback {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let call = HookCall { callback: self.id.clone(), input: call.input, tool_use: call.tool_use };
        let answer = self.driver.run_hook(call);
        let handler_error = |error: DriverError| match error {
            DriverError::Closed => HandlerError::Gone(error.to_string()),
            DriverError::Failed(why) => HandlerError::Failed(why),
        };
        Box::pin(async move { answer.await.map(HandlerReport::from_json).map_err(handler_error) })
    }

    fn text(&self) -> String {
        self.id.to_string()
    }

    fn default_timeout(&self, _event: HookEvent) -> Duration {
        TIMEOUT
    }
}

/// Checks the matchers of these hooks. Returns the first that is invalid as an error.
pub fn check_driver_hooks(hooks: &[DriverHook]) -> Result<(), HookMatcherError> {
    let mut known = hooks.iter().filter_map(|hook| Some((firing_event(&hook.event)?, hook)));
    known.try_for_each(|(event, hook)| HookMatcher::new(event, hook.matcher.as_deref()).map(drop))
}

/// Returns the event with this name; `None` for one that never happens.
fn firing_event(name: &str) -> Option<HookEvent> {
    let event = HookEvent::from_name(name)?;
    if event.row().fires { Some(event) } else { None }
}

/// Returns registry entries for the program's hooks, in its order. Events that never happen are left out.
pub(super) fn driver_entries(
    driver: &Arc<dyn Driver>,
    hooks: &[DriverHook],
) -> Result<Vec<HookEntry>, HookMatcherError> {
    let source: Arc<str> = Arc::from(SOURCE);
    let mut entries = Vec::new();
    for hook in hooks {
        let Some(event) = firing_event(&hook.event) else { continue };
        let matcher = HookMatcher::new(event, hook.matcher.as_deref())?;
        let on_failure = failure_policy(hook.blocks_on_failure == Some(true) && event.may_fail_closed());
        let on_silence = match hook.blocks_on_failure {
            None => failure_policy(requires_answer(event)),
            Some(_) => on_failure,
        };
        entries.extend(hook.callbacks.iter().map(|id| {
            let handler = Arc::new(DriverCallback { driver: driver.clone(), id: id.clone() });
            let entry = HookEntry::new(event, matcher.clone(), handler, source.clone());
            HookEntry { timeout: hook.timeout, on_failure, on_silence, ..entry }
        }));
    }
    Ok(entries)
}

fn failure_policy(block: bool) -> HookFailurePolicy {
    if block { HookFailurePolicy::Block } else { HookFailurePolicy::Continue }
}
