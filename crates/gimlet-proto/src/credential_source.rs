//! Keys that are not known from the start but fetched when a request needs one.
//!
//! A provider asks, whoever knows how to find a key answers: providers start no programs, and nobody else needs to know
//! what a server accepts.

use std::fmt;

use crate::{BoxFuture, Secret};

/// A source of keys.
pub trait CredentialSource: fmt::Debug + Send + Sync {
    /// The key to send now, perhaps one that was given before. `refused` is the key that the server has just turned
    /// down; what is given back then was fetched after it.
    ///
    /// Dropping the future ends the search, unless others wait for the same key.
    fn fetch_key<'a>(&'a self, refused: Option<&'a Secret>) -> BoxFuture<'a, Result<Secret, CredentialError>>;
}

/// Why there is no key. Holds no part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialError {
    pub message: String,
    /// What the person can do about it.
    pub hint: String,
}
