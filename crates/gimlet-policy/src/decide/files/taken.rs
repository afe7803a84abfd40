//! Folders that a command takes away, changes or moves with everything in them: `rm -r d`, `mv d x`, `git rm -r d`. What
//! lies in them is named by no word, but a rule may keep it from being changed.

use std::path::{Path, PathBuf};

use super::{Place, changing};
use crate::decide::subject::Touched;
use crate::paths::{FileView, Kind, Segment, normalise};
use crate::shell::{Word, base_name, git_subcommand, is_recursive, reachable};

/// A folder that is taken away or changed, and where it comes to lie.
#[derive(Default)]
pub(super) struct Taken<'a> {
    /// What is taken; `None` when it stays where it is and only its copy comes to lie elsewhere.
    folder: Option<&'a str>,
    /// What lands, and where.
    lands: Option<(&'a str, &'a str)>,
    /// With whatever is in it.
    whole: bool,
    /// Only files of these names; empty for all.
    only: Vec<Segment>,
}

/// The folders that a command may take away. Words that are only known at run time are somebody else's.
pub(super) fn folders<'a>(name: &str, arguments: &'a [Word]) -> Vec<Taken<'a>> {
    let known: Vec<&str> = arguments.iter().flat_map(Word::choices).filter_map(Word::value).collect();
    let gone = |folder: &'a str| Taken { folder: Some(folder), ..Taken::default() };
    match name {
        "rm" | "chmod" | "chown" | "chgrp" if known.iter().any(|word| is_recursive(word)) => {
            operands(&known).into_iter().map(gone).collect()
        }
        "mv" => landing(&known, true, true),
        "install" | "ln" => landing(&known, false, false),
        "cp" | "rsync" | "scp" => {
            let takes = known.iter().any(|word| word.starts_with("--remove"));
            let whole = name == "rsync" || known.iter().any(|word| is_recursive(word) || is_archive(word));
            let mut found = landing(&known, takes, whole);
            // What its source does not have goes.
            let clears = known.iter().any(|word| word.starts_with("--del"));
            let target = found.last().and_then(|taken| taken.lands).filter(|_| clears);
            found.extend(target.map(|(_, target)| gone(target)));
            found
        }
        "find" if known.contains(&"-delete") || starts_stranger(arguments) => walked(&known),
        "git" => of_git(&known).into_iter().map(gone).collect(),
        _ => Vec::new(),
    }
}

/// What comes to lie in another place, or under another name.
fn landing<'a>(known: &[&'a str], moves: bool, whole: bool) -> Vec<Taken<'a>> {
    let (all, named) = (operands(known), target_option(known));
    let (target, sources) = match (named, all.split_last()) {
        (Some(target), _) => (target, &all[..]),
        (None, Some((target, sources))) => (*target, sources),
        (None, None) => return Vec::new(),
    };
    let taken = |source: &&'a str| Taken {
        folder: moves.then_some(*source),
        lands: Some((*source, target)),
        whole,
        ..Taken::default()
    };
    sources.iter().map(taken).collect()
}

/// `cp -a`
fn is_archive(option: &str) -> bool {
    option.starts_with("--ar") || (option.starts_with('-') && !option.starts_with("--") && option.contains('a'))
}

/// The words that are no options; behind `--` none is one.
pub(super) fn operands<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut options = true;
    let is_operand = |word: &&str| {
        let ends = options && *word == "--";
        options &= !ends;
        !ends && (!options || !word.starts_with('-'))
    };
    words.iter().copied().filter(is_operand).collect()
}

/// The folder of `mv -t FOLDER`.
fn target_option<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((option, folder)) if option.starts_with("--ta") => Some(folder),
        _ if word.starts_with("--ta") => words.get(at + 1).copied(),
        _ if word.starts_with('-') && !word.starts_with("--") => match word.split_once('t')? {
            (_, "") => words.get(at + 1).copied(),
            (_, folder) => Some(folder),
        },
        _ => None,
    })
}

/// Whether `find` starts a program for each file that may do anything with it.
fn starts_stranger(arguments: &[Word]) -> bool {
    let runs = |word: &Word| matches!(word.value(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    let starts = arguments.iter().enumerate().filter(|(_, word)| runs(word)).map(|(at, _)| at + 1);
    let mut inner = starts.flat_map(|start| reachable(&arguments[start..]));
    inner.any(|words| changing::words(words).is_some_and(|told| !told.is_empty()))
}

/// What a `find` walks over whose output others read.
pub(super) fn walks(words: &[Word]) -> Vec<Taken<'_>> {
    let named = |word: &Word| word.value().is_some_and(|name| base_name(name) == "find");
    match words.split_first() {
        Some((name, arguments)) if named(name) => {
            walked(&arguments.iter().flat_map(Word::choices).filter_map(Word::value).collect::<Vec<_>>())
        }
        _ => Vec::new(),
    }
}

/// The places that `find` walks over, and the names that it picks there.
fn walked<'a>(known: &[&'a str]) -> Vec<Taken<'a>> {
    let begins = |word: &&str| word.starts_with(['-', '(', '!']);
    let start = known.iter().take_while(|word| matches!(**word, "-H" | "-L" | "-P")).count();
    let end = known[start..].iter().position(begins).map_or(known.len(), |at| start + at);
    let places = if start == end { &["."][..] } else { &known[start..end] };
    // One test for a name, and no other way around it.
    let whole = known.iter().any(|word| matches!(*word, "-o" | "-or" | "!" | "-not" | ","));
    let named = known.windows(2).find(|pair| pair[0] == "-name").filter(|_| !whole);
    let only: Vec<Segment> = named.map(|pair| Segment::of_text(pair[1])).into_iter().collect();
    places.iter().map(|folder| Taken { folder: Some(folder), only: only.clone(), ..Taken::default() }).collect()
}

