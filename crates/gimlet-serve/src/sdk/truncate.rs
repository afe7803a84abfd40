//! Line length limits: hosts give up on a line of a megabyte or more.
//!
//! First cut is redundant data (copies of files in a result's structured form), then results, then texts. The
//! transcript holds everything that the model saw, uncut.

use serde_json::{Value, json};

/// Maximum length of a line; longer ones are cut.
pub(super) const MAX_LINE: usize = 1_000_000;
/// Maximum length of a call's input that fits into a line with everything else.
pub(super) const MAX_INPUT: usize = MAX_LINE - 100_000;

/// Returns the line, or a shortened one with its meaning kept.
pub(super) fn truncate_line(line: String) -> String {
    let line = if line.contains('\n') { gimlet_text::compact_json(&line) } else { line };
    if line.len() < MAX_LINE {
        return line;
    }
    match serde_json::from_str::<Value>(&line) {
        Ok(value) => truncate_value(value).to_string(),
        // Only JSON is written; other text cannot be shortened safely.
        Err(_) => line,
    }
}

/// Renders the answer to a request from the host. One that is too long is cut and marked as such; if it cannot be cut,
/// the answer is an error.
pub(super) fn truncate_answer(id: &Value, outcome: Result<Value, String>) -> String {
    const STEPS: [fn(&mut Value); 4] = [
        |value| shorten_texts(value, 20_000),
        |value| shorten_texts(value, 1_000),
        |value| shorten_texts(value, 100),
        |value| keep_first_members(value, 200),
    ];
    let mut outcome = outcome;
    for step in STEPS {
        let line = super::control_frames::answer_line(id, outcome.clone());
        if line.len() < MAX_LINE {
            return line;
        }
        match &mut outcome {
            Ok(response) => {
                step(response);
                response["truncated"] = json!(true);
            }
            Err(error) => {
                let text = Value::String(std::mem::take(error));
                *error = shortened_text(text, 1_000);
            }
        }
    }
    let line = super::control_frames::answer_line(id, outcome);
    if line.len() < MAX_LINE {
        return line;
    }
    super::control_frames::answer_line(id, Err("the answer is longer than one line can be".to_owned()))
}

fn shortened_text(mut text: Value, limit: usize) -> String {
    shorten_texts(&mut text, limit);
    text.as_str().unwrap_or_default().to_owned()
}

/// Shortens a value until its text fits into a line.
pub(super) fn truncate_value(mut value: Value) -> Value {
    const STEPS: [fn(&mut Value); 8] = [
        |value| edit_tool_result(value, drop_file_copies),
        |value| edit_tool_result(value, |result| shorten_texts(result, 20_000)),
        drop_structured_result,
        |value| shorten_results(value, 100_000),
        |value| shorten_texts(value, 200_000),
        |value| shorten_texts(value, 20_000),
        |value| shorten_texts(value, 1_000),
        |value| keep_first_members(value, 200),
    ];
    for step in STEPS {
        if value.to_string().len() < MAX_LINE {
            break;
        }
        step(&mut value);
    }
    value
}

fn edit_tool_result(value: &mut Value, cut: impl FnOnce(&mut Value)) {
    if let Some(result) = value.get_mut("tool_use_result") {
        cut(result);
    }
}

/// Removes copies of whole files as they were before a change.
fn drop_file_copies(result: &mut Value) {
    if let Some(original) = result.get_mut("originalFile") {
        *original = Value::Null;
    }
}

fn drop_structured_result(value: &mut Value) {
    if let Some(result) = value.get_mut("tool_use_result").filter(|result| !result.is_null()) {
        *result = json!(format!("[{} characters left out]", result.to_string().chars().count()));
    }
}

fn shorten_results(value: &mut Value, limit: usize) {
    let blocks = value.pointer_mut("/message/content").and_then(Value::as_array_mut);
    for block in blocks.into_iter().flatten().filter(|block| block["type"] == "tool_result") {
        shorten_texts(&mut block["content"], limit);
    }
}

