//! Providers: endpoints, credentials, patience. Each one speaks a format and keeps what it learns about its server.

pub(crate) mod anthropic;
