//! The arguments of `gimlet sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand, Debug)]
pub(crate) enum SessionsCommand {
    /// List sessions, the newest first
    #[command(
        visible_alias = "list",
        after_help = "Examples:\n  gimlet sessions ls                  those of this folder and its other worktrees\n  gimlet sessions ls --all --limit 0  every one of every folder\n  gimlet sessions ls --json | jq -r .id"
    )]
    Ls(ListArgs),
    /// Show a session: what it is, and what was said
    Show(ShowArgs),
    /// Give a session a title
    Rename(RenameArgs),
    /// Give a session a tag, or take it away
    Tag(TagArgs),
    /// Delete sessions with everything that was kept beside them
    #[command(
        visible_alias = "delete",
        after_help = "Unless the setting cleanupPeriodDays is there, nothing is deleted but what is asked for here.\n\nExamples:\n  gimlet sessions rm 5b1c                          one, by the beginning of its id\n  gimlet sessions rm --older-than 90d --dry-run    what would go\n  gimlet sessions rm --older-than 90d --all --yes  old ones of every folder"
    )]
    Rm(RemoveArgs),
    /// Write a session as Markdown, JSON or one HTML page
    #[command(
        after_help = "Examples:\n  gimlet sessions export 5b1c                 Markdown on standard output\n  gimlet sessions export 5b1c -o talk.html    one page, nothing else needed to read it"
    )]
    Export(ExportArgs),
    /// Look for damage in transcripts; ends with 1 when there is some
    #[command(
        after_help = "Transcripts with damage still load; this says what is lost by it. The original is never changed.\n\nExamples:\n  gimlet sessions fsck                         those of this folder\n  gimlet sessions fsck 5b1c --repair mended/   write a repaired copy into a folder"
    )]
    Fsck(FsckArgs),
    /// Search in everything that was said, in all sessions of all folders
    #[command(
        after_help = "Words must all be there. \"two words\" in quotes follow one another, wor* is a beginning, -word must not be there.\nThe newest come first.\n\nExamples:\n  gimlet sessions search flaky test\n  gimlet sessions search '\"connection refused\" -docker' --since 14d\n  gimlet sessions search migration --project ~/src/shop --json"
    )]
    Search(SearchArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// The sessions of every folder
    #[arg(long, conflicts_with = "project")]
    pub(crate) all: bool,
    /// The sessions of this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only sessions with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// How many; 0 for all
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Id, beginning of an id, title or transcript; the newest of this folder when left out
    pub(crate) session: Option<String>,
    /// Only the last turns
    #[arg(long, value_name = "N")]
    pub(crate) last: Option<usize>,
    /// Everything that tools gave back, not only its beginning
    #[arg(long)]
    pub(crate) full: bool,
    /// What the session is, as one JSON object ('export' has what was said)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RenameArgs {
    /// Id, beginning of an id, title or transcript
    pub(crate) session: String,
    /// At most 200 characters; without one, the title is made of what was said first
    pub(crate) title: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct TagArgs {
    /// Id, beginning of an id, title or transcript
    pub(crate) session: String,
    #[arg(required_unless_present = "clear")]
    pub(crate) tag: Option<String>,
    /// Take the tag away
    #[arg(long, conflicts_with = "tag")]
    pub(crate) clear: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    /// Ids, beginnings of ids, titles or transcripts
    #[arg(value_name = "SESSION", required_unless_present = "older_than", conflicts_with = "older_than")]
    pub(crate) sessions: Vec<String>,
    /// All that did not change for so long: 90d, 12h
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// With --older-than: of every folder
    #[arg(long, requires = "older_than")]
    pub(crate) all: bool,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
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
    /// Id, beginning of an id, title or transcript
    pub(crate) session: String,
    /// By default what the name of the file says, or Markdown
    #[arg(short, long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FsckArgs {
    /// Ids, beginnings of ids, titles or transcripts; those of this folder when left out
    #[arg(value_name = "SESSION", conflicts_with = "all")]
    pub(crate) sessions: Vec<String>,
    /// The sessions of every folder
    #[arg(long)]
    pub(crate) all: bool,
    /// Write a repaired copy of the one session to this new file, or into this folder
    #[arg(long, value_name = "OUT")]
    pub(crate) repair: Option<PathBuf>,
    /// One JSON object a line, one for each session
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// What to look for
    #[arg(value_name = "WORD", required = true)]
    pub(crate) words: Vec<String>,
    /// Only sessions of this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Only what was said since then: 14d, 12h, 2026-01-31
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// One JSON object a line
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
