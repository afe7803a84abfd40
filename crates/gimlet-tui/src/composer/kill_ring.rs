//! Texts that were cut, for putting them back.

/// Maximum number of texts that are kept.
const MAX_KILLS: usize = 60;

/// Which side of the previous cut a new one is joined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillSide {
    Before,
    After,
}

/// The texts that were cut last, newest at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillRing {
    kills: Vec<String>,
    /// True while the last key was a cut: the next one joins it.
    is_running: bool,
    /// Index of the text that was put back last, while the last key did so.
    yanked: Option<usize>,
}

impl KillRing {
    /// Keeps a text; one that follows another cut at once joins it.
    pub(crate) fn push(&mut self, text: &str, side: KillSide) {
        if text.is_empty() {
            return;
        }
        match self.kills.last_mut() {
            Some(last) if self.is_running => match side {
                KillSide::Before => last.insert_str(0, text),
                KillSide::After => last.push_str(text),
            },
            _ => {
                self.kills.push(text.to_owned());
                if self.kills.len() > MAX_KILLS {
                    self.kills.remove(0);
                }
            }
        }
        self.is_running = true;
        self.yanked = None;
    }

    /// Notes that a key was pressed that neither cuts nor puts back.
    pub(crate) fn end_run(&mut self) {
        self.is_running = false;
        self.yanked = None;
    }

    /// Returns the newest text.
    pub(crate) fn yank(&mut self) -> Option<&str> {
        self.is_running = false;
        self.yanked = self.kills.len().checked_sub(1);
        self.kills.last().map(String::as_str)
    }

    /// Returns the text that was put back last and the one before it, which takes its place. `None` unless the last key
    /// put a text back.
    pub(crate) fn rotate(&mut self) -> Option<(String, String)> {
        let current = self.yanked?;
        let next = if current == 0 { self.kills.len() - 1 } else { current - 1 };
        self.yanked = Some(next);
        Some((self.kills.get(current)?.clone(), self.kills.get(next)?.clone()))
    }
}
