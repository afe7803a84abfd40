//! Keys of the front end and the user's own bindings (`keybindings.json`).
