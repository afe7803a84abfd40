//! Hooks of the program that drives the session: each is a call back into it.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{BoxFuture, Driver, DriverError, DriverHook, HookCall};

use super::{
    HandlerCall, HandlerError, HandlerReport, HookEntry, HookEvent, HookHandler, Matcher, MatcherError, OnTrouble,
};

/// How long a call may take unless the program says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Whose hooks they are.
const SOURCE: &str = "the driving program";

struct Callback {
    driver: Arc<dyn Driver>,
    id: Arc<str>,
}

impl HookHandler for Callback {
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>> {
        let call = HookCall { callback: self.id.clone(), input: call.input, tool_use: call.tool_use };
        let answer = self.driver.hook(call);
        let told = |error: DriverError| match error {
            DriverError::Closed => HandlerError::Gone(error.to_string()),
            DriverError::Failed(why) => HandlerError::Failed(why),
        };
        Box::pin(async move { answer.await.map(HandlerReport::json).map_err(told) })
    }

    fn text(&self) -> String {
        self.id.to_string()
    }

    fn default_timeout(&self, _event: HookEvent) -> Duration {
        TIMEOUT
    }
}

/// Whether every one of these hooks can be called as its matcher says.
pub fn check_driver_hooks(hooks: &[DriverHook]) -> Result<(), MatcherError> {
    let mut known = hooks.iter().filter_map(|hook| Some((HookEvent::named(&hook.event)?, hook)));
    known.try_for_each(|(event, hook)| Matcher::new(event, hook.matcher.as_deref()).map(drop))
}

/// The registry's entries for hooks that the program named, in its order. Events that nobody knows never happen and are
/// left out.
pub(super) fn entries(driver: &Arc<dyn Driver>, hooks: &[DriverHook]) -> Result<Vec<HookEntry>, MatcherError> {
    let source: Arc<str> = Arc::from(SOURCE);
    let mut entries = Vec::new();
    for hook in hooks {
        let Some(event) = HookEvent::named(&hook.event) else { continue };
        let matcher = Matcher::new(event, hook.matcher.as_deref())?;
        let on_failure = block_if(hook.blocks_on_failure == Some(true) && event.may_fail_closed());
        let on_silence = match hook.blocks_on_failure {
            None => block_if(event.guards()),
            Some(_) => on_failure,
        };
        entries.extend(hook.callbacks.iter().map(|id| HookEntry {
            event,
            matcher: matcher.clone(),
            handler: Arc::new(Callback { driver: driver.clone(), id: id.clone() }),
            timeout: hook.timeout,
            on_failure,
            on_silence,
            source: source.clone(),
        }));
    }
    Ok(entries)
}

fn block_if(block: bool) -> OnTrouble {
    if block { OnTrouble::Block } else { OnTrouble::GoOn }
}
