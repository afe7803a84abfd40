//! Queries that a host makes beside the conversation: files, tasks, rules, hooks. The session's rules decide if a file
//! may be read; this module converts the answers to the form that hosts know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gimlet_proto::{
    DirectoryRequester, FilePrefix, HookEvent, HookListing, Host, Op, OpReply, PermissionRuleView, PermissionsView,
    SessionHandle, SessionQuery, SettingsView, TaskOutputTail,
};
use serde_json::{Value, json};

use super::{RoutedAnswer, await_reply, missing_member, render_problems, send_query};
use crate::sdk::host_lines::HostLine;
use crate::sdk::truncate;

/// Maximum number of bytes of a file returned at once.
const MAX_FILE: usize = 600_000;
/// Maximum number of suggested files.
const SUGGESTIONS: usize = 15;
/// Number of candidate files checked against the rules at once.
const JUDGED_AT_ONCE: usize = 50;
/// Timeout for finding permitted files among those that rules deny.
const PATIENCE: Duration = Duration::from_secs(2);

/// Routes a request to the session.
pub(super) fn route_query(
    subtype: &str,
    request: &HostLine,
    session: &SessionHandle,
    backstage: &Arc<dyn Host>,
) -> RoutedAnswer {
    match subtype {
        "get_task_output" => match request.text("task_id") {
            Some(task) => {
                send_query(session, |reply| Op::Query(SessionQuery::TaskOutput { task, reply }), render_task_output)
            }
            None => missing_member(subtype, "task_id"),
        },
        "read_file" => read_file(request, session),
        "file_suggestions" => match request.text("query") {
            Some(query) => suggest_files(query, session, backstage),
            None => missing_member(subtype, "query"),
        },
        "list_permission_rules" => {
            let settings = backstage.settings();
            let managed_only = is_setting_on(&settings, "allowManagedPermissionRulesOnly");
            let errors = settings.map_or_else(|_| json!([]), |settings| render_problems(&settings.problems));
            send_query(
                session,
                |reply| Op::Query(SessionQuery::Permissions { reply }),
                move |view| {
                    let mut answer = render_rules(&view, managed_only);
                    answer["errors"] = errors;
                    answer
                },
            )
        }
        "get_hooks_listing" => {
            let settings = backstage.settings();
            let off = is_setting_on(&settings, "disableAllHooks");
            let managed_only = is_setting_on(&settings, "allowManagedHooksOnly");
            let catalog: Vec<_> = HookEvent::firing().map(|event| (event.name(), event.has_subject())).collect();
            send_query(
                session,
                |reply| Op::Query(SessionQuery::Hooks { reply }),
                move |list| render_hooks(&list, &catalog, off, managed_only),
            )
        }
        _ => add_directory(request, session),
    }
}

/// Returns true if a switch is on in the effective settings.
fn is_setting_on(settings: &Result<SettingsView, String>, key: &str) -> bool {
    settings.as_ref().is_ok_and(|settings| settings.effective[key] == true)
}

fn render_task_output(tail: TaskOutputTail) -> Value {
    json!({"output": tail.output, "total_bytes": tail.total_bytes, "truncated": tail.truncated})
}

fn read_file(request: &HostLine, session: &SessionHandle) -> RoutedAnswer {
    let Some(path) = request.text("path").filter(|path| !path.is_empty()) else {
        return missing_member("read_file", "path");
    };
    let base64 = match request.text("encoding").as_deref() {
        None | Some("utf-8") => false,
        Some("base64") => true,
        Some(other) => return RoutedAnswer::Now(Err(format!("read_file cannot give the encoding '{other}'"))),
    };
    let most = match (request.raw("max_bytes"), request.get::<usize>("max_bytes")) {
        (None, _) => MAX_FILE,
        (Some(_), Some(most)) => most.min(MAX_FILE),
        (Some(_), None) => return RoutedAnswer::Now(Err("max_bytes must be a whole number".to_owned())),
    };
    let inquiry = |reply| Op::Query(SessionQuery::ReadFile { path: path.into(), most, reply });
    send_query(session, inquiry, move |part| render_file(part, base64))
}

/// Renders a file for hosts. Content that does not fit into a line is cut and marked as truncated.
fn render_file(mut part: FilePrefix, base64: bool) -> Value {
    loop {
        if part.truncated && !base64 {
            trim_partial_character(&mut part.bytes);
        }
        let mut answer = json!({"absPath": part.path.to_string_lossy()});
        if base64 {
            answer["contents"] = json!(BASE64_STANDARD.encode(&part.bytes));
            answer["encoding"] = json!("base64");
        } else {
            let text = String::from_utf8_lossy(&part.bytes);
            answer["lossy"] = json!(matches!(text, std::borrow::Cow::Owned(_)));
            answer["contents"] = json!(text);
        }
        if part.truncated {
            answer["truncated"] = json!(true);
        }
        // Escaped bytes take up to six times their length in JSON.
        if answer.to_string().len() < truncate::MAX_INPUT {
            return answer;
        }
        part.bytes.truncate(part.bytes.len() / 2);
        part.truncated = true;
    }
}

/// Removes the beginning of a character whose end was cut off.
fn trim_partial_character(bytes: &mut Vec<u8>) {
    let Some(at) = bytes.iter().rposition(|byte| byte & 0xC0 != 0x80) else { return };
    let length = match bytes[at] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if at + length > bytes.len() {
        bytes.truncate(at);
    }
}

