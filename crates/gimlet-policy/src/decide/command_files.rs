//! The files that recognised shell commands and redirections name, so that `Read` and `Edit` rules and the protected
//! list hold for them, too. Files that a program opens by itself are left to the sandbox.

mod chdir_options;
mod edited_files;
mod expansion;
mod file_urls;
mod opened_files;
mod operand_role;
mod possible_writes;
mod protected_mentions;
mod reader_scripts;
mod recursive_targets;
#[cfg(test)]
mod tests;
mod tree_readers;
mod unknown_program_paths;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::DecisionContext;
use super::rule_subject::{CommandFiles, FileAccess, PartFiles};
use crate::denied_files::FileDenyRules;
use crate::paths::{FileView, FollowedPath, is_process_alias, is_protected, normalise};
use crate::rules::RuleSet;
use crate::shell::{
    CommandPart, FileRedirect, PatternLookup, ReadTargets, ShellAnalysis, WRITERS, Word, WordPiece, WordRole,
    any_glob_path, base_name, find_critical_behind_symlinks, glob_path, may_change_variables, operand_paths,
};
use expansion::LookupBudget;
use operand_role::OperandRole;

/// Limit of directories that words are resolved from.
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

pub(super) fn find_command_files(
    analysis: &ShellAnalysis,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
) -> CommandFiles {
    let follow = |folder: &Path| view.follow(folder).map(|followed| followed.real);
    let critical_removal = find_critical_behind_symlinks(&analysis.removed, &world.shell_facts(), &follow);
    // A text that is not understood asks wherever a path matters.
    let view = analysis.trouble.is_none().then_some(view);
    let place = PathLookup::new(analysis, rules, world, view);
    let mut parts: Vec<PartFiles> = analysis.parts.iter().map(|part| place.resolve_part(part)).collect();
    let mut redirects: Vec<FileAccess> =
        analysis.redirects.iter().map(|redirect| place.redirect_access(redirect)).collect();
    edited_files::retract_unstable_edits(analysis, &place, &mut parts, &mut redirects);
    let mut touched = redirects.clone();
    let unnamed = analysis.redirects.iter().filter_map(|redirect| place.dynamic_source(redirect));
    touched.extend(unnamed.flat_map(|reading| place.opened_by_reader(reading)));
    touched.extend(analysis.inner_redirects.iter().map(|inner| place.word_access(&inner.target, inner.writes)));
    let told = opened_files::find_known_readers(analysis);
    for words in analysis.reachable_commands_where(|words| !told.contains(words)) {
        place.add_operands(words, &mut touched);
        touched.extend(
            tree_readers::tree_roots_read(words)
                .map(|root| FileAccess { tree: true, ..place.path_access(root, false) }),
        );
        touched.extend(tree_readers::piped_operand_writes(words).map(FileAccess::unknown));
    }
    if place.write_rules.is_some() && unknown_program_paths::feeds_unknown_program(analysis) {
        let walks = analysis.piped_commands.iter().flat_map(|words| recursive_targets::piped_find_targets(words));
        walks.for_each(|walk| touched.extend(place.recursive_accesses(&walk)));
    }
    // A file that is read there may be any other file as well.
    if analysis.commands.len() > 1
        && let Some(names) = edited_files::find_created_names(analysis, &place, &parts)
    {
        let opened = parts.iter_mut().flat_map(|part| &mut part.opened);
        names.mark_uncertain(touched.iter_mut().chain(opened).filter(|file| !file.write));
    }
    let written = touched.iter().filter(|file| file.write).flat_map(|file| &file.paths);
    let written = written.chain(parts.iter().flat_map(|part| &part.written));
    let protected = written.into_iter().find(|path| is_protected(path)).cloned();
    let protected = protected.or_else(|| {
        let find_entered = || {
            let mut spellings = analysis.directories.iter().skip(1).flat_map(|folder| place.path_spellings(folder).0);
            spellings.find(|path| is_protected(path))
        };
        let entered = if analysis.read_only { None } else { find_entered() };
        entered.or_else(|| protected_mentions::find_protected(analysis.reachable_commands(), &place))
    });
    let mut spoken = Some(Vec::new());
    if place.read_rules.is_some() {
        spoken = unknown_program_paths::possible_reads(analysis, &place);
    }
    let mut changed = Some(Vec::new());
    if place.write_rules.as_ref().is_some_and(FileDenyRules::has_write_rules) {
        changed = unknown_program_paths::possible_changes(analysis, &place);
    }
    let git_trap = match view {
        Some(view) if analysis.runs_git => view.find_git_trap(&world.cwd),
        _ => None,
    };
    CommandFiles {
        touched,
        redirects,
        protected,
        critical_removal,
        parts,
        possible_reads: spoken,
        possible_changes: changed,
        git_trap,
    }
}

