//! `docs/tools.md` is made from the tool table, so it cannot say anything else than what the model is told.

use std::path::Path;

use gimlet_core::tool::{AnyTool, PromptContext};
use gimlet_core::{AgentRoster, offered_schema};
use gimlet_policy::RuleSet;
use gimlet_proto::Env;
use serde_json::{Map, Value};

const HEAD: &str = "# Tools\n\n\
    The built-in tools, in the order in which the model sees them. The quoted text is what the model is told, with every\n\
    setting at its default. This page is generated from the tool table (`crates/gimlet-tools/src/builtin.rs`); to change\n\
    it, change the tool and run\n\n\
    ```sh\nUPDATE_DOCS=1 cargo test -p gimlet-tools --test it\n```\n";

#[test]
fn the_reference_says_what_the_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools.md");
    let wanted = reference();
    if updating() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap();
    assert!(found == wanted, "docs/tools.md is stale: run UPDATE_DOCS=1 cargo test -p gimlet-tools --test it");
}

#[allow(clippy::disallowed_methods, reason = "a test is told by its caller to rewrite what it checks")]
fn updating() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

fn reference() -> String {
    let tools = gimlet_tools::builtin();
    let cx = PromptContext {
        env: Env::default(),
        tools: tools.iter().map(|tool| tool.name().to_owned()).collect(),
        background: true,
        sandbox: None,
        agents: AgentRoster::built_in(&Env::default()).offered_kinds(&RuleSet::default()),
    };
    let mut page = HEAD.to_owned();
    for tool in tools {
        section(&mut page, tool, &cx);
    }
    page
}

fn section(page: &mut String, tool: &dyn AnyTool, cx: &PromptContext) {
    page.push_str(&format!("\n## {}\n\n", tool.name()));
    if !tool.is_enabled(&cx.env) {
        page.push_str("Not offered unless a setting turns it on.\n\n");
    }
    if tool.is_hidden() {
        page.push_str("Can be called, but is not in the list that the model gets.\n\n");
    }
    if tool.is_for_compacted() {
        page.push_str("In the list once the conversation was compacted.\n\n");
    }
    if !tool.aliases().is_empty() {
        let names: Vec<String> = tool.aliases().iter().map(|name| format!("`{name}`")).collect();
        page.push_str(&format!("Also called {}.\n\n", names.join(", ")));
    }
    for line in tool.prompt(cx).trim().lines() {
        page.push_str(format!("> {line}").trim_end());
        page.push('\n');
    }
    page.push_str("\n| Parameter | Type | Meaning |\n|---|---|---|\n");
    parameters(page, "", &offered_schema(tool, cx));
}

/// One row for each parameter; those of objects inside follow theirs, by path.
fn parameters(page: &mut String, at: &str, schema: &Value) {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in properties {
        let optional = match (&property["default"], required.contains(&name.as_str())) {
            (_, true) => String::new(),
            (Value::Null, false) => ", optional".to_owned(),
            (default, false) => format!(", default `{default}`"),
        };
        let meaning = cell(property["description"].as_str().unwrap_or(""));
        page.push_str(&format!("| `{at}{name}` | {}{optional} | {meaning} |\n", cell(&kind(property))));
        parameters(page, &format!("{at}{name}."), property);
        parameters(page, &format!("{at}{name}[]."), &property["items"]);
    }
}

fn kind(schema: &Value) -> String {
    let base = match (&schema["type"], &schema["enum"]) {
        (_, Value::Array(choices)) => {
            let names: Vec<String> = choices.iter().map(|choice| format!("`{choice}`")).collect();
            return format!("one of {}", names.join(", "));
        }
        (Value::String(kind), _) if kind == "array" => format!("array of {}", kind_of_items(&schema["items"])),
        (Value::String(kind), _) => kind.clone(),
        (Value::Array(kinds), _) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => "any value".to_owned(),
    };
    let limit = |name: &str, word: &str| match &schema[name] {
        Value::Number(number) if number.as_f64() != Some(0.0) => format!(", {word} {number}"),
        _ => String::new(),
    };
    format!("{base}{}{}", limit("minimum", "at least"), limit("maximum", "at most"))
}

fn kind_of_items(items: &Value) -> String {
    match &items["type"] {
        Value::String(kind) => format!("{kind}s"),
        _ => "values".to_owned(),
    }
}

/// Text that stays inside one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}
