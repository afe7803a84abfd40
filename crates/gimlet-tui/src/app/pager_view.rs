//! A long text on a screen of its own, to scroll and search in: a conversation with thinking, full output and times.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{HistoryItem, TaskOutputTail, TaskView};
use jiff::tz::TimeZone;

use crate::feed::{TranscriptLines, group_digits, text_rows};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, clean_line, truncate_line};

/// The view and where it stands.
#[derive(Debug)]
pub(super) struct PagerView {
    content: PagerContent,
    zone: TimeZone,
    /// Rendered lines and the width they were made for.
    rendered: Option<(usize, TranscriptLines)>,
    first_row: usize,
    height: usize,
    must_show_end: bool,
    search: Option<SearchInput>,
    /// Rows in which the text that is searched for stands.
    matches: Vec<usize>,
}

/// What is shown.
#[derive(Debug)]
pub(super) enum PagerContent {
    /// The main conversation.
    Conversation(Vec<HistoryItem>),
    /// That of a subagent.
    Agent { agent: TaskLabel, items: Vec<HistoryItem> },
    /// What a command in the background printed.
    Output { task: TaskLabel, tail: TaskOutputTail },
}

/// A task as the front end names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLabel {
    pub id: String,
    pub title: String,
}

impl TaskLabel {
    pub(crate) fn for_task(task: &TaskView) -> Self {
        let title = match &task.subagent_type {
            Some(kind) => format!("{kind}  {}", task.description),
            None => task.description.clone(),
        };
        Self { id: task.id.clone(), title }
    }
}

#[derive(Clone, Debug, Default)]
struct SearchInput {
    text: String,
    is_typing: bool,
}

/// What a key led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PagerOutcome {
    Stays,
    Leaves,
    /// Show this in the user's editor.
    Edits(String),
    /// Stop the task that is shown.
    Stops(TaskLabel),
    /// Write to the agent that is shown.
    Messages(TaskLabel),
}

impl PagerView {
    pub(super) fn new(content: PagerContent, zone: TimeZone) -> Self {
        Self {
            content,
            zone,
            rendered: None,
            first_row: 0,
            height: 1,
            must_show_end: true,
            search: None,
            matches: Vec::new(),
        }
    }

    /// Returns the agent whose conversation is shown.
    pub(super) fn agent(&self) -> Option<&TaskLabel> {
        match &self.content {
            PagerContent::Agent { agent, .. } => Some(agent),
            PagerContent::Conversation(_) | PagerContent::Output { .. } => None,
        }
    }

    /// Returns the command whose output is shown.
    pub(super) fn command(&self) -> Option<&TaskLabel> {
        match &self.content {
            PagerContent::Output { task, .. } => Some(task),
            PagerContent::Conversation(_) | PagerContent::Agent { .. } => None,
        }
    }

    /// Shows a newer state. Who reads the end goes on reading the end, everyone else stays where they are.
    pub(super) fn replace_content(&mut self, content: PagerContent) {
        self.must_show_end |= self.is_at_end();
        self.content = content;
        self.rendered = None;
    }

    fn is_at_end(&self) -> bool {
        self.first_row + self.height >= self.lines().len()
    }

    fn lines(&self) -> &[StyledLine] {
        self.rendered.as_ref().map(|(_, rendered)| rendered.lines.as_slice()).unwrap_or_default()
    }

    fn prompt_rows(&self) -> &[usize] {
        self.rendered.as_ref().map(|(_, rendered)| rendered.prompt_rows.as_slice()).unwrap_or_default()
    }

