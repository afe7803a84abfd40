//! What mounts cannot hold: protected files that are not there yet, links, and everything where there are no mounts.
//!
//! Before a command it is noted how they are, after it they are put back, and what the command made of them is moved to
//! where nobody runs it. Blocking; small: only the protected paths themselves are looked at.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{SandboxSpec, Violation};

use super::census::{Census, Repositories, is_repository};
use super::defaults::{protected_in, walled_in};
use super::fellows::{Began, Mended};
use super::gitconfig::is_harmless;
use super::noting::{By, Noted, Noting, root_of, twins};
use super::plan::unswapped;
use super::probe::{Available, Layer};
use super::reach::{Opened, is_there};
use super::watched::{Otherwise, Watched, is_one_of, take_away};
use super::way::{link_target, straight_target};

/// The most repositories that are held by mounts; further ones are noted and put back.
const MAX_HELD: usize = 200;
/// In a `.claude`, what counts as the person's own without being asked about.
const LOCAL_SETTINGS: &str = "settings.local.json";

/// Where commands can write, too, if there are no mounts.
const SHARED_MEMORY: &str = "/dev/shm";

/// How protected paths were before a command.
#[derive(Debug, Default)]
pub struct Guard {
    noted: Noted,
    /// Writable folders that were no repositories themselves.
    plain_folders: Vec<PathBuf>,
    /// Writable folders whose repositories are looked for again afterwards.
    roots: Vec<PathBuf>,
    /// The repositories that were there.
    repositories: Repositories,
    /// Where each `.git` that is no folder led. Those that commands made are looked at as if they were new.
    links: BTreeMap<PathBuf, Option<PathBuf>>,
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
            // There is nothing to guard.
            return Self::default();
        }
        let has_mounts = available.layers().contains(&Layer::Mounts);
        let shared = (!has_mounts).then(|| PathBuf::from(SHARED_MEMORY));
        let writable: Vec<PathBuf> = spec.write.iter().chain(&spec.temp_dir).chain(&shared).cloned().collect();
        let roots = unswapped(&writable);
        let mut opened = Opened::default();
        let repositories = census.look(&roots, &mut opened);
        let began = census.fellows.begin();
        let closed = opened.paths();
        let mut noting = Noting::new(&roots, &closed, has_mounts);
        let denied: HashSet<&PathBuf> = spec.deny_write.iter().collect();
        let targets = repositories.links.iter().map(|link| (link.clone(), link_target(link)));
        let mut links: BTreeMap<PathBuf, Option<PathBuf>> = targets.collect();
        let (mut loose, mut count) = (HashSet::new(), 0);
        for (repository, is_link) in repositories.all() {
            let is_loose = census.was_made(repository) && is_plain(repository, is_link, &roots);
            count += usize::from(!is_loose);
            let by = match is_loose {
                true => By::Itself { folder: folder_of(repository) },
                false if count <= MAX_HELD => By::Guard,
                false => By::Nobody,
            };
            let own = match is_link {
                true => Vec::from_iter((!is_loose).then(|| repository.clone())),
                false => protected_in(repository),
            };
            loose.extend(is_loose.then_some(repository));
            let paths = own.into_iter().chain(beside(repository));
            paths.filter(|path| !denied.contains(path)).for_each(|path| noting.note(&path, by));
        }
        let configured = repositories.configured.iter().map(|folder| folder.join(LOCAL_SETTINGS));
        for (count, path) in configured.filter(|path| !denied.contains(path)).enumerate() {
            noting.note(&path, if count < MAX_HELD { By::Guard } else { By::Nobody });
        }
        spec.deny_write.iter().for_each(|path| noting.note(path, By::Spec));
        for repository in &repositories.folders {
            noting.note_leads(repository, &|| tops(repository, &links), By::Guard);
        }
        links.retain(|link, _| !loose.contains(link));
        let noted = noting.noted;
        let settings = noted.watched.iter().map(Watched::path).filter(|path| is_settings_file(path));
        let settings = settings.map(Path::to_owned).collect();
        let plain_folders = roots.iter().filter(|root| !is_repository(root)).cloned().collect();
        Self { noted, plain_folders, roots, repositories, links, closed, settings, began }
    }

    /// The settings files of gimlet that the command could write, or make.
    pub fn settings(&self) -> &[PathBuf] {
        &self.settings
    }

    /// Takes this for what a settings file says without the command, whatever it said when that began. One that gimlet has
    /// `rewritten` since is another file than the one that a mount holds.
    pub fn expect(&mut self, path: &Path, text: Option<&str>, rewritten: bool) {
        match self.noted.get_mut(path) {
            Some(watched) => watched.expect(text, rewritten),
            None if rewritten => {
                let root = root_of(path, &self.roots);
                if let Some(watched) = root.and_then(|root| Watched::written(root, path, text)) {
                    self.noted.push(watched);
                }
            }
            None => {}
        }
    }

    /// Takes over what gimlet itself has made of a file, given by its real path, with the person's leave: it is no command's
    /// work. Where the file was something else than it is known to have been, all of it is.
    pub fn wrote(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        self.noted.watched.iter_mut().for_each(|watched| watched.wrote(path, was, now));
    }

    /// Whether some folders could not be looked into, so that repositories in them are not guarded.
    pub fn is_partial(&self) -> bool {
        self.repositories.is_partial
    }

    /// Protected paths that the walls have to hold besides those of the spec.
    pub fn held(&self) -> &[PathBuf] {
        &self.noted.held
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
        for watched in &self.noted.watched {
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
        let is_behind = |watched: &&Watched| touched.iter().any(|path| watched.path().starts_with(path));
        let behind = self.noted.watched.iter().filter(is_behind);
        mended.extend(behind.map(|watched| (watched.path().to_owned(), watched.before().clone())));
        census.fellows.end(self.began, mended);
        census.note_made(&self.repositories, &now);
        found
    }

    /// Takes over what the guards of other commands put back meanwhile.
    fn learn(&mut self, census: &Census) {
        let told = census.fellows.told(&self.began);
        self.noted.watched.iter_mut().for_each(|watched| watched.learn(&told));
        let were_made = self.roots.iter().filter(|root| told.contains_key(&root.join("HEAD")));
        self.plain_folders.extend(were_made.cloned());
    }

    /// A repository that the command made may stay, without what git or others would run.
    fn new_repositories(&self, now: &Repositories, quarantine: &Path) -> Vec<Violation> {
        let folders: Vec<&PathBuf> = now.folders.difference(&self.repositories.folders).collect();
        let new = folders.iter().copied().chain(now.links.difference(&self.repositories.links));
        // What was noted is as it was by now, whoever made it.
        let watched: HashSet<&Path> = self.noted.watched.iter().map(Watched::path).collect();
        let is_known = |path: &Path, folder: Option<&Path>| {
            watched.contains(path) || is_one_of(path, &twins(path, folder, &self.roots))
        };
        let beside = new.flat_map(|repository| {
            let folder = folder_of(repository);
            beside(repository).into_iter().filter(move |path| !is_known(path, folder))
        });
        let configured = now.configured.difference(&self.repositories.configured);
        let configured = configured.map(|folder| folder.join(LOCAL_SETTINGS));
        let configured = configured.filter(|file| !is_known(file, file.ancestors().nth(2)));
        let risky = folders.iter().flat_map(|folder| protected_in(folder)).chain(beside).chain(configured);
        let risky = risky.filter(|path| !is_harmless(path)).collect::<Vec<_>>().into_iter();
        // Only the link is the command's own; what it leads to may be somebody's real repository.
        let astray =
            now.links.iter().filter(|link| !self.leads_as_before(link) && !may_stay(link, &self.roots)).cloned();
        let taken = risky
            .chain(astray)
            .filter_map(|path| take_away(root_of(&path, &self.roots)?, &path, quarantine, Otherwise::Remove));
        taken.collect()
    }

    /// Whether a `.git` that was there leads where it led, or nowhere, whatever the command made of the way there.
    fn leads_as_before(&self, link: &Path) -> bool {
        let now = || link_target(link);
        self.links.get(link).is_some_and(|before| now().is_none_or(|now| before.as_ref() == Some(&now)))
    }
}

