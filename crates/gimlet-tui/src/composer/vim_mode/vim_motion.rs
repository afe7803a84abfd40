//! Where vim's motions lead.

use super::super::edit_buffer::EditBuffer;
use super::MAX_COUNT;
use super::vim_object::matching_bracket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimMotion {
    Left,
    Right,
    Up,
    Down,
    WordForward {
        is_big: bool,
    },
    WordBack {
        is_big: bool,
    },
    WordEnd {
        is_big: bool,
    },
    LineStart,
    FirstNonblank,
    LineEnd,
    FirstLine,
    LastLine,
    /// `f`, `F`, `t` or `T` and a character.
    Find {
        kind: char,
        target: char,
    },
    FindAgain {
        is_reversed: bool,
    },
    MatchingBracket,
}

/// The last search for a character in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FindMemory {
    kind: char,
    target: char,
}

/// How much of the way an operator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MotionSpan {
    Exclusive,
    Inclusive,
    Linewise,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MotionTarget {
    pub(super) at: usize,
    pub(super) span: MotionSpan,
}

impl VimMotion {
    /// Returns the direction of a motion by rows of the screen.
    pub(super) fn rows(self) -> Option<isize> {
        match self {
            VimMotion::Up => Some(-1),
            VimMotion::Down => Some(1),
            _ => None,
        }
    }

    pub(super) fn is_word_forward(self) -> bool {
        matches!(self, VimMotion::WordForward { .. })
    }

    /// Changing a word leaves the space behind it.
    pub(super) fn for_change(self, buffer: &EditBuffer, at: usize) -> Self {
        match self {
            VimMotion::WordForward { is_big } if unit_class(buffer, at, is_big) != UnitClass::Blank => {
                VimMotion::WordEnd { is_big }
            }
            other => other,
        }
    }
}

/// Kind of a visible character, as words are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitClass {
    Blank,
    Word,
    Punctuation,
}

/// Returns the kind of the unit at a border.
pub(super) fn unit_class(buffer: &EditBuffer, at: usize, is_big: bool) -> UnitClass {
    let unit = buffer.slice(at..buffer.next_border(at));
    match unit.chars().next() {
        None => UnitClass::Blank,
        Some(char) if char.is_whitespace() => UnitClass::Blank,
        Some(char) if is_big || char.is_alphanumeric() || char == '_' || unit.len() > char.len_utf8() => {
            UnitClass::Word
        }
        Some(_) => UnitClass::Punctuation,
    }
}

/// Returns where a motion leads; `None` if it leads nowhere.
pub(super) fn motion_target(
    buffer: &EditBuffer,
    from: usize,
    motion: VimMotion,
    count: Option<usize>,
    memory: &mut Option<FindMemory>,
) -> Option<MotionTarget> {
    let times = count.unwrap_or(1).min(MAX_COUNT);
    let line = buffer.line_range(from);
    let mut at = from;
    let mut repeat = |step: &dyn Fn(usize) -> usize| {
        for _ in 0..times {
            at = step(at);
        }
        at
    };
    let (at, span) = match motion {
        VimMotion::Left => {
            (repeat(&|at| if at > line.start { buffer.previous_border(at) } else { at }), MotionSpan::Exclusive)
        }
        VimMotion::Right => {
            (repeat(&|at| if at < line.end { buffer.next_border(at) } else { at }), MotionSpan::Exclusive)
        }
        VimMotion::Up => {
            let mut target = line.clone();
            for _ in 0..times {
                target = buffer.line_above(target.start)?;
            }
            (target.start, MotionSpan::Linewise)
        }
        VimMotion::Down => {
            let mut target = line.clone();
            for _ in 0..times {
                target = buffer.line_below(target.start)?;
            }
            (target.start, MotionSpan::Linewise)
        }
        VimMotion::WordForward { is_big } => (repeat(&|at| next_word_start(buffer, at, is_big)), MotionSpan::Exclusive),
        VimMotion::WordBack { is_big } => (repeat(&|at| word_start_back(buffer, at, is_big)), MotionSpan::Exclusive),
        VimMotion::WordEnd { is_big } => (repeat(&|at| word_end(buffer, at, is_big)), MotionSpan::Inclusive),
        VimMotion::LineStart => (line.start, MotionSpan::Exclusive),
        VimMotion::FirstNonblank => (buffer.first_nonblank(from), MotionSpan::Exclusive),
        VimMotion::LineEnd => {
            let mut target = line;
            for _ in 1..times {
                target = buffer.line_below(target.start).unwrap_or(target);
            }
            (target.end, MotionSpan::Exclusive)
        }
        VimMotion::FirstLine => (nth_line(buffer, count.unwrap_or(1)), MotionSpan::Linewise),
        VimMotion::LastLine => match count {
            Some(number) => (nth_line(buffer, number), MotionSpan::Linewise),
            None => (buffer.first_nonblank(buffer.text().len()), MotionSpan::Linewise),
        },
        VimMotion::Find { kind, target } => {
            *memory = Some(FindMemory { kind, target });
            find_in_line(buffer, from, kind, target, times, false)?
        }
        VimMotion::FindAgain { is_reversed } => {
            let FindMemory { kind, target } = (*memory)?;
            let kind = if is_reversed { swap_case(kind) } else { kind };
            find_in_line(buffer, from, kind, target, times, true)?
        }
        VimMotion::MatchingBracket => (matching_bracket(buffer, from)?, MotionSpan::Inclusive),
    };
    Some(MotionTarget { at, span })
}