/// Directories and state that the words of a command are resolved against.
pub(super) struct PathLookup<'a> {
    pub(super) context: &'a DecisionContext,
    /// The working directory, then every directory that the text goes to.
    directories: &'a [PathBuf],
    changes_directory: bool,
    view: Option<&'a dyn FileView>,
    budget: Option<LookupBudget<'a>>,
    read_rules: Option<FileDenyRules<'a>>,
    /// Rules that protect files from changes.
    write_rules: Option<FileDenyRules<'a>>,
    /// Directories that options send single commands to.
    chdir_dirs: Vec<PathBuf>,
    /// True if nothing in the text creates files, so that a lookup now shows the files at run time.
    files_are_stable: bool,
    /// True if nothing in the text does more than read.
    only_reads: bool,
    analysis: &'a ShellAnalysis,
    /// Results of earlier lookups.
    cached_spellings: RefCell<HashMap<PathBuf, (Vec<PathBuf>, bool)>>,
}

impl<'a> PathLookup<'a> {
    fn new(
        analysis: &'a ShellAnalysis,
        rules: &'a RuleSet,
        context: &'a DecisionContext,
        view: Option<&'a dyn FileView>,
    ) -> Self {
        let only_reads = opened_files::only_reads(analysis);
        let write_rules = FileDenyRules::for_writers(rules, context);
        let chdir_dirs = if write_rules.is_some() { chdir_options::find_chdir_dirs(analysis) } else { Vec::new() };
        Self {
            context,
            directories: &analysis.directories,
            changes_directory: analysis.changes_directory,
            view,
            budget: view.map(LookupBudget::new),
            read_rules: FileDenyRules::new(rules, context),
            write_rules,
            chdir_dirs,
            files_are_stable: view.is_some_and(FileView::is_complete) && only_reads,
            only_reads,
            analysis,
            cached_spellings: RefCell::default(),
        }
    }

    fn resolve_part(&self, part: &CommandPart) -> PartFiles {
        let edits = part.edits.as_ref().and_then(|edits| self.resolve_edits(edits));
        let (reads, followed) = part.reads.as_ref().map_or((Vec::new(), true), |reading| self.resolve_reads(reading));
        let (written, seen) = self.resolve_reads(&part.dynamic_writes);
        let opened = self.opened_by_part(part);
        PartFiles { reads, opened, followed, edits, written, unseen_writes: !seen }
    }

    /// Returns both spellings of everything that is read, and true if that is complete.
    fn resolve_reads(&self, reading: &ReadTargets) -> (Vec<PathBuf>, bool) {
        let mut all = true;
        let mut looked_up: Vec<PathBuf> = Vec::new();
        for look in &reading.lookups {
            match self.budget.as_ref().and_then(|eyes| eyes.paths_to_follow(look)) {
                Some(paths) => looked_up.extend(paths),
                None => all = false,
            }
        }
        let mut found = Vec::new();
        for path in reading.spelled_paths().chain(&reading.parent_paths).chain(&looked_up) {
            let (paths, followed) = self.path_spellings(path);
            found.extend(paths);
            all &= followed;
        }
        (found, all && reading.parent_paths.iter().all(|path| self.resolves_as_spelled(path)))
    }

    /// Returns true if a path with `..` in it leads to the file of its spelling. A folder that is moved by another
    /// part of the text would have another parent.
    fn resolves_as_spelled(&self, path: &Path) -> bool {
        let followed = |path: &Path| self.view.and_then(|view| view.follow(path)).map(|followed| followed.real);
        let spelled = normalise(&self.context.cwd, path);
        self.only_reads && followed(path).is_some_and(|real| followed(&spelled) == Some(real))
    }

