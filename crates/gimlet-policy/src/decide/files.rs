//! The files that recognised shell commands and redirections name, so that `Read` and `Edit` rules and the protected list
//! hold for them, too. What a program opens by itself is the sandbox's business.

mod mentions;
#[cfg(test)]
mod tests;
mod trees;

use std::path::{Path, PathBuf};

use super::subject::{Files, PartFiles, Touched};
use super::{Follow, World};
use crate::paths::{Followed, is_protected, normalise};
use crate::shell::{Analysis, Part, Piece, WRITERS, Word, base_name, named_paths, reachable};

/// Directories that words are looked up from.
const MOST_DIRECTORIES: usize = 8;

/// Commands that read their operands.
const READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "sed",
    "wc",
    "nl",
    "sort",
    "less",
    "more",
    "tac",
    "rev",
    "cut",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "base64",
    "base32",
    "awk",
    "gawk",
    "mawk",
    "diff",
    "cmp",
    "comm",
    "paste",
    "uniq",
    "fold",
    "fmt",
    "column",
    "bat",
    "batcat",
    "view",
    "jq",
    "yq",
    "source",
    ".",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "openssl",
    "gzip",
    "zcat",
    "tar",
    "scp",
    "rsync",
];

pub(super) fn of(analysis: &Analysis, world: &World, follow: Follow<'_>) -> Files {
    // What is not understood asks wherever a path matters.
    let follow = analysis.trouble.is_none().then_some(follow);
    let place = Place { world, directories: &analysis.directories, moved: analysis.changes_directory, follow };
    let redirects: Vec<Touched> =
        analysis.redirects.iter().map(|redirect| place.touched(&redirect.target, redirect.writes)).collect();
    let mut touched = redirects.clone();
    let reached = || analysis.commands.iter().flat_map(|words| reachable(words));
    for words in reached() {
        place.operands(words, &mut touched);
        touched.extend(trees::read_by(words).map(|root| Touched { tree: true, ..place.at(root, false) }));
        touched.extend(trees::feeds(words).map(|write| place.unknown(write)));
    }
    let written = touched.iter().filter(|file| file.write).flat_map(|file| &file.paths);
    let protected = written.into_iter().find(|path| is_protected(path)).cloned();
    let protected = protected.or_else(|| {
        let entered = analysis.directories.iter().skip(1).filter(|_| !analysis.read_only);
        let entered = entered.flat_map(|directory| place.spellings(directory).0).find(|path| is_protected(path));
        entered.or_else(|| reached().find_map(|words| mentions::protected(words, &place)))
    });
    let parts = analysis.parts.iter().map(|part| place.part(part)).collect();
    Files { touched, redirects, protected, parts }
}

/// Where the words of a command are looked up.
pub(super) struct Place<'a> {
    pub(super) world: &'a World,
    /// The working directory, then every directory that the text goes to.
    directories: &'a [PathBuf],
    moved: bool,
    follow: Option<Follow<'a>>,
}

impl Place<'_> {
    fn part(&self, part: &Part) -> PartFiles {
        let edits = part.edits.as_ref().map(|paths| paths.iter().map(|path| self.at(path, true)).collect());
        let reads = part.reading.iter().flat_map(|reading| &reading.paths).map(|path| self.spellings(path));
        let (paths, followed): (Vec<_>, Vec<_>) = reads.unzip();
        PartFiles { reads: paths.concat(), followed: followed.into_iter().all(|followed| followed), edits }
    }

    fn operands(&self, words: &[Word], touched: &mut Vec<Touched>) {
        let Some((name, arguments)) = words.split_first() else { return };
        let Some(name) = name.value().map(base_name) else { return };
        let Some(write) = writes(name, arguments) else { return };
        if let Some(paths) = named_paths(words) {
            return touched.extend(paths.iter().map(|path| self.at(path, write)));
        }
        for word in arguments {
            match word.value() {
                Some(text) => {
                    let value = text.split_once('=').map(|(_, value)| value);
                    let operand = (!text.starts_with('-')).then_some(text);
                    // `-fFILE`
                    let attached = text.get(2..).filter(|_| operand.is_none() && !text.starts_with("--"));
                    let attached = attached.filter(|value| !value.is_empty());
                    touched.extend(operand.into_iter().chain(value).chain(attached).map(|path| self.at(path, write)));
                }
                None => touched.push(self.touched(word, write)),
            }
        }
    }

    fn touched(&self, word: &Word, write: bool) -> Touched {
        match (word.value(), word.pieces(), self.world.home.as_deref()) {
            (Some(text), _, _) => self.at(text, write),
            (None, [Piece::Tilde, Piece::Text(rest)], Some(home)) if rest.starts_with('/') => {
                let (paths, _) = self.spellings(&home.join(rest.trim_start_matches('/')));
                Touched { paths, certain: false, write, tree: false }
            }
            _ => self.unknown(write),
        }
    }

    /// A file whose name only shows when the command runs.
    fn unknown(&self, write: bool) -> Touched {
        Touched { paths: Vec::new(), certain: false, write, tree: false }
    }

    fn at(&self, text: &str, write: bool) -> Touched {
        let path = Path::new(text);
        let (paths, followed) = self.spellings(path);
        let stays = path.is_absolute() || !self.moved;
        Touched { paths, certain: !text.is_empty() && stays && followed, write, tree: false }
    }

    /// The path as spelled and as links lead it, from every directory where a command may stand, and whether every link
    /// could be followed.
    pub(super) fn spellings(&self, path: &Path) -> (Vec<PathBuf>, bool) {
        let (mut paths, mut followed) = (Vec::new(), true);
        let absolute = path.is_absolute();
        for directory in self.directories.iter().take(if absolute { 1 } else { MOST_DIRECTORIES }) {
            let spelled = normalise(directory, path);
            if let Some(follow) = self.follow {
                match follow(&directory.join(path)) {
                    Some(Followed { real, hops }) => {
                        paths.extend(hops.into_iter().chain([real]).filter(|path| *path != spelled));
                    }
                    None => followed = false,
                }
            }
            paths.insert(0, spelled);
        }
        (paths, followed)
    }
}

/// Whether a recognised command changes its operands; `None` for one that is not recognised.
fn writes(name: &str, arguments: &[Word]) -> Option<bool> {
    let write = WRITERS.contains(&name) || (matches!(name, "sed" | "perl" | "ruby") && edits_in_place(arguments));
    (write || READERS.contains(&name)).then_some(write)
}

/// `-i`, also inside a cluster or with a suffix.
fn edits_in_place(arguments: &[Word]) -> bool {
    let mut flags = arguments.iter().filter_map(Word::value).filter(|word| word.starts_with('-'));
    flags.any(|flag| if flag.starts_with("--") { flag.starts_with("--i") } else { flag.contains('i') })
}
