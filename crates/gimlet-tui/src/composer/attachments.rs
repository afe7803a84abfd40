//! Long pasted text and images, which stand in a draft as short placeholders.

use gimlet_proto::Block;

use super::composed_prompt::PastedText;

/// Pasted text of more characters or lines stands as a placeholder.
const MAX_INLINE_CHARS: usize = 800;
const MAX_INLINE_LINES: usize = 2;

/// What a placeholder stands for.
#[derive(Clone, Debug)]
enum AttachmentContent {
    Text(String),
    Image(Block),
}

#[derive(Clone, Debug)]
struct DraftAttachment {
    number: usize,
    placeholder: String,
    content: AttachmentContent,
}

/// Attachments of the drafts of a session. Numbers are never used twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachmentStore {
    last_number: usize,
    items: Vec<DraftAttachment>,
}

/// Returns true for pasted text that is too long to stand in the input.
pub(crate) fn must_be_folded(text: &str) -> bool {
    text.lines().nth(MAX_INLINE_LINES).is_some() || text.chars().nth(MAX_INLINE_CHARS).is_some()
}

/// Returns the placeholder of pasted text. It counts line breaks.
pub(crate) fn text_placeholder(number: usize, text: &str) -> String {
    match text.matches('\n').count() {
        0 => format!("[Pasted text #{number}]"),
        1 => format!("[Pasted text #{number} +1 line]"),
        count => format!("[Pasted text #{number} +{count} lines]"),
    }
}

impl AttachmentStore {
    /// Keeps a text; returns its placeholder.
    pub(crate) fn add_text(&mut self, text: String) -> String {
        let placeholder = text_placeholder(self.last_number + 1, &text);
        self.add(placeholder, AttachmentContent::Text(text))
    }

    /// Keeps an image; returns its placeholder.
    pub(crate) fn add_image(&mut self, image: Block) -> String {
        let placeholder = format!("[Image #{}]", self.last_number + 1);
        self.add(placeholder, AttachmentContent::Image(image))
    }

    fn add(&mut self, placeholder: String, content: AttachmentContent) -> String {
        self.last_number += 1;
        self.items.push(DraftAttachment { number: self.last_number, placeholder: placeholder.clone(), content });
        placeholder
    }

    /// Returns the pasted texts whose placeholders stand in a text, in their order there.
    pub(crate) fn texts_in(&self, text: &str) -> Vec<PastedText> {
        let mut found: Vec<(usize, PastedText)> = Vec::new();
        for item in &self.items {
            if let (Some(at), AttachmentContent::Text(content)) = (text.find(&item.placeholder), &item.content) {
                let (number, placeholder) = (item.number, item.placeholder.clone());
                found.push((at, PastedText { number, placeholder, text: content.clone() }));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, pasted)| pasted).collect()
    }

    /// Returns the images whose placeholders stand in a text, in their order there.
    pub(crate) fn images_in(&self, text: &str) -> Vec<Block> {
        let mut found: Vec<(usize, &Block)> = Vec::new();
        for item in &self.items {
            if let (Some(at), AttachmentContent::Image(image)) = (text.find(&item.placeholder), &item.content) {
                found.push((at, image));
            }
        }
        found.sort_by_key(|(at, _)| *at);
        found.into_iter().map(|(_, image)| image.clone()).collect()
    }

    /// Forgets what stands in none of these drafts.
    pub(crate) fn retain_used<'a>(&mut self, drafts: impl Iterator<Item = &'a str> + Clone) {
        self.items.retain(|item| drafts.clone().any(|draft| draft.contains(&item.placeholder)));
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| item.placeholder.as_str())
    }
}

/// Returns the paths of a paste that consists of image files alone: what terminals paste when files are dropped on them.
pub(crate) fn dropped_images(text: &str) -> Option<Vec<String>> {
    const EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];
    let text = text.trim();
    if text.is_empty() || text.contains('\n') || text.len() > 4096 {
        return None;
    }
    let words = split_dropped_words(text);
    let is_image = |word: &String| {
        let is_path = word.starts_with('/') || word.starts_with("~/") || word.get(1..3) == Some(":\\");
        let extension = word.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        is_path && extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
    };
    if !words.is_empty() && words.iter().all(is_image) { Some(words) } else { None }
}

/// Divides a line into words as a shell would: quotes and backslashes keep spaces. `file://` goes from the start of each.
fn split_dropped_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (Some(_), _) => word.push(char),
            (None, '\'' | '"') => quote = Some(char),
            (None, '\\') if chars.peek().is_some_and(|next| !next.is_alphanumeric()) => word.extend(chars.next()),
            (None, ' ' | '\t') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (None, _) => word.push(char),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.into_iter().map(|word| file_url_path(&word).unwrap_or(word)).collect()
}

fn file_url_path(word: &str) -> Option<String> {
    let path = word.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_files_are_images_only_if_all_are() {
        let words = |text| dropped_images(text).unwrap_or_default();
        assert_eq!(words("/tmp/a.png"), ["/tmp/a.png"]);
        assert_eq!(words(" '/tmp/a b.PNG' /x/c\\ d.jpg \n"), ["/tmp/a b.PNG", "/x/c d.jpg"]);
        assert_eq!(words("file:///tmp/a%20b.webp"), ["/tmp/a b.webp"]);
        assert_eq!(words("~/shot.gif"), ["~/shot.gif"]);
        for other in ["", "a.png", "/tmp/a.png and more", "/tmp/a.txt", "/a.png\n/b.png", "see /tmp/a.png"] {
            assert_eq!(dropped_images(other), None, "{other}");
        }
    }

    #[test]
    fn long_pastes_are_folded_and_count_their_line_breaks() {
        assert!(!must_be_folded("one\ntwo\n") && must_be_folded("one\ntwo\nthree"));
        assert!(!must_be_folded(&"x".repeat(800)) && must_be_folded(&"é".repeat(801)));
        let mut store = AttachmentStore::default();
        assert_eq!(store.add_text("a\nb\nc".to_owned()), "[Pasted text #1 +2 lines]");
        assert_eq!(store.add_text("a\nb".to_owned()), "[Pasted text #2 +1 line]");
        assert_eq!(store.add_text("x".to_owned()), "[Pasted text #3]");
        assert_eq!(store.add_image(Block::text("stands for one")), "[Image #4]");
        store.retain_used(["see [Pasted text #2 +1 line] again"].into_iter());
        assert_eq!(store.placeholders().collect::<Vec<_>>(), ["[Pasted text #2 +1 line]"]);
        assert_eq!(store.add_text("y".to_owned()), "[Pasted text #5]", "numbers are not used twice");
    }
}