    fn add_operands(&self, words: &[Word], touched: &mut Vec<FileAccess>) {
        let Some((name, arguments)) = words.split_first() else { return };
        let Some(name) = name.value().map(base_name) else { return };
        if self.write_rules.is_some() {
            recursive_targets::find_recursive_targets(name, arguments)
                .into_iter()
                .for_each(|taken| touched.extend(self.recursive_accesses(&taken)));
        }
        let Some(write) = writes_operands(name, arguments) else { return };
        if !self.chdir_dirs.is_empty() {
            touched.extend(self.operands_after_chdir(arguments, write));
        }
        if let Some(paths) = operand_paths(words) {
            return touched.extend(paths.iter().map(|path| self.path_access(path, write)));
        }
        let uses = operand_role::operand_roles(name, arguments);
        let choices = arguments.iter().zip(uses).filter(|(_, used)| !write || *used != OperandRole::Text);
        for (word, used) in choices.flat_map(|(word, used)| word.choices().iter().map(move |word| (word, used))) {
            let copied = used == OperandRole::Copied;
            match word.value() {
                Some(text) => {
                    let value = text.split_once('=').map(|(_, value)| value);
                    let operand = (!text.starts_with('-')).then_some(text);
                    // `-fFILE`
                    let may_attach = operand.is_none() && !text.starts_with("--");
                    let attached = text.get(2..).filter(|value| may_attach && !value.is_empty());
                    let paths = operand.into_iter().chain(value).chain(attached);
                    touched
                        .extend(paths.map(|path| FileAccess { copy_source: copied, ..self.path_access(path, write) }));
                }
                None => {
                    let tree = write || tree_readers::tree_roots_read(words).next().is_some();
                    let pattern = self.pattern_access(word, write).map(|pattern| FileAccess { tree, ..pattern });
                    touched.push(pattern.unwrap_or_else(|| FileAccess { tree, ..self.word_access(word, write) }));
                }
            }
        }
    }

    /// Returns the access for a word that is a pattern of names, none of which could be an option: its current
    /// expansion, and its possible ones.
    fn pattern_access(&self, word: &Word, write: bool) -> Option<FileAccess> {
        let pattern = glob_path(&word.pieces().iter().collect::<Vec<_>>())?;
        let begins = matches!(word.pieces().first(), Some(WordPiece::Text(text)) if !text.starts_with('-'));
        let found = self.budget.as_ref()?.expand_glob(&pattern, self.directories)?;
        if !begins {
            return None;
        }
        let (mut paths, mut certain) = (Vec::new(), pattern.absolute || !self.changes_directory);
        for path in found {
            let (spellings, followed) = self.path_spellings(&path);
            certain &= followed;
            paths.extend(spellings);
        }
        let (from, role) = (self.directories.to_vec(), WordRole::OPERAND);
        let may_be = Some(Box::new(PatternLookup { pattern, from, role, one_word: true }));
        Some(FileAccess { found_by_lookup: true, pattern: may_be, ..FileAccess::new(paths, certain, write) })
    }

    /// Returns the paths that a pattern expands to, both spellings of each; also for a pattern that leads upwards
    /// (`.*`, `a/../b*`).
    fn expand_pattern_word(&self, word: &Word) -> Option<Vec<PathBuf>> {
        let pattern = any_glob_path(&word.pieces().iter().collect::<Vec<_>>())?;
        let found = self.budget.as_ref()?.expand_glob(&pattern, self.directories)?;
        Some(found.iter().flat_map(|path| self.path_spellings(path).0).collect())
    }

