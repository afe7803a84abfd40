//! Panics inside a session become the error of their call or turn, and are reported with their location.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use futures_util::FutureExt;
use gimlet_proto::{AgentPath, EventBody, Notice, NoticeLevel};

use crate::call::CallScope;
use crate::services::SessionServices;
use crate::tool::{ErrorClass, ToolError};

thread_local! {
    /// Location of the last panic of this thread.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records the location of a panic for the code that catches it. Called by the program's panic hook.
pub fn note_panic(info: &PanicHookInfo<'_>) {
    PLACE.with_borrow_mut(|place| *place = info.location().map(ToString::to_string));
}

/// Caught panic.
#[derive(Debug)]
pub(crate) struct CaughtPanic {
    message: String,
    place: Option<String>,
}

impl CaughtPanic {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self { message: text.unwrap_or("no message").to_owned(), place: PLACE.take() }
    }

    /// Writes the panic to the debug log. `doing` names the failed step, as in "Bash: deciding".
    pub(crate) fn log(&self, scope: &CallScope, doing: &str) {
        self.log_for(&scope.services, &scope.agent, doing);
    }

    /// Writes a panic outside of a conversation to the debug log.
    pub(crate) fn log_for(&self, services: &SessionServices, agent: &AgentPath, doing: &str) {
        let place = self.place.as_deref().unwrap_or("an unknown place");
        let text = format!("internal error in {place} ({doing}): {}", self.message);
        services.publish(agent, EventBody::Notice(Notice { level: NoticeLevel::Debug, text }));
    }
}

/// Runs a function and catches its panic.
pub(crate) fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| CaughtPanic::new(&*payload))
}

/// Awaits a future and catches its panic.
pub(crate) async fn catch_panic_async<T>(work: impl Future<Output = T>) -> Result<T, CaughtPanic> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| CaughtPanic::new(&*payload))
}

/// Runs one step of a call before it starts. A panic in it is logged and becomes the error of that call.
pub(crate) fn run_call_step<T>(
    scope: &CallScope,
    tool: &str,
    doing: &str,
    step: impl FnOnce() -> T,
) -> Result<T, ToolError> {
    catch_panic(step).map_err(|panicked| {
        panicked.log(scope, &format!("{tool}: {doing}"));
        let text = format!("{tool} was not run: {doing} failed inside gimlet. Try another way.");
        ToolError::new(ErrorClass::Internal, text)
    })
}
