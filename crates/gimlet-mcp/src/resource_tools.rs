//! The tools by which the model lists and reads the resources of servers.

use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use gimlet_core::tool::{
    ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec, ResultCap, ToolContext, ToolError, ToolRef,
};
use gimlet_proto::{BoxFuture, ContentPart, ResultContent};
use rmcp::model::ResourceContents;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::binary_files::BinaryFiles;
use crate::call_result::resource_part;
use crate::server_text::{sanitize_data, sanitize_label};
use crate::servers::McpServers;

const LIST: &str = "ListMcpResourcesTool";
const READ: &str = "ReadMcpResourceTool";
const LIST_TEXT: &str =
    "Lists the resources that MCP servers offer, with the server of each. Give a server to list only its own.";
const READ_TEXT: &str = "Reads a resource of an MCP server by its URI, as ListMcpResourcesTool lists it. Bytes that are no text are \
                         stored in a file, whose path the result names.";

/// Returns the tools for the servers of a session.
pub(crate) fn resource_tools(servers: &Weak<McpServers>, result_chars: usize) -> Vec<ToolRef> {
    let server = json!({"type": "string", "description": "Name of the server"});
    let uri = json!({"type": "string", "description": "URI of the resource"});
    let list = ExternalToolSpec {
        name: LIST.to_owned(),
        also_named: Arc::new(["ListMcpResources".to_owned()]),
        server: None,
        description: LIST_TEXT.to_owned(),
        schema: json!({"type": "object", "properties": {"server": server}, "additionalProperties": false}),
        says_read_only: true,
        requires_user_interaction: false,
        own: true,
        main_only: false,
        max_result_chars: ResultCap::Chars(result_chars),
        label: LIST.to_owned(),
    };
    // Unlike a list, reading sends what the model says to the server.
    let read = ExternalToolSpec {
        name: READ.to_owned(),
        also_named: Arc::new(["ReadMcpResource".to_owned()]),
        description: READ_TEXT.to_owned(),
        schema: json!({"type": "object", "properties": {"server": server, "uri": uri},
            "required": ["server", "uri"], "additionalProperties": false}),
        own: false,
        label: READ.to_owned(),
        ..list.clone()
    };
    let tool =
        |spec, handler: Arc<dyn ExternalToolHandler>| ToolRef::External(Arc::new(ExternalTool::new(spec, handler)));
    vec![tool(list, Arc::new(ListResources(servers.clone()))), tool(read, Arc::new(ReadResource(servers.clone())))]
}

fn session_over() -> ToolError {
    ToolError::failed("the session is over")
}

/// Returns a text member of an input, or an error that names it.
fn text_of(input: &Map<String, Value>, name: &str, is_required: bool) -> Result<Option<String>, String> {
    match input.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
        None | Some(Value::Null) if !is_required => Ok(None),
        _ => Err(format!("- `{name}` must be a text")),
    }
}

/// Handler of the list.
struct ListResources(Weak<McpServers>);

impl ExternalToolHandler for ListResources {
    fn check_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        text_of(&input, "server", false)?;
        Ok(input)
    }

    fn call<'a>(
        &'a self,
        input: Map<String, Value>,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
        Box::pin(async move {
            let servers = self.0.upgrade().ok_or_else(session_over)?;
            let wanted = text_of(&input, "server", false).ok().flatten();
            let sources = servers.resource_sources(wanted.as_deref()).map_err(ToolError::failed)?;
            let limit = servers.request_limit();
            let listed = join_all(sources.into_iter().map(|(name, listing)| async move {
                let answer = tokio::time::timeout(limit, listing).await;
                let late = |_| Err(format!("it did not answer within {} s", limit.as_secs()));
                (name, answer.unwrap_or_else(late))
            }));
            let (mut rows, mut problems) = (Vec::new(), Vec::new());
            for (server, found) in listed.await {
                match found {
                    Ok((resources, templates)) => {
                        rows.extend(resources.iter().map(|resource| row(&server, json!(resource), "uri")));
                        rows.extend(templates.iter().map(|template| row(&server, json!(template), "uriTemplate")));
                    }
                    // One server does not spoil the list of the others.
                    Err(why) => problems.push(format!("The server '{server}' did not list its resources: {why}")),
                }
            }
            let mut text = if rows.is_empty() { "No resources.".to_owned() } else { json!(rows).to_string() };
            for problem in problems {
                text.push('\n');
                text.push_str(&problem);
            }
            let output = to_raw_value(&rows).unwrap_or_else(|_| RawValue::NULL.to_owned());
            let content = ResultContent::Text(sanitize_data(&text));
            Ok(ExternalToolResult { output, content, new_messages: Vec::new() })
        })
    }
}

/// Returns the row of a resource: what the model needs to read it.
fn row(server: &str, resource: Value, address: &str) -> Value {
    let mut row = Map::new();
    for (key, is_label) in [(address, false), ("name", true), ("mimeType", true), ("description", true)] {
        if let Some(text) = resource.get(key).and_then(Value::as_str) {
            row.insert(key.to_owned(), if is_label { json!(sanitize_label(text)) } else { json!(text) });
        }
    }
    row.insert("server".to_owned(), json!(server));
    Value::Object(row)
}

/// Handler of reading.
struct ReadResource(Weak<McpServers>);

impl ExternalToolHandler for ReadResource {
    fn check_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        text_of(&input, "server", true)?;
        text_of(&input, "uri", true)?;
        Ok(input)
    }

    fn call<'a>(
        &'a self,
        input: Map<String, Value>,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
        Box::pin(async move {
            let servers = self.0.upgrade().ok_or_else(session_over)?;
            let member = |name| text_of(&input, name, true).ok().flatten().unwrap_or_default();
            let (server, uri) = (member("server"), member("uri"));
            let reading = servers.resource_reader(&server, uri.clone()).map_err(ToolError::failed)?;
            let limit = servers.request_limit();
            let contents = tokio::select! {
                biased;
                () = cx.cancel.cancelled() => {
                    return Err(ToolError::interrupted(format!("reading from the server '{server}' was stopped")));
                }
                read = tokio::time::timeout(limit, reading) => match read {
                    Ok(read) => read.map_err(|why| {
                        ToolError::failed(format!("the server '{server}' did not give {uri}: {}", sanitize_data(&why)))
                    })?,
                    Err(_) => {
                        let text = format!("the server '{server}' did not answer within {} s", limit.as_secs());
                        return Err(ToolError::failed(text));
                    }
                },
            };
            let files = BinaryFiles::new(cx.services.results_dir(), &cx.call);
            let parts: Vec<ContentPart> = contents.iter().map(|one| resource_part(one, &files)).collect();
            let shown: Vec<Value> = contents.iter().zip(&parts).map(|(one, part)| output_row(one, part)).collect();
            let output = to_raw_value(&json!({ "contents": shown })).unwrap_or_else(|_| RawValue::NULL.to_owned());
            let content = match parts.as_slice() {
                [] => ResultContent::Text("(the resource is empty)".to_owned()),
                [ContentPart::Text { text }] => ResultContent::Text(text.clone()),
                _ => ResultContent::Parts(parts),
            };
            Ok(ExternalToolResult { output, content, new_messages: Vec::new() })
        })
    }
}

/// Returns what programs see of one part: its text, or where its bytes are.
fn output_row(contents: &ResourceContents, part: &ContentPart) -> Value {
    let mut row = json!(contents);
    if let Some(members) = row.as_object_mut()
        && members.remove("blob").is_some()
        && let ContentPart::Text { text } = part
    {
        members.insert("blobSavedTo".to_owned(), json!(text));
    }
    row
}
