//! Colours by meaning: what a [`TextTone`] looks like on this terminal.

use crate::styled_line::{DiffGround, TextStyle, TextTone};

/// How many colours the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColorDepth {
    /// Marks instead of colours.
    None,
    Sixteen,
    Indexed,
    TrueColor,
}

/// The background that the colours must be readable on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScreenBackground {
    #[default]
    Dark,
    Light,
}

/// Colours of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColorTheme {
    pub background: ScreenBackground,
    pub depth: ColorDepth,
}

/// A colour in the form that the terminal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalColor {
    /// One of the terminal's own 16.
    Basic(u8),
    /// One of the palette of 256.
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// Look of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellPaint {
    pub foreground: Option<TerminalColor>,
    pub background: Option<TerminalColor>,
    pub bold: bool,
    pub faint: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    pub reverse: bool,
}

/// Colours of a tone: of 16, and exactly, on a dark and on a light background.
struct TonePigment {
    basic: u8,
    dark: (u8, u8, u8),
    light: (u8, u8, u8),
}

impl ColorTheme {
    /// Returns what text of this style looks like.
    pub fn paint(&self, style: TextStyle) -> CellPaint {
        let mut paint = CellPaint {
            bold: style.bold || style.tone == TextTone::Heading,
            italic: style.italic || style.tone == TextTone::Quote,
            underline: style.underline || style.tone == TextTone::Link,
            strike: style.strike,
            reverse: style.reverse,
            ..CellPaint::default()
        };
        if self.depth >= ColorDepth::Indexed {
            paint.background = self.ground_color(style.ground, is_changed_word(style.tone));
        }
        if style.tone == TextTone::Dim || style.tone == TextTone::Comment {
            // Faint follows the terminal's own colours, so that it is readable on every background.
            paint.faint = true;
            return paint;
        }
        if self.depth == ColorDepth::None {
            paint.bold |= matches!(style.tone, TextTone::Accent | TextTone::Warn | TextTone::Error | TextTone::Prompt);
            paint.underline |= is_changed_word(style.tone);
            return paint;
        }
        paint.foreground = pigment(style.tone).map(|pigment| self.color(&pigment));
        if self.depth == ColorDepth::Sixteen {
            paint.underline |= is_changed_word(style.tone);
            // Without a ground to stand on, the colour of the text says which side it is.
            paint.foreground = match style.ground {
                DiffGround::None => paint.foreground,
                DiffGround::Added => Some(TerminalColor::Basic(2)),
                DiffGround::Removed => Some(TerminalColor::Basic(1)),
            };
        }
        paint
    }

    /// Returns the background of a diff's line, or of the words in it that changed.
    fn ground_color(&self, ground: DiffGround, is_word: bool) -> Option<TerminalColor> {
        let is_light = self.background == ScreenBackground::Light;
        let (indexed, (red, green, blue)) = match (ground, is_word, is_light) {
            (DiffGround::None, _, _) => return None,
            (DiffGround::Added, false, false) => (22, (18, 42, 26)),
            (DiffGround::Added, true, false) => (28, (30, 88, 46)),
            (DiffGround::Removed, false, false) => (52, (56, 24, 28)),
            (DiffGround::Removed, true, false) => (88, (112, 36, 42)),
            (DiffGround::Added, false, true) => (194, (225, 246, 228)),
            (DiffGround::Added, true, true) => (157, (176, 232, 186)),
            (DiffGround::Removed, false, true) => (224, (253, 230, 230)),
            (DiffGround::Removed, true, true) => (217, (248, 190, 190)),
        };
        match self.depth {
            ColorDepth::TrueColor => Some(TerminalColor::Rgb(red, green, blue)),
            ColorDepth::Indexed => Some(TerminalColor::Indexed(indexed)),
            ColorDepth::Sixteen | ColorDepth::None => None,
        }
    }

    fn color(&self, pigment: &TonePigment) -> TerminalColor {
        let (red, green, blue) = match self.background {
            ScreenBackground::Dark => pigment.dark,
            ScreenBackground::Light => pigment.light,
        };
        match self.depth {
            ColorDepth::TrueColor => TerminalColor::Rgb(red, green, blue),
            ColorDepth::Indexed => TerminalColor::Indexed(nearest_indexed(red, green, blue)),
            ColorDepth::Sixteen | ColorDepth::None => TerminalColor::Basic(pigment.basic),
        }
    }
}

