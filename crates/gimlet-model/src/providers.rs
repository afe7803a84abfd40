//! Providers: endpoints, credentials, timeouts. Each one uses a format and keeps what it learns about its server.

pub(crate) mod anthropic;
