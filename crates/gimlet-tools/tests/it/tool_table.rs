//! Facts about single tools that are easy to forget when one is added or changed.

use gimlet_core::AgentRoster;
use gimlet_core::offered_schema;
use gimlet_core::tool::PromptContext;
use gimlet_policy::RuleSet;
use gimlet_proto::Env;
use serde_json::Value;

#[test]
fn every_parameter_that_the_model_sees_is_described() {
    let cx = PromptContext {
        env: Env::default(),
        tools: Vec::new(),
        background: true,
        sandbox: Some(true),
        agents: AgentRoster::built_in(&Env::default()).offered_kinds(&RuleSet::default()),
    };
    let mut bare = Vec::new();
    for tool in gimlet_tools::builtin() {
        find_undescribed(tool.name(), &offered_schema(tool, &cx), &mut bare);
    }
    assert!(bare.is_empty(), "without a description: {bare:?}");
}

fn find_undescribed(at: &str, schema: &Value, bare: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        if property["description"].as_str().is_none_or(|text| text.trim().is_empty()) {
            bare.push(at.clone());
        }
        find_undescribed(&at, property, bare);
        find_undescribed(&format!("{at}[]"), &property["items"], bare);
    }
}

#[test]
fn choices_that_may_be_left_out_say_what_they_are_then() {
    let defaults = [
        ("Edit", "replace_all", "false"),
        ("Grep", "output_mode", "\"files_with_matches\""),
        ("Grep", "head_limit", "250"),
        ("Grep", "-n", "true"),
        ("Grep", "-i", "false"),
    ];
    for (tool, parameter, default) in defaults {
        let tool = gimlet_tools::builtin().into_iter().find(|offered| offered.name() == tool).unwrap();
        assert_eq!(tool.schema()["properties"][parameter]["default"].to_string(), default, "{parameter}");
    }
}

#[test]
fn inputs_that_can_be_long_are_streamed_as_they_are_written() {
    let eager: Vec<&str> =
        gimlet_tools::builtin().into_iter().filter(|tool| tool.eager_input()).map(|tool| tool.name()).collect();
    assert_eq!(eager, ["Bash", "Write", "Edit", "MultiEdit", "NotebookEdit"]);
}
