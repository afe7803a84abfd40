//! Errors in the provider's format: a status, a type, a message and an optional code.

use serde_json::{Value, json};

/// One error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, kind: kind_of(status).to_owned(), message: message.into(), code: None }
    }

    /// Creates a 400; every broken rule ends here.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// Creates a 400 about the field at `path`.
    pub(crate) fn at(path: &str, message: impl std::fmt::Display) -> Self {
        Self::invalid(format!("{path}: {message}"))
    }

    pub(crate) fn body(&self, request_id: &str) -> Value {
        let mut body = error_body(&self.kind, &self.message, request_id);
        if let Some(code) = &self.code {
            body["error"]["details"] = json!({ "error_code": code });
        }
        body
    }
}

/// Returns the error object that bodies and `error` events share.
pub(crate) fn error_body(kind: &str, message: &str, request_id: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": request_id })
}

/// Returns the error type that belongs to a status.
pub(crate) fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        409 => "conflict_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        408 | 504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
