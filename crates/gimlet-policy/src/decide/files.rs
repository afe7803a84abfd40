//! The files that recognised shell commands and redirections name, so that `Read` and `Edit` rules and the protected list
//! hold for them, too. What a program opens by itself is the sandbox's business.

mod addresses;
mod changing;
mod edited;
mod elsewhere;
mod looking;
mod mentions;
mod opened;
mod scripts;
mod spoken;
mod taken;
#[cfg(test)]
mod tests;
mod trees;
mod unwritten;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::World;
use super::subject::{Files, PartFiles, Touched};
use crate::closed::Closing;
use crate::paths::{FileView, Followed, is_process_alias, is_protected, normalise};
use crate::rules::RuleSet;
use crate::shell::{
    Analysis, FileRedirect, Part, PatternLook, Piece, Reading, Role, WRITERS, Word, any_wildcards, base_name,
    changes_variables, critical_behind_links, named_paths, wildcards,
};
use looking::Eyes;
use unwritten::Use;

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
    "b2sum",
    "bzcat",
    "cksum",
    "csplit",
    "emacs",
    "expand",
    "hd",
    "iconv",
    "join",
    "look",
    "nano",
    "pr",
    "sha224sum",
    "sha384sum",
    "sha512sum",
    "shuf",
    "split",
    "sum",
    "tsort",
    "unexpand",
    "vi",
    "vim",
    "xzcat",
    "zgrep",
    "zless",
    "zmore",
    "zstdcat",
];

pub(super) fn of(analysis: &Analysis, rules: &RuleSet, world: &World, view: &dyn FileView) -> Files {
    let follow = |folder: &Path| view.follow(folder).map(|followed| followed.real);
    let critical_removal = critical_behind_links(&analysis.removed, &world.shell_facts(), &follow);
    // What is not understood asks wherever a path matters.
    let view = analysis.trouble.is_none().then_some(view);
    let place = Place::new(analysis, rules, world, view);
    let mut parts: Vec<PartFiles> = analysis.parts.iter().map(|part| place.part(part)).collect();
    let mut redirects: Vec<Touched> = analysis.redirects.iter().map(|redirect| place.redirected(redirect)).collect();
    edited::settle(analysis, &place, &mut parts, &mut redirects);
    let mut touched = redirects.clone();
    let unnamed = analysis.redirects.iter().filter_map(|redirect| place.unnamed(redirect));
    touched.extend(unnamed.flat_map(|reading| place.opened_by(reading)));
    touched.extend(analysis.inner_redirects.iter().map(|inner| place.touched(&inner.target, inner.writes)));
    let told = opened::told(analysis);
    for words in analysis.reached_where(|words| !told.contains(words)) {
        place.operands(words, &mut touched);
        touched.extend(trees::read_by(words).map(|root| Touched { tree: true, ..place.at(root, false) }));
        touched.extend(trees::feeds(words).map(Touched::unknown));
    }
    if place.keeping.is_some() && spoken::feeds_strangers(analysis) {
        let walks = analysis.piped.iter().flat_map(|words| taken::walks(words));
        walks.for_each(|walk| touched.extend(place.taken(&walk)));
    }
    // What is read there may be any other file as well.
    if analysis.commands.len() > 1
        && let Some(names) = edited::new_names_of(analysis, &place, &parts)
    {
        let opened = parts.iter_mut().flat_map(|part| &mut part.opened);
        names.unsettle(touched.iter_mut().chain(opened).filter(|file| !file.write));
    }
    let written = touched.iter().filter(|file| file.write).flat_map(|file| &file.paths);
    let written = written.chain(parts.iter().flat_map(|part| &part.written));
    let protected = written.into_iter().find(|path| is_protected(path)).cloned();
    let protected = protected.or_else(|| {
        let entered = analysis.directories.iter().skip(1).filter(|_| !analysis.read_only);
        let entered = entered.flat_map(|directory| place.spellings(directory).0).find(|path| is_protected(path));
        entered.or_else(|| mentions::protected(analysis.reached(), &place))
    });
    let mut spoken = Some(Vec::new());
    if place.closing.is_some() {
        spoken = spoken::paths(analysis, &place);
    }
    let mut changed = Some(Vec::new());
    if place.keeping.as_ref().is_some_and(Closing::is_about_changes) {
        changed = spoken::changed(analysis, &place);
    }
    let git_trap = view.filter(|_| analysis.runs_git).and_then(|view| view.git_trap(&world.cwd));
    Files { touched, redirects, protected, critical_removal, parts, spoken, changed, git_trap }
}

