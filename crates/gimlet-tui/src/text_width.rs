//! Width of text on a terminal, wrapping, and making hostile text harmless. Everything that is shown passes here.
