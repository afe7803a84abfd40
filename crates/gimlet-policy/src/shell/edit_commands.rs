//! Commands that only create, change, move or remove the files they name. Only forms with known flags and static words
//! count; the caller that allows them must still judge the files.

use super::pending_lookups::WordRole;
use super::word::Word;
use super::wrappers::base_name;

/// Files that such a command touches, as they are spelled.
#[derive(Debug, Default)]
pub(super) struct EditOperands<'a> {
    pub(super) paths: Vec<String>,
    /// Words whose value is only known at run time.
    pub(super) words: Vec<(&'a Word, WordRole)>,
    /// Sources, and the target that they are recursively copied to.
    pub(super) copies: Vec<(String, String)>,
    /// Sources, and the target that they are recursively moved to.
    pub(super) moves: Vec<(String, String)>,
    /// True if directories are removed recursively.
    pub(super) removes_trees: bool,
}

/// Returns the files that such a command touches, or `None` for any other command.
pub(super) fn parse_edit_command(words: &[Word]) -> Option<EditOperands<'_>> {
    let (name, arguments) = words.split_first()?;
    let name = name.value()?;
    let (flags, valued) = match name {
        "mkdir" => ("pv parents verbose", "m mode"),
        "touch" => ("acm no-create", "dt date time"),
        "rm" => ("dfiIrRv dir force recursive verbose", ""),
        "rmdir" => ("pv parents verbose ignore-fail-on-non-empty", ""),
        "mv" => ("finuvT force interactive no-clobber update verbose no-target-directory", ""),
        "cp" => {
            ("adfinprRuvxTLP archive force interactive no-clobber recursive update verbose no-target-directory", "")
        }
        "sed" => {
            let known = arguments.iter().map(Word::value).collect::<Option<Vec<&str>>>()?;
            return sed_edited_files(&known).map(|paths| EditOperands { paths, ..EditOperands::default() });
        }
        _ => return None,
    };
    let mut edited = EditOperands::default();
    let (mut options, mut letters) = (true, String::new());
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.value() else {
            let role = if options { WordRole::OPERAND } else { WordRole::FILE };
            for word in word.choices() {
                match word.value() {
                    Some(text) if options && text.starts_with('-') => return None,
                    Some(text) => edited.paths.push(text.to_owned()),
                    None => edited.words.push((word, role)),
                }
            }
            continue;
        };
        match text.strip_prefix('-') {
            Some("-") if options => options = false,
            Some(option) if options && !option.is_empty() => {
                letters.push_str(short_option(option));
                if takes_value(option, flags, valued)? {
                    rest.next()?.value()?;
                }
            }
            _ => edited.paths.push(text.to_owned()),
        }
    }
    edited.removes_trees = name == "rm" && letters.contains(['r', 'R']);
    let copies = matches!(name, "cp" | "mv");
    // The target of a file depends on its name; and a symlink that is copied as one resolves differently from its new
    // place.
    let unclear = copies && !edited.words.is_empty() || name == "cp" && letters.contains(['P', 'd']);
    let nothing = edited.paths.is_empty() && edited.words.is_empty();
    if unclear || nothing || edited.paths.iter().any(String::is_empty) {
        return None;
    }
    if let Some((target, sources)) = edited.paths.clone().split_last()
        && copies
    {
        // The last may be a directory, and then a file in it is written.
        edited.paths.extend(sources.iter().map(|source| format!("{target}/{}", base_name(source))));
        let pairs = sources.iter().map(|source| (source.clone(), target.clone()));
        if name == "mv" {
            edited.moves = pairs.collect();
        } else if letters.contains(['r', 'R', 'a']) {
            edited.copies = pairs.collect();
        }
    }
    Some(edited)
}

/// Returns the short option letters that an option corresponds to, as far as they matter here.
fn short_option(option: &str) -> &str {
    match option {
        "-recursive" => "r",
        "-archive" => "a",
        long if long.starts_with('-') => "",
        short => short,
    }
}

/// Returns true if an option takes the next word; `None` if it is not known. Short options come first in each list.
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

/// Returns the files of `sed -i 's/a/b/' FILE…`; the script must only replace or delete lines.
fn sed_edited_files(arguments: &[&str]) -> Option<Vec<String>> {
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
    (in_place && !paths.is_empty() && is_plain_sed_script(script?)).then_some(paths)
}

/// Returns true for `s/a/b/g`, `3d`, `2,5d`: no command that runs, reads or writes anything.
fn is_plain_sed_script(script: &str) -> bool {
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
            // Inside brackets the delimiter is an ordinary character; that is not handled here.
            '[' if seen == 0 => return false,
            _ if seen == 2 => flags.push(c),
            _ => {}
        }
    }
    seen == 2 && flags.chars().all(|flag| flag.is_ascii_digit() || matches!(flag, 'g' | 'i' | 'I' | 'p'))
}

#[cfg(test)]
mod tests {
    use super::{Word, parse_edit_command};

    fn edited_paths(text: &str) -> Option<Vec<String>> {
        parse_edit_command(&text.split(' ').map(Word::from_literal).collect::<Vec<_>>()).map(|edited| edited.paths)
    }

    #[test]
    fn a_copied_folder_is_returned_with_its_target() {
        let words: Vec<Word> = "cp -r x/a y b".split(' ').map(Word::from_literal).collect();
        let edited = parse_edit_command(&words).unwrap();
        assert_eq!(edited.paths, ["x/a", "y", "b", "b/a", "b/y"]);
        assert_eq!(edited.copies, [("x/a", "b"), ("y", "b")].map(|(from, to)| (from.to_owned(), to.to_owned())));
        let words: Vec<Word> = "cp a b".split(' ').map(Word::from_literal).collect();
        assert!(parse_edit_command(&words).unwrap().copies.is_empty());
    }

    #[test]
    fn plain_edits_return_their_files() {
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
            assert_eq!(edited_paths(text).map(|paths| paths.join(" ")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn unknown_flags_and_scripts_that_do_more_are_refused() {
        for text in [
            "mkdir",
            "mkdir -Z a",
            "cp -t d a",
            "cp -d a b",
            "cp -s a b",
            "cp -rl a b",
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
            assert_eq!(edited_paths(text), None, "{text}");
        }
    }
}
