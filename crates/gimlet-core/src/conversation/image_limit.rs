//! The conversation as it goes to a model that takes few images: notes stand in the place of the oldest ones. It is a view:
//! the conversation keeps them for models that take more. While the number of images stays the same, so does every byte.

use std::sync::Arc;

use gimlet_proto::Message;
use gimlet_store::replace_oldest_images;

use super::Conversation;

/// The messages that differ.
#[derive(Default)]
pub(super) struct ImageLimitView {
    /// How many images notes stand for.
    left_out: usize,
    changed: Vec<(usize, Arc<Message>)>,
    /// How many of them the person was told of.
    told: usize,
}

impl Conversation {
    /// The messages with no more images than every model takes; `None` when they have no more.
    pub(crate) fn with_limited_images(&mut self) -> Option<Vec<Arc<Message>>> {
        let surplus = self.room.surplus_images();
        if surplus == 0 {
            return None;
        }
        if self.few_images.left_out != surplus {
            let changed = replace_oldest_images(self.messages.iter().map(AsRef::as_ref), surplus);
            let changed = changed.into_iter().map(|(at, message)| (at, Arc::new(message))).collect();
            self.few_images = ImageLimitView { left_out: surplus, changed, told: self.few_images.told };
        }
        let mut view = self.messages.clone();
        for (at, message) in &self.few_images.changed {
            view[*at] = message.clone();
        }
        Some(view)
    }

    /// How many images are left out for a model that takes few, if nobody was told so yet.
    pub(crate) fn take_omitted_image_count(&mut self) -> Option<usize> {
        let ImageLimitView { left_out, told, .. } = &mut self.few_images;
        (std::mem::replace(told, *left_out) != *left_out).then_some(*left_out)
    }
}
