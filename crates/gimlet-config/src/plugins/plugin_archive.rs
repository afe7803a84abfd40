//! Plugins in `.zip` files: unpacked once into a folder that is named after their content.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::read::ZipFile;

use super::PluginError;
use super::plugin_manifest::MANIFEST;

/// Limits of an archive: its size, and the number and size of the files in it.
const ARCHIVE_MAX_BYTES: u64 = 256 * 1024 * 1024;
const MAX_FILES: usize = 10_000;
const UNPACKED_MAX_BYTES: u64 = 512 * 1024 * 1024;
const INVALID: &str = "invalid-archive";

/// Unpacks a plugin below `cache`, unless that was done before, and returns its folder.
pub fn unpack_plugin(archive: &Path, cache: &Path) -> Result<PathBuf, PluginError> {
    let wrong = |message: String| PluginError::new(INVALID, archive, message);
    let failed = |error: io::Error| wrong(format!("it cannot be unpacked: {error}"));
    let mut file = File::open(archive).map_err(|error| wrong(format!("it cannot be read: {error}")))?;
    let size = file.metadata().map_err(failed)?.len();
    if size > ARCHIVE_MAX_BYTES {
        return Err(wrong(format!("it has more than {} MiB", ARCHIVE_MAX_BYTES >> 20)));
    }
    let digest = digest_of(&mut file).map_err(failed)?;
    let folder = cache.join(&digest[..24]);
    if !folder.is_dir() {
        gimlet_fs::create_private_dir_all(cache).map_err(failed)?;
        let partial = cache.join(format!(".{}-{}", &digest[..24], std::process::id()));
        drop(std::fs::remove_dir_all(&partial));
        let unpacked = unpack_into(file, &partial);
        let moved = unpacked.map_err(wrong).and_then(|()| match std::fs::rename(&partial, &folder) {
            // Another process was faster; its content is the same.
            Err(_) if folder.is_dir() => Ok(()),
            moved => moved.map_err(failed),
        });
        if partial.exists() {
            drop(std::fs::remove_dir_all(&partial));
        }
        moved?;
    }
    Ok(plugin_root(&folder))
}

fn digest_of(file: &mut File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the folder of the plugin: archives often have a single folder at their top.
fn plugin_root(folder: &Path) -> PathBuf {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    // Some systems add a folder for their own.
    let is_extra = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("__"));
    let mut entries = entries.filter(|path| !is_extra(path));
    match (entries.next(), entries.next()) {
        (Some(only), None) if only.is_dir() && !folder.join(MANIFEST).exists() && !only.ends_with(".claude-plugin") => {
            only
        }
        _ => folder.to_owned(),
    }
}

fn unpack_into(file: File, folder: &Path) -> Result<(), String> {
    let mut archive =
        ZipArchive::new(io::BufReader::new(file)).map_err(|error| format!("it is no zip file: {error}"))?;
    if archive.len() > MAX_FILES {
        return Err(format!("it has more than {MAX_FILES} files"));
    }
    make_folder(folder).map_err(|error| error.to_string())?;
    let mut room = UNPACKED_MAX_BYTES;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).map_err(|error| error.to_string())?;
        let name = entry.name().map_err(|error| error.to_string())?.into_owned();
        let written = unpack_entry(&mut entry, &name, folder, room).map_err(|error| format!("{name}: {error}"))?;
        room = room.checked_sub(written).ok_or("its files are too large")?;
    }
    Ok(())
}

/// Writes one entry; returns its size.
fn unpack_entry<R: Read>(entry: &mut ZipFile<'_, R>, name: &str, folder: &Path, room: u64) -> Result<u64, String> {
    let is_windows_path = name.contains('\\');
    let name = Path::new(name);
    let is_inside = name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_inside || is_windows_path {
        return Err("this path leads out of the plugin".to_owned());
    }
    if entry.is_symlink() {
        return Err("a plugin in an archive has no symlinks".to_owned());
    }
    let path = folder.join(name);
    if entry.is_dir() {
        return make_folder(&path).map(|()| 0).map_err(|error| error.to_string());
    }
    if let Some(parent) = path.parent() {
        make_folder(parent).map_err(|error| error.to_string())?;
    }
    let is_executable = entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
    let mode = if is_executable { 0o700 } else { 0o600 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(|e| e.to_string())?;
    // The size in the archive can be a lie.
    let written = io::copy(&mut entry.take(room + 1), &mut file).map_err(|error| error.to_string())?;
    if written > room {
        return Err("the files of the archive are too large".to_owned());
    }
    file.flush().map_err(|error| error.to_string())?;
    Ok(written)
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    use super::*;

    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
            writer.start_file(*name, options).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn an_archive_is_unpacked_once() {
        let dir = tempfile::tempdir().unwrap();
        let (file, cache) = (dir.path().join("x.zip"), dir.path().join("cache"));
        std::fs::write(&file, archive(&[("p/.claude-plugin/plugin.json", "{}"), ("p/a/b.md", "text")])).unwrap();
        let root = unpack_plugin(&file, &cache).unwrap();
        assert!(root.ends_with("p"), "{}", root.display());
        assert_eq!(std::fs::read_to_string(root.join("a/b.md")).unwrap(), "text");
        assert_eq!(unpack_plugin(&file, &cache).unwrap(), root);
        assert_eq!(cache.read_dir().unwrap().count(), 1, "nothing is left over");
    }

    #[test]
    fn what_leads_out_of_an_archive_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, cache) = (dir.path().join("x.zip"), dir.path().join("cache"));
        for name in ["../out.txt", "/etc/out.txt", "a/../../out.txt", "a\\..\\out.txt"] {
            std::fs::write(&file, archive(&[(name, "text")])).unwrap();
            let error = unpack_plugin(&file, &cache).unwrap_err();
            assert!(error.message.contains("leads out of the plugin"), "{name}: {}", error.message);
        }
        std::fs::write(&file, "no archive").unwrap();
        assert!(unpack_plugin(&file, &cache).unwrap_err().message.contains("it is no zip file"));
        assert!(!dir.path().join("out.txt").exists());
        assert_eq!(cache.read_dir().unwrap().count(), 0);
    }
}
