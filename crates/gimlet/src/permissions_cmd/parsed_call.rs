//! A call, parsed by the tool that would run it. For tools that only a server or another version has, the effects are
//! derived from the name, or unknown.

use gimlet_core::PolicyCall;
use gimlet_core::tool::{AnyTool, PathContext, PermissionVerdict, PreparedCall};
use gimlet_proto::AccessNeed;
use serde_json::{Map, Value};

/// Effects of a call.
pub(crate) enum ParsedCall {
    BuiltIn(Box<PreparedCall>, &'static str),
    /// A tool that only another program, a server or another version has.
    Other {
        tool: String,
        input: Map<String, Value>,
        needs: Vec<AccessNeed>,
        needs_person: bool,
    },
}

impl ParsedCall {
    /// Parses a call. The error is the tool's message about an invalid input.
    pub(crate) fn new(name: &str, input: Value, paths: &PathContext) -> Result<Self, String> {
        if let Some(tool) = find_builtin_tool(name) {
            let prepared = tool.prepare(input, paths).map_err(|error| error.model_text)?;
            return Ok(Self::BuiltIn(Box::new(prepared), tool.name()));
        }
        let Value::Object(input) = input else { return Err("the input of a tool is an object".to_owned()) };
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        let need = match name {
            "WebFetch" => text("url").map(|url| AccessNeed::Fetch(url.to_owned())),
            "StructuredOutput" => Some(AccessNeed::Session),
            _ => None,
        };
        let needs = vec![need.unwrap_or(AccessNeed::Opaque)];
        let needs_person = matches!(name, "AskUserQuestion" | "ExitPlanMode");
        Ok(Self::Other { tool: name.to_owned(), input, needs, needs_person })
    }

    /// Returns the call in the form that the policy decides on.
    pub(crate) fn to_policy_call(&self) -> PolicyCall<'_> {
        match self {
            Self::BuiltIn(prepared, _) => PolicyCall::from(prepared.as_ref()),
            Self::Other { tool, input, needs, needs_person } => PolicyCall {
                tool,
                also_named: &[],
                needs,
                input: Some(input),
                needs_person: *needs_person,
                own: &PermissionVerdict::Passthrough,
            },
        }
    }

    /// Returns the tool's present name, and the command, path or address of the call.
    pub(super) fn tool_and_subject(&self) -> (String, String) {
        let (tool, needs) = match self {
            Self::BuiltIn(prepared, tool) => ((*tool).to_owned(), &prepared.needs),
            Self::Other { tool, needs, .. } => (tool.clone(), needs),
        };
        let about = needs.iter().find_map(|need| match need {
            AccessNeed::Run(command) => Some(command.clone()),
            AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path.display().to_string()),
            AccessNeed::Fetch(url) => Some(url.clone()),
            AccessNeed::Session | AccessNeed::Opaque => None,
        });
        let about = about.unwrap_or_else(|| match self {
            Self::BuiltIn(prepared, _) => prepared.description.clone(),
            Self::Other { input, .. } => Value::Object(input.clone()).to_string(),
        });
        (tool, about)
    }
}

/// Finds a built-in tool by one of its names.
pub(crate) fn find_builtin_tool(name: &str) -> Option<&'static dyn AnyTool> {
    gimlet_tools::builtin().into_iter().find(|tool| tool.name() == name || tool.aliases().contains(&name))
}
