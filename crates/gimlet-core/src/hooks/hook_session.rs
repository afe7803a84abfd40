//! What handlers inside the session work with: its model, its servers and its budget. Handlers of other rooms pass it
//! on and cannot look inside.

use std::fmt;
use std::sync::Arc;

use crate::call::CallScope;
use crate::spending::{BilledRequest, RequestEstimate, ReservationOutcome, SpendingReservation};
use crate::tool::ToolSource;

/// Session in which a hook is called.
#[derive(Clone)]
pub struct HookSession(Arc<HookSessionParts>);

struct HookSessionParts {
    scope: Arc<CallScope>,
    facilities: HookFacilities,
}

/// What hooks may use beside the conversation that they are called in.
#[derive(Clone, Default)]
pub(crate) struct HookFacilities {
    /// Model of hooks that name none; `None` for the model of the conversation.
    pub(crate) small_model: Option<String>,
    pub(crate) tool_source: Option<Arc<dyn ToolSource>>,
}

impl fmt::Debug for HookSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSession")
    }
}

impl HookSession {
    pub(super) fn new(scope: &CallScope, facilities: HookFacilities) -> Self {
        Self(Arc::new(HookSessionParts { scope: Arc::new(scope.clone()), facilities }))
    }

    pub(super) fn scope(&self) -> &Arc<CallScope> {
        &self.0.scope
    }

    pub(super) fn tool_source(&self) -> Option<&Arc<dyn ToolSource>> {
        self.0.facilities.tool_source.as_ref()
    }

    /// Returns the model for a hook that names this one, or none.
    pub(super) fn choose_model(&self, named: Option<&str>) -> Result<String, String> {
        match (named, &self.0.facilities.small_model) {
            (Some(model), _) => self.0.scope.model_selection.resolve_model(Some(model.to_owned())),
            (None, Some(model)) => Ok(model.clone()),
            (None, None) => Ok(self.0.scope.model()),
        }
    }

    /// Reserves what a request may cost. Fails if the session may not spend it.
    pub(super) async fn reserve(&self, estimate: &RequestEstimate) -> Result<SpendingReservation, String> {
        let scope = &self.0.scope;
        match scope.agent_runtime.side_ledger(&scope.agent).spending().reserve(estimate, &scope.cancel).await {
            ReservationOutcome::Granted(held) => Ok(held),
            ReservationOutcome::Reached(limit) => Err(format!("{}, so the model was not asked", limit.describe())),
            ReservationOutcome::Cancelled => Err("interrupted".to_owned()),
        }
    }

    /// Counts a request that was made for a hook.
    pub(super) fn count_request(&self, billed: &BilledRequest<'_>) {
        let scope = &self.0.scope;
        scope.agent_runtime.side_ledger(&scope.agent).count_side_request(billed);
    }
}
