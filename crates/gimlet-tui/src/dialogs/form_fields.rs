//! Fields of a form one below the other: texts, numbers, yes or no, one or several of a list.

use crossterm::event::KeyCode;
use serde_json::{Map, Number, Value};

use super::dialog_keys::{DialogKey, DialogKeys};
use super::dialog_layout::DialogSection;
use super::text_field::{FieldLines, TextField};
use crate::feed::indent_lines;
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, line_width, wrap_line};

/// One value to choose, and how it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldChoice {
    pub(crate) value: Value,
    pub(crate) title: String,
}

/// What a text must look like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextRule {
    /// `email`, `uri`, `date` or `date-time`.
    pub(crate) format: Option<String>,
    pub(crate) min_length: Option<usize>,
    pub(crate) max_length: Option<usize>,
}

/// What a number must be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NumberRule {
    pub(crate) is_integer: bool,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// Kind and current value of a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldValue {
    Text {
        field: TextField,
        rule: TextRule,
    },
    Number {
        field: TextField,
        rule: NumberRule,
    },
    /// A text that is not shown.
    Secret(TextField),
    Flag(bool),
    One {
        choices: Vec<FieldChoice>,
        selected: Option<usize>,
    },
    Several {
        choices: Vec<FieldChoice>,
        marks: Vec<bool>,
        cursor: usize,
        limits: (Option<usize>, Option<usize>),
    },
}

/// One field.
#[derive(Clone, Debug)]
pub(crate) struct FormField {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) is_required: bool,
    pub(crate) value: FieldValue,
    problem: Option<String>,
}

impl FormField {
    pub(crate) fn new(name: &str, title: &str, value: FieldValue) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            description: String::new(),
            is_required: false,
            value,
            problem: None,
        }
    }

    /// Returns the value of the field, `None` if it is empty, or what is wrong with it.
    fn read(&self) -> Result<Option<Value>, String> {
        let value = match &self.value {
            FieldValue::Text { field, rule } if field.text().is_empty() => {
                let may_be_empty = rule.min_length.is_none_or(|min| min == 0) && rule.format.is_none();
                // An empty text is a value where one is required.
                if self.is_required && may_be_empty { return Err("must be filled in".to_owned()) } else { None }
            }
            FieldValue::Text { field, rule } => {
                check_text(field.text(), rule)?;
                Some(Value::String(field.text().to_owned()))
            }
            FieldValue::Secret(field) if field.text().trim().is_empty() => None,
            FieldValue::Secret(field) => Some(Value::String(field.text().trim().to_owned())),
            FieldValue::Number { field, .. } if field.text().trim().is_empty() => None,
            FieldValue::Number { field, rule } => Some(read_number(field.text().trim(), *rule)?),
            FieldValue::Flag(is_on) => Some(Value::Bool(*is_on)),
            FieldValue::One { choices, selected } => {
                selected.and_then(|index| choices.get(index)).map(|choice| choice.value.clone())
            }
            FieldValue::Several { choices, marks, limits, .. } => {
                let chosen: Vec<Value> = choices
                    .iter()
                    .zip(marks)
                    .filter(|(_, is_marked)| **is_marked)
                    .map(|(choice, _)| choice.value.clone())
                    .collect();
                match *limits {
                    (Some(min), _) if chosen.len() < min && (self.is_required || !chosen.is_empty()) => {
                        return Err(format!("choose at least {min}"));
                    }
                    (_, Some(max)) if chosen.len() > max => return Err(format!("choose at most {max}")),
                    _ => {}
                }
                if chosen.is_empty() && !self.is_required { None } else { Some(Value::Array(chosen)) }
            }
        };
        if value.is_none() && self.is_required { Err("must be filled in".to_owned()) } else { Ok(value) }
    }
}