    /// Returns the targets that a redirection reads by a name that is only known at run time. They are resolved only
    /// where nothing in the text does more than read.
    fn dynamic_source<'r>(&self, redirect: &'r FileRedirect) -> Option<&'r ReadTargets> {
        if self.only_reads && redirect.target.value().is_none() { redirect.source.as_ref() } else { None }
    }

    fn redirect_access(&self, redirect: &FileRedirect) -> FileAccess {
        let Some(reading) = self.dynamic_source(redirect) else {
            return self.word_access(&redirect.target, redirect.writes);
        };
        let (paths, all) = self.resolve_reads(reading);
        let certain = all && !paths.iter().any(|path| is_process_alias(path));
        FileAccess { found_by_lookup: true, ..FileAccess::new(paths, certain, false) }
    }

    fn word_access(&self, word: &Word, write: bool) -> FileAccess {
        match (word.value(), word.pieces(), self.context.home.as_deref()) {
            (Some(text), _, _) => self.path_access(text, write),
            (None, [WordPiece::Tilde], Some(home)) => self.home_path_access(home, write),
            (None, [WordPiece::Tilde, WordPiece::Text(rest)], Some(home)) if rest.starts_with('/') => {
                self.home_path_access(&home.join(rest.trim_start_matches('/')), write)
            }
            _ => FileAccess::unknown(write),
        }
    }

    /// Returns the access for a path after `~`. Nothing is allowed because of an assumed home directory.
    fn home_path_access(&self, path: &Path, write: bool) -> FileAccess {
        let (paths, followed) = self.path_spellings(path);
        let told = keeps_home_variable(self.analysis) && followed && !paths.iter().any(|path| is_process_alias(path));
        FileAccess { certain_given_home: told, ..FileAccess::new(paths, false, write) }
    }

    fn path_access(&self, text: &str, write: bool) -> FileAccess {
        let path = Path::new(text);
        let (paths, followed) = self.path_spellings(path);
        let stays = path.is_absolute() || !self.changes_directory;
        let certain = !text.is_empty() && stays && followed && !paths.iter().any(|path| is_process_alias(path));
        FileAccess::new(paths, certain, write)
    }

    /// Returns the path as spelled and with symlinks followed, from every directory that a command may run in, and
    /// true if every symlink could be followed.
    pub(super) fn path_spellings(&self, path: &Path) -> (Vec<PathBuf>, bool) {
        if let Some(known) = self.cached_spellings.borrow().get(path) {
            return known.clone();
        }
        let found = self.resolve_spellings(path);
        self.cached_spellings.borrow_mut().insert(path.to_owned(), found.clone());
        found
    }

    fn resolve_spellings(&self, path: &Path) -> (Vec<PathBuf>, bool) {
        let (mut paths, mut followed) = (Vec::new(), true);
        let absolute = path.is_absolute();
        for directory in self.directories.iter().take(if absolute { 1 } else { MOST_DIRECTORIES }) {
            let spelled = normalise(directory, path);
            if let Some(view) = self.view {
                match view.follow(&directory.join(path)) {
                    Some(FollowedPath { real, hops }) => {
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

/// Returns true if nothing in a text can set `HOME`.
fn keeps_home_variable(analysis: &ShellAnalysis) -> bool {
    let hides = analysis.has_scripts
        || analysis.evaluates_values
        || analysis.runs_hidden_text
        || analysis.has_indirect_expansion;
    // Conditions evaluate their words, too: `[[ HOME=1 -eq 1 ]]`.
    let names = |word: &Word| word.plain_text().contains("HOME");
    let sets = |part: &CommandPart| !part.set_variables.is_empty() || part.words.iter().any(names);
    let mut reached = analysis.reachable_commands();
    // Without parts there are assignments that were not examined.
    !hides
        && !analysis.parts.is_empty()
        && !analysis.parts.iter().any(sets)
        && !reached.any(|words| words.first().and_then(Word::value).is_none_or(may_change_variables))
}

/// Returns true if a recognised command changes its operands; `None` for one that is not recognised.
fn writes_operands(name: &str, arguments: &[Word]) -> Option<bool> {
    let write = WRITERS.contains(&name) || (matches!(name, "sed" | "perl" | "ruby") && edits_in_place(arguments));
    (write || READERS.contains(&name)).then_some(write)
}

/// Returns true for `-i`, also inside a cluster or with a suffix.
fn edits_in_place(arguments: &[Word]) -> bool {
    let mut flags = arguments.iter().filter_map(Word::value).filter(|word| word.starts_with('-'));
    flags.any(|flag| if flag.starts_with("--") { flag.starts_with("--i") } else { flag.contains('i') })
}
