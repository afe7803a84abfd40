//! Markdown as styled lines, rendered step by step while it streams in.