/// Where the words of a command are looked up.
pub(super) struct Place<'a> {
    pub(super) world: &'a World,
    /// The working directory, then every directory that the text goes to.
    directories: &'a [PathBuf],
    moved: bool,
    view: Option<&'a dyn FileView>,
    eyes: Option<Eyes<'a>>,
    closing: Option<Closing<'a>>,
    /// Rules that keep files from being changed.
    keeping: Option<Closing<'a>>,
    /// Directories that options send single commands to.
    elsewhere: Vec<PathBuf>,
    /// Nothing in the text makes files, so that what can be seen now is what there will be.
    settled: bool,
    /// Nothing in the text does more than read.
    only_reads: bool,
    analysis: &'a Analysis,
    /// What was looked up before.
    known: RefCell<HashMap<PathBuf, (Vec<PathBuf>, bool)>>,
}

impl<'a> Place<'a> {
    fn new(analysis: &'a Analysis, rules: &'a RuleSet, world: &'a World, view: Option<&'a dyn FileView>) -> Self {
        let only_reads = opened::only_reads(analysis);
        let keeping = Closing::to_writers(rules, world);
        let elsewhere = if keeping.is_some() { elsewhere::directories(analysis) } else { Vec::new() };
        Self {
            world,
            directories: &analysis.directories,
            moved: analysis.changes_directory,
            view,
            eyes: view.map(Eyes::new),
            closing: Closing::new(rules, world),
            keeping,
            elsewhere,
            settled: view.is_some_and(FileView::is_whole) && only_reads,
            only_reads,
            analysis,
            known: RefCell::default(),
        }
    }

    fn part(&self, part: &Part) -> PartFiles {
        let edits = part.edits.as_ref().and_then(|edits| self.edited(edits));
        let (reads, followed) = part.reading.as_ref().map_or((Vec::new(), true), |reading| self.read(reading));
        let (written, seen) = self.read(&part.written);
        let opened = self.opened(part);
        PartFiles { reads, opened, followed, edits, written, unseen_writes: !seen }
    }

    /// Both spellings of everything that is read, and whether that is all of it.
    fn read(&self, reading: &Reading) -> (Vec<PathBuf>, bool) {
        let mut all = true;
        let mut looked_up: Vec<PathBuf> = Vec::new();
        for look in &reading.looks {
            match self.eyes.as_ref().and_then(|eyes| eyes.paths(look)) {
                Some(paths) => looked_up.extend(paths),
                None => all = false,
            }
        }
        let mut found = Vec::new();
        for path in reading.spelled().chain(&reading.climbs).chain(&looked_up) {
            let (paths, followed) = self.spellings(path);
            found.extend(paths);
            all &= followed;
        }
        (found, all && reading.climbs.iter().all(|path| self.leads_where_it_says(path)))
    }

    /// Whether a path with `..` in it leads to the file of its spelling. A folder that something else in the text moves
    /// would have another one above it.
    fn leads_where_it_says(&self, path: &Path) -> bool {
        let followed = |path: &Path| self.view.and_then(|view| view.follow(path)).map(|followed| followed.real);
        let spelled = normalise(&self.world.cwd, path);
        self.only_reads && followed(path).is_some_and(|real| followed(&spelled) == Some(real))
    }

    fn operands(&self, words: &[Word], touched: &mut Vec<Touched>) {
        let Some((name, arguments)) = words.split_first() else { return };
        let Some(name) = name.value().map(base_name) else { return };
        if self.keeping.is_some() {
            taken::folders(name, arguments).into_iter().for_each(|taken| touched.extend(self.taken(&taken)));
        }
        let Some(write) = writes(name, arguments) else { return };
        if !self.elsewhere.is_empty() {
            touched.extend(self.sent_elsewhere(arguments, write));
        }
        if let Some(paths) = named_paths(words) {
            return touched.extend(paths.iter().map(|path| self.at(path, write)));
        }
        let uses = unwritten::uses(name, arguments);
        let choices = arguments.iter().zip(uses).filter(|(_, used)| !write || *used != Use::Text);
        for (word, used) in choices.flat_map(|(word, used)| word.choices().iter().map(move |word| (word, used))) {
            let copied = used == Use::Copied;
            match word.value() {
                Some(text) => {
                    let value = text.split_once('=').map(|(_, value)| value);
                    let operand = (!text.starts_with('-')).then_some(text);
                    // `-fFILE`
                    let attached = text.get(2..).filter(|_| operand.is_none() && !text.starts_with("--"));
                    let attached = attached.filter(|value| !value.is_empty());
                    let paths = operand.into_iter().chain(value).chain(attached);
                    touched.extend(paths.map(|path| Touched { copied, ..self.at(path, write) }));
                }
                None => {
                    let tree = write || trees::read_by(words).next().is_some();
                    let pattern = self.pattern(word, write).map(|pattern| Touched { tree, ..pattern });
                    touched.push(pattern.unwrap_or_else(|| Touched { tree, ..self.touched(word, write) }));
                }
            }
        }
    }

