//! Commands of vim's normal and visual mode, read key by key.

use super::vim_motion::VimMotion;

/// A complete command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VimCommand {
    pub(super) count: Option<usize>,
    pub(super) action: VimAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimOperator {
    Delete,
    Change,
    Yank,
    Indent,
    Outdent,
}

/// What an operator is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimReach {
    Motion(VimMotion),
    Object {
        is_around: bool,
        object: char,
    },
    /// Whole lines: the operator's key twice.
    Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimAction {
    Move(VimMotion),
    Operate { operator: VimOperator, reach: VimReach },
    InsertBefore,
    InsertAfter,
    InsertAtStart,
    InsertAtEnd,
    OpenBelow,
    OpenAbove,
    Put { is_before: bool },
    Join,
    ToggleCase,
    ReplaceChar(char),
    Undo,
    Repeat,
    Select { is_linewise: bool },
    SearchHistory,
    // Of selected text only.
    OperateSelection(VimOperator),
    Object { is_around: bool, object: char },
    SetCase { is_upper: bool },
    PutOver,
    SwapEnds,
}

impl VimAction {
    /// Returns true for what `.` makes again.
    pub(super) fn is_change(self) -> bool {
        match self {
            VimAction::Operate { operator, .. } => operator != VimOperator::Yank,
            VimAction::InsertBefore
            | VimAction::InsertAfter
            | VimAction::InsertAtStart
            | VimAction::InsertAtEnd
            | VimAction::OpenBelow
            | VimAction::OpenAbove
            | VimAction::Put { .. }
            | VimAction::Join
            | VimAction::ToggleCase
            | VimAction::ReplaceChar(_) => true,
            _ => false,
        }
    }
}

/// What keys amount to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandParse {
    Complete(VimCommand),
    Incomplete,
    Invalid,
}

/// Reads the keys of a command.
pub(super) fn parse_command(keys: &[char], is_visual: bool) -> CommandParse {
    let (count, rest) = take_count(keys);
    let Some((first, rest)) = rest.split_first() else { return CommandParse::Incomplete };
    let complete = |action| CommandParse::Complete(VimCommand { count, action });
    let operator_of = |char: char| match char {
        'd' => Some(VimOperator::Delete),
        'c' => Some(VimOperator::Change),
        'y' => Some(VimOperator::Yank),
        '>' => Some(VimOperator::Indent),
        '<' => Some(VimOperator::Outdent),
        _ => None,
    };
    if *first == 'r' {
        return match rest.first() {
            Some(char) => complete(VimAction::ReplaceChar(*char)),
            None => CommandParse::Incomplete,
        };
    }
    if is_visual {
        let action = match first {
            'x' => Some(VimAction::OperateSelection(VimOperator::Delete)),
            's' => Some(VimAction::OperateSelection(VimOperator::Change)),
            'p' | 'P' => Some(VimAction::PutOver),
            '~' => Some(VimAction::ToggleCase),
            'u' => Some(VimAction::SetCase { is_upper: false }),
            'U' => Some(VimAction::SetCase { is_upper: true }),
            'J' => Some(VimAction::Join),
            'o' => Some(VimAction::SwapEnds),
            'v' => Some(VimAction::Select { is_linewise: false }),
            'V' => Some(VimAction::Select { is_linewise: true }),
            char => operator_of(*char).map(VimAction::OperateSelection),
        };
        if let Some(action) = action {
            return complete(action);
        }
        if let 'i' | 'a' = first {
            return match rest.first() {
                Some(object) => complete(VimAction::Object { is_around: *first == 'a', object: *object }),
                None => CommandParse::Incomplete,
            };
        }
        return parse_motion(*first, rest, |motion| complete(VimAction::Move(motion)));
    }
    if let Some(operator) = operator_of(*first) {
        let (inner, rest) = take_count(rest);
        // 2d3w reaches over six words.
        let count = match (count, inner) {
            (Some(outer), Some(inner)) => Some(outer.saturating_mul(inner)),
            (outer, inner) => outer.or(inner),
        };
        let with = |reach| CommandParse::Complete(VimCommand { count, action: VimAction::Operate { operator, reach } });
        return match rest.split_first() {
            None => CommandParse::Incomplete,
            Some((second, _)) if second == first => with(VimReach::Lines),
            Some((second @ ('i' | 'a'), rest)) => match rest.first() {
                Some(object) => with(VimReach::Object { is_around: *second == 'a', object: *object }),
                None => CommandParse::Incomplete,
            },
            Some((second, rest)) => parse_motion(*second, rest, |motion| with(VimReach::Motion(motion))),
        };
    }
    let operate = |operator, reach| complete(VimAction::Operate { operator, reach });
    match first {
        'x' => operate(VimOperator::Delete, VimReach::Motion(VimMotion::Right)),
        'X' => operate(VimOperator::Delete, VimReach::Motion(VimMotion::Left)),
        'D' => operate(VimOperator::Delete, VimReach::Motion(VimMotion::LineEnd)),
        'C' => operate(VimOperator::Change, VimReach::Motion(VimMotion::LineEnd)),
        's' => operate(VimOperator::Change, VimReach::Motion(VimMotion::Right)),
        'S' => operate(VimOperator::Change, VimReach::Lines),
        'Y' => operate(VimOperator::Yank, VimReach::Lines),
        'i' => complete(VimAction::InsertBefore),
        'a' => complete(VimAction::InsertAfter),
        'I' => complete(VimAction::InsertAtStart),
        'A' => complete(VimAction::InsertAtEnd),
        'o' => complete(VimAction::OpenBelow),
        'O' => complete(VimAction::OpenAbove),
        'p' => complete(VimAction::Put { is_before: false }),
        'P' => complete(VimAction::Put { is_before: true }),
        'J' => complete(VimAction::Join),
        '~' => complete(VimAction::ToggleCase),
        'u' => complete(VimAction::Undo),
        '.' => complete(VimAction::Repeat),
        'v' => complete(VimAction::Select { is_linewise: false }),
        'V' => complete(VimAction::Select { is_linewise: true }),
        '/' => complete(VimAction::SearchHistory),
        _ => parse_motion(*first, rest, |motion| complete(VimAction::Move(motion))),
    }
}

