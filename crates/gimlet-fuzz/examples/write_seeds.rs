//! Writes the seeds of every target, and its words as a dictionary, to the folder that it is given: the start of a real
//! fuzzing run.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("usage: write_seeds FOLDER"));
    };
    gimlet_fuzz::TARGETS.iter().try_for_each(|target| write_target(&folder.join(target.name), target))
}

fn write_target(folder: &Path, target: &gimlet_fuzz::FuzzTarget) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    std::fs::write(folder.with_extension("dict"), format_dictionary(target.words))
}

/// The fuzzer's form: a quoted text on each line.
fn format_dictionary(words: &[&str]) -> String {
    let mut lines = String::new();
    for word in words {
        lines.push('"');
        for byte in word.bytes() {
            // Writing to a String cannot fail.
            let _ = match byte {
                b'"' | b'\\' => write!(lines, "\\{}", char::from(byte)),
                0x20..0x7f => write!(lines, "{}", char::from(byte)),
                _ => write!(lines, "\\x{byte:02X}"),
            };
        }
        lines.push_str("\"\n");
    }
    lines
}
