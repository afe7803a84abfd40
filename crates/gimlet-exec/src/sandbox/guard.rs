//! What mounts cannot hold: protected files that are not there yet, links, and everything where there are no mounts.
//!
//! Before a command it is noted how they are, after it they are put back, and what the command made of them is moved to
//! where nobody runs it. Blocking; small: only the protected paths themselves are looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{SandboxSpec, Violation};

use super::census::{Census, Repositories, is_repository};
use super::defaults::{protected_in, walled_in};
use super::fellows::{Began, Mended};
use super::gitconfig::is_harmless;
use super::plan::unswapped;
use super::probe::{Available, Layer};
use super::reach::Opened;
use super::state::State;
use super::watched::{Otherwise, Watched, take_away};
use super::way::straight_target;

/// The most repositories that are held by mounts; further ones are noted and put back.
const MAX_HELD: usize = 200;

/// How protected paths were before a command.
#[derive(Debug)]
pub struct Guard {
    watched: Vec<Watched>,
    /// Protected paths of repositories that no spec knew of.
    held: Vec<PathBuf>,
    /// Writable folders that were no repositories themselves.
    plain_folders: Vec<PathBuf>,
    /// Writable folders whose repositories are looked for again afterwards.
    roots: Vec<PathBuf>,
    /// The repositories that were there.
    repositories: Repositories,
    /// Folders that were closed to the person themselves.
    closed: Vec<PathBuf>,
    /// Protected files by which gimlet's own settings are changed.
    settings: Vec<PathBuf>,
    began: Began,
}

