//! Previews of options, for hosts that declared that they can show them.

use gimlet_proto::Env;

/// Environment variable that requests previews; the Agent SDK sets it for `previewFormat`.
const FORMAT: &str = "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT";

/// Markup not allowed in an HTML fragment. The host must still sanitize what it shows.
const NOT_IN_A_PIECE: &[&str] = &["<script", "<style", "<!doctype"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviewFormat {
    Markdown,
    Html,
}

impl PreviewFormat {
    /// Returns the requested format; `None` if previews were not requested.
    pub(super) fn from_env(env: &Env) -> Option<Self> {
        match env.get(FORMAT)? {
            "markdown" => Some(Self::Markdown),
            "html" => Some(Self::Html),
            _ => None,
        }
    }

    pub(super) fn prompt(self) -> &'static str {
        match self {
            Self::Markdown => {
                "\n- `preview` of an option is Markdown shown in a fixed-width box while it is looked at. Give one where \
                 things are easier seen than told (a layout, a piece of code or configuration), not for plain \
                 preferences, and only without `multiSelect`."
            }
            Self::Html => {
                "\n- `preview` of an option is a self-contained piece of HTML shown while it is looked at: inline styles, \
                 no `<script>`, `<style>` or doctype. Give one where things are easier seen than told (a layout, a \
                 diagram), not for plain preferences, and only without `multiSelect`."
            }
        }
    }

    /// Returns the first forbidden markup in a preview, or `None` if there is none.
    pub(super) fn find_problem(self, preview: &str) -> Option<&'static str> {
        if self == Self::Markdown {
            return None;
        }
        let preview = preview.to_ascii_lowercase();
        NOT_IN_A_PIECE.iter().find(|part| preview.contains(**part)).copied()
    }
}
