//! Output of a command: for programs (the member names are a public contract), for the model and for the user.

use std::borrow::Cow;

use gimlet_proto::{ContentPart, ResultContent, View};
use serde::{Deserialize, Serialize};

use super::git_operation::GitOperation;
use super::image;

/// The structured output. Members that are not set are absent.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BashOutput {
    /// Printed output, both streams interleaved.
    pub(super) stdout: String,
    /// Only notices of the tool itself.
    pub(super) stderr: String,
    pub(super) interrupted: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_image: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) background_task_id: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) backgrounded_by_user: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timed_out_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) background_cwd_hint: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) background_ends_with_final_response: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dangerously_disable_sandbox: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) return_code_interpretation: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) no_output_expected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) raw_output_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) persisted_output_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) persisted_output_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stale_read_file_state_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gh_rate_limit_hint: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) git_operation: Option<GitOperation>,
    #[serde(skip)]
    pub(super) exit_code: Option<i32>,
    /// Notice to the model about a command that continues in the background.
    #[serde(skip)]
    pub(super) background_notice: Option<String>,
}

/// Output written by another program: the members that every command's output has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForeignBashOutput {
    stdout: String,
    stderr: String,
    interrupted: bool,
    #[serde(default)]
    is_image: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl BashOutput {
    /// Parses an output written by another program; `None` if it is not one.
    pub(super) fn parse_foreign(json: &str) -> Option<Self> {
        let ForeignBashOutput { stdout, stderr, interrupted, is_image } = serde_json::from_str(json).ok()?;
        Some(Self { stdout, stderr, interrupted, is_image, ..Self::default() })
    }

    pub(super) fn for_model(&self) -> ResultContent {
        if self.is_image
            && let Some(picture) = image::parse_image_uri(&self.stdout)
        {
            let mut parts = vec![picture];
            if !self.stderr.is_empty() {
                parts.push(ContentPart::Text { text: self.stderr.clone() });
            }
            return ResultContent::Parts(parts);
        }
        let code = self.exit_code.unwrap_or_default();
        let answer = self.return_code_interpretation.as_ref().map(|answer| format!("({answer}; exit code {code})"));
        let parts = [
            Some(self.stdout.as_str()),
            answer.as_deref(),
            self.background_notice.as_deref(),
            self.background_cwd_hint.as_deref(),
            Some(self.stderr.as_str()),
            self.stale_read_file_state_hint.as_deref(),
            self.gh_rate_limit_hint.as_deref(),
        ];
        let said: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        said.join("\n").into()
    }

    pub(super) fn for_people(&self, command: &str) -> View {
        let printed = if self.is_image { "[image]" } else { self.stdout.as_str() };
        let remarks = [self.background_notice.as_deref(), Some(self.stderr.as_str())];
        let said = std::iter::once(printed).chain(remarks.into_iter().flatten()).filter(|part| !part.is_empty());
        View::Terminal {
            command: command.to_owned(),
            output: said.collect::<Vec<_>>().join("\n"),
            exit_code: self.exit_code,
        }
    }
}
