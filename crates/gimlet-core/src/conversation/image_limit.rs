//! View of the conversation for a model that accepts few images: the oldest ones are replaced by notes. The
//! conversation keeps them for models that accept more. While the number of images is unchanged, so is every byte of
//! the view.

use std::sync::Arc;

use gimlet_proto::Message;
use gimlet_store::replace_oldest_images;

use super::MessageHistory;

/// Messages that differ in the view.
#[derive(Default)]
pub(super) struct ImageLimitView {
    /// Number of images replaced by notes.
    left_out: usize,
    changed: Vec<(usize, Arc<Message>)>,
    /// Number of replaced images already reported to the user.
    reported: usize,
}

impl MessageHistory {
    /// Returns the messages limited to the images that every model accepts; `None` if they are within the limit.
    pub(crate) fn with_limited_images(&mut self) -> Option<Vec<Arc<Message>>> {
        let surplus = self.payload.surplus_images();
        if surplus == 0 {
            return None;
        }
        if self.few_images.left_out != surplus {
            let changed = replace_oldest_images(self.messages.iter().map(AsRef::as_ref), surplus);
            let changed = changed.into_iter().map(|(at, message)| (at, Arc::new(message))).collect();
            self.few_images = ImageLimitView { left_out: surplus, changed, reported: self.few_images.reported };
        }
        let mut view = self.messages.clone();
        for (at, message) in &self.few_images.changed {
            view[*at] = message.clone();
        }
        Some(view)
    }

    /// Returns the number of images left out for a model that accepts few, if it changed since the last report.
    pub(crate) fn take_omitted_image_count(&mut self) -> Option<usize> {
        let ImageLimitView { left_out, reported, .. } = &mut self.few_images;
        if std::mem::replace(reported, *left_out) == *left_out { None } else { Some(*left_out) }
    }
}
