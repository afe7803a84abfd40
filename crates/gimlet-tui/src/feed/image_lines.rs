//! Images as text: what they are and how large.

use gimlet_proto::Block;

/// Returns a placeholder for an image: `[image/png, 640 × 480]`.
pub(crate) fn describe_image(block: &Block) -> String {
    let value: serde_json::Value = serde_json::from_str(block.json()).unwrap_or_default();
    let source = &value["source"];
    let kind = source["media_type"].as_str().unwrap_or("image");
    let kind = kind.strip_prefix("image/").unwrap_or(kind);
    let size = source["data"].as_str().map(|data| data.len() / 4 * 3);
    match size {
        Some(bytes) => format!("[image: {}, {}]", crate::text_width::clean_line(kind), format_bytes(bytes)),
        None => "[image]".to_owned(),
    }
}

/// Returns a size as users read it.
pub(crate) fn format_bytes(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}
