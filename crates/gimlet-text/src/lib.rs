//! Pure functions on text: sanitising for a terminal, invisible characters, tags in prompts, shell quoting, compact
//! JSON, images in base64, edit distance.
//!
//! Every other crate may use this one. Nothing here does I/O or knows a type of another crate.

mod compact_json;
mod edit_distance;
mod image;
mod invisible_chars;
mod prompt_tags;
mod sanitise;
mod shell_quote;
mod surrogates;
mod truncate;

pub use compact_json::{MAX_JSON_DEPTH, compact_json, is_json_object, is_too_deep};
pub use edit_distance::edit_distance;
pub use image::{SendableImage, detect_image_type, is_base64, strip_base64_whitespace};
pub use invisible_chars::InvisibleChar;
pub use prompt_tags::{enclose_in_tag, escape_tags};
pub use sanitise::sanitise;
pub use shell_quote::quote_shell_word;
pub use surrogates::replace_lone_surrogates;
pub use truncate::truncate_to_line;
