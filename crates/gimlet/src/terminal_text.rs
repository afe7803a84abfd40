//! Text for people on a page: how wide it may be, whether it has colours, and how much of a text a line of it takes.

use std::io::IsTerminal;

use gimlet_proto::Env;

/// Whether what goes to standard output may be bold or coloured.
pub(crate) fn may_use_colour(env: &Env) -> bool {
    let is_able = env.exact("NO_COLOR").is_none() && env.exact("TERM") != Some("dumb");
    is_able && std::io::stdout().is_terminal()
}

/// How wide the page can be; `unwatched` is for one that nobody watches in a terminal.
pub(crate) fn page_width(unwatched: usize) -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    // Terminals that do not know say that they have no columns.
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(unwatched, |columns| columns.clamp(60, 200))
}

/// The words of a text in one line of at most this width.
pub(crate) fn truncate_to_line(text: &str, width: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}
