//! What a project's files may do before and after the person trusts them.
