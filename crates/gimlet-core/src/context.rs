//! Model input beside the conversation: the system prompt, the tool list, and the environment facts.
//!
//! System prompt and tool list are rendered once per segment and never change; facts that may change between sessions
//! (directory, date, branch) go into the first user message instead, so the cached prefix is identical everywhere.

mod output_style;
mod tool_list_json;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use gimlet_git::git_branch;
use gimlet_proto::{Env, ToolDef};
use gimlet_text::enclose_in_tag;
use serde_json::Value;
use serde_json::value::to_raw_value;

pub use output_style::{BUILT_IN_STYLES, BuiltInStyle, DEFAULT_STYLE, LiveOutputStyle, PromptStyle};
pub(crate) use output_style::{style_name, with_style};
pub use tool_list_json::{tools_from_json, tools_to_json};

use crate::call::CallScope;
use crate::tool::{AnyTool, PromptContext, ToolRef, ToolSet};

/// The built-in prompt, with places for [`AGENT`] or [`PLAIN_AGENT`] and [`CODING`].
const SYSTEM: &str = include_str!("context/system.md");
/// Instructions for software work, which an output style can leave out.
const CODING: &str = include_str!("context/coding.md");
const AGENT: &str = "a coding agent that works in a person's own repository";
const PLAIN_AGENT: &str = "an agent that works in a person's own folders";

/// Changes to the system prompt requested by the caller.
#[derive(Clone, Debug, Default)]
pub struct SystemPrompt {
    /// Replacement for gimlet's own prompt.
    pub replace: Option<String>,
    /// Output style, which only gimlet's own prompt has.
    pub style: Option<PromptStyle>,
    /// Text after it.
    pub append: Option<String>,
}

/// Returns the built-in prompt, with or without the instructions for software work.
fn base_prompt(has_coding: bool) -> String {
    let (agent, coding) = if has_coding { (AGENT, CODING) } else { (PLAIN_AGENT, "") };
    SYSTEM.trim_end().replacen("{agent}", agent, 1).replacen("{coding}\n", coding, 1)
}

/// Returns the text blocks of the system prompt.
pub fn system_blocks(prompt: &SystemPrompt) -> Arc<[String]> {
    let (base, style) = match (&prompt.replace, &prompt.style) {
        (Some(text), _) => (text.clone(), None),
        (None, Some(style)) => (base_prompt(style.keeps_coding_instructions), Some(style.to_block())),
        (None, None) => (base_prompt(true), None),
    };
    [Some(base), style, prompt.append.clone()]
        .into_iter()
        .flatten()
        .filter(|text| !text.trim().is_empty())
        .collect::<Vec<_>>()
        .into()
}

/// Returns the tool list for the model.
pub fn tool_defs(tools: &ToolSet, cx: &PromptContext) -> Arc<[ToolDef]> {
    tools.offered().filter_map(|tool| tool_def(&**tool, cx)).collect::<Vec<_>>().into()
}

fn tool_def(tool: &dyn AnyTool, cx: &PromptContext) -> Option<ToolDef> {
    Some(ToolDef {
        name: tool.name().to_owned(),
        description: tool.prompt(cx).trim_end().to_owned(),
        // A schema is plain JSON, so rendering cannot fail.
        input_schema: to_raw_value(&offered_schema(tool, cx)).ok()?,
        eager_input: tool.eager_input(),
        defer_loading: false,
    })
}

/// Returns the definitions of the tools that are offered once a conversation was compacted.
pub fn compacted_tool_defs(tools: &ToolSet) -> Arc<[ToolDef]> {
    let cx = PromptContext::default();
    let later: Vec<ToolRef> = tools.iter().filter(|tool| tool.is_for_compacted()).cloned().collect();
    later.iter().filter_map(|tool| tool_def(&**tool, &cx)).collect()
}

/// Returns the tool list of a compacted conversation: these tools stand before those of servers.
pub fn with_compacted_tools(tools: &Arc<[ToolDef]>, later: &[ToolDef]) -> Arc<[ToolDef]> {
    let is_new = |def: &&ToolDef| tools.iter().all(|known| known.name != def.name);
    if later.iter().all(|def| !is_new(&def)) {
        return tools.clone();
    }
    let own = tools.iter().position(|tool| is_server_tool(&tool.name)).unwrap_or(tools.len());
    tools[..own].iter().chain(later.iter().filter(is_new)).chain(&tools[own..]).cloned().collect()
}

/// Returns true if this is the name of a tool of a server.
fn is_server_tool(name: &str) -> bool {
    name.starts_with("mcp__")
}

/// Returns the tool list with external tools after the built-in ones.
pub(crate) fn with_external_tools(own: &Arc<[ToolDef]>, guests: &[ToolRef]) -> Arc<[ToolDef]> {
    if guests.is_empty() {
        return own.clone();
    }
    // The description of an external tool does not depend on the context.
    let nowhere =
        PromptContext { env: Env::default(), tools: Vec::new(), background: false, sandbox: None, agents: Vec::new() };
    let guests = tool_defs(&ToolSet::new(guests.iter().cloned()), &nowhere);
    own.iter().chain(guests.iter()).cloned().collect()
}

/// Returns a tool's schema for the model, without the parameters hidden in this context.
pub fn offered_schema<'a>(tool: &'a dyn AnyTool, cx: &PromptContext) -> Cow<'a, Value> {
    let hidden = tool.hidden_parameters(cx);
    if hidden.is_empty() {
        return Cow::Borrowed(tool.schema());
    }
    let mut schema = tool.schema().clone();
    for path in hidden {
        hide_parameter(&mut schema, path);
    }
    Cow::Owned(schema)
}

/// Removes one parameter from a schema; `a[].b` is the parameter `b` of the items of the list `a`.
fn hide_parameter(schema: &mut Value, path: &str) {
    let (name, inner) = path.split_once('.').map_or((path, None), |(name, inner)| (name, Some(inner)));
    let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let Some(parameters) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    match inner {
        None => {
            parameters.remove(name);
        }
        Some(inner) => {
            let parameter = parameters.get_mut(name);
            let holder = if is_list { parameter.and_then(|list| list.get_mut("items")) } else { parameter };
            if let Some(holder) = holder {
                hide_parameter(holder, inner);
            }
        }
    }
}

/// Returns the environment facts that start a conversation.
pub(crate) fn environment_block(scope: &CallScope, model: &str) -> String {
    let paths = scope.services.paths();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "Working directory: {}", paths.project_dir.display());
    for extra in paths.roots.iter().skip(1) {
        let _ = writeln!(text, "Additional working directory: {}", extra.display());
    }
    match git_branch(&paths.project_dir) {
        Some(branch) => {
            let _ = writeln!(text, "Git repository: yes, on {branch}");
        }
        None => text.push_str("Git repository: no\n"),
    }
    let _ = writeln!(text, "Platform: {}", std::env::consts::OS);
    let _ = writeln!(text, "Date: {}", jiff::Zoned::now().date());
    let _ = writeln!(text, "Model: {model}");
    let _ = writeln!(text, "Permission mode: {}", scope.gate.mode_for(scope));
    if scope.subagent.is_none() && !scope.gate.is_attended() {
        text.push_str(
            "Nobody is watching: no question can be answered and no permission can be given while you work. Only your \
             last message is shown, so say there what you did, what you could not do, and which permission was missing.\n",
        );
    }
    enclose_in_tag("environment", text.trim_end())
}
