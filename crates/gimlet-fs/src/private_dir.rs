//! Folders that only their owner may enter.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Creates a folder and its missing parents with mode 0700; folders that exist already are left as they are.
pub fn create_private_dir_all(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn new_folders_are_private_and_existing_ones_keep_their_mode() {
        let temp = tempfile::tempdir().unwrap();
        let mode = |dir: &Path| dir.metadata().unwrap().permissions().mode() & 0o777;
        let open = temp.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        create_private_dir_all(&open.join("a/b")).unwrap();
        assert_eq!([&open, &open.join("a"), &open.join("a/b")].map(|dir| mode(dir)), [0o755, 0o700, 0o700]);
        create_private_dir_all(&open).unwrap();
        assert_eq!(mode(&open), 0o755);
        std::fs::write(open.join("file"), "").unwrap();
        assert!(create_private_dir_all(&open.join("file")).is_err());
    }
}
