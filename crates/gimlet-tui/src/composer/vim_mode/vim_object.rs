//! Vim's text objects: words, and what stands between quotes and brackets.

use std::ops::Range;

use super::super::edit_buffer::EditBuffer;
use super::vim_motion::{UnitClass, unit_class};

const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// Returns the text that an object names; `None` if there is none at the cursor.
pub(super) fn object_range(buffer: &EditBuffer, at: usize, is_around: bool, object: char) -> Option<Range<usize>> {
    match object {
        'w' | 'W' => word_range(buffer, at, is_around, object == 'W'),
        '"' | '\'' | '`' => quoted_range(buffer, at, is_around, object),
        _ => {
            let pair = BRACKETS.iter().find(|(open, close)| {
                object == *open
                    || object == *close
                    || (object == 'b' && *open == '(')
                    || (object == 'B' && *open == '{')
            });
            bracketed_range(buffer, at, is_around, *pair?)
        }
    }
}

fn word_range(buffer: &EditBuffer, at: usize, is_around: bool, is_big: bool) -> Option<Range<usize>> {
    let line = buffer.line_range(at);
    if line.is_empty() {
        return None;
    }
    let at = at.min(buffer.previous_border(line.end));
    let run = |from: usize| {
        let class = unit_class(buffer, from, is_big);
        let (mut start, mut end) = (from, buffer.next_border(from));
        while start > line.start && unit_class(buffer, buffer.previous_border(start), is_big) == class {
            start = buffer.previous_border(start);
        }
        while end < line.end && unit_class(buffer, end, is_big) == class {
            end = buffer.next_border(end);
        }
        start..end
    };
    let word = run(at);
    if !is_around {
        return Some(word);
    }
    let is_blank = unit_class(buffer, word.start, is_big) == UnitClass::Blank;
    if word.end < line.end && (is_blank || unit_class(buffer, word.end, is_big) == UnitClass::Blank) {
        return Some(word.start..run(word.end).end);
    }
    let has_blank_before =
        word.start > line.start && unit_class(buffer, buffer.previous_border(word.start), is_big) == UnitClass::Blank;
    if has_blank_before { Some(run(buffer.previous_border(word.start)).start..word.end) } else { Some(word) }
}

fn quoted_range(buffer: &EditBuffer, at: usize, is_around: bool, quote: char) -> Option<Range<usize>> {
    let line = buffer.line_range(at);
    let text = buffer.slice(line.clone());
    let mut places = Vec::new();
    let mut is_escaped = false;
    for (index, char) in text.char_indices() {
        if char == quote && !is_escaped {
            places.push(line.start + index);
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    let pair = places.chunks_exact(2).find(|pair| at <= pair[1])?;
    Some(if is_around { pair[0]..pair[1] + 1 } else { pair[0] + 1..pair[1] })
}

fn bracketed_range(buffer: &EditBuffer, at: usize, is_around: bool, pair: (char, char)) -> Option<Range<usize>> {
    let open = enclosing_open(buffer.text(), at, pair)?;
    let close = closing_of(buffer.text(), open, pair)?;
    Some(if is_around { open..close + 1 } else { open + 1..close })
}

fn enclosing_open(text: &str, at: usize, (open, close): (char, char)) -> Option<usize> {
    if text.get(at..)?.starts_with(open) {
        return Some(at);
    }
    let mut depth = 0;
    for (index, char) in text.get(..at)?.char_indices().rev() {
        if char == close {
            depth += 1;
        } else if char == open {
            if depth == 0 {
                return Some(index);
            }
            depth -= 1;
        }
    }
    None
}

fn closing_of(text: &str, open_at: usize, (open, close): (char, char)) -> Option<usize> {
    let mut depth = 0;
    for (index, char) in text.get(open_at..)?.char_indices() {
        if char == open {
            depth += 1;
        } else if char == close {
            depth -= 1;
            if depth == 0 {
                return Some(open_at + index);
            }
        }
    }
    None
}

/// Returns the partner of the first bracket at or after an index in its line.
pub(super) fn matching_bracket(buffer: &EditBuffer, from: usize) -> Option<usize> {
    let text = buffer.text();
    let line = buffer.line_range(from);
    let brackets = &BRACKETS[..3];
    let is_bracket = |char: char| brackets.iter().any(|(open, close)| char == *open || char == *close);
    let at = from + text.get(from..line.end)?.find(is_bracket)?;
    let char = text.get(at..)?.chars().next()?;
    let pair = *brackets.iter().find(|(open, close)| char == *open || char == *close)?;
    if char == pair.0 { closing_of(text, at, pair) } else { enclosing_open(text, at, pair) }
}
