//! The repository's files, read once for a test. Build products and other people's files are not among them.
#![allow(clippy::expect_used, reason = "a tree that cannot be read is a failed test")]

use std::path::{Path, PathBuf};

/// Folders whose content is not part of the repository.
const NOT_OURS: [&str; 4] = [".git", "target", ".tools", "node_modules"];

/// One text file.
pub(super) struct SourceFile {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// A crate's manifest.
pub(super) struct CrateManifest {
    pub(super) name: String,
    pub(super) text: String,
}

/// One line of a dependency table.
pub(super) struct DependencyLine {
    pub(super) name: String,
    pub(super) line: String,
}

/// All text files of the repository.
pub(super) struct SourceTree {
    root: PathBuf,
    files: Vec<SourceFile>,
}

impl SourceTree {
    pub(super) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
        let mut files = Vec::new();
        collect_files(&root, &root, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { root, files }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The text of one file, which must be there.
    pub(super) fn file_text(&self, path: &str) -> String {
        let found = self.files.iter().find(|file| file.path == path);
        found.unwrap_or_else(|| panic!("there is no {path}")).text.clone()
    }

    /// The manifests of our crates.
    pub(super) fn manifests(&self) -> Vec<CrateManifest> {
        let manifest = |file: &SourceFile| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            Some(CrateManifest { name: name.to_owned(), text: file.text.clone() })
        };
        self.files.iter().filter_map(manifest).collect()
    }
}

impl CrateManifest {
    /// The lines of a dependency table, those of `[target.….<kind>]` included.
    pub(super) fn dependencies(&self, kind: &str) -> Vec<DependencyLine> {
        let mut inside = false;
        let mut found = Vec::new();
        for line in self.text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix('[') {
                let section = section.trim_end_matches(']');
                inside = section == kind || section.ends_with(&format!(".{kind}"));
                assert!(!section.starts_with(&format!("{kind}.")), "{}: write [{section}] on one line", self.name);
            } else if inside && !line.is_empty() && !line.starts_with('#') {
                let name = line.split(['.', ' ', '=']).next().unwrap_or(line);
                found.push(DependencyLine { name: name.to_owned(), line: line.to_owned() });
            }
        }
        found
    }
}

fn collect_files(root: &Path, dir: &Path, files: &mut Vec<SourceFile>) {
    for entry in std::fs::read_dir(dir).expect("a readable folder").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a known kind of file");
        if kind.is_dir() && !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            collect_files(root, &path, files);
        } else if kind.is_file() && entry.file_name() != ".git"
            // What is not text has no rules here.
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            let relative = path.strip_prefix(root).expect("below the root").to_string_lossy().into_owned();
            files.push(SourceFile { path: relative, text });
        }
    }
}
