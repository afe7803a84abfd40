//! The permission rules of a session as a page.

use gimlet_proto::PermissionsView;

use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::clean_line;

/// Returns the rules by what they do, each with where it comes from, and the folders.
pub(super) fn permission_lines(view: &PermissionsView) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for (behavior, title, tone) in [
        ("deny", "Never allowed", TextTone::Error),
        ("ask", "Always asked about", TextTone::Warn),
        ("allow", "Allowed without asking", TextTone::Success),
    ] {
        let rules: Vec<_> = view.rules.iter().filter(|rule| rule.behavior == behavior).collect();
        lines.push(StyledLine::of(format!("  {title}"), tone));
        if rules.is_empty() {
            lines.push(StyledLine::of("    nothing by rule", TextTone::Dim));
        }
        for rule in rules {
            let line = StyledLine::plain(format!("    {}", clean_line(&rule.rule)));
            lines.push(line.with(format!("  {}", describe_source(rule.source)), TextTone::Dim).hanging(6));
        }
        lines.push(StyledLine::blank());
    }
    lines.push(StyledLine::plain("  Folders"));
    lines.push(StyledLine::plain(format!("    {}", clean_line(&view.start.to_string_lossy()))));
    for (folder, is_added) in &view.directories {
        let note = if *is_added { "  for this session" } else { "" };
        let line = StyledLine::plain(format!("    {}", clean_line(&folder.to_string_lossy())));
        lines.push(line.with(note, TextTone::Dim));
    }
    lines.push(StyledLine::blank());
    lines.push(StyledLine::of(
        "  Rules are in settings files: permissions.allow, .ask and .deny. They apply as soon as they are saved.",
        TextTone::Dim,
    ));
    lines
}

fn describe_source(source: &str) -> &str {
    match source {
        "userSettings" => "your settings",
        "projectSettings" => "the project's settings",
        "localSettings" => "your settings for this project",
        "policySettings" => "your administrator",
        "flagSettings" | "cliArg" => "the command line",
        "session" => "this session",
        other => other,
    }
}
