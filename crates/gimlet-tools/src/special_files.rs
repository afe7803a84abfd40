//! Special files of the kernel; file tools and searches stay out of them.

use std::path::Path;

/// Returns true if a path lies in a kernel file system whose entries are not regular files.
pub(crate) fn is_special(path: &Path) -> bool {
    let in_dev = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    in_dev || path.starts_with("/proc") || path.starts_with("/sys")
}

pub(crate) fn special_text(path: &str) -> String {
    format!(
        "{path} is a device or kernel file; file tools only touch regular files because such files can block or never \
         end. If you need it, use a shell command that reads a bounded amount."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_paths_are_special_and_shared_memory_is_not() {
        for path in ["/dev/zero", "/dev/fd/0", "/proc/self/fd/0", "/proc/1/mem", "/sys/power/state"] {
            assert!(is_special(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/a.txt", "/device/x", "/home/proc/x"] {
            assert!(!is_special(Path::new(path)), "{path}");
        }
    }
}
