//! What a session spends, agents and side requests included: the requests as they are counted, the ceilings that hold
//! for all of them together, and the ledger on disk.
//!
//! Nothing is sent before its cost is reserved, so that requests that run side by side cannot pass a ceiling together.

mod billed_request;
mod cost_log;
mod request_estimate;
mod session_spending;
mod spending_limits;

pub(crate) use billed_request::BilledRequest;
pub(crate) use cost_log::CostLog;
pub(crate) use request_estimate::RequestEstimate;
pub(crate) use session_spending::{ReservationOutcome, SessionSpending, SpendingReservation};
pub(crate) use spending_limits::ReachedLimit;
pub use spending_limits::SpendingLimits;
