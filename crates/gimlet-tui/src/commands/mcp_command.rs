//! `/mcp`: the tool servers of the session: how they stand, their tools, and a way to connect one again or turn it off.

use gimlet_proto::{ServerStatus, ServerView};

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, ServerChange, ServerListUse, TerminalApp};
use crate::pickers::{ChoicePicker, PickerRow};
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, clean_text};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "mcp",
    aliases: &[],
    description: "Show MCP servers and their tools, connect them again",
    argument_hint: "[name]",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        return CommandStep::ForSession;
    }
    CommandStep::Done(vec![AppEffect::QueryServers(ServerListUse::List)])
}

/// Shows the servers, one of them, or the tools of one.
pub(crate) fn show_servers(app: &mut TerminalApp, servers: &[ServerView], used_for: &ServerListUse) -> Vec<AppEffect> {
    let find = |name: &String| servers.iter().find(|server| server.name == *name);
    match used_for {
        ServerListUse::List if servers.is_empty() => {
            app.remark("This session has no MCP servers. Add one with: gimlet mcp add");
        }
        ServerListUse::List => {
            let choices = servers.iter().map(|server| {
                let row = PickerRow {
                    note: server.status.as_str().to_owned(),
                    ..PickerRow::new(&server.name, tool_count(server))
                };
                (row, vec![AppEffect::QueryServers(ServerListUse::Details(server.name.clone()))])
            });
            app.open_choices(ChoicePicker::new("MCP servers", choices.collect()));
        }
        ServerListUse::Details(name) => match find(name) {
            Some(server) => app.open_choices(server_picker(server)),
            None => return app.warn("This server is not part of the session any more"),
        },
        ServerListUse::Tools(name) => match find(name) {
            Some(server) => app.open_page(&format!("Tools of {}", clean_line(name)), tool_lines(server)),
            None => return app.warn("This server is not part of the session any more"),
        },
    }
    Vec::new()
}

fn tool_count(server: &ServerView) -> String {
    match server.tools.len() {
        0 => String::new(),
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

fn server_picker(server: &ServerView) -> ChoicePicker {
    let tone = match server.status {
        ServerStatus::Connected => TextTone::Success,
        ServerStatus::Failed => TextTone::Error,
        ServerStatus::NeedsAuth => TextTone::Warn,
        ServerStatus::Pending | ServerStatus::Disabled => TextTone::Dim,
    };
    let mut first = StyledLine::of(format!("  {}", server.status.as_str()), tone);
    if let Some((name, version)) = &server.info {
        first.push(format!("  {} {}", clean_line(name), clean_line(version)), TextTone::Text);
    }
    first.push(format!("  from: {}", server.source), TextTone::Dim);
    let mut remarks = vec![first];
    if let Some(error) = &server.error {
        let lines = clean_text(error);
        remarks.extend(lines.lines().map(|line| StyledLine::of(format!("  {line}"), TextTone::Error).hanging(2)));
    }
    let change = |change| vec![AppEffect::ChangeServer { server: server.name.clone(), change }];
    let mut choices = Vec::new();
    if !server.tools.is_empty() {
        let show = AppEffect::QueryServers(ServerListUse::Tools(server.name.clone()));
        choices.push((PickerRow::new("Show its tools", tool_count(server)), vec![show]));
    }
    if server.status == ServerStatus::Disabled {
        choices.push((PickerRow::new("Turn it on", ""), change(ServerChange::Enable)));
    } else {
        choices.push((PickerRow::new("Connect it again", ""), change(ServerChange::Reconnect)));
        choices.push((PickerRow::new("Turn it off", "for this session"), change(ServerChange::Disable)));
    }
    choices.push((PickerRow::new("Back to the list", ""), vec![AppEffect::QueryServers(ServerListUse::List)]));
    ChoicePicker::new(&server.name, choices).with_remarks(remarks)
}

fn tool_lines(server: &ServerView) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for tool in &server.tools {
        let mut line = StyledLine::of(format!("  {}", clean_line(&tool.name)), TextTone::Accent);
        let marks = [(tool.read_only, "only reads"), (tool.destructive, "may destroy")];
        for (_, mark) in marks.into_iter().filter(|(is_said, _)| *is_said == Some(true)) {
            line.push(format!("  {mark}"), TextTone::Dim);
        }
        lines.push(line);
        let text = tool.description.as_deref().unwrap_or_default();
        let first = text.trim().lines().next().unwrap_or_default();
        if !first.is_empty() {
            lines.push(StyledLine::of(format!("      {}", clean_line(first)), TextTone::Dim).hanging(6));
        }
    }
    lines
}