/// A new `.git` may lead to a repository in a folder that is guarded, as those of submodules and worktrees do.
fn may_stay(link: &Path, roots: &[PathBuf]) -> bool {
    straight_target(link, roots).is_some_and(|target| {
        root_of(&target, roots).is_some() && protected_in(&target).iter().all(|path| is_harmless(path))
    })
}

/// Whether a repository says nothing that others would run, nor lies such a thing beside it but what lies at the top of a
/// writable folder, where it is with the person's leave; worktrees bring it along.
fn is_plain(repository: &Path, is_link: bool, roots: &[PathBuf]) -> bool {
    let own = match is_link {
        true => may_stay(repository, roots),
        false => protected_in(repository).iter().all(|path| is_harmless(path)),
    };
    let folder = folder_of(repository);
    own && beside(repository).iter().all(|path| !is_there(path) || is_one_of(path, &twins(path, folder, roots)))
}

/// The folders that a repository is checked out in; a bare one is so in none but itself.
fn tops(repository: &Path, links: &BTreeMap<PathBuf, Option<PathBuf>>) -> Vec<PathBuf> {
    let worktrees = repository.join("worktrees");
    let leads_here = |target: &Path| target == repository || target.starts_with(&worktrees);
    let linked = links.iter().filter(|(_, target)| target.as_deref().is_some_and(leads_here));
    let linked = linked.filter_map(|(link, _)| link.parent());
    linked.chain(folder_of(repository)).chain([repository]).map(Path::to_owned).collect()
}

fn is_settings_file(path: &Path) -> bool {
    path.ends_with(".claude/settings.json") || path.ends_with(".claude/settings.local.json")
}

/// The folder that a `.git` belongs to.
fn folder_of(repository: &Path) -> Option<&Path> {
    repository.parent().filter(|_| repository.ends_with(".git"))
}

/// What is protected beside a `.git`, in the folder that belongs to it.
fn beside(repository: &Path) -> Vec<PathBuf> {
    folder_of(repository).map(walled_in).unwrap_or_default()
}

#[cfg(test)]
mod tests;
