//! Slash commands of the terminal front end.
