//! Views of a call beside its result: the preview of one that needs approval, a failed or refused one, and one from a
//! transcript.

use std::path::{Path, PathBuf};

use gimlet_proto::View;
use serde_json::value::RawValue;

use super::{ErrorClass, PathContext};

/// Access of a preview to files.
pub struct PreviewContext {
    pub paths: PathContext,
    /// Each path of the call with its resolved path, or with the reason why it may not be read.
    pub(crate) files: Vec<(PathBuf, Result<PathBuf, String>)>,
}

impl PreviewContext {
    /// Creates a context in which these files can be read: each path with its resolved path, or with the reason why it
    /// may not be read.
    pub fn new(paths: PathContext, files: Vec<(PathBuf, Result<PathBuf, String>)>) -> Self {
        Self { paths, files }
    }

    /// Returns the resolved form of one of the call's paths, or the reason why the file may not be read.
    pub fn readable_path(&self, path: &Path) -> Result<&Path, &str> {
        match self.files.iter().find(|(spelled, _)| spelled == path) {
            Some((_, Ok(real))) => Ok(real),
            Some((_, Err(why))) => Err(why),
            None => Err("the call does not name it"),
        }
    }
}

/// Failure of a call, as its view needs it.
pub struct CallFailure<'a> {
    pub class: ErrorClass,
    /// Message that the model received.
    pub text: &'a str,
    /// Structured output, if the tool had some before it failed.
    pub output: &'a RawValue,
}

/// Recorded result of a past call.
pub struct RecordedResult<'a> {
    pub is_error: bool,
    /// Text that the model received.
    pub text: &'a str,
    /// Structured output, if there is one.
    pub output: Option<&'a RawValue>,
}

/// A past call as displayed to the user.
#[derive(Debug)]
pub struct CallSummary {
    /// The tool's display name.
    pub name: String,
    pub summary: String,
    /// View of the result, if there is one.
    pub view: Option<View>,
}

impl RecordedResult<'_> {
    /// Returns the result as a failure; `None` if the call succeeded.
    pub fn failure(&self) -> Option<CallFailure<'_>> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct FailedOutput {
            error_class: String,
        }
        let named = || serde_json::from_str::<FailedOutput>(self.output?.get()).ok();
        let class = named().and_then(|failed| ErrorClass::from_code(&failed.error_class));
        self.is_error.then(|| CallFailure {
            class: class.unwrap_or(ErrorClass::ExecFailed),
            text: self.text,
            output: self.output.unwrap_or(RawValue::NULL),
        })
    }
}
