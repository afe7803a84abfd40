//! The Anthropic Messages format: request bodies, streamed replies, refusals and what to change after them.
//!
//! Pure: bytes and blocks in, bytes and events out. Endpoints, credentials and retries are the business of others.

mod betas;
mod block_builder;
mod cache_markers;
mod downgrade_finder;
mod rate_limits;
mod reply_reader;
mod request;
mod request_plan;
mod usage;

use gimlet_proto::RateLimit;
use reqwest::header::{HeaderMap, HeaderName};

use super::reply_state::ReplyState;
use super::{PlanContext, PlannedRequest, WireFormat, WireReader};
use crate::downgrade::Downgrade;
use crate::error_body::ErrorBody;
use crate::server_quirks::ServerQuirks;
pub use reply_reader::ReplyReader;
pub use request::{BodyPlan, build_body};

/// Header of the opt-in features.
const BETA_HEADER: HeaderName = HeaderName::from_static("anthropic-beta");

/// The Messages API, as Anthropic and others speak it.
pub(crate) struct MessagesFormat;

impl WireFormat for MessagesFormat {
    fn plan(&self, cx: &PlanContext<'_>, quirks: &ServerQuirks) -> PlannedRequest {
        let (plan, betas) = request_plan::plan_request(cx, quirks);
        PlannedRequest {
            body: build_body(cx.request, &plan),
            options: plan.options(betas.as_deref()),
            headers: betas.map(|betas| (BETA_HEADER, betas)).into_iter().collect(),
            room: cx.output_limit(quirks, plan.max_tokens),
        }
    }

    fn reader(&self, start: ReplyState) -> Box<dyn WireReader> {
        Box::new(ReplyReader::from_state(start))
    }

    fn find_downgrade(&self, body: &ErrorBody) -> Option<Downgrade> {
        downgrade_finder::find_downgrade(body.code.as_deref(), &body.message)
    }

    fn apply_downgrade(&self, downgrade: &Downgrade, cx: &PlanContext<'_>, quirks: &mut ServerQuirks) -> bool {
        request_plan::apply_downgrade(downgrade, cx, quirks)
    }

    fn implied_status(&self, body: &ErrorBody) -> u16 {
        match body.kind.as_str() {
            "overloaded_error" => 529,
            "rate_limit_error" => 429,
            "timeout_error" => 504,
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "conflict_error" => 409,
            "request_too_large" => 413,
            _ => 500,
        }
    }

    fn rate_limits(&self, headers: &HeaderMap) -> Vec<RateLimit> {
        rate_limits::parse_headers(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_a_status_stands_for_one() {
        let status =
            |kind: &str| MessagesFormat.implied_status(&ErrorBody { kind: kind.into(), ..ErrorBody::default() });
        assert_eq!(["rate_limit_error", "overloaded_error", "new_error"].map(status), [429, 529, 500]);
    }
}
