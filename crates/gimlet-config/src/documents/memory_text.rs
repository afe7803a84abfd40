//! Text of memory files: comments that the model does not get, and the files that a text imports.

/// Returns true if the target of an import is probably a file's path, not a name such as `@media`.
pub(super) fn is_path_like(target: &str) -> bool {
    let last = target.rsplit('/').next().unwrap_or_default();
    let has_extension = last.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && !extension.is_empty() && extension.chars().all(|char| char.is_ascii_alphanumeric())
    });
    has_extension || ["./", "../", "~/", "/"].iter().any(|start| target.starts_with(start))
}

/// Fenced code block that a line is in.
#[derive(Default)]
struct FenceTracker {
    open: Option<(char, usize)>,
}

impl FenceTracker {
    /// Returns true if the line is part of a code block, its borders included.
    fn is_code(&mut self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let count = mark.map_or(0, |mark| text.chars().take_while(|char| *char == mark).count());
        match (self.open, mark) {
            (Some((open, length)), _) => {
                let rest = text.trim_start_matches(open);
                if indent < 4 && mark == Some(open) && count >= length && rest.trim().is_empty() {
                    self.open = None;
                }
                true
            }
            (None, Some(mark)) if indent < 4 && count >= 3 && (mark == '~' || !text[count..].contains('`')) => {
                self.open = Some((mark, count));
                true
            }
            (None, _) => false,
        }
    }
}

/// Returns the text without HTML comments that begin a line outside code blocks.
pub(super) fn strip_comments(text: &str) -> String {
    if memchr::memmem::find(text.as_bytes(), b"<!--").is_none() {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len());
    let mut fences = FenceTracker::default();
    let mut at = 0;
    while at < text.len() {
        let line_end = text[at..].find('\n').map_or(text.len(), |length| at + length + 1);
        let line = &text[at..line_end];
        let indent = line.len() - line.trim_start_matches(' ').len();
        let begins_comment = fences.open.is_none() && indent < 4 && line[indent..].starts_with("<!--");
        // A comment that never ends is text.
        let comment_end = begins_comment.then(|| text[at..].find("-->").map(|length| at + length + 3)).flatten();
        let Some(comment_end) = comment_end else {
            fences.is_code(line);
            kept.push_str(line);
            at = line_end;
            continue;
        };
        let rest_end = text[comment_end..].find('\n').map_or(text.len(), |length| comment_end + length + 1);
        let rest = &text[comment_end..rest_end];
        if !rest.trim().is_empty() {
            kept.push_str(rest.trim_start_matches(' '));
        }
        at = rest_end;
    }
    kept
}

/// Returns the files that a text imports: `@path` at the start of a line or after a space, outside code.
pub(super) fn find_imports(text: &str) -> Vec<String> {
    let mut imports: Vec<String> = Vec::new();
    if memchr::memchr(b'@', text.as_bytes()).is_none() {
        return imports;
    }
    let mut fences = FenceTracker::default();
    for line in text.lines() {
        if fences.is_code(line) || !line.contains('@') {
            continue;
        }
        let prose = blank_code_spans(line);
        let mut from = 0;
        while let Some(found) = prose[from..].find('@').map(|offset| from + offset) {
            from = found + 1;
            if !prose[..found].chars().next_back().is_none_or(char::is_whitespace) {
                continue;
            }
            if let Some(target) = read_target(&prose[from..])
                && !imports.contains(&target)
            {
                imports.push(target);
            }
        }
    }
    imports
}

/// Returns the path at the start of a text, in which a backslash precedes a space.
fn read_target(text: &str) -> Option<String> {
    let mut target = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.peek() == Some(&' ') => target.extend(chars.next()),
            _ if char.is_whitespace() => break,
            _ => target.push(char),
        }
    }
    let target = target.split('#').next().unwrap_or_default();
    let target = target.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'', '>', '*']);
    let begins_path = target.starts_with(|first: char| first.is_alphanumeric() || "~/._-".contains(first));
    (begins_path && target != "~").then(|| target.to_owned())
}

/// Returns a line with spaces in place of its code spans.
fn blank_code_spans(line: &str) -> String {
    let mut prose = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let marks = rest[start..].chars().take_while(|char| *char == '`').count();
        prose.push_str(&rest[..start]);
        let inside = &rest[start + marks..];
        match find_closing_marks(inside, marks) {
            Some(end) => {
                prose.push_str(&" ".repeat(2 * marks + end));
                rest = &inside[end + marks..];
            }
            None => {
                prose.push_str(&rest[start..start + marks]);
                rest = inside;
            }
        }
    }
    prose + rest
}

/// Returns the position of exactly so many backticks.
fn find_closing_marks(text: &str, marks: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text[at..].find('`').map(|offset| at + offset) {
        let count = text[found..].chars().take_while(|char| *char == '`').count();
        if count == marks {
            return Some(found);
        }
        at = found + count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_code_stays() {
        for (text, kept) in [
            ("a\n<!-- note -->\nb\n", "a\nb\n"),
            ("a\n<!-- two\nlines --> rest\nb", "a\nrest\nb"),
            ("a <!-- inline --> b\n", "a <!-- inline --> b\n"),
            ("```html\n<!-- kept -->\n```\n<!-- gone -->\n", "```html\n<!-- kept -->\n```\n"),
            ("<!-- ```\n-->\n<!-- gone -->\nx", "x"),
            ("<!-- never ends\nb\n", "<!-- never ends\nb\n"),
            ("    <!-- code -->\n", "    <!-- code -->\n"),
        ] {
            assert_eq!(strip_comments(text), kept, "{text}");
        }
    }

    #[test]
    fn imports_are_found_outside_code() {
        let text = "See @docs/a.md, @~/b.md and (@no/c.md).\n@./d\\ e.md\n`@f.md` ``@g.md ` `` @h.md\n\
                    ```\n@i.md\n```\nme@example.com @docs/a.md\n~~~~\n@j.md\n~~~\n@k.md\n~~~~\n@README @@x\n";
        assert_eq!(find_imports(text), ["docs/a.md", "~/b.md", "./d e.md", "h.md", "README"]);
    }
}
