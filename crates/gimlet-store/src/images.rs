//! Images of a conversation: checks whether they can be sent, and replaces those that cannot.

use gimlet_proto::{Block, BlockKind, Message};
use gimlet_text::SendableImage;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sendable_blocks::{content_parts, json_member, replace_block_content};

/// Result of checking an image.
pub(crate) enum ImageCheck {
    Fine,
    /// Image of another type than its label; holds the block with the right label.
    Mislabelled(Block),
    Unusable(&'static str),
}

#[derive(Deserialize)]
struct ImageBlockSource {
    r#type: String,
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    data: String,
}

fn parse_source(json: &str) -> Option<ImageBlockSource> {
    #[derive(Deserialize)]
    struct ImageBlockJson {
        source: ImageBlockSource,
    }
    serde_json::from_str::<ImageBlockJson>(json).ok().map(|image| image.source)
}

/// Checks whether an image can be sent.
pub(crate) fn check_image(json: &str) -> ImageCheck {
    const NO_SOURCE: ImageCheck = ImageCheck::Unusable("it has no readable source");
    let Some(source) = parse_source(json) else { return NO_SOURCE };
    match source.r#type.as_str() {
        "base64" => match SendableImage::from_base64(&source.data) {
            Ok(found) if found.media_type == source.media_type => ImageCheck::Fine,
            _ => Block::image(&source.data).map_or_else(ImageCheck::Unusable, ImageCheck::Mislabelled),
        },
        "url" | "file" => ImageCheck::Fine,
        _ => NO_SOURCE,
    }
}

/// Returns the reason why an image block cannot be sent, if there is one.
pub fn unusable_image_reason(block: &Block) -> Option<&'static str> {
    if block.kind() != BlockKind::Image {
        return None;
    }
    match check_image(block.json()) {
        ImageCheck::Unusable(why) => Some(why),
        ImageCheck::Fine | ImageCheck::Mislabelled(_) => None,
    }
}