    pub(super) fn scroll(&mut self, rows: i64) {
        self.first_row = if rows < 0 {
            self.first_row.saturating_sub(rows.unsigned_abs() as usize)
        } else {
            self.first_row.saturating_add(rows.unsigned_abs() as usize)
        };
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> PagerOutcome {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(search) = self.search.as_mut().filter(|search| search.is_typing) {
            match key.code {
                KeyCode::Esc => self.search = None,
                KeyCode::Enter => search.is_typing = false,
                KeyCode::Backspace => drop(search.text.pop()),
                KeyCode::Char(char) if !has_control => search.text.push(char),
                _ => {}
            }
            self.find_matches();
            self.find_next(self.first_row);
            return PagerOutcome::Stays;
        }
        let page = i64::try_from(self.height.saturating_sub(2)).unwrap_or(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return PagerOutcome::Leaves,
            KeyCode::Char('o' | 'c') if has_control => return PagerOutcome::Leaves,
            KeyCode::Char('v') => return PagerOutcome::Edits(self.plain_text()),
            KeyCode::Char('x') => {
                let task = self.agent().or_else(|| self.command());
                return task.cloned().map_or(PagerOutcome::Stays, PagerOutcome::Stops);
            }
            KeyCode::Char('m') => return self.agent().cloned().map_or(PagerOutcome::Stays, PagerOutcome::Messages),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp | KeyCode::Char('b') => self.scroll(-page),
            KeyCode::PageDown | KeyCode::Char(' ' | 'f') => self.scroll(page),
            KeyCode::Char('u') => self.scroll(-page / 2),
            KeyCode::Char('d') => self.scroll(page / 2),
            KeyCode::Home | KeyCode::Char('g') => self.first_row = 0,
            KeyCode::End | KeyCode::Char('G') => self.first_row = usize::MAX,
            KeyCode::Char('{') => {
                let before = self.prompt_rows().iter().rev().find(|row| **row < self.first_row).copied();
                self.first_row = before.unwrap_or(0);
            }
            KeyCode::Char('}') => {
                let after = self.prompt_rows().iter().find(|row| **row > self.first_row).copied();
                self.first_row = after.unwrap_or(usize::MAX);
            }
            KeyCode::Char('/') => self.search = Some(SearchInput { text: String::new(), is_typing: true }),
            KeyCode::Char('n') => self.find_next(self.first_row + 1),
            KeyCode::Char('N') => self.find_previous(),
            _ => {}
        }
        PagerOutcome::Stays
    }

    fn find_matches(&mut self) {
        let wanted = self.search.as_ref().map(|search| search.text.to_lowercase()).unwrap_or_default();
        self.matches = if wanted.is_empty() {
            Vec::new()
        } else {
            let lines = self.lines().iter().enumerate();
            lines.filter(|(_, line)| line.text().to_lowercase().contains(&wanted)).map(|(row, _)| row).collect()
        };
    }

    fn find_next(&mut self, from: usize) {
        if let Some(row) = self.matches.iter().find(|row| **row >= from).or_else(|| self.matches.first()) {
            self.first_row = *row;
        }
    }

    fn find_previous(&mut self) {
        if let Some(row) = self.matches.iter().rev().find(|row| **row < self.first_row).or_else(|| self.matches.last())
        {
            self.first_row = *row;
        }
    }

    fn plain_text(&self) -> String {
        self.lines().iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
    }

    /// Renders the whole screen. `open_asks` is the number of questions that wait meanwhile.
    pub(super) fn render(&mut self, rows: usize, open_asks: usize, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if self.rendered.as_ref().is_none_or(|(width, _)| *width != cx.width) {
            self.rendered = Some((cx.width, self.render_content(cx)));
            self.find_matches();
        }
        self.height = rows.saturating_sub(1).max(1);
        let count = self.lines().len();
        let last_start = count.saturating_sub(self.height);
        if std::mem::take(&mut self.must_show_end) {
            self.first_row = last_start;
        }
        self.first_row = self.first_row.min(last_start);
        let mut out: Vec<StyledLine> = self.lines().iter().skip(self.first_row).take(self.height).cloned().collect();
        let end = self.first_row + out.len();
        for row in self.matches.iter().filter(|row| (self.first_row..end).contains(row)) {
            if let Some(line) = out.get_mut(row - self.first_row) {
                line.spans.iter_mut().for_each(|span| span.style.reverse = true);
            }
        }
        out.resize(self.height, StyledLine::blank());
        if rows > 1 {
            out.push(self.status_line(end, count, open_asks, cx));
        }
        out
    }

    fn render_content(&self, cx: &RenderContext<'_>) -> TranscriptLines {
        let mut rendered = match &self.content {
            PagerContent::Conversation(items) | PagerContent::Agent { items, .. } => {
                TranscriptLines::render(items, &self.zone, cx)
            }
            PagerContent::Output { tail, .. } => return render_output(tail, cx),
        };
        if rendered.lines.is_empty() {
            rendered.lines.push(StyledLine::of("  Nothing was said yet.", TextTone::Dim));
        }
        rendered
    }

    fn status_line(&self, end: usize, count: usize, open_asks: usize, cx: &RenderContext<'_>) -> StyledLine {
        if let Some(search) = &self.search {
            let found = self.matches.len();
            let keys = if search.is_typing { "enter" } else { "n N next, previous" };
            let text = format!("/{}  {found} found  {keys}", clean_line(&search.text));
            return truncate_line(&StyledLine::of(text, TextTone::Accent), cx.width);
        }
        let (title, keys) = match &self.content {
            PagerContent::Conversation(_) => ("Transcript".to_owned(), "  / search  { } prompts  v editor"),
            PagerContent::Agent { agent, .. } => {
                (clean_line(&agent.title).into_owned(), "  m message  x stop  / search  v editor")
            }
            PagerContent::Output { task, .. } => (clean_line(&task.title).into_owned(), "  x stop  / search  v editor"),
        };
        let place = format!("  {end}/{count}   q back{keys}");
        let mut line = StyledLine::of(title, TextTone::Accent);
        match open_asks {
            0 => {}
            1 => line.push("  a question waits", TextTone::Warn),
            count => line.push(format!("  {count} questions wait"), TextTone::Warn),
        }
        line.push(place, TextTone::Dim);
        truncate_line(&line, cx.width)
    }
}

fn render_output(tail: &TaskOutputTail, cx: &RenderContext<'_>) -> TranscriptLines {
    let mut lines = Vec::new();
    if tail.truncated {
        let text = format!("{} bytes in all; this is the end", group_digits(tail.total_bytes as usize));
        lines.push(StyledLine::of(text, TextTone::Dim));
    }
    if tail.output.trim().is_empty() {
        lines.push(StyledLine::of("Nothing was printed yet.", TextTone::Dim));
    } else {
        lines.extend(text_rows(&tail.output, TextTone::Text, cx.width, BreakRule::Cells));
    }
    TranscriptLines { lines, prompt_rows: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::tests::{context, show};
    use gimlet_proto::{Block, EntryId, HistoryBody, Role};

    fn item(at: &str, body: HistoryBody) -> HistoryItem {
        HistoryItem { entry: EntryId::new("e"), role: Role::User, at: Some(at.to_owned()), body }
    }

    fn conversation(prompts: usize) -> Vec<HistoryItem> {
        let turn = |index: usize| {
            let at = format!("2026-03-01T10:{index:02}:00.000Z");
            let thinking = r#"{"type":"thinking","thinking":"Where is it?","signature":"s"}"#;
            let reply = vec![Block::from_json(thinking).unwrap(), Block::text(&format!("answer {index}"))];
            [
                item(&at, HistoryBody::Prompt(vec![Block::text(&format!("prompt {index}"))])),
                item(&at, HistoryBody::Reply(reply)),
            ]
        };
        (0..prompts).flat_map(turn).collect()
    }

    fn press(view: &mut PagerView, keys: &str) {
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            assert_eq!(view.handle_key(KeyEvent::new(code, KeyModifiers::NONE)), PagerOutcome::Stays);
        }
    }

    fn screen(view: &mut PagerView) -> String {
        show(&view.render(10, 0, &context(60)), 60)
    }

    #[test]
    fn a_conversation_is_shown_whole_with_times() {
        let mut view = PagerView::new(PagerContent::Conversation(conversation(1)), TimeZone::UTC);
        let screen = screen(&mut view);
        assert!(screen.contains("❯ prompt 0") && screen.contains("10:00:00"), "{screen}");
        assert!(screen.contains("Where is it?") && screen.contains("answer 0"), "{screen}");
        assert!(screen.contains("Transcript"), "{screen}");
    }

    #[test]
    fn the_end_stays_in_sight_and_other_places_stay_where_they_are() {
        let mut view = PagerView::new(PagerContent::Conversation(conversation(10)), TimeZone::UTC);
        assert!(screen(&mut view).contains("answer 9"));
        view.replace_content(PagerContent::Conversation(conversation(12)));
        assert!(screen(&mut view).contains("answer 11"));
        press(&mut view, "g}");
        let before = screen(&mut view);
        assert!(before.starts_with("❯ prompt 1"), "{before}");
        view.replace_content(PagerContent::Conversation(conversation(13)));
        assert!(screen(&mut view).starts_with("❯ prompt 1"));
    }

    #[test]
    fn searching_goes_from_match_to_match() {
        let mut view = PagerView::new(PagerContent::Conversation(conversation(12)), TimeZone::UTC);
        screen(&mut view);
        press(&mut view, "g/ANSWER 1\n");
        let found = screen(&mut view);
        assert!(found.contains("3 found") && found.starts_with("  answer 1"), "{found}");
        press(&mut view, "n");
        assert!(screen(&mut view).contains("  answer 10"));
        press(&mut view, "N");
        assert!(screen(&mut view).starts_with("  answer 1\n"));
    }

    #[test]
    fn what_runs_can_be_stopped_and_agents_can_be_written_to() {
        let agent = TaskLabel { id: "a1".into(), title: "Explore  find callers".into() };
        let content = PagerContent::Agent { agent: agent.clone(), items: conversation(1) };
        let mut view = PagerView::new(content, TimeZone::UTC);
        assert!(screen(&mut view).contains("Explore  find callers"));
        let key = |char| KeyEvent::new(KeyCode::Char(char), KeyModifiers::NONE);
        assert_eq!(view.handle_key(key('x')), PagerOutcome::Stops(agent.clone()));
        assert_eq!(view.handle_key(key('m')), PagerOutcome::Messages(agent.clone()));
        let tail = TaskOutputTail { output: "ready\u{1b}[2J\n".into(), total_bytes: 9_000, truncated: true };
        let mut view = PagerView::new(PagerContent::Output { task: agent.clone(), tail }, TimeZone::UTC);
        assert!(screen(&mut view).starts_with("9,000 bytes in all; this is the end\nready\n"));
        assert_eq!(view.handle_key(key('x')), PagerOutcome::Stops(agent));
        assert_eq!(view.handle_key(key('m')), PagerOutcome::Stays);
    }
}
