//! Output to the terminal: finished lines into the scrollback, the live region redrawn where it changed.
