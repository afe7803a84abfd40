//! State of the terminal front end and how keys, events and ticks change it. Does no I/O: what is to be done comes out as effects.
