//! `gimlet completions` and `gimlet man-pages`: shell completions and man pages, generated from the arguments' table.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::CliArgs;
use crate::report::Report;

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CliArgs::command(), "gimlet", &mut script);
    crate::print_line(String::from_utf8_lossy(&script).trim_end());
}

/// Writes a man page for gimlet and for each of its commands, such as `gimlet-sessions-ls.1`.
pub(crate) fn write_man_pages(dir: &Path) -> Result<(), Report> {
    let fail = |error: std::io::Error| Report::new(format!("{} cannot be written: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(fail)?;
    clap_mangen::generate_to(CliArgs::command().name("gimlet"), dir).map_err(fail)
}
