//! The line below the input: mode, hints, model, context and cost.
