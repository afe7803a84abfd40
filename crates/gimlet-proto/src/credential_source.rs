//! Keys that are not known at startup but fetched when a request needs one.
//!
//! A provider requests a key and an implementation of this trait fetches it: providers start no programs, and no
//! other component needs to know what a server accepts.

use std::fmt;

use crate::{BoxFuture, Secret};

/// A source of keys.
pub trait CredentialSource: fmt::Debug + Send + Sync {
    /// Returns the key to send now, possibly a cached one. `refused` is the key that the server has just rejected;
    /// the returned key was then fetched after it.
    ///
    /// Dropping the future cancels the fetch, unless other callers wait for it.
    fn fetch_key<'a>(&'a self, refused: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>>;
}

/// Reason why there is no key. Contains no part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialError {
    pub message: String,
    /// Advice for the user.
    pub hint: String,
}
