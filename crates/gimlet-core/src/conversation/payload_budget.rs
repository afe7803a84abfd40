//! Payload of a conversation and the room left: its content is part of every later request, so content that does not
//! fit must be detected before it is added.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_proto::{Block, ContentPart, Message, ResultContent};
use gimlet_store::images_in_block;
use gimlet_text::SendableImage;

/// Maximum size of all messages; servers accept 32 MB, and the rest of a request needs room.
const MAX_BYTES: usize = 28_000_000;

/// Payload of a conversation on which servers set limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadBudget {
    bytes: usize,
    pictures: usize,
    largest_side: u32,
    most_pictures: usize,
}

impl Default for PayloadBudget {
    fn default() -> Self {
        Self { bytes: 0, pictures: 0, largest_side: 0, most_pictures: SendableImage::MOST_FOR_ALL }
    }
}

/// Reason why content does not fit, worded to follow "it" or "they".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadOverflow {
    Bytes,
    Images { most: usize },
    LargeImages,
}

impl PayloadOverflow {
    pub(crate) fn explanation(&self) -> Cow<'static, str> {
        match self {
            PayloadOverflow::Bytes => {
                "the conversation would have more than 28 MB, which is more than a request can carry".into()
            }
            PayloadOverflow::Images { most } => {
                format!("the conversation would have more than {most} images, which is more than a request can carry")
                    .into()
            }
            PayloadOverflow::LargeImages => {
                "in a conversation of more than 20 images none can have more than 2,000 pixels on a side".into()
            }
        }
    }
}

impl PayloadBudget {
    /// Computes the payload of messages.
    pub(crate) fn from_messages(messages: &[Arc<Message>]) -> Self {
        let mut room = Self::default();
        messages.iter().for_each(|message| room.add_blocks(&message.blocks));
        room
    }

    /// Sets the image limit of a model with this window.
    pub(crate) fn for_window(self, window: u64) -> Self {
        Self { most_pictures: SendableImage::max_count_for_window(window), ..self }
    }

    /// Returns the number of images above the limit of every model.
    pub(super) fn surplus_images(&self) -> usize {
        self.pictures.saturating_sub(SendableImage::MOST_FOR_ALL)
    }

    /// Adds blocks that entered the conversation.
    pub(crate) fn add_blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.bytes += block.json().len();
            images_in_block(block).into_iter().for_each(|picture| self.add_image(picture));
        }
    }

    fn add_image(&mut self, picture: SendableImage) {
        self.pictures += 1;
        self.largest_side = self.largest_side.max(picture.side);
    }

    /// Checks that the blocks still fit; returns the reason if not.
    pub(crate) fn check_fits(&self, blocks: &[Block]) -> Result<(), PayloadOverflow> {
        let mut then = *self;
        then.add_blocks(blocks);
        match (then.bytes > MAX_BYTES, then.pictures > self.pictures) {
            (true, _) => Err(PayloadOverflow::Bytes),
            (false, true) => then.check_images(),
            (false, false) => Ok(()),
        }
    }

    fn check_images(&self) -> Result<(), PayloadOverflow> {
        if self.pictures > self.most_pictures {
            Err(PayloadOverflow::Images { most: self.most_pictures })
        } else if self.pictures > SendableImage::MANY && self.largest_side > SendableImage::SMALL_SIDE {
            Err(PayloadOverflow::LargeImages)
        } else {
            Ok(())
        }
    }

    /// Removes images and documents of a result that do not fit or are invalid, with a note for each reason, and counts
    /// the others.
    pub(crate) fn fit_content(&mut self, content: &mut ResultContent) {
        let ResultContent::Parts(parts) = content else { return };
        let mut left_out: Vec<(Cow<'static, str>, usize)> = Vec::new();
        let mut refused_documents: Vec<ContentPart> = Vec::new();
        parts.retain(|part| {
            let admitted = match part {
                ContentPart::Text { .. } => return true,
                ContentPart::Image { source } => self.admit_image(source.media_type(), source.data()),
                ContentPart::Document { source } => match self.admit_bytes(source.data().len()) {
                    Ok(()) => return true,
                    Err(full) => {
                        let why = full.explanation();
                        let text = format!("(The document was left out: {why}. Ask for single pages.)");
                        refused_documents.push(ContentPart::Text { text });
                        return false;
                    }
                },
            };
            let Err(why) = admitted else { return true };
            match left_out.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => left_out.push((why, 1)),
            }
            false
        });
        parts.append(&mut refused_documents);
        for (why, count) in left_out {
            let what = if count == 1 { "An image was".to_owned() } else { format!("{count} images were") };
            parts.push(ContentPart::Text { text: format!("({what} left out: {why}.)") });
        }
    }

    fn admit_bytes(&mut self, bytes: usize) -> Result<(), PayloadOverflow> {
        if self.bytes + bytes > MAX_BYTES {
            return Err(PayloadOverflow::Bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    fn admit_image(&mut self, declared: &str, base64: &str) -> Result<(), Cow<'static, str>> {
        let picture = SendableImage::from_base64(base64)?;
        if picture.media_type != declared {
            return Err("it is of another type than it says".into());
        }
        let mut then = *self;
        then.add_image(picture);
        then.admit_bytes(base64.len()).map_err(|full| full.explanation())?;
        then.check_images().map_err(|full| full.explanation())?;
        *self = then;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn png(side: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(side.to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
        STANDARD.encode(bytes)
    }

    fn images(count: usize, side: u32) -> Vec<Block> {
        vec![Block::image(&png(side)).unwrap(); count]
    }

    #[test]
    fn limits_hold_over_the_whole_conversation() {
        let mut room = PayloadBudget::default();
        assert_eq!(room.check_fits(&images(101, 10)), Err(PayloadOverflow::Images { most: 100 }));
        assert_eq!(room.for_window(1_000_000).check_fits(&images(600, 10)), Ok(()));
        assert_eq!(room.for_window(1_000_000).check_fits(&images(601, 10)), Err(PayloadOverflow::Images { most: 600 }));
        room.add_blocks(&images(20, 3000));
        assert_eq!(
            room.check_fits(&images(1, 10)),
            Err(PayloadOverflow::LargeImages),
            "it would spoil those that are there"
        );
        assert_eq!(room.check_fits(&[Block::text("words still fit")]), Ok(()));
        assert_eq!(room.check_fits(&[Block::text(&"x".repeat(MAX_BYTES))]), Err(PayloadOverflow::Bytes));
    }

    #[test]
    fn of_too_many_images_in_a_result_the_first_stay_and_the_rest_are_counted() {
        let mut parts = vec![ContentPart::image("image/png", png(10)); 150];
        parts.push(ContentPart::image("image/png", "AAAA"));
        let mut content = ResultContent::Parts(parts);
        PayloadBudget::default().fit_content(&mut content);
        let ResultContent::Parts(parts) = &content else { panic!() };
        assert_eq!(parts.iter().filter(|part| matches!(part, ContentPart::Image { .. })).count(), 100);
        let said = content.to_text();
        assert!(said.contains("50 images were left out") && said.contains("An image was left out: it is neither"));
    }
}
