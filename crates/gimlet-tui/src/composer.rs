//! The editor in which a prompt is written: buffer, keys, history, pasted text and completion. Reads keys as
//! `crossterm::event::KeyEvent` and draws itself as styled lines; does no I/O.
