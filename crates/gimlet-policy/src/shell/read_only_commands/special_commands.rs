//! Commands whose arguments are a small language of their own: `find`, `sed`, `printf`, `date`.

use super::read_only_table::list_contains;
use crate::shell::word::{Word, WordPiece};

/// Allowed words of `find` without a value; everything that runs, removes or writes is missing.
const FIND_PLAIN: &str = "-daystart -depth -d -mount -noleaf -xdev -ignore_readdir_race -noignore_readdir_race -warn -nowarn \
    -empty -executable -readable -writable -nogroup -nouser -true -false -print -print0 -prune -quit -ls -not -a -and -o \
    -or ( ) ! , -follow -help --help -version --version";
/// Those among them that only affect which files are found, or how.
const FIND_TESTS: &str = "-daystart -depth -d -mount -noleaf -xdev -ignore_readdir_race -noignore_readdir_race -warn -nowarn \
    -empty -executable -readable -writable -nogroup -nouser -a -and";
const FIND_VALUED: &str = "-maxdepth -mindepth -regextype -amin -atime -cmin -ctime -mmin -mtime -fstype -gid -group -ilname \
    -iname -inum -ipath -iregex -iwholename -links -lname -name -path -perm -regex -size -type -uid -used -user -wholename \
    -xtype -printf -context -newermt -newerat -newerct";
const FIND_FILED: &str = "-newer -anewer -cnewer -samefile -newermm -neweraa -newercc -neweram -newerma";

/// Returns the paths that `find` starts from or compares with; `None` unless it only reads.
pub(super) fn find_command_paths<'a>(arguments: &[&'a str]) -> Option<Vec<&'a str>> {
    let mut paths = Vec::new();
    let mut rest = arguments.iter().copied().skip_while(|word| matches!(*word, "-H" | "-L" | "-P")).peekable();
    while let Some(path) = rest.next_if(|word| !word.starts_with(['-', '(', ')', '!', ','])) {
        paths.push(path);
    }
    while let Some(word) = rest.next() {
        if list_contains(FIND_VALUED, word) {
            rest.next()?;
        } else if list_contains(FIND_FILED, word) {
            paths.push(rest.next()?);
        } else if !list_contains(FIND_PLAIN, word) {
            return None;
        }
    }
    Some(paths)
}

/// Returns the pattern of a `-name` that holds for everything that `find` prints: all tests must hold, and it prints
/// last.
pub(super) fn find_name_pattern<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut rest =
        arguments.iter().copied().skip_while(|word| !word.starts_with(['-', '(', ')', '!', ',']) || *word == "-P");
    let mut name = None;
    while let Some(word) = rest.next() {
        if list_contains(FIND_VALUED, word) || list_contains(FIND_FILED, word) {
            let value = rest.next()?;
            name = name.or((word == "-name").then_some(value));
        } else if word == "-print" {
            return if rest.next().is_none() { name } else { None };
        } else if !list_contains(FIND_TESTS, word) {
            return None;
        }
    }
    name
}

/// Returns true if `find` follows symlinks.
pub(super) fn find_follows_symlinks(arguments: &[&str]) -> bool {
    arguments.iter().any(|word| matches!(*word, "-L" | "-follow"))
}

/// Returns the files of `sed -n Np FILE…` and `sed -n N,Mp FILE…`.
pub(super) fn sed_files<'a>(arguments: &[&'a str]) -> Option<Vec<&'a str>> {
    let ["-n", script, files @ ..] = arguments else { return None };
    let plain = is_line_range(script) && !files.iter().any(|file| file.starts_with('-'));
    plain.then(|| files.to_vec())
}

/// Returns true for `12p` or `10,20p`.
pub(crate) fn is_line_range(script: &str) -> bool {
    let Some(range) = script.strip_suffix('p') else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = range.split(',');
    parts.next().is_some_and(number)
        && parts.next().is_none_or(|end| end == "$" || number(end))
        && parts.next().is_none()
}

/// Returns true for a `printf` with a static format that assigns nothing: `-v` and `%n` assign to variables.
pub(super) fn is_plain_printf(arguments: &[Word]) -> bool {
    let format = match arguments {
        [dashes, format, ..] if dashes.value() == Some("--") => format.value(),
        [format, ..] => format.value().filter(|format| !format.starts_with('-')),
        [] => None,
    };
    format.is_some_and(|format| {
        let flags = |c: char| "-+ #0123456789'*.hlLjzt".contains(c);
        !format
            .replace("%%", "")
            .split('%')
            .skip(1)
            .any(|directive| directive.trim_start_matches(flags).starts_with('n'))
    })
}

/// Returns the files of `date`; `None` unless it only prints: an operand that is not a format would set the clock.
pub(super) fn date_files(arguments: &[Word]) -> Option<Vec<&Word>> {
    let mut files = Vec::new();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let beginning = match word.pieces().first() {
            Some(WordPiece::Text(text)) => text.as_str(),
            _ => "",
        };
        match word.value() {
            // A format may contain anything, as long as it stays one word.
            None if beginning.starts_with('+') && !word.may_split() => {}
            None => return None,
            Some("-u" | "--utc" | "--universal" | "-R" | "--rfc-email" | "--iso-8601" | "--debug") => {}
            Some("-d" | "--date") => drop(rest.next().filter(|value| !value.may_split())?),
            Some("-r" | "-f") => files.push(rest.next()?),
            Some(text) if text.starts_with('+') => {}
            Some(text) if ["--date=", "--iso-8601=", "--rfc-3339=", "-I"].iter().any(|flag| text.starts_with(flag)) => {
            }
            Some(_) => return None,
        }
    }
    Some(files)
}
