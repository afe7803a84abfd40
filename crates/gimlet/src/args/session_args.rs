//! The arguments of `gimlet sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand, Debug)]
pub(crate) enum SessionsCommand {
    /// List sessions, the newest first
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  gimlet sessions ls                  sessions of this directory and its git worktrees\n  gimlet sessions ls --all --limit 0  all sessions of all directories\n  gimlet sessions ls --json | jq -r .id"
    )]
    Ls(ListArgs),
    /// Show a session and its messages
    Show(ShowArgs),
    /// Set the title of a session
    Rename(RenameArgs),
    /// Add or remove a tag
    Tag(TagArgs),
    /// Delete sessions and everything stored with them
    #[command(
        visible_alias = "delete",
        after_help = "Unless the setting cleanupPeriodDays is set, sessions are never deleted automatically.\n\nExamples:\n  gimlet sessions rm 5b1c                          one session, by id prefix\n  gimlet sessions rm --older-than 90d --dry-run    show what would be deleted\n  gimlet sessions rm --older-than 90d --all --yes  old sessions of every directory"
    )]
    Rm(RemoveArgs),
    /// Export a session as Markdown, JSON or an HTML page
    #[command(
        after_help = "Examples:\n  gimlet sessions export 5b1c                 Markdown on standard output\n  gimlet sessions export 5b1c -o talk.html    a single self-contained HTML page"
    )]
    Export(ExportArgs),
    /// Check transcripts for damage (exits with 1 if there is any)
    #[command(
        after_help = "Damaged transcripts still load; this shows what is lost. The original is never changed.\n\nExamples:\n  gimlet sessions fsck                         the sessions of this directory\n  gimlet sessions fsck 5b1c --repair mended/   write a repaired copy into a directory"
    )]
    Fsck(FsckArgs),
    /// Search the messages of all sessions in all directories
    #[command(
        after_help = "All words must match. \"two words\" in quotes: exact phrase; wor*: prefix match; -word: exclude.\nNewest results first.\n\nExamples:\n  gimlet sessions search flaky test\n  gimlet sessions search '\"connection refused\" -docker' --since 14d\n  gimlet sessions search migration --project ~/src/shop --json"
    )]
    Search(SearchArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// The sessions of every directory
    #[arg(long, conflicts_with = "project")]
    pub(crate) all: bool,
    /// The sessions of this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only sessions with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Maximum number of sessions; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Session id, id prefix, title or transcript path (default: the newest session of this directory)
    pub(crate) session: Option<String>,
    /// Only the last N turns
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,
    /// Show tool results in full
    #[arg(long)]
    pub(crate) full: bool,
    /// Print the session's metadata as a JSON object ('export' prints its messages)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RenameArgs {
    /// Session id, id prefix, title or transcript path
    pub(crate) session: String,
    /// New title, at most 200 characters (default: derived from the first prompt)
    pub(crate) title: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TagArgs {
    /// Session id, id prefix, title or transcript path
    pub(crate) session: String,
    /// Tag to add; it replaces the session's present tag
    #[arg(required_unless_present = "clear")]
    pub(crate) tag: Option<String>,
    /// Remove the tag
    #[arg(long, conflicts_with = "tag")]
    pub(crate) clear: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Session ids, id prefixes, titles or transcript paths
    #[arg(value_name = "SESSION", required_unless_present = "older_than", conflicts_with = "older_than")]
    pub(crate) sessions: Vec<String>,
    /// Sessions not modified for this long, such as 90d or 12h
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// With --older-than: sessions of every directory
    #[arg(long, requires = "older_than")]
    pub(crate) all: bool,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
}

/// How a session is written for people or programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    #[value(alias = "md")]
    Markdown,
    Json,
    Html,
}

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// Session id, id prefix, title or transcript path
    pub(crate) session: String,
    /// Output format (default: by the file name, or Markdown)
    #[arg(short, long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FsckArgs {
    /// Session ids, id prefixes, titles or transcript paths (default: those of this directory)
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    pub(crate) sessions: Vec<String>,
    /// The sessions of every directory
    #[arg(long)]
    pub(crate) all: bool,
    /// Write a repaired copy of the session to this new file, or into this directory
    #[arg(long, value_name = "OUT")]
    pub(crate) repair: Option<PathBuf>,
    /// Print one JSON object per line, one for each session
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// Words to search for
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// Only sessions of this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only messages since then: 14d, 12h, 2026-01-31
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The flags of a search that have a value behind them.
const VALUED: [&str; 3] = ["--project", "--since", "--limit"];

/// The arguments with the words of a search that begin with `-` behind a `--`: there they cannot pass for flags.
pub(crate) fn separate_search_words(args: &[String]) -> Vec<String> {
    let [sessions, search, rest @ ..] = args else { return args.to_vec() };
    if sessions != "sessions" || search != "search" {
        return args.to_vec();
    }
    let (mut kept, mut words) = (vec![sessions.clone(), search.clone()], Vec::new());
    let mut rest = rest.iter().cloned();
    while let Some(arg) = rest.next().filter(|arg| arg != "--") {
        // One-letter flags are left to the parser.
        if arg.len() > 2 && arg.starts_with('-') && !arg.starts_with("--") {
            words.push(arg);
            continue;
        }
        let valued = VALUED.contains(&arg.as_str());
        kept.push(arg);
        if valued {
            kept.extend(rest.next());
        }
    }
    words.extend(rest);
    if !words.is_empty() {
        kept.push("--".to_owned());
    }
    kept.extend(words);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_search_with_a_value_is_known_to_have_one() {
        let search = SearchArgs::augment_args(clap::Command::new("search"));
        let takes_value = |arg: &&clap::Arg| !arg.is_positional() && arg.get_action().takes_values();
        let mut valued: Vec<String> =
            search.get_arguments().filter(takes_value).map(|arg| format!("--{}", arg.get_id())).collect();
        let mut known = VALUED.map(str::to_owned);
        valued.sort();
        known.sort();
        assert_eq!(valued, known);
        assert!(search.get_arguments().all(|arg| arg.get_short().is_none()), "flags of one letter have none");
    }

    #[test]
    fn words_that_begin_with_a_dash_are_words() {
        let ordered = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            separate_search_words(&args).join(" ")
        };
        for (given, parsed) in [
            ("sessions search zeb* -penguin --json", "sessions search zeb* --json -- -penguin"),
            ("sessions search -penguin zeb* -- -h", "sessions search zeb* -- -penguin -h"),
            ("sessions search a --limit -5 -bee", "sessions search a --limit -5 -- -bee"),
            ("sessions search a -h", "sessions search a -h"),
            ("sessions ls -penguin", "sessions ls -penguin"),
        ] {
            assert_eq!(ordered(given), parsed);
        }
    }
}