/// Paths of the working tree that git changes because it is told to.
fn of_git<'a>(known: &[&'a str]) -> Vec<&'a str> {
    let Some((subcommand, rest)) = git_subcommand(known) else { return Vec::new() };
    let has = |words: &[&str]| rest.iter().any(|word| words.contains(word));
    // A file says which.
    if rest.iter().any(|word| word.starts_with("--pathspec-f")) && matches!(subcommand, "rm" | "restore" | "checkout") {
        return vec!["."];
    }
    match subcommand {
        "rm" if !has(&["--cached"]) => operands(rest),
        "mv" => operands(rest),
        "clean" if has(&["-n", "--dry-run"]) => Vec::new(),
        "clean" => Some(operands(rest)).filter(|named| !named.is_empty()).unwrap_or_else(|| vec!["."]),
        "restore" if has(&["--worktree", "-W"]) || !has(&["--staged", "-S"]) => operands(rest),
        // Before `--` there may be the name of a branch.
        "checkout" => match rest.iter().position(|word| *word == "--") {
            Some(at) => rest[at + 1..].to_vec(),
            None => rest.iter().copied().filter(|word| is_plainly_path(word)).collect(),
        },
        _ => Vec::new(),
    }
}

fn is_plainly_path(word: &str) -> bool {
    matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../") || word.ends_with('/')
}

impl Place<'_> {
    /// What a rule may keep below the folder, and at and below the place where it comes to lie.
    pub(super) fn taken(&self, taken: &Taken<'_>) -> Vec<Touched> {
        let tree =
            |path: &str, kept: Option<Vec<PathBuf>>| Touched { tree: true, closed_below: kept, ..self.at(path, true) };
        let mut touched = Vec::new();
        if let Some(folder) = taken.folder {
            touched.push(tree(folder, self.kept_below(folder, &taken.only)));
        }
        if let Some((source, target)) = taken.lands {
            let kept = if taken.whole { self.kept_at(source, target) } else { Some(Vec::new()) };
            touched.push(tree(target, kept));
            touched.extend(self.landed(source, target));
        }
        touched
    }

    /// Where one of several files comes to lie if the target is a folder.
    fn landed(&self, source: &str, target: &str) -> Option<Touched> {
        let is_file = |path: PathBuf| self.eyes.as_ref().and_then(|eyes| eyes.kind_of(&path)) == Some(Kind::Other);
        if self.anywhere(target).all(is_file) {
            return None;
        }
        let inside = Path::new(target).join(base_name(source.trim_end_matches('/')));
        Some(Touched { seen: true, ..self.at(&inside.to_string_lossy(), true) })
    }

    /// The path from every directory where the command may stand.
    fn anywhere(&self, path: &str) -> impl Iterator<Item = PathBuf> {
        self.directories.iter().map(move |directory| normalise(directory, Path::new(path)))
    }

    /// The files below a folder that rules keep; `None` when nobody has seen all of them.
    fn kept_below(&self, folder: &str, only: &[Segment]) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.eyes.as_ref()?, self.keeping.as_ref()?);
        self.view.filter(|view| FileView::is_whole(*view))?;
        let mut kept = Vec::new();
        for folder in self.anywhere(folder) {
            kept.extend(eyes.closed_below(&folder, keeping, only)?);
        }
        Some(kept)
    }

    /// The same where the files of a folder come to lie: in the target, or in a folder of the same name in it.
    fn kept_at(&self, folder: &str, target: &str) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.eyes.as_ref()?, self.keeping.as_ref()?);
        let mut kept = Vec::new();
        for (folder, target) in self.anywhere(folder).zip(self.anywhere(target)) {
            let inside = target.join(base_name(&folder.to_string_lossy()));
            let found = eyes.below_folder(&folder)?;
            // What is no folder, or an empty one, brings nothing along.
            if !found.is_empty() && !self.view.is_some_and(FileView::is_whole) {
                return None;
            }
            let places = found.iter().flat_map(|(name, _)| [target.join(name), inside.join(name)]);
            kept.extend(places.filter(|path| keeping.covers(path)));
        }
        Some(kept)
    }
}
