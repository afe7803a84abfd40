//! Destinations of archives and patches, whose file names stand in them and not in the command.

/// Returns the folder that files are unpacked to; `None` where nothing is unpacked.
pub(super) fn folder<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_cluster = |word: &&&str| word.starts_with('-') && !word.starts_with("--");
    let has_letter = |letters: &[char]| known.iter().filter(is_cluster).any(|word| word.contains(letters));
    let has = |options: &[&str]| known.iter().any(|word| options.iter().any(|option| word.starts_with(option)));
    let unpacks = match name {
        "tar" | "bsdtar" => {
            let bundled = known.first().is_some_and(|word| !word.starts_with('-') && word.contains('x'));
            bundled || has_letter(&['x']) || has(&["--extract", "--get"])
        }
        "unzip" => !has_letter(&['l', 't', 'p', 'Z', 'v', 'z']),
        "cpio" => (has_letter(&['i', 'p']) || has(&["--extract", "--pass-through"])) && !has_letter(&['t']),
        "patch" => !has(&["--dry-run", "--help", "--version"]) && !has_letter(&['C']),
        _ => matches!(known.first(), Some(&("x" | "e"))),
    };
    let letter = match name {
        "tar" | "bsdtar" => "-C",
        "unzip" | "patch" => "-d",
        "cpio" => "-D",
        _ => "-o",
    };
    let own = |(at, word): (usize, &&'a str)| match word.strip_prefix(letter) {
        Some("") => known.get(at + 1).copied(),
        Some(folder) => Some(folder),
        None => word.strip_prefix("--directory=").or_else(|| {
            let next = matches!(*word, "--directory" | "--cd").then(|| known.get(at + 1).copied());
            next.flatten()
        }),
    };
    unpacks.then(|| known.iter().enumerate().find_map(own).unwrap_or("."))
}

#[cfg(test)]
mod tests {
    use super::folder;

    #[test]
    fn the_folder_is_where_it_is_told_to_be() {
        for (text, expected) in [
            ("tar xf a.tar", Some(".")),
            ("tar -xzf a.tar -C out", Some("out")),
            ("tar --extract -f a.tar --directory=out", Some("out")),
            ("tar tf a.tar", None),
            ("tar czf x.tgz src", None),
            ("unzip a.zip", Some(".")),
            ("unzip -q a.zip -d out", Some("out")),
            ("unzip -l a.zip", None),
            ("7z x a.7z -oout", Some("out")),
            ("7z l a.7z", None),
            ("cpio -idm", Some(".")),
            ("cpio -it", None),
            ("patch -p1", Some(".")),
            ("patch -p1 --dry-run", None),
            ("patch -d sub -p1", Some("sub")),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(folder(words[0], &words[1..]), expected, "{text}");
        }
    }
}