/// Cuts every text to `limit` characters and marks the cut at its end.
fn shorten_texts(value: &mut Value, limit: usize) {
    match value {
        Value::String(text) => {
            if let Some((cut, _)) = text.char_indices().nth(limit) {
                let left_out = text[cut..].chars().count();
                text.truncate(cut);
                text.push_str(&format!("… [{left_out} characters left out]"));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten_texts(item, limit)),
        Value::Object(members) => members.values_mut().for_each(|member| shorten_texts(member, limit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cuts every list to `limit` items and every object to `limit` members.
fn keep_first_members(value: &mut Value, limit: usize) {
    match value {
        Value::Array(items) => {
            items.truncate(limit);
            items.iter_mut().for_each(|item| keep_first_members(item, limit));
        }
        Value::Object(members) => {
            // No object of the protocol itself has so many members.
            if members.len() > limit {
                *members = std::mem::take(members).into_iter().take(limit).collect();
            }
            members.values_mut().for_each(|member| keep_first_members(member, limit));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_line(content: &str, result: Value) -> String {
        json!({"type": "user", "uuid": "u", "tool_use_result": result,
            "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": content}]}})
        .to_string()
    }

    fn truncate_and_parse(line: String) -> Value {
        let short = truncate_line(line);
        assert!(short.len() < MAX_LINE, "{}", short.len());
        serde_json::from_str(&short).unwrap()
    }

    #[test]
    fn short_lines_stay_as_they_are_but_on_one_line() {
        assert_eq!(truncate_line(r#"{"b":1,"a":2.50}"#.to_owned()), r#"{"b":1,"a":2.50}"#);
        assert_eq!(truncate_line("{\"b\":\n 1}".to_owned()), r#"{"b":1}"#);
    }

    #[test]
    fn copies_of_files_go_first_and_take_nothing_else_with_them() {
        let big = "x".repeat(MAX_LINE);
        let cut =
            truncate_and_parse(result_line("ok", json!({"filePath": "/a", "originalFile": big, "newString": "y"})));
        assert_eq!(cut["tool_use_result"], json!({"filePath": "/a", "originalFile": null, "newString": "y"}));
        assert_eq!(cut["message"]["content"][0]["content"], "ok");
    }

    #[test]
    fn answers_that_are_too_long_are_cut_and_say_so() {
        let cut = |response: Value| -> Value {
            let line = truncate_answer(&json!("r"), Ok(response));
            assert!(line.len() < MAX_LINE, "{}", line.len());
            serde_json::from_str::<Value>(&line).unwrap()["response"].clone()
        };
        let short = cut(json!({"a": 1}));
        assert_eq!(short, json!({"subtype": "success", "request_id": "r", "response": {"a": 1}}));
        let tools: Vec<Value> =
            (0..2_000).map(|n| json!({"name": format!("t{n}"), "description": "x".repeat(900)})).collect();
        let listed = cut(json!({"mcpServers": [{"name": "s", "tools": tools}]}));
        assert_eq!(listed["response"]["truncated"], true);
        assert_eq!(listed["response"]["mcpServers"][0]["tools"].as_array().unwrap().len(), 2_000, "texts go first");
        let many: serde_json::Map<String, Value> = (0..90_000).map(|n| (format!("NAME_{n}"), json!("value"))).collect();
        assert_eq!(cut(json!({"effective": {"env": many}}))["response"]["truncated"], true);
        let deep: Vec<Value> = (0..300).map(|_| json!(vec!["x".repeat(60); 300])).collect();
        assert_eq!(cut(json!({"a": deep}))["subtype"], "error");
        let error = truncate_answer(&json!("r"), Err("x".repeat(2 * MAX_LINE)));
        assert!(error.len() < 2_000);
    }

    #[test]
    fn every_kind_of_length_is_cut_somewhere() {
        let big = "é\"".repeat(MAX_LINE / 3);
        let many: Vec<String> = (0..100_000).map(|number| format!("file{number}")).collect();
        let result = truncate_and_parse(result_line("ok", json!({"stdout": big})));
        assert!(result["tool_use_result"]["stdout"].as_str().unwrap().ends_with("characters left out]"));
        let list = truncate_and_parse(result_line("ok", json!({"filenames": many})));
        assert!(list["tool_use_result"].as_str().unwrap().ends_with("characters left out]"));
        let text = truncate_and_parse(result_line(&big, json!({})));
        assert_eq!(text["message"]["content"][0]["tool_use_id"], "t");
        let lists = truncate_and_parse(json!({"type": "assistant", "message": {"content": many}}).to_string());
        assert_eq!(lists["type"], "assistant");
        let members: serde_json::Map<String, Value> = many.iter().map(|name| (name.clone(), json!(1))).collect();
        let wide =
            truncate_and_parse(json!({"type": "assistant", "message": {"content": [{"input": members}]}}).to_string());
        assert_eq!(wide["message"]["content"][0]["input"]["file0"], 1);
    }
}