/// Suggests files whose path matches, without those that rules deny: checked from the best match on, until there are
/// enough.
fn suggest_files(query: String, session: &SessionHandle, backstage: &Arc<dyn Host>) -> RoutedAnswer {
    let below = session.snapshot().cwd.clone();
    let found = backstage.suggest_files(below.clone(), query);
    let session = session.clone();
    RoutedAnswer::Later(Box::pin(async move {
        let (found, began) = (found.await, Instant::now());
        let mut open = Vec::new();
        for some in found.chunks(JUDGED_AT_ONCE) {
            let (reply, readable) = OpReply::channel();
            session.send(Op::Query(SessionQuery::ReadableFiles { paths: some.to_vec(), reply }));
            open.extend(await_reply(readable).await?);
            if open.len() >= SUGGESTIONS || began.elapsed() > PATIENCE {
                break;
            }
        }
        let shown = open.iter().take(SUGGESTIONS).map(|path| {
            let path = path.strip_prefix(&below).unwrap_or(path);
            json!({"path": path.to_string_lossy()})
        });
        Ok(json!({"suggestions": shown.collect::<Vec<_>>()}))
    }))
}

fn render_rules(view: &PermissionsView, managed_only: bool) -> Value {
    let rule = |rule: &PermissionRuleView| {
        let editability = match rule.source {
            "userSettings" | "projectSettings" | "localSettings" => "persistent",
            "session" | "cliArg" => "session",
            _ => "readonly",
        };
        json!({"behavior": rule.behavior, "source": rule.source, "rule": rule.rule, "editability": editability})
    };
    let source = |of_session: bool| if of_session { "session" } else { "launch" };
    let directories = view.directories.iter();
    json!({"state": {
        "rules": view.rules.iter().map(rule).collect::<Vec<_>>(),
        "workspaceDirectories": directories
            .map(|(path, of_session)| json!({"path": path.to_string_lossy(), "source": source(*of_session)}))
            .collect::<Vec<_>>(),
        "originalCwd": view.start.to_string_lossy(),
        "managedOnly": managed_only,
    }})
}

fn render_hooks(list: &[HookListing], catalog: &[(&str, bool)], off: bool, managed_only: bool) -> Value {
    let names: BTreeSet<&str> = list.iter().map(|hook| hook.event).collect();
    let event = |name: &&str| {
        let of = || list.iter().filter(|hook| hook.event == *name);
        let matcher = of().any(|hook| hook.has_subject);
        json!({"name": name, "summary": "", "supportsMatcher": matcher, "hookCount": of().count()})
    };
    let hook = |hook: &HookListing| {
        let mut row = json!({"event": hook.event, "matcher": hook.matcher, "source": "sessionHook",
            "sourceLabel": hook.source, "type": hook.kind, "displayText": hook.text, "commandText": hook.text,
            "contentLabel": "Callback"});
        if let Some(timeout) = hook.timeout_secs {
            row["timeout"] = json!(timeout);
        }
        row
    };
    json!({
        "events": names.iter().map(event).collect::<Vec<_>>(),
        "hooks": list.iter().map(hook).collect::<Vec<_>>(),
        "eventCatalog": catalog
            .iter()
            .map(|(name, matcher)| json!({"name": name, "summary": "", "supportsMatcher": matcher}))
            .collect::<Vec<_>>(),
        "policy": {"disabledByPolicy": false, "managedOnly": managed_only, "pluginOnly": false, "allDisabled": off,
            "policyHookCount": 0},
    })
}

fn add_directory(request: &HostLine, session: &SessionHandle) -> RoutedAnswer {
    let Some(directory) = request.text("directory").filter(|text| !text.is_empty()) else {
        return missing_member("register_repo_root", "directory");
    };
    let reloads = ["reload_claude_md", "reload_plugins", "reload_skills"];
    if let Some(member) = reloads.iter().find(|member| request.is_set(member)) {
        let problem = format!("register_repo_root with {member} is not available in this version of gimlet");
        return RoutedAnswer::Now(Err(problem));
    }
    let inquiry = |reply| {
        Op::Query(SessionQuery::AddDirectory {
            directory: directory.into(),
            requester: DirectoryRequester::Program,
            reply,
        })
    };
    send_query(session, inquiry, |path| json!({"directory": path.to_string_lossy()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_inside_a_character_leaves_no_part_of_it() {
        let text = "aé€😀".as_bytes();
        for (most, contents) in [(10, "aé€😀"), (9, "aé€"), (7, "aé€"), (6, "aé€"), (5, "aé"), (2, "a"), (1, "a")]
        {
            let part = FilePrefix { path: "/x".into(), bytes: text[..most].to_vec(), truncated: most < text.len() };
            let answer = render_file(part, false);
            assert_eq!((&answer["contents"], &answer["lossy"]), (&json!(contents), &json!(false)), "{most}");
        }
        let odd = |bytes: &[u8], truncated: bool| {
            render_file(FilePrefix { path: "/x".into(), bytes: bytes.to_vec(), truncated }, false)
        };
        assert_eq!(odd(b"a\xffb", true)["lossy"], true);
        assert_eq!(odd(b"a\xe2\x82", false)["lossy"], true, "nothing was cut here");
    }
}
