//! Outputs of a code cell: text, errors and images.

use serde_json::Value;

use super::joined_text;

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct CellOutput {
    /// Type as the file names it: `stream`, `execute_result`, `display_data`, `error`.
    pub output_type: String,
    pub text: String,
    pub image: Option<OutputImage>,
}

/// An image among outputs, as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputImage {
    pub base64: String,
    pub media_type: String,
}

const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Text forms, the most readable first.
const TEXT_TYPES: [&str; 4] = ["text/plain", "text/markdown", "text/latex", "application/json"];

impl CellOutput {
    pub(super) fn from_json(value: &Value) -> Self {
        let output_type = match value["output_type"].as_str().unwrap_or("unknown") {
            "pyout" => "execute_result",
            "pyerr" => "error",
            other => other,
        };
        let (text, image) = match output_type {
            "stream" => (joined_text(&value["text"]), None),
            "error" => (error_text(value), None),
            _ => {
                // Format 3 has the forms beside the type.
                let forms = if value["data"].is_object() { &value["data"] } else { value };
                (form_text(forms), form_image(forms))
            }
        };
        Self { output_type: output_type.to_owned(), text: gimlet_text::sanitise(&text).into_owned(), image }
    }
}

fn error_text(value: &Value) -> String {
    let trace = match &value["traceback"] {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    if !trace.trim().is_empty() {
        return trace;
    }
    let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    format!("{}: {}", word("ename"), word("evalue"))
}

fn form_text(forms: &Value) -> String {
    for name in TEXT_TYPES.iter().copied().chain(["text", "html", "text/html"]) {
        match &forms[name] {
            Value::Null => {}
            structure @ Value::Object(_) => return structure.to_string(),
            other => return joined_text(other),
        }
    }
    match forms.as_object() {
        Some(all) if form_image(forms).is_none() && !all.is_empty() => {
            let names: Vec<&str> = all.keys().map(String::as_str).filter(|name| name.contains('/')).collect();
            if names.is_empty() { String::new() } else { format!("({})", names.join(", ")) }
        }
        _ => String::new(),
    }
}

fn form_image(forms: &Value) -> Option<OutputImage> {
    let short = |media_type: &str| media_type.trim_start_matches("image/").to_owned();
    IMAGE_TYPES.iter().find_map(|media_type| {
        let data = [*media_type, &short(media_type)]
            .iter()
            .map(|name| joined_text(&forms[*name]))
            .find(|data| !data.is_empty())?;
        let base64: String = data.split_ascii_whitespace().collect();
        Some(OutputImage { base64, media_type: (*media_type).to_owned() })
    })
}