fn swap_case(kind: char) -> char {
    if kind.is_uppercase() { kind.to_ascii_lowercase() } else { kind.to_ascii_uppercase() }
}

fn nth_line(buffer: &EditBuffer, number: usize) -> usize {
    let mut line = buffer.line_range(0);
    for _ in 1..number {
        match buffer.line_below(line.start) {
            Some(below) => line = below,
            None => break,
        }
    }
    buffer.first_nonblank(line.start)
}

/// Finds the n-th occurrence of a character in the line. A repeated `t` does not stay where it is.
fn find_in_line(
    buffer: &EditBuffer,
    from: usize,
    kind: char,
    target: char,
    times: usize,
    is_repeated: bool,
) -> Option<(usize, MotionSpan)> {
    let units = buffer.line_units(from);
    let is_target = |unit: &&std::ops::Range<usize>| buffer.slice((*unit).clone()).starts_with(target);
    if kind.is_lowercase() {
        let mut skipped = from;
        if kind == 't' && is_repeated {
            skipped = buffer.next_border(from);
        }
        let found = units.iter().filter(|unit| unit.start > skipped).filter(is_target).nth(times - 1)?;
        let at = if kind == 't' { buffer.previous_border(found.start) } else { found.start };
        return Some((at, MotionSpan::Inclusive));
    }
    let mut before = from;
    if kind == 'T' && is_repeated {
        before = buffer.previous_border(from);
    }
    let found = units.iter().rev().filter(|unit| unit.start < before).filter(is_target).nth(times - 1)?;
    let at = if kind == 'T' { found.end } else { found.start };
    Some((at, MotionSpan::Exclusive))
}

fn is_empty_line(buffer: &EditBuffer, at: usize) -> bool {
    buffer.line_range(at).is_empty()
}

fn next_word_start(buffer: &EditBuffer, from: usize, is_big: bool) -> usize {
    let end = buffer.text().len();
    let class = unit_class(buffer, from, is_big);
    let mut at = from;
    if class == UnitClass::Blank && at < end && is_empty_line(buffer, at) {
        at = buffer.next_border(at);
    }
    while at < end && class != UnitClass::Blank && unit_class(buffer, at, is_big) == class {
        at = buffer.next_border(at);
    }
    while at < end && unit_class(buffer, at, is_big) == UnitClass::Blank {
        // An empty line is a word.
        if at > from && is_empty_line(buffer, at) {
            break;
        }
        at = buffer.next_border(at);
    }
    at
}

fn word_start_back(buffer: &EditBuffer, from: usize, is_big: bool) -> usize {
    let mut at = from;
    while at > 0 {
        let before = buffer.previous_border(at);
        if unit_class(buffer, before, is_big) != UnitClass::Blank {
            break;
        }
        at = before;
        if is_empty_line(buffer, at) {
            return at;
        }
    }
    if at == 0 {
        return 0;
    }
    let class = unit_class(buffer, buffer.previous_border(at), is_big);
    while at > 0 && unit_class(buffer, buffer.previous_border(at), is_big) == class {
        at = buffer.previous_border(at);
    }
    at
}

fn word_end(buffer: &EditBuffer, from: usize, is_big: bool) -> usize {
    let end = buffer.text().len();
    let mut at = buffer.next_border(from);
    while at < end && unit_class(buffer, at, is_big) == UnitClass::Blank {
        at = buffer.next_border(at);
    }
    if at >= end {
        return buffer.previous_border(end);
    }
    let class = unit_class(buffer, at, is_big);
    loop {
        let next = buffer.next_border(at);
        if next >= end || unit_class(buffer, next, is_big) != class {
            return at;
        }
        at = next;
    }
}
