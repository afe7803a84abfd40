//! What holds for the table of tools as a whole.

mod reference;
mod table;
