//! How much a conversation carries, and what still fits: everything in it goes with every later request, so whatever does
//! not fit must be noticed before it is in.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_proto::{Block, ContentPart, Message, Picture, ResultContent};
use gimlet_store::pictures_in;

/// The bytes of all messages together; servers take 32 MB, and the rest of a request needs its place.
const MAX_BYTES: usize = 28_000_000;

/// What a conversation carries that servers set limits on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    bytes: usize,
    pictures: usize,
    largest_side: u32,
    most_pictures: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: 0, pictures: 0, largest_side: 0, most_pictures: Picture::MOST_FOR_ALL }
    }
}

/// Why something does not fit, in words that follow "it" or "they".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Bytes,
    Pictures { most: usize },
    LargePictures,
}

impl Full {
    pub(crate) fn words(&self) -> Cow<'static, str> {
        match self {
            Full::Bytes => "the conversation would have more than 28 MB, which is more than a request can carry".into(),
            Full::Pictures { most } => {
                format!("the conversation would have more than {most} images, which is more than a request can carry")
                    .into()
            }
            Full::LargePictures => {
                "in a conversation of more than 20 images none can have more than 2,000 pixels on a side".into()
            }
        }
    }
}

impl Room {
    /// What these messages carry.
    pub(crate) fn of(messages: &[Arc<Message>]) -> Self {
        let mut room = Self::default();
        messages.iter().for_each(|message| room.add(&message.blocks));
        room
    }

    /// With as many images as go to a model with this window.
    pub(crate) fn within(self, window: u64) -> Self {
        Self { most_pictures: Picture::most_in(window), ..self }
    }

    /// How many images there are beyond those that every model takes.
    pub(super) fn surplus(&self) -> usize {
        self.pictures.saturating_sub(Picture::MOST_FOR_ALL)
    }

    /// Takes note of what entered the conversation.
    pub(crate) fn add(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.bytes += block.json().len();
            pictures_in(block).into_iter().for_each(|picture| self.hang(picture));
        }
    }

    fn hang(&mut self, picture: Picture) {
        self.pictures += 1;
        self.largest_side = self.largest_side.max(picture.side);
    }

    /// Whether these blocks still fit.
    pub(crate) fn takes(&self, blocks: &[Block]) -> Result<(), Full> {
        let mut then = *self;
        then.add(blocks);
        match (then.bytes > MAX_BYTES, then.pictures > self.pictures) {
            (true, _) => Err(Full::Bytes),
            (false, true) => then.gallery(),
            (false, false) => Ok(()),
        }
    }

    fn gallery(&self) -> Result<(), Full> {
        if self.pictures > self.most_pictures {
            Err(Full::Pictures { most: self.most_pictures })
        } else if self.pictures > Picture::MANY && self.largest_side > Picture::SMALL_SIDE {
            Err(Full::LargePictures)
        } else {
            Ok(())
        }
    }

    /// Leaves out the images of a result that do not fit or are none, with a note for each reason, and takes note of
    /// those that stay.
    pub(crate) fn fit(&mut self, content: &mut ResultContent) {
        let ResultContent::Parts(parts) = content else { return };
        let mut left_out: Vec<(Cow<'static, str>, usize)> = Vec::new();
        parts.retain(|part| {
            let ContentPart::Image { source } = part else { return true };
            let why = match self.admit(source.media_type(), source.data()) {
                Ok(()) => return true,
                Err(why) => why,
            };
            match left_out.iter_mut().find(|(known, _)| *known == why) {
                Some((_, count)) => *count += 1,
                None => left_out.push((why, 1)),
            }
            false
        });
        for (why, count) in left_out {
            let what = if count == 1 { "An image was".to_owned() } else { format!("{count} images were") };
            parts.push(ContentPart::Text { text: format!("({what} left out: {why}.)") });
        }
    }

    fn admit(&mut self, declared: &str, base64: &str) -> Result<(), Cow<'static, str>> {
        let picture = Picture::look(base64)?;
        if picture.media_type != declared {
            return Err("it is of another type than it says".into());
        }
        let mut then = *self;
        then.hang(picture);
        then.bytes += base64.len();
        if then.bytes > MAX_BYTES {
            return Err(Full::Bytes.words());
        }
        then.gallery().map_err(|full| full.words())?;
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
        let mut room = Room::default();
        assert_eq!(room.takes(&images(101, 10)), Err(Full::Pictures { most: 100 }));
        assert_eq!(room.within(1_000_000).takes(&images(600, 10)), Ok(()));
        assert_eq!(room.within(1_000_000).takes(&images(601, 10)), Err(Full::Pictures { most: 600 }));
        room.add(&images(20, 3000));
        assert_eq!(room.takes(&images(1, 10)), Err(Full::LargePictures), "it would spoil those that are there");
        assert_eq!(room.takes(&[Block::text("words still fit")]), Ok(()));
        assert_eq!(room.takes(&[Block::text(&"x".repeat(MAX_BYTES))]), Err(Full::Bytes));
    }

    #[test]
    fn of_too_many_images_in_a_result_the_first_stay_and_the_rest_are_counted() {
        let mut parts = vec![ContentPart::image("image/png", png(10)); 150];
        parts.push(ContentPart::image("image/png", "AAAA"));
        let mut content = ResultContent::Parts(parts);
        Room::default().fit(&mut content);
        let ResultContent::Parts(parts) = &content else { panic!() };
        assert_eq!(parts.iter().filter(|part| matches!(part, ContentPart::Image { .. })).count(), 100);
        let said = content.to_text();
        assert!(said.contains("50 images were left out") && said.contains("An image was left out: it is neither"));
    }
}
