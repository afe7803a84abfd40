//! What holds for the table of tools as a whole.

mod tool_docs;
mod tool_table;