impl Guard {
    /// Notes how the protected paths of a spec are, those of every repository among them. Mounts hold those that are
    /// there; without mounts all are noted.
    pub fn before(spec: &SandboxSpec, available: &Available, census: &mut Census) -> Self {
        if spec.files_open {
            return Self::of_nothing();
        }
        let roots = unswapped(&spec.write);
        let mut opened = Opened::default();
        let repositories = census.look(&roots, &mut opened);
        let began = census.fellows.begin();
        let has_mounts = available.layers().contains(&Layer::Mounts);
        let inner = repositories.folders.iter().map(|folder| (folder, protected_in(folder)));
        let inner = inner.chain(repositories.links.iter().map(|link| (link, vec![link.clone()])));
        let mut held = Vec::new();
        let mut watched = Vec::new();
        let closed = opened.paths();
        let mut settings = Vec::new();
        let mut watch = |root: &PathBuf, path: &PathBuf, is_held: bool| {
            settings.extend(Some(path).filter(|path| is_settings_file(path)).cloned());
            let is_real = || path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink());
            let is_open = || !closed.iter().any(|closed| path.starts_with(closed));
            watched.push(Watched::note(root, path, is_held && is_real() && is_open()));
        };
        for (count, (repository, mut paths)) in inner.enumerate() {
            paths.extend(beside(repository));
            for path in paths.iter().filter(|path| !spec.deny_write.contains(path)) {
                let Some(root) = root_of(path, &roots) else { continue };
                watch(root, path, has_mounts && count < MAX_HELD);
                held.extend(Some(path.clone()).filter(|path| count < MAX_HELD && path.symlink_metadata().is_ok()));
            }
        }
        for path in &spec.deny_write {
            if let Some(root) = root_of(path, &roots) {
                watch(root, path, has_mounts);
            }
        }
        let plain_folders = roots.iter().filter(|root| !is_repository(root)).cloned().collect();
        Self { watched, held, plain_folders, roots, repositories, closed, settings, began }
    }

    /// Where files are open there is nothing to guard.
    fn of_nothing() -> Self {
        Self {
            watched: Vec::new(),
            held: Vec::new(),
            plain_folders: Vec::new(),
            roots: Vec::new(),
            repositories: Repositories::default(),
            closed: Vec::new(),
            settings: Vec::new(),
            began: Began::default(),
        }
    }

    /// The settings files of gimlet that the command could write, or make.
    pub fn settings(&self) -> &[PathBuf] {
        &self.settings
    }

    /// Takes this for what a settings file says without the command, whatever it said when that began. One that gimlet has
    /// `rewritten` since is another file than the one that a mount holds.
    pub fn expect(&mut self, path: &Path, text: Option<&str>, rewritten: bool) {
        match self.watched.iter_mut().find(|watched| watched.path() == path) {
            Some(watched) => watched.expect(text, rewritten),
            None if rewritten => {
                let root = root_of(path, &self.roots);
                self.watched.extend(root.and_then(|root| Watched::written(root, path, text)));
            }
            None => {}
        }
    }

    /// Whether some folders could not be looked into, so that repositories in them are not guarded.
    pub fn is_partial(&self) -> bool {
        self.repositories.is_partial
    }

    /// Protected paths that the walls have to hold besides those of the spec.
    pub fn held(&self) -> &[PathBuf] {
        &self.held
    }

    /// Folders that the walls have to close besides those of the spec: whom they are closed to already could open them.
    pub fn closed(&self) -> &[PathBuf] {
        &self.closed
    }

    /// Puts back what changed. What the command made is moved into `quarantine`; what cannot be taken away is named.
    pub fn after(mut self, quarantine: &Path, census: &mut Census) -> Vec<Violation> {
        self.learn(census);
        let mut opened = Opened::default();
        let mut now = census.look(&self.roots, &mut opened);
        // What the command closed may hide something, and stays open.
        opened.close_only(&self.closed);
        let (mut found, mut mended) = (Vec::new(), Mended::new());
        for watched in &self.watched {
            found.extend(watched.put_back(quarantine, &mut mended));
        }
        let mut taken = Vec::new();
        for folder in self.plain_folders.iter().filter(|folder| is_repository(folder)) {
            taken.extend(take_away(folder, &folder.join("HEAD"), quarantine, Otherwise::Remove));
        }
        if !found.is_empty() || !taken.is_empty() {
            now = census.look(&self.roots, &mut opened);
        }
        taken.extend(self.new_repositories(&now, quarantine));
        mended.extend(taken.iter().filter_map(|taken| match taken {
            Violation::Tampered { path, .. } => Some((path.clone(), Arc::default())),
            _ => None,
        }));
        found.extend(taken);
        found.extend((now.is_partial && !self.repositories.is_partial).then_some(Violation::Unseen));
        // What lay behind a link that is gone looked to others as if it were there.
        let touched: Vec<PathBuf> = mended.iter().map(|(path, _)| path.clone()).collect();
        let behind = self.watched.iter().filter(|watched| touched.iter().any(|path| watched.path().starts_with(path)));
        mended.extend(behind.map(|watched| (watched.path().to_owned(), watched.before().clone())));
        census.fellows.end(self.began, mended);
        found
    }

    /// Takes over what the guards of other commands put back meanwhile.
    fn learn(&mut self, census: &Census) {
        let told = census.fellows.told(&self.began);
        self.watched.iter_mut().for_each(|watched| watched.learn(&told));
        let were_made = self.roots.iter().filter(|root| told.contains_key(&root.join("HEAD")));
        self.plain_folders.extend(were_made.cloned());
    }

    /// A repository that the command made may stay, without what git or others would run.
    fn new_repositories(&self, now: &Repositories, quarantine: &Path) -> Vec<Violation> {
        let folders: Vec<&PathBuf> = now.folders.difference(&self.repositories.folders).collect();
        let new = folders.iter().copied().chain(now.links.difference(&self.repositories.links));
        let beside = new.flat_map(|repository| {
            let folder = repository.parent().unwrap_or(repository);
            beside(repository).into_iter().filter(move |path| !self.is_known(path, folder))
        });
        let risky = folders.iter().flat_map(|folder| protected_in(folder)).chain(beside);
        let risky = risky.filter(|path| !is_harmless(path)).collect::<Vec<_>>().into_iter();
        // Only the link is the command's own; what it leads to may be somebody's real repository.
        let links = now.links.difference(&self.repositories.links).filter(|link| !self.may_stay(link)).cloned();
        let taken = risky
            .chain(links)
            .filter_map(|path| take_away(root_of(&path, &self.roots)?, &path, quarantine, Otherwise::Remove));
        taken.collect()
    }

    /// What is the same at the top of the writable folder is there with the person's leave; worktrees bring it along.
    fn is_known(&self, path: &Path, folder: &Path) -> bool {
        let at_the_top = |root: &PathBuf| Some(root.join(path.strip_prefix(folder).ok()?));
        let known = root_of(path, &self.roots).and_then(at_the_top).map(|path| State::of(&path));
        known.is_some_and(|known| matches!(known, State::Tree(_)) && known.is_still(path))
    }

    /// A link may lead to a repository in a folder that is guarded, as those of submodules and worktrees do.
    fn may_stay(&self, link: &Path) -> bool {
        straight_target(link, &self.roots).is_some_and(|target| {
            root_of(&target, &self.roots).is_some() && protected_in(&target).iter().all(|path| is_harmless(path))
        })
    }
}

fn is_settings_file(path: &Path) -> bool {
    path.ends_with(".claude/settings.json") || path.ends_with(".claude/settings.local.json")
}

/// What is protected beside a `.git`, in the folder that belongs to it.
fn beside(repository: &Path) -> Vec<PathBuf> {
    let folder = repository.parent().filter(|_| repository.ends_with(".git"));
    folder.map(walled_in).unwrap_or_default()
}

/// The folder that a path lies in.
fn root_of<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().find(|root| path.starts_with(root) && path != *root)
}

#[cfg(test)]
mod tests;