/// Returns the colour of a tone; `None` for the terminal's own foreground.
fn pigment(tone: TextTone) -> Option<TonePigment> {
    let of = |basic, dark, light| Some(TonePigment { basic, dark, light });
    match tone {
        TextTone::Text | TextTone::Dim | TextTone::Comment | TextTone::Heading | TextTone::Quote => None,
        TextTone::Accent => of(6, (86, 182, 194), (0, 108, 122)),
        TextTone::Prompt => of(4, (130, 170, 255), (30, 80, 190)),
        TextTone::Code => of(6, (143, 200, 208), (0, 98, 112)),
        TextTone::Link => of(4, (110, 160, 250), (20, 80, 190)),
        TextTone::Warn => of(3, (229, 192, 123), (150, 100, 0)),
        TextTone::Error => of(1, (240, 113, 120), (190, 30, 40)),
        TextTone::Success => of(2, (126, 200, 120), (20, 120, 40)),
        TextTone::Added | TextTone::AddedWord => of(2, (126, 200, 120), (20, 110, 40)),
        TextTone::Removed | TextTone::RemovedWord => of(1, (240, 113, 120), (180, 30, 40)),
        TextTone::Keyword => of(5, (198, 146, 233), (130, 40, 160)),
        TextTone::Literal => of(2, (152, 195, 121), (50, 110, 30)),
        TextTone::Number => of(3, (209, 154, 102), (160, 80, 0)),
        TextTone::TypeName => of(3, (229, 192, 123), (140, 100, 0)),
        TextTone::FunctionName => of(4, (110, 170, 240), (30, 90, 180)),
    }
}

/// Returns true for a word of a diff's line that changed.
fn is_changed_word(tone: TextTone) -> bool {
    matches!(tone, TextTone::AddedWord | TextTone::RemovedWord)
}

/// Returns the colour of the palette of 256 that is closest: from its 6 × 6 × 6 cube or its greys.
fn nearest_indexed(red: u8, green: u8, blue: u8) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest_step = |value: u8| {
        let nearest = STEPS.iter().enumerate().min_by_key(|(_, step)| step.abs_diff(value));
        nearest.map_or(0, |(index, _)| index as u8)
    };
    let distance = |other: (u8, u8, u8)| {
        let square = |one: u8, two: u8| u32::from(one.abs_diff(two)).pow(2);
        square(red, other.0) + square(green, other.1) + square(blue, other.2)
    };
    let (r, g, b) = (nearest_step(red), nearest_step(green), nearest_step(blue));
    let cube = (STEPS[usize::from(r)], STEPS[usize::from(g)], STEPS[usize::from(b)]);
    let average = (u16::from(red) + u16::from(green) + u16::from(blue)) / 3;
    let shade = (average.saturating_sub(8) / 10).min(23) as u8;
    let level = 8 + 10 * shade;
    if distance((level, level, level)) < distance(cube) { 232 + shade } else { 16 + 36 * r + 6 * g + b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_depth_shows_failure_and_the_rest_by_marks() {
        let theme = |depth| ColorTheme { background: ScreenBackground::Dark, depth };
        let error = TextStyle::of(TextTone::Error);
        assert_eq!(theme(ColorDepth::TrueColor).paint(error).foreground, Some(TerminalColor::Rgb(240, 113, 120)));
        assert_eq!(theme(ColorDepth::Sixteen).paint(error).foreground, Some(TerminalColor::Basic(1)));
        assert!(matches!(theme(ColorDepth::Indexed).paint(error).foreground, Some(TerminalColor::Indexed(_))));
        let plain = theme(ColorDepth::None).paint(error);
        assert!(plain.foreground.is_none() && plain.bold);
        assert!(theme(ColorDepth::None).paint(TextStyle::of(TextTone::AddedWord)).underline);
    }

    #[test]
    fn code_of_a_diff_keeps_its_colours_where_there_is_a_ground() {
        let theme = |depth| ColorTheme { background: ScreenBackground::Dark, depth };
        let keyword = TextStyle::of(TextTone::Keyword).on(DiffGround::Added);
        let word = TextStyle::of(TextTone::AddedWord).on(DiffGround::Added);
        let rich = theme(ColorDepth::TrueColor);
        assert_eq!(rich.paint(keyword).foreground, rich.paint(TextTone::Keyword.into()).foreground);
        assert!(rich.paint(keyword).background.is_some());
        assert_ne!(rich.paint(keyword).background, rich.paint(word).background);
        assert_eq!(theme(ColorDepth::Indexed).paint(word).background, Some(TerminalColor::Indexed(28)));
        let poor = theme(ColorDepth::Sixteen).paint(keyword);
        assert_eq!((poor.foreground, poor.background), (Some(TerminalColor::Basic(2)), None));
    }

    #[test]
    fn colours_find_their_place_in_the_palette() {
        for (rgb, index) in [((0, 0, 0), 16), ((255, 255, 255), 231), ((255, 0, 0), 196), ((128, 128, 128), 244)] {
            assert_eq!(nearest_indexed(rgb.0, rgb.1, rgb.2), index, "{rgb:?}");
        }
    }
}
