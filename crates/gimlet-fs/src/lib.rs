//! File system routines that other crates must not write again: symlink resolution, reads with a limit, atomic
//! replacement, private folders, folder locks,
//! stamps of unchanged files.
//!
//! Every crate that touches files may use this one. Everything here blocks, but never for long; nothing knows what a
//! file is for.

mod atomic_file;
mod bounded_read;
mod folder_lock;
mod metadata_stamp;
mod path_resolver;
mod private_dir;

pub use atomic_file::{AtomicFile, FileDurability, replace_file};
pub use bounded_read::{
    FileReadError, open_regular_file, read_file, read_file_nofollow, read_inside, read_text, read_text_nofollow,
};
pub use folder_lock::FolderLock;
pub use metadata_stamp::MetadataStamp;
pub use path_resolver::{FollowedLink, PathStat, ResolvePolicy, ResolvedPath, UnresolvablePart};
pub use private_dir::create_private_dir_all;
