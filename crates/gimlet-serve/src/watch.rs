//! A session for people's eyes on a plain terminal: words as they come, calls as they run, changes as diffs.

use std::io::{self, Write};

use gimlet_proto::{
    BlockKind, Body, Delta, DeltaKind, DiffHunk, Event, Level, TodoItem, TodoStatus, ToolPhase, TurnEnd, View,
};

use crate::sanitise;

/// Lines of output or of a diff shown before the rest is counted.
const MAX_LINES: usize = 14;

/// Whether colour may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Plain,
    Ansi,
}

/// Draws events as they come.
pub struct Watcher<W> {
    out: W,
    colour: Colour,
    /// The cursor stands inside a line of the model's words.
    in_line: bool,
}

impl<W: Write> Watcher<W> {
    pub fn new(out: W, colour: Colour) -> Self {
        Self { out, colour, in_line: false }
    }

    /// A line of gimlet's own, set apart from the session.
    pub fn remark(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = self.paint("2", text);
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// A heading of gimlet's own.
    pub fn heading(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = self.paint("1", text);
        writeln!(self.out, "\n{text}")?;
        self.out.flush()
    }

    /// Draws one event.
    pub fn show(&mut self, event: &Event) -> io::Result<()> {
        match &event.body {
            Body::BlockStarted { kind: BlockKind::Text, .. } => {
                self.end_line()?;
                writeln!(self.out)?;
            }
            Body::Delta(Delta { kind: DeltaKind::Text, text, .. }) => {
                write!(self.out, "{}", sanitise(text))?;
                self.in_line = !text.ends_with('\n');
            }
            Body::Tool(tool) => match &tool.phase {
                ToolPhase::Running => {
                    self.end_line()?;
                    let bullet = self.paint("36", "●");
                    let name = self.paint("1", &tool.name);
                    writeln!(self.out, "\n{bullet} {name}({})", sanitise(&tool.summary))?;
                }
                ToolPhase::Progress { .. } => {}
                ToolPhase::Done { view, .. } => self.view(view)?,
                ToolPhase::Failed { message, .. } => {
                    self.end_line()?;
                    self.lines(&sanitise(message), "31")?;
                }
            },
            Body::Denied(denial) => {
                let text = self.paint("33", &sanitise(&denial.reason));
                writeln!(self.out, "  {text}")?;
            }
            Body::Notice(notice) if notice.level == Level::Debug => {}
            Body::Notice(notice) => self.remark(&format!("  {}", sanitise(&notice.text)))?,
            Body::Retry(retry) => self.remark(&format!("  {}; trying again", retry.error))?,
            Body::TurnEnded(report) => {
                self.end_line()?;
                if let TurnEnd::Failed(error) = &report.end {
                    let text = self.paint("31", &error.to_string());
                    writeln!(self.out, "{text}")?;
                }
            }
            _ => {}
        }
        self.out.flush()
    }

    fn view(&mut self, view: &View) -> io::Result<()> {
        match view {
            View::Text(text) => self.lines(&sanitise(text), "2"),
            View::Diff { path, hunks } => self.diff(path, hunks),
            View::Terminal { output, exit_code, .. } => {
                let style = if exit_code.is_some_and(|code| code != 0) { "31" } else { "32" };
                self.lines(&sanitise(output), style)
            }
            View::Files { paths, note } => {
                let text = note.clone().unwrap_or_else(|| paths.join("\n"));
                self.lines(&sanitise(&text), "2")
            }
            View::Todos(items) => self.todos(items),
            View::Table { head, rows } => {
                let rows = std::iter::once(head).chain(rows).map(|row| row.join("  ")).collect::<Vec<_>>();
                self.lines(&sanitise(&rows.join("\n")), "2")
            }
        }
    }

    fn lines(&mut self, text: &str, style: &str) -> io::Result<()> {
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

    fn diff(&mut self, path: &str, hunks: &[DiffHunk]) -> io::Result<()> {
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

    fn todos(&mut self, items: &[TodoItem]) -> io::Result<()> {
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
            Colour::Ansi => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
            Colour::Plain => text.to_owned(),
        }
    }
}
