//! Session output for a plain terminal: text as it streams, calls as they run, changes as diffs.

use std::io::{self, Write};

use gimlet_proto::{
    BlockDelta, BlockKind, DeltaKind, DiffHunk, Event, EventBody, NoticeLevel, TodoItem, TodoStatus, ToolCallPhase,
    TurnEnd, View,
};

use crate::sanitise;

/// Maximum number of output or diff lines shown; the rest is only counted.
const MAX_LINES: usize = 14;

/// Permission to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourMode {
    Plain,
    Ansi,
}

/// Writer that renders events as they arrive.
pub struct EventWatcher<W> {
    out: W,
    colour: ColourMode,
    /// True while the cursor is inside a line of model text.
    in_line: bool,
}

impl<W: Write> EventWatcher<W> {
    pub fn new(out: W, colour: ColourMode) -> Self {
        Self { out, colour, in_line: false }
    }

    /// Writes a line from gimlet itself, set apart from the session's output.
    pub fn write_remark(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = self.paint("2", text);
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// Writes a heading from gimlet itself.
    pub fn write_heading(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = self.paint("1", text);
        writeln!(self.out, "\n{text}")?;
        self.out.flush()
    }

    /// Renders one event.
    pub fn write_event(&mut self, event: &Event) -> io::Result<()> {
        match &event.body {
            EventBody::BlockStarted { kind: BlockKind::Text, .. } => {
                self.end_line()?;
                writeln!(self.out)?;
            }
            EventBody::Delta(BlockDelta { kind: DeltaKind::Text, text, .. }) => {
                write!(self.out, "{}", sanitise(text))?;
                self.in_line = !text.ends_with('\n');
            }
            EventBody::Tool(tool) => match &tool.phase {
                ToolCallPhase::Running => {
                    self.end_line()?;
                    let bullet = self.paint("36", "●");
                    let name = self.paint("1", &tool.name);
                    writeln!(self.out, "\n{bullet} {name}({})", sanitise(&tool.summary))?;
                }
                ToolCallPhase::Progress { text, .. } if text.is_empty() => {}
                ToolCallPhase::Progress { text, .. } => {
                    let line = sanitise(text.lines().last().unwrap_or_default()).into_owned();
                    self.write_remark(&format!("  … {line}"))?;
                }
                ToolCallPhase::Done { view, .. } => self.write_view(view)?,
                ToolCallPhase::Failed { view: View::Text(text), .. } => {
                    self.end_line()?;
                    self.write_lines(&sanitise(text), "31")?;
                }
                ToolCallPhase::Failed { view, .. } => {
                    self.end_line()?;
                    self.write_view(view)?;
                }
            },
            EventBody::Denied(denial) => {
                let text = self.paint("33", &sanitise(&denial.reason));
                writeln!(self.out, "  {text}")?;
            }
            EventBody::Notice(notice) if notice.level == NoticeLevel::Debug => {}
            EventBody::Notice(notice) => self.write_remark(&format!("  {}", sanitise(&notice.text)))?,
            EventBody::Retry(retry) => self.write_remark(&format!("  {}; trying again", retry.error))?,
            EventBody::TurnEnded(report) => {
                self.end_line()?;
                if let TurnEnd::Failed(error) = &report.end {
                    let text = self.paint("31", &error.to_string());
                    writeln!(self.out, "{text}")?;
                }
            }
            // This front end answers no questions, and shows neither subagents' tasks nor diagnosis.
            EventBody::TurnStarting(_)
            | EventBody::Prompt(_)
            | EventBody::PromptOutcome { .. }
            | EventBody::Requesting
            | EventBody::BlockStarted { .. }
            | EventBody::Delta(_)
            | EventBody::ReplyDiscarded
            | EventBody::Wire(_)
            | EventBody::Block(_)
            | EventBody::ToolFinished(_)
            | EventBody::Ask(_)
            | EventBody::AskClosed(_)
            | EventBody::Task(_)
            | EventBody::RateLimits(_)
            | EventBody::CacheBreak(_)
            | EventBody::ReplyAnomalies(_)
            | EventBody::Hook(_)
            | EventBody::Compaction(_)
            | EventBody::CommandReply(_)
            | EventBody::UnknownCommand { .. }
            | EventBody::ModeChanged(_)
            | EventBody::Closed => {}
        }
        self.out.flush()
    }

    fn write_view(&mut self, view: &View) -> io::Result<()> {
        match view {
            View::Text(text) => self.write_lines(&sanitise(text), "2"),
            View::Diff { path, hunks } => self.write_diff(path, hunks),
            View::Terminal { output, exit_code, .. } => {
                let style = if exit_code.is_some_and(|code| code != 0) { "31" } else { "32" };
                self.write_lines(&sanitise(output), style)
            }
            View::Files { paths, note } => {
                let text = note.clone().unwrap_or_else(|| paths.join("\n"));
                self.write_lines(&sanitise(&text), "2")
            }
            View::Todos(items) => self.write_todos(items),
            View::Table { head, rows } => {
                let rows = std::iter::once(head).chain(rows).map(|row| row.join("  ")).collect::<Vec<_>>();
                self.write_lines(&sanitise(&rows.join("\n")), "2")
            }
        }
    }

    fn write_lines(&mut self, text: &str, style: &str) -> io::Result<()> {
        let all: Vec<&str> = text.trim_end().lines().collect();
        for line in all.iter().take(MAX_LINES) {
            let line = self.paint(style, line);
            writeln!(self.out, "  │ {line}")?;
        }
        if all.len() > MAX_LINES {
            writeln!(self.out, "  │ … {} more lines", all.len() - MAX_LINES)?;
        }
        Ok(())
    }

    fn write_diff(&mut self, path: &str, hunks: &[DiffHunk]) -> io::Result<()> {
        let title = self.paint("1", &sanitise(path));
        writeln!(self.out, "  │ {title}")?;
        for hunk in hunks {
            for line in hunk.lines.iter().take(MAX_LINES) {
                let style = match line.as_bytes().first() {
                    Some(b'+') => "32",
                    Some(b'-') => "31",
                    _ => "2",
                };
                let line = self.paint(style, &sanitise(line));
                writeln!(self.out, "  │ {line}")?;
            }
        }
        Ok(())
    }

    fn write_todos(&mut self, items: &[TodoItem]) -> io::Result<()> {
        for item in items {
            let mark = match item.status {
                TodoStatus::Pending => "☐",
                TodoStatus::InProgress => "◐",
                TodoStatus::Completed => "☒",
            };
            writeln!(self.out, "  │ {mark} {}", sanitise(&item.text))?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.in_line, false) {
            writeln!(self.out)?;
        }
        Ok(())
    }

    fn paint(&self, style: &str, text: &str) -> String {
        match self.colour {
            ColourMode::Ansi => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
            ColourMode::Plain => text.to_owned(),
        }
    }
}