/// Returns the images in this block or in its result, as far as their data is inline.
pub fn images_in_block(block: &Block) -> Vec<SendableImage> {
    let look = |json: &str| {
        SendableImage::from_base64(&parse_source(json).filter(|source| source.r#type == "base64")?.data).ok()
    };
    match block.kind() {
        BlockKind::Image => look(block.json()).into_iter().collect(),
        BlockKind::ToolResult => {
            let images = content_parts(block).unwrap_or_default().into_iter().filter(|part| is_image(part));
            images.filter_map(|part| look(part.get())).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the block with a note in place of every unwanted image; `None` when it has none.
pub(crate) fn replace_images(
    block: &Block,
    mut why_not: impl FnMut(SendableImage) -> Option<&'static str>,
) -> Option<Block> {
    let mut objection = |json: &str| {
        parse_source(json).and_then(|source| SendableImage::from_base64(&source.data).ok()).and_then(&mut why_not)
    };
    match block.kind() {
        BlockKind::Image => objection(block.json()).map(omitted_image_note),
        BlockKind::ToolResult => {
            let mut changed = false;
            let shown: Vec<String> = content_parts(block)?
                .iter()
                .map(|part| {
                    if is_image(part)
                        && let Some(why) = objection(part.get())
                    {
                        changed = true;
                        omitted_image_note(why).json().to_owned()
                    } else {
                        part.get().to_owned()
                    }
                })
                .collect();
            if changed { replace_block_content(block, &format!("[{}]", shown.join(","))) } else { None }
        }
        _ => None,
    }
}

/// Removes the oldest images beyond `most`; returns the number removed.
pub fn keep_newest_images(messages: &mut [Message], most: usize) -> usize {
    let blocks = || messages.iter().flat_map(|message| &message.blocks);
    // Checking an image takes time, and nearly no conversation has so many.
    let mentioned = |block: &Block| match block.kind() {
        BlockKind::Image => 1,
        BlockKind::ToolResult => memmem::find_iter(block.json().as_bytes(), b"\"image\"").count(),
        _ => 0,
    };
    if blocks().map(mentioned).sum::<usize>() <= most {
        return 0;
    }
    let surplus = blocks().map(|block| images_in_block(block).len()).sum::<usize>().saturating_sub(most);
    for (at, message) in replace_oldest_images(messages.iter(), surplus) {
        messages[at] = message;
    }
    surplus
}

/// Returns the messages with the oldest images, each image replaced by a note, by their position.
pub fn replace_oldest_images<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    count: usize,
) -> Vec<(usize, Message)> {
    let mut left = count;
    let mut changed = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        let mut lighter: Option<Message> = None;
        for (place, block) in message.blocks.iter().enumerate() {
            let mended = replace_images(block, |_| {
                left = left.checked_sub(1)?;
                Some("the model takes no more images in a request, and newer ones came after it")
            });
            if let Some(mended) = mended {
                lighter.get_or_insert_with(|| message.clone()).blocks[place] = mended;
            }
        }
        changed.extend(lighter.map(|lighter| (at, lighter)));
        if left == 0 {
            break;
        }
    }
    changed
}

/// Returns the block with a note in place of every image and document; `None` when it has none.
pub fn replace_attachments(block: &Block, why: &str) -> Option<Block> {
    match block.kind() {
        BlockKind::Image | BlockKind::Document => Some(omitted_image_note(why)),
        BlockKind::ToolResult => {
            let is_attached =
                |part: &RawValue| matches!(json_member(part.get(), "type"), Some("\"image\"" | "\"document\""));
            let parts = content_parts(block)?;
            if !parts.iter().any(|part| is_attached(part)) {
                return None;
            }
            let note = omitted_image_note(why);
            let shown: Vec<&str> =
                parts.iter().map(|part| if is_attached(part) { note.json() } else { part.get() }).collect();
            replace_block_content(block, &format!("[{}]", shown.join(",")))
        }
        _ => None,
    }
}

/// Returns the note in place of an image.
pub(crate) fn omitted_image_note(why: &str) -> Block {
    Block::text(&format!("(An image stood here. It could not be sent: {why}.)"))
}

pub(crate) fn is_image(part: &RawValue) -> bool {
    json_member(part.get(), "type") == Some("\"image\"")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    /// Returns the smallest data that passes for a PNG of this size.
    pub(crate) fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        STANDARD.encode(bytes)
    }

    fn image_json(media_type: &str, data: &str) -> String {
        format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"{media_type}","data":"{data}"}}}}"#)
    }

    #[test]
    fn a_wrong_label_is_put_right_and_what_is_no_image_is_told() {
        let right = image_json("image/png", &png(4, 4));
        assert!(matches!(check_image(&right), ImageCheck::Fine));
        let ImageCheck::Mislabelled(mended) = check_image(&image_json("image/jpeg", &png(4, 4))) else { panic!() };
        assert_eq!(mended.json(), right);
        assert!(
            matches!(check_image(&image_json("image/png", "AAAA")), ImageCheck::Unusable(why) if why.contains("neither"))
        );
        assert!(matches!(check_image(r#"{"type":"image"}"#), ImageCheck::Unusable(_)));
    }

    #[test]
    fn unwanted_images_leave_a_note_and_the_others_stay() {
        let (small, large) = (image_json("image/png", &png(4, 4)), image_json("image/png", &png(3000, 4)));
        let result = format!(r#"{{"type":"tool_result","tool_use_id":"a","content":[{small},{large}]}}"#);
        let block = Block::from_json(&result).unwrap();
        let left = replace_images(&block, |picture| (picture.side > 2000).then_some("too wide")).unwrap();
        assert_eq!((images_in_block(&block).len(), images_in_block(&left).len()), (2, 1));
        assert!(left.json().contains("too wide"));
        assert!(replace_images(&block, |_| None).is_none());
    }

    #[test]
    fn of_too_many_images_the_newest_stay() {
        let image = |side| Block::image(&png(side, side)).unwrap();
        let messages = || vec![Message::user(vec![image(1), image(2)]), Message::user(vec![image(3), image(4)])];
        for (most, left_out) in [(4, vec![]), (3, vec![1]), (1, vec![1, 2, 3])] {
            let mut kept = messages();
            assert_eq!(keep_newest_images(&mut kept, most), left_out.len());
            let sides: Vec<u32> = kept
                .iter()
                .flat_map(|message| &message.blocks)
                .flat_map(images_in_block)
                .map(|found| found.side)
                .collect();
            assert_eq!(sides, (1..=4).filter(|side| !left_out.contains(side)).collect::<Vec<u32>>());
        }
    }
}
