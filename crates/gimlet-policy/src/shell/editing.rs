//! Commands that do nothing but create, change, move or remove the files they name. Only forms whose every flag is known
//! and whose every word is static count; whoever lets them pass still has to judge the files.

use super::wrappers::base_name;

/// The paths that such a command touches.
pub(super) fn edited_paths(words: &[&str]) -> Option<Vec<String>> {
    let (name, arguments) = words.split_first()?;
    let (flags, valued) = match *name {
        "mkdir" => ("pv parents verbose", "m mode"),
        "touch" => ("acm no-create", "dt date time"),
        "rm" => ("dfiIrRv dir force recursive verbose", ""),
        "rmdir" => ("pv parents verbose ignore-fail-on-non-empty", ""),
        "mv" => ("finuvT force interactive no-clobber update verbose no-target-directory", ""),
        "cp" => {
            ("adfinprRuvxTLP archive force interactive no-clobber recursive update verbose no-target-directory", "")
        }
        "sed" => return stream_edited(arguments),
        _ => return None,
    };
    let mut paths = Vec::new();
    let (mut options, mut recursive) = (true, false);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.strip_prefix('-') {
            Some("-") if options => options = false,
            Some(option) if options && !option.is_empty() => {
                recursive |= option.contains(['r', 'R', 'a', 'P', 'd']);
                if takes_value(option, flags, valued)? {
                    rest.next()?;
                }
            }
            _ => paths.push((*word).to_owned()),
        }
    }
    // A directory brings names along that nobody sees here, may meet links where it goes, and a link that is copied as
    // one leads somewhere else from its new place.
    if paths.is_empty() || (*name == "cp" && recursive) {
        return None;
    }
    if let ("cp" | "mv", Some((target, sources))) = (*name, paths.clone().split_last()) {
        // The last may be a directory, and what is written is then a file in it.
        paths.extend(sources.iter().map(|source| format!("{target}/{}", base_name(source))));
    }
    Some(paths)
}

/// Whether an option takes the next word; `None` when it is not known. The short ones stand first in each list.
fn takes_value(option: &str, flags: &str, valued: &str) -> Option<bool> {
    let short = |list: &str| list.split(' ').next().unwrap_or("").to_owned();
    if let Some(long) = option.strip_prefix('-') {
        let (name, attached) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        let known = |list: &str| list.split(' ').skip(1).any(|word| word == name);
        return match attached {
            true => known(valued).then_some(false),
            false => known(flags).then_some(false).or_else(|| known(valued).then_some(true)),
        };
    }
    let (flags, valued) = (short(flags), short(valued));
    for (at, letter) in option.char_indices() {
        if valued.contains(letter) {
            return Some(at + letter.len_utf8() == option.len());
        }
        if !flags.contains(letter) {
            return None;
        }
    }
    Some(false)
}

/// `sed -i 's/a/b/' FILE…`: the script must be one that only replaces or deletes lines.
fn stream_edited(arguments: &[&str]) -> Option<Vec<String>> {
    let (mut script, mut paths, mut in_place) = (None, Vec::new(), false);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-E" | "-r" | "-n" => {}
            "-i" => in_place = true,
            "-Ei" | "-ri" => in_place = true,
            "-e" if script.is_none() => script = Some(*rest.next()?),
            option if option.starts_with('-') => return None,
            text if script.is_none() => script = Some(text),
            path => paths.push(path.to_owned()),
        }
    }
    (in_place && !paths.is_empty() && is_plain_script(script?)).then_some(paths)
}

/// `s/a/b/g`, `3d`, `2,5d`: no command that runs, reads or writes anything.
fn is_plain_script(script: &str) -> bool {
    let numbers =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b',' | b'$'));
    if let Some(lines) = script.strip_suffix('d') {
        return numbers(lines);
    }
    let mut chars = script.chars();
    let Some(delimiter) = chars.next().filter(|first| *first == 's').and_then(|_| chars.next()) else { return false };
    if delimiter.is_alphanumeric() || matches!(delimiter, '\\' | '\n' | '[') || script.contains('\n') {
        return false;
    }
    let (mut seen, mut flags) = (0, String::new());
    while let Some(c) = chars.next() {
        match c {
            '\\' if seen < 2 => drop(chars.next()),
            _ if c == delimiter && seen < 2 => seen += 1,
            // Inside brackets the delimiter is a letter like others; that is not followed here.
            '[' if seen == 0 => return false,
            _ if seen == 2 => flags.push(c),
            _ => {}
        }
    }
    seen == 2 && flags.chars().all(|flag| flag.is_ascii_digit() || matches!(flag, 'g' | 'i' | 'I' | 'p'))
}

#[cfg(test)]
mod tests {
    use super::edited_paths;

    fn paths(text: &str) -> Option<Vec<String>> {
        edited_paths(&text.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn plain_edits_tell_their_files() {
        for (text, expected) in [
            ("mkdir -p a/b", "a/b"),
            ("mkdir -m 755 a", "a"),
            ("touch -d now a b", "a b"),
            ("rm -rf a", "a"),
            ("rm -- -a", "-a"),
            ("mv a b", "a b b/a"),
            ("cp -p x/a b", "x/a b b/a"),
            ("sed -i s/a/b/g x y", "x y"),
            ("sed -i -e 3d x", "x"),
            ("sed -Ei s|a/b|c\\|d|2 x", "x"),
        ] {
            assert_eq!(paths(text).map(|paths| paths.join(" ")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn unknown_flags_and_scripts_that_do_more_are_refused() {
        for text in [
            "mkdir",
            "mkdir -Z a",
            "cp -t d a",
            "cp -r a/. .",
            "cp -r x/a b",
            "cp -s a b",
            "mv --backup a b",
            "rm --no-preserve-root a",
            "touch -r /etc/passwd a",
            "sed s/a/b/ x",
            "sed -i s/a/b/e x",
            "sed -i s/a/b/w/tmp/x x",
            "sed -i w/tmp/x x",
            "sed -i 1e x",
            "sed -i s/a/b/;d x",
            "sed -i.bak s/a/b/ x",
            "sed -i s/[/]/b/ x",
            "sed -i -f script x",
            "chmod 777 a",
        ] {
            assert_eq!(paths(text), None, "{text}");
        }
    }
}