fn check_text(text: &str, rule: &TextRule) -> Result<(), String> {
    let length = text.chars().count();
    if let Some(min) = rule.min_length.filter(|min| length < *min) {
        return Err(format!("needs at least {min} characters"));
    }
    if let Some(max) = rule.max_length.filter(|max| length > *max) {
        return Err(format!("may have at most {max} characters"));
    }
    let is_fit = match rule.format.as_deref() {
        Some("email") => is_email(text),
        Some("uri") => text.split_once(':').is_some_and(|(scheme, rest)| {
            let is_scheme_char = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
            scheme.starts_with(|char: char| char.is_ascii_alphabetic())
                && scheme.chars().all(is_scheme_char)
                && !rest.is_empty()
                && !rest.contains(char::is_whitespace)
        }),
        Some("date") => is_date(text),
        Some("date-time") => {
            text.split_once(['T', 't', ' ']).is_some_and(|(date, time)| is_date(date) && is_time(time))
        }
        _ => true,
    };
    match rule.format.as_deref() {
        Some(format) if !is_fit => Err(match format {
            "email" => "is not an e-mail address".to_owned(),
            "uri" => "is not an address such as https://example.com".to_owned(),
            "date" => "is not a date such as 2026-01-31".to_owned(),
            _ => "is not a time such as 2026-01-31T12:00:00Z".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn is_email(text: &str) -> bool {
    text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !host.contains('@') && !text.contains(char::is_whitespace)
    })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |part: &str, digits: usize| {
        if part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()) {
            part.parse::<u32>().ok()
        } else {
            None
        }
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_time(text: &str) -> bool {
    let (clock, zone) = match text.find(['Z', 'z', '+']) {
        Some(at) => text.split_at(at),
        None => match text.rfind('-') {
            Some(at) => text.split_at(at),
            None => return false,
        },
    };
    let two = |part: Option<&str>, below: u32| {
        part.is_some_and(|part| part.len() == 2 && part.parse::<u32>().is_ok_and(|number| number < below))
    };
    let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
    let mut parts = clock.split(':');
    let is_clock = two(parts.next(), 24) && two(parts.next(), 60) && two(parts.next(), 61) && parts.next().is_none();
    let is_zone = matches!(zone, "Z" | "z") || {
        let mut parts = zone.trim_start_matches(['+', '-']).split(':');
        two(parts.next(), 24) && two(parts.next(), 60)
    };
    is_clock && is_zone
}

fn read_number(text: &str, rule: NumberRule) -> Result<Value, String> {
    let number = if rule.is_integer {
        text.parse::<i64>().map(Number::from).map_err(|_| "is not a whole number".to_owned())?
    } else {
        match text.parse::<i64>() {
            Ok(number) => Number::from(number),
            Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64).ok_or("is not a number")?,
        }
    };
    let value = number.as_f64().unwrap_or_default();
    if let Some(min) = rule.min.filter(|min| value < *min) {
        return Err(format!("must be at least {min}"));
    }
    if let Some(max) = rule.max.filter(|max| value > *max) {
        return Err(format!("must be at most {max}"));
    }
    Ok(Value::Number(number))
}

/// What a key did in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormOutcome {
    Ignored,
    Changed,
    /// One of the choices below the fields was taken.
    Accepted(usize),
    Cancelled,
}

/// Fields, and choices below them.
#[derive(Clone, Debug)]
pub(crate) struct FormFields {
    fields: Vec<FormField>,
    actions: Vec<String>,
    /// Index of the field, or of the choice behind the fields.
    current: usize,
}

impl FormFields {
    pub(crate) fn new(fields: Vec<FormField>, actions: Vec<String>) -> Self {
        Self { fields, actions, current: 0 }
    }

    /// Returns the values; `None` if one does not fit, which is then shown and current.
    pub(crate) fn values(&mut self) -> Option<Map<String, Value>> {
        let mut values = Map::new();
        let mut first_wrong = None;
        for (index, field) in self.fields.iter_mut().enumerate() {
            match field.read() {
                Ok(Some(value)) => {
                    values.insert(field.name.clone(), value);
                    field.problem = None;
                }
                Ok(None) => field.problem = None,
                Err(problem) => {
                    field.problem = Some(problem);
                    first_wrong = first_wrong.or(Some(index));
                }
            }
        }
        match first_wrong {
            Some(index) => {
                self.current = index;
                None
            }
            None => Some(values),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if let Some(FieldValue::Text { field, .. } | FieldValue::Number { field, .. } | FieldValue::Secret(field)) =
            self.fields.get_mut(self.current).map(|field| &mut field.value)
        {
            field.insert(text);
        }
    }

    fn step(&mut self, by: isize) -> FormOutcome {
        let count = self.fields.len() + self.actions.len();
        self.current = (self.current + count).saturating_add_signed(by) % count.max(1);
        FormOutcome::Changed
    }

    pub(crate) fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> FormOutcome {
        let count = self.fields.len();
        let key = keys.translate(stroke);
        match key {
            DialogKey::Cancel => return FormOutcome::Cancelled,
            DialogKey::Up | DialogKey::PreviousField => return self.step(-1),
            DialogKey::Down | DialogKey::NextField => return self.step(1),
            DialogKey::Accept if self.current >= count => return FormOutcome::Accepted(self.current - count),
            DialogKey::Accept => return self.step(1),
            _ => {}
        }
        let Some(field) = self.fields.get_mut(self.current) else { return FormOutcome::Ignored };
        field.problem = None;
        let is_changed = match &mut field.value {
            FieldValue::Text { field, .. } | FieldValue::Number { field, .. } | FieldValue::Secret(field) => {
                field.handle_key(stroke)
            }
            FieldValue::Flag(is_on) => match (key, stroke.code()) {
                (DialogKey::Toggle, _) | (_, KeyCode::Left | KeyCode::Right) => {
                    *is_on = !*is_on;
                    true
                }
                (DialogKey::Letter(char @ ('y' | 'n')), _) => {
                    *is_on = char == 'y';
                    true
                }
                _ => false,
            },
            FieldValue::One { choices, selected } => match (key, stroke.code()) {
                (DialogKey::Toggle, _) | (_, KeyCode::Right) => {
                    *selected = Some(selected.map_or(0, |at| (at + 1) % choices.len().max(1)));
                    true
                }
                (_, KeyCode::Left) => {
                    let last = choices.len().saturating_sub(1);
                    *selected = Some(selected.map_or(last, |at| if at == 0 { last } else { at - 1 }));
                    true
                }
                (DialogKey::Digit(digit), _) if digit <= choices.len() => {
                    *selected = Some(digit - 1);
                    true
                }
                _ => false,
            },
            FieldValue::Several { choices, marks, cursor, .. } => match (key, stroke.code()) {
                (DialogKey::Toggle, _) => {
                    if let Some(mark) = marks.get_mut(*cursor) {
                        *mark = !*mark;
                    }
                    true
                }
                (_, KeyCode::Right) => {
                    *cursor = (*cursor + 1) % choices.len().max(1);
                    true
                }
                (_, KeyCode::Left) => {
                    *cursor = if *cursor == 0 { choices.len().saturating_sub(1) } else { *cursor - 1 };
                    true
                }
                _ => false,
            },
        };
        if is_changed { FormOutcome::Changed } else { FormOutcome::Ignored }
    }

    pub(crate) fn render(&self, context: &RenderContext<'_>) -> DialogSection {
        let mut section = DialogSection::default();
        for (index, field) in self.fields.iter().enumerate() {
            let start = section.lines.len();
            self.render_field(field, index == self.current, context, &mut section);
            if index == self.current {
                section.focus = start..section.lines.len();
            }
        }
        section.lines.push(StyledLine::blank());
        for (index, action) in self.actions.iter().enumerate() {
            let is_current = self.current == self.fields.len() + index;
            if is_current {
                section.focus = section.lines.len()..section.lines.len() + 1;
            }
            let pointer = if is_current { context.glyphs.pointer } else { " " };
            let line =
                StyledLine::of(format!("  {pointer} "), TextTone::Accent).with(action, current_style(is_current));
            section.lines.extend(wrap_line(&line.hanging(4), context.width, BreakRule::Words));
        }
        section
    }

    fn render_field(
        &self,
        field: &FormField,
        is_current: bool,
        context: &RenderContext<'_>,
        section: &mut DialogSection,
    ) {
        let pointer = if is_current { context.glyphs.pointer } else { " " };
        let mut line = StyledLine::of(format!("  {pointer} "), TextTone::Accent);
        line.push(clean_line(&field.title), current_style(is_current));
        line.push(if field.is_required { " *: " } else { ": " }, TextTone::Dim);
        let is_secret = matches!(field.value, FieldValue::Secret(_));
        match &field.value {
            FieldValue::Text { field, .. } | FieldValue::Number { field, .. } | FieldValue::Secret(field) => {
                let used = line_width(&line);
                let is_beside = used + 12 <= context.width;
                let hang = if is_beside { used } else { 6 };
                let width = context.width.saturating_sub(hang).max(2);
                let inner = match is_secret {
                    true => field.render_masked(width, context.glyphs.masked, TextTone::Accent),
                    false => field.render(width, TextTone::Accent),
                };
                let (mut row, mut lines) = (section.lines.len(), inner.lines.into_iter());
                if is_beside {
                    let first = lines.next().unwrap_or_default();
                    first.spans.iter().for_each(|span| line.push(&span.text, span.style));
                    section.lines.push(line);
                } else {
                    let title = wrap_line(&line.hanging(4), context.width, BreakRule::Words);
                    row += title.len();
                    section.lines.extend(title);
                }
                section.lines.extend(indent_lines(lines.collect(), hang));
                if is_current {
                    section.cursor = Some((row + inner.cursor.0, hang + inner.cursor.1));
                }
            }
            FieldValue::Flag(is_on) => {
                line.push(if *is_on { "yes" } else { "no" }, TextTone::Accent);
                section.lines.extend(wrap_line(&line.hanging(4), context.width, BreakRule::Words));
            }
            FieldValue::One { choices, selected } => {
                match selected.and_then(|index| choices.get(index)) {
                    Some(choice) => line.push(clean_line(&choice.title), TextTone::Accent),
                    None => line.push("not chosen", TextTone::Dim),
                }
                if is_current && choices.len() > 1 {
                    let place = selected.map_or(String::new(), |index| format!("{} of ", index + 1));
                    line.push(format!("  ({place}{}, space changes)", choices.len()), TextTone::Dim);
                }
                section.lines.extend(wrap_line(&line.hanging(4), context.width, BreakRule::Words));
            }
            FieldValue::Several { choices, marks, cursor, .. } => {
                for (index, (choice, is_marked)) in choices.iter().zip(marks).enumerate() {
                    let mark = if *is_marked { context.glyphs.marked } else { context.glyphs.unmarked };
                    let style = if is_current && index == *cursor {
                        TextStyle::of(TextTone::Accent).underline()
                    } else {
                        TextStyle::of(TextTone::Text)
                    };
                    line.push(format!("{mark} "), if *is_marked { TextTone::Success } else { TextTone::Dim });
                    line.push(clean_line(&choice.title), style);
                    line.push("  ", TextTone::Text);
                }
                section.lines.extend(wrap_line(&line.hanging(6), context.width, BreakRule::Words));
            }
        }
        if is_current && !field.description.is_empty() {
            let line = StyledLine::of(format!("      {}", clean_line(&field.description)), TextTone::Dim).hanging(6);
            section.lines.extend(wrap_line(&line, context.width, BreakRule::Words));
        }
        if let Some(problem) = &field.problem {
            let line = StyledLine::of(format!("      {problem}"), TextTone::Error).hanging(6);
            section.lines.extend(wrap_line(&line, context.width, BreakRule::Words));
        }
    }
}

fn current_style(is_current: bool) -> TextStyle {
    if is_current { TextStyle::of(TextTone::Accent).bold() } else { TextStyle::of(TextTone::Text) }
}

/// Creates a field for text of one line.
pub(crate) fn text_value(text: &str, rule: TextRule) -> FieldValue {
    FieldValue::Text { field: TextField::with_text(FieldLines::One, text), rule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_they_name_and_nothing_else() {
        let fits = |format: &str, text: &str| {
            let rule = TextRule { format: Some(format.to_owned()), ..TextRule::default() };
            check_text(text, &rule).is_ok()
        };
        for (format, good, bad) in [
            ("email", "ada@example.com", "ada.example.com"),
            ("uri", "https://example.com/x", "example.com x"),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-02-29T23:59:59Z", "2024-02-29"),
            ("date-time", "2024-02-29T23:59:59.5+02:00", "2024-02-29T25:00:00Z"),
        ] {
            assert!(fits(format, good), "{good}");
            assert!(!fits(format, bad), "{bad}");
        }
        assert!(fits("unknown", "anything"));
    }

    #[test]
    fn numbers_keep_their_limits() {
        let whole = NumberRule { is_integer: true, min: Some(1.0), max: Some(10.0) };
        assert_eq!(read_number("7", whole), Ok(Value::from(7)));
        for wrong in ["0", "11", "1.5", "x"] {
            assert!(read_number(wrong, whole).is_err(), "{wrong}");
        }
        assert_eq!(read_number("1.5", NumberRule::default()), Ok(Value::from(1.5)));
    }
}