fn take_count(keys: &[char]) -> (Option<usize>, &[char]) {
    // A zero alone is a motion.
    if !keys.first().is_some_and(|char| ('1'..='9').contains(char)) {
        return (None, keys);
    }
    let digits = keys.iter().take_while(|char| char.is_ascii_digit()).count();
    let (number, rest) = keys.split_at(digits);
    let text: String = number.iter().collect();
    (Some(text.parse().unwrap_or(usize::MAX)), rest)
}

fn parse_motion(first: char, rest: &[char], complete: impl Fn(VimMotion) -> CommandParse) -> CommandParse {
    let motion = match first {
        'h' => VimMotion::Left,
        'l' | ' ' => VimMotion::Right,
        'j' => VimMotion::Down,
        'k' => VimMotion::Up,
        'w' | 'W' => VimMotion::WordForward { is_big: first == 'W' },
        'b' | 'B' => VimMotion::WordBack { is_big: first == 'B' },
        'e' | 'E' => VimMotion::WordEnd { is_big: first == 'E' },
        '0' => VimMotion::LineStart,
        '^' | '_' => VimMotion::FirstNonblank,
        '$' => VimMotion::LineEnd,
        'G' => VimMotion::LastLine,
        ';' => VimMotion::FindAgain { is_reversed: false },
        ',' => VimMotion::FindAgain { is_reversed: true },
        '%' => VimMotion::MatchingBracket,
        'g' => match rest.first() {
            Some('g') => VimMotion::FirstLine,
            Some(_) => return CommandParse::Invalid,
            None => return CommandParse::Incomplete,
        },
        'f' | 'F' | 't' | 'T' => match rest.first() {
            Some(target) => VimMotion::Find { kind: first, target: *target },
            None => return CommandParse::Incomplete,
        },
        _ => return CommandParse::Invalid,
    };
    complete(motion)
}
