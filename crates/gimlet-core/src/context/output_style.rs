//! Output styles: text that the system prompt ends with, which says how the model works and answers. A style can leave
//! the built-in instructions for software work out.

use std::sync::{Arc, PoisonError, RwLock};

use super::base_prompt;

/// Name of the style that changes nothing.
pub const DEFAULT_STYLE: &str = "default";

/// Beginning of the block of a style in a system prompt.
const HEADING: &str = "# Output style: ";

/// Style that a system prompt contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptStyle {
    pub name: String,
    pub text: String,
    /// True if the built-in instructions for software work stay.
    pub keeps_coding_instructions: bool,
}

impl PromptStyle {
    /// Returns the block of the system prompt.
    pub(super) fn to_block(&self) -> String {
        let name = self.name.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{HEADING}{name}\n\n{}", self.text.trim())
    }
}

/// Style that every installation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInStyle {
    pub name: &'static str,
    pub description: &'static str,
    /// `None` for the style that changes nothing.
    pub text: Option<&'static str>,
}

/// The built-in styles. All of them keep the instructions for software work.
pub const BUILT_IN_STYLES: [BuiltInStyle; 5] = [
    BuiltInStyle { name: DEFAULT_STYLE, description: "Does the task and answers briefly", text: None },
    BuiltInStyle {
        name: "Proactive",
        description: "Decides by itself and carries tasks to their end with few questions",
        text: Some(include_str!("styles/proactive.md")),
    },
    BuiltInStyle {
        name: "Concise",
        description: "Answers with results alone, in as few words as possible",
        text: Some(include_str!("styles/concise.md")),
    },
    BuiltInStyle {
        name: "Explanatory",
        description: "Explains choices in this code base while it works",
        text: Some(include_str!("styles/explanatory.md")),
    },
    BuiltInStyle {
        name: "Learning",
        description: "Leaves the parts worth learning from to you, marked with TODO(human)",
        text: Some(include_str!("styles/learning.md")),
    },
];

/// The style that the next segment of a session begins with, which can change while the session runs. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LiveOutputStyle(Arc<RwLock<Option<PromptStyle>>>);

impl LiveOutputStyle {
    pub fn new(style: Option<PromptStyle>) -> Self {
        Self(Arc::new(RwLock::new(style)))
    }

    pub fn current(&self) -> Option<PromptStyle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, style: Option<PromptStyle>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = style;
    }
}

/// Returns a system prompt with another style. One that does not begin with the built-in prompt has no style and stays
/// as it is.
pub(crate) fn with_style(system: &Arc<[String]>, style: Option<&PromptStyle>) -> Arc<[String]> {
    let Some((first, rest)) = system.split_first() else { return system.clone() };
    if *first != base_prompt(true) && *first != base_prompt(false) {
        return system.clone();
    }
    let rest = match rest.split_first() {
        Some((block, rest)) if block.starts_with(HEADING) => rest,
        _ => rest,
    };
    let base = base_prompt(style.is_none_or(|style| style.keeps_coding_instructions));
    std::iter::once(base).chain(style.map(PromptStyle::to_block)).chain(rest.iter().cloned()).collect()
}

/// Returns the name of the style that a system prompt contains; `None` if it has none.
pub(crate) fn style_name(system: &[String]) -> Option<&str> {
    let heading = system.get(1)?.strip_prefix(HEADING)?;
    heading.lines().next()
}

#[cfg(test)]
mod tests {
    use super::super::{SystemPrompt, system_blocks};
    use super::*;

    fn style(name: &str, keeps_coding_instructions: bool) -> PromptStyle {
        PromptStyle { name: name.to_owned(), text: format!("Be {name}."), keeps_coding_instructions }
    }

    fn prompt(style: Option<PromptStyle>) -> Arc<[String]> {
        system_blocks(&SystemPrompt { replace: None, style, append: Some("And more.".to_owned()) })
    }

    #[test]
    fn a_style_takes_the_place_of_another() {
        let (plain, short, poet) =
            (prompt(None), prompt(Some(style("short", true))), prompt(Some(style("poet", false))));
        assert_eq!(style_name(&plain), None);
        assert_eq!(style_name(&short), Some("short"));
        for (from, to, expected) in [
            (&plain, Some(style("poet", false)), &poet),
            (&poet, Some(style("short", true)), &short),
            (&short, None, &plain),
        ] {
            assert_eq!(with_style(from, to.as_ref()), *expected);
        }
        let own: Arc<[String]> = ["My own.".to_owned()].into();
        assert_eq!(with_style(&own, Some(&style("short", true))), own);
    }

    #[test]
    fn only_styles_that_keep_them_have_the_coding_instructions() {
        let has_coding = |system: Arc<[String]>| system[0].contains("Match the code around you");
        assert!(has_coding(prompt(None)) && has_coding(prompt(Some(style("short", true)))));
        let poet = prompt(Some(style("poet", false)));
        assert!(poet[0].contains("# Safety") && !poet[0].contains('{') && !poet[0].contains("a coding agent"));
        assert!(!has_coding(poet));
    }
}
