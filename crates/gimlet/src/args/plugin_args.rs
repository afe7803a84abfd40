//! Arguments of `gimlet plugin`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// List the plugins of this directory: which are used, what they bring, and what is wrong with the others
    #[command(visible_alias = "ls")]
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a plugin without using it (exits with 1 if it could not be used)
    Validate {
        /// Its folder or .zip file
        path: PathBuf,
        /// Fail also if anything of it would be ignored
        #[arg(long)]
        strict: bool,
    },
}
