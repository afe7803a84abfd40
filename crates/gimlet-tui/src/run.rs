//! The loop that carries keys, session events and ticks to the application state, and its effects to the world.