    /// A word that is a pattern of names, none of which could be an option: what it stands for now, and what it could
    /// stand for.
    fn pattern(&self, word: &Word, write: bool) -> Option<Touched> {
        let pattern = wildcards(&word.pieces().iter().collect::<Vec<_>>())?;
        let begins = matches!(word.pieces().first(), Some(Piece::Text(text)) if !text.starts_with('-'));
        let found = self.eyes.as_ref()?.matches(&pattern, self.directories).filter(|_| begins)?;
        let (mut paths, mut certain) = (Vec::new(), pattern.absolute || !self.moved);
        for path in found {
            let (spellings, followed) = self.spellings(&path);
            certain &= followed;
            paths.extend(spellings);
        }
        let (from, role) = (self.directories.to_vec(), Role::OPERAND);
        let may_be = Some(Box::new(PatternLook { pattern, from, role, whole: true }));
        Some(Touched { seen: true, may_be, ..Touched::new(paths, certain, write) })
    }

    /// What a pattern stands for, both spellings of each; also one that leads upwards (`.*`, `a/../b*`).
    fn matched(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let pattern = any_wildcards(&word.pieces().iter().collect::<Vec<_>>())?;
        let found = self.eyes.as_ref()?.matches(&pattern, self.directories)?;
        Some(found.iter().flat_map(|path| self.spellings(path).0).collect())
    }

    /// What a redirection reads by a name that only shows at run time. It is looked at where nothing in the text does
    /// more than read.
    fn unnamed<'r>(&self, redirect: &'r FileRedirect) -> Option<&'r Reading> {
        redirect.source.as_ref().filter(|_| self.only_reads && redirect.target.value().is_none())
    }

    fn redirected(&self, redirect: &FileRedirect) -> Touched {
        let Some(reading) = self.unnamed(redirect) else { return self.touched(&redirect.target, redirect.writes) };
        let (paths, all) = self.read(reading);
        let certain = all && !paths.iter().any(|path| is_process_alias(path));
        Touched { seen: true, ..Touched::new(paths, certain, false) }
    }

    fn touched(&self, word: &Word, write: bool) -> Touched {
        match (word.value(), word.pieces(), self.world.home.as_deref()) {
            (Some(text), _, _) => self.at(text, write),
            (None, [Piece::Tilde], Some(home)) => self.at_home(home, write),
            (None, [Piece::Tilde, Piece::Text(rest)], Some(home)) if rest.starts_with('/') => {
                self.at_home(&home.join(rest.trim_start_matches('/')), write)
            }
            _ => Touched::unknown(write),
        }
    }

    /// A path behind `~`. Nobody is let through by where home is thought to be.
    fn at_home(&self, path: &Path, write: bool) -> Touched {
        let (paths, followed) = self.spellings(path);
        let told = leaves_home(self.analysis) && followed && !paths.iter().any(|path| is_process_alias(path));
        Touched { told, ..Touched::new(paths, false, write) }
    }

    fn at(&self, text: &str, write: bool) -> Touched {
        let path = Path::new(text);
        let (paths, followed) = self.spellings(path);
        let stays = path.is_absolute() || !self.moved;
        let certain = !text.is_empty() && stays && followed && !paths.iter().any(|path| is_process_alias(path));
        Touched::new(paths, certain, write)
    }

    /// The path as spelled and as links lead it, from every directory where a command may stand, and whether every link
    /// could be followed.
    pub(super) fn spellings(&self, path: &Path) -> (Vec<PathBuf>, bool) {
        if let Some(known) = self.known.borrow().get(path) {
            return known.clone();
        }
        let found = self.look_up(path);
        self.known.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    fn look_up(&self, path: &Path) -> (Vec<PathBuf>, bool) {
        let (mut paths, mut followed) = (Vec::new(), true);
        let absolute = path.is_absolute();
        for directory in self.directories.iter().take(if absolute { 1 } else { MOST_DIRECTORIES }) {
            let spelled = normalise(directory, path);
            if let Some(view) = self.view {
                match view.follow(&directory.join(path)) {
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

/// Whether nothing in a text can give a value to `HOME`.
fn leaves_home(analysis: &Analysis) -> bool {
    let hides = analysis.has_scripts || analysis.evaluates || analysis.runs_unseen_text || analysis.treacherous;
    // Conditions evaluate their words, too: `[[ HOME=1 -eq 1 ]]`.
    let names = |word: &Word| word.shown_plain().contains("HOME");
    let sets = |part: &Part| !part.sets.is_empty() || part.words.iter().any(names);
    let mut reached = analysis.reached();
    // Without parts there are assignments that nobody has looked at.
    !hides
        && !analysis.parts.is_empty()
        && !analysis.parts.iter().any(sets)
        && !reached.any(|words| words.first().and_then(Word::value).is_none_or(changes_variables))
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
