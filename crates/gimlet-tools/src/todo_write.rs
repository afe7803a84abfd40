//! TodoWrite: replaces the to-do list of the agent that calls it. Touches nothing outside the session.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gimlet_core::tool::{
    AgentAvailability, CarriedState, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_core::{PastCalls, SessionServices};
use gimlet_proto::{AccessNeed, AgentPath, ResultContent, TodoItem, TodoStatus, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::to_raw_value;

pub(crate) struct TodoWrite;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TodoWriteInput {
    /// The whole new list
    todos: Vec<TodoEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TodoEntry {
    /// What to do
    content: String,
    /// The same while it is being done
    active_form: String,
    /// How far it is
    status: TodoEntryStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TodoEntryStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TodoWriteOutput {
    old_todos: Vec<TodoEntry>,
    new_todos: Vec<TodoEntry>,
}

/// The lists of a session, one per agent.
#[derive(Default)]
struct TodoLists(Mutex<HashMap<AgentPath, Vec<TodoEntry>>>);

impl TodoLists {
    fn for_agent(&self, agent: &AgentPath) -> Option<Vec<TodoEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(agent).cloned()
    }

    fn set(&self, agent: AgentPath, todos: Vec<TodoEntry>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(agent, todos);
    }
}

/// The part of an output from which the list is restored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PastTodoOutput {
    new_todos: Vec<TodoEntry>,
}

/// Returns the list from an earlier run of the conversation.
fn list_from_past_calls(past: &PastCalls) -> Option<Vec<TodoEntry>> {
    let mut calls = past.latest_first().filter(|call| call.name == TodoWrite::NAME);
    let called = calls.find_map(|call| past.output::<PastTodoOutput>(&call.id));
    called.or_else(|| past.carried(TodoWrite::NAME)).map(|output| output.new_todos)
}

/// Returns the current list of an agent. A subagent begins without one; only the conversation itself has a past.
fn current_list(services: &SessionServices, agent: &AgentPath) -> Option<Vec<TodoEntry>> {
    let is_main = *agent == AgentPath::default();
    let recall = || if is_main { list_from_past_calls(services.past_calls()) } else { None };
    services.tool_state::<TodoLists>().for_agent(agent).or_else(recall)
}

fn render_list(todos: &[TodoEntry]) -> String {
    let line = |todo: &TodoEntry| match todo.status {
        TodoEntryStatus::Pending => format!("- [ ] {}", todo.content),
        TodoEntryStatus::InProgress => format!("- [in progress] {}", todo.content),
        TodoEntryStatus::Completed => format!("- [done] {}", todo.content),
    };
    todos.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Tool for TodoWrite {
    const NAME: &'static str = "TodoWrite";
    type Input = TodoWriteInput;
    type Output = TodoWriteOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("todo_write.md").trim_ascii_end())
    }

    fn needs(&self, _input: &TodoWriteInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    async fn call(&self, input: TodoWriteInput, cx: &ToolContext) -> Result<ToolResult<TodoWriteOutput>, ToolError> {
        let lists = cx.state::<TodoLists>();
        let agent = cx.agent.clone();
        let old_todos = current_list(&cx.services, &agent).unwrap_or_default();
        let output = TodoWriteOutput { old_todos, new_todos: input.todos.clone() };
        // As a change, so that a call whose result is discarded leaves the list alone.
        Ok(ToolResult::new(output).with_change(move |_| lists.set(agent, input.todos)))
    }

    fn to_blocks(&self, output: &TodoWriteOutput) -> ResultContent {
        let count = |status| output.new_todos.iter().filter(|todo| todo.status == status).count();
        let note = match (count(TodoEntryStatus::InProgress), count(TodoEntryStatus::Pending)) {
            (0, pending) if pending > 0 => " Nothing is in progress; mark the item you work on.",
            (0 | 1, _) => "",
            (_, _) => " Several items are in progress; keep it to one.",
        };
        format!("Todo list updated. Keep it current while you work.{note}").into()
    }

    fn view(&self, _input: &TodoWriteInput, output: &TodoWriteOutput) -> View {
        let item = |todo: &TodoEntry| match todo.status {
            TodoEntryStatus::Pending => TodoItem { text: todo.content.clone(), status: TodoStatus::Pending },
            TodoEntryStatus::InProgress => TodoItem { text: todo.active_form.clone(), status: TodoStatus::InProgress },
            TodoEntryStatus::Completed => TodoItem { text: todo.content.clone(), status: TodoStatus::Completed },
        };
        View::Todos(output.new_todos.iter().map(item).collect())
    }

    fn description(&self, input: &TodoWriteInput, _cx: &PathContext) -> String {
        let done = input.todos.iter().filter(|todo| todo.status == TodoEntryStatus::Completed).count();
        format!("{done} of {} done", input.todos.len())
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn carried(&self, services: &SessionServices, agent: &AgentPath) -> Option<CarriedState> {
        let todos = current_list(services, agent).filter(|todos| !todos.is_empty())?;
        let text = format!("The to-do list, as {} left it:\n{}", Self::NAME, render_list(&todos));
        let output = TodoWriteOutput { old_todos: Vec::new(), new_todos: todos };
        Some(CarriedState { text, output: to_raw_value(&output).ok() })
    }

    fn search_hint(&self) -> &'static str {
        "todo task list plan steps progress"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    #[tokio::test]
    async fn the_list_is_replaced_and_both_lists_come_back() {
        let bench = ToolBench::new();
        let services = bench.services();
        let first = json!({"todos":[{"content":"Add flag","activeForm":"Adding flag","status":"in_progress"}]});
        let result = bench.call_on(&services, &TodoWrite, first).await.unwrap();
        assert_eq!(
            serde_json::to_string(&result.data).unwrap(),
            r#"{"oldTodos":[],"newTodos":[{"content":"Add flag","activeForm":"Adding flag","status":"in_progress"}]}"#
        );
        assert_eq!(TodoWrite.to_blocks(&result.data).to_text(), "Todo list updated. Keep it current while you work.");
        let mut state = bench.state.clone();
        result.changes.into_iter().for_each(|change| change(&mut state));

        let second = json!({"todos":[{"content":"Add flag","activeForm":"Adding flag","status":"completed"},
                                     {"content":"Test","activeForm":"Testing","status":"pending"}]});
        let result = bench.call_on(&services, &TodoWrite, second).await.unwrap();
        assert_eq!(result.data.old_todos.len(), 1);
        assert!(TodoWrite.to_blocks(&result.data).to_text().contains("Nothing is in progress"));
        let View::Todos(items) = TodoWrite.view(&TodoWriteInput { todos: vec![] }, &result.data) else { panic!() };
        assert_eq!(items[0], TodoItem { text: "Add flag".into(), status: TodoStatus::Completed });
    }

    #[tokio::test]
    async fn a_discarded_call_leaves_the_list_alone() {
        let bench = ToolBench::new();
        let services = bench.services();
        let input = json!({"todos":[{"content":"a","activeForm":"b","status":"pending"}]});
        drop(bench.call_on(&services, &TodoWrite, input.clone()).await.unwrap());
        assert_eq!(bench.call_on(&services, &TodoWrite, input).await.unwrap().data.old_todos, []);
    }

    #[test]
    fn it_needs_only_the_session_and_names_every_wrong_field() {
        let bench = ToolBench::new();
        let (needs, description) = bench.prepare(&TodoWrite, json!({"todos":[]})).unwrap();
        assert_eq!((needs, description.as_str()), (vec![AccessNeed::Session], "0 of 0 done"));
        let wrong = json!({"todos":[{"content":"a","active_form":"b","status":"done"}]});
        let text = bench.prepare(&TodoWrite, wrong).unwrap_err().model_text;
        for part in ["todos[0].activeForm", "active_form", "in_progress"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_description_stays_short() {
        assert!(include_str!("todo_write.md").len() <= 700, "every request carries it");
    }
}
