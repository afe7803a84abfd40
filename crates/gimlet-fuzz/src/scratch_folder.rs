//! One folder for each thread that fuzzes, for targets whose entry point takes a file.

use std::path::Path;

thread_local! {
    static FOLDER: Option<tempfile::TempDir> = tempfile::tempdir().ok();
}

pub(crate) struct ScratchFolder;

impl ScratchFolder {
    /// Calls `work` with the thread's folder. Files of earlier inputs are still in it.
    pub(crate) fn with<T>(work: impl FnOnce(&Path) -> T) -> T {
        FOLDER.with(|folder| match folder {
            Some(folder) => work(folder.path()),
            None => panic!("there is no place for temporary files"),
        })
    }

    /// Puts a file there in place of an earlier one.
    pub(crate) fn write(path: &Path, bytes: &[u8]) {
        Self::clear(path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, bytes));
        assert!(written.is_ok(), "a scratch file cannot be written: {written:?}");
    }

    pub(crate) fn clear(path: &Path) {
        // A missing file is as good as a removed one.
        drop(std::fs::remove_file(path));
    }
}
