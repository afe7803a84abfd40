//! Settings and trust, over real files in scratch folders.

mod bad_input;
mod scopes;
mod trust;
mod world;
