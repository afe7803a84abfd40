//! Text for terminals: page width and colours.

use std::io::IsTerminal;

use gimlet_proto::Env;

/// Returns true if standard output may be bold or coloured.
pub(crate) fn may_use_colour(env: &Env) -> bool {
    let is_able = env.exact("NO_COLOR").is_none() && env.exact("TERM") != Some("dumb");
    is_able && std::io::stdout().is_terminal()
}

/// Returns the page width; `unwatched` if standard output is not a terminal.
pub(crate) fn page_width(unwatched: usize) -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    // Terminals of unknown width report zero columns.
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(unwatched, |columns| columns.clamp(60, 200))
}
