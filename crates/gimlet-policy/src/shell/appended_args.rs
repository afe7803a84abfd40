//! Commands that another command completes: `xargs` and `parallel` append or insert words, `find` replaces `{}` by file
//! names. These words are unknown, so a deny rule may match the whole. Findings of this module must never allow
//! anything.

use super::scan;
use super::word::{UNKNOWN_CHAR, Word, WordPiece};
use super::wrappers::{
    base_name, find_actions, inner_command_starts, is_find_exec, reachable_commands, reachable_ranges,
};

/// Maximum number of completed commands inside one command that are tracked.
const MOST_COMPLETED: usize = 8;
/// Maximum number of words in the completed commands so far for one more to be tracked.
const MOST_WORDS: usize = 512;
/// Maximum number of starting points of one `find` that are distinguished.
const MOST_POINTS: usize = 4;

/// Programs that complete the command that they run.
const COMPLETERS: &[&str] = &["xargs", "parallel", "entr", "find"];

/// Commands inside one command that get words from elsewhere, as far as these are known.
#[derive(Clone, Debug, Default)]
pub(super) struct CompletedCommands {
    pub(super) commands: Vec<Vec<Word>>,
    /// True if there were too many to track, or the added words may be any command.
    pub(super) incomplete: bool,
    words: usize,
}

/// Returns the completed forms of the command and of those that it would run, nested ones included.
pub(super) fn complete_commands(words: &[Word]) -> CompletedCommands {
    let mut found = CompletedCommands::default();
    found.add(words);
    let mut at = 0;
    while let Some(words) = found.commands.get(at).cloned() {
        found.add(&words);
        at += 1;
    }
    found
}

impl CompletedCommands {
    /// Adds only the outermost completing command: those inside it are part of what it completes.
    fn add(&mut self, words: &[Word]) {
        if !words.iter().any(may_complete_command) {
            return;
        }
        let name = |start: usize| words.get(start).and_then(Word::value).map(base_name);
        let outermost =
            reachable_ranges(words).into_iter().filter(|range| COMPLETERS.contains(&name(range.start).unwrap_or("")));
        let Some(range) = outermost.min_by_key(|range| range.start) else { return };
        let (name, layer) = (name(range.start), &words[range]);
        match name {
            Some("xargs") => self.add_xargs(layer),
            Some("parallel") => self.add_parallel(layer),
            Some("find") => self.add_find(layer),
            _ => inner_command_starts(layer).into_iter().for_each(|at| self.push(replace_in_words(&layer[at..], "/_"))),
        }
    }

    fn push(&mut self, words: Vec<Word>) {
        if words.is_empty() || self.commands.contains(&words) {
            return;
        }
        self.incomplete |= self.commands.len() >= MOST_COMPLETED || self.words > MOST_WORDS;
        self.words += words.len();
        if !self.incomplete {
            self.commands.push(words);
        }
    }

    fn add_xargs(&mut self, words: &[Word]) {
        for start in inner_command_starts(words) {
            let (own, inner) = (&words[1..start], &words[start..]);
            let marks = xargs_placeholders(own);
            self.incomplete |= marks.iter().any(|mark| mark.contains(UNKNOWN_CHAR));
            let mut changed = inner.to_vec();
            marks.iter().for_each(|mark| changed = replace_in_words(&changed, mark));
            // Without a placeholder the words are appended.
            if changed == inner {
                changed.push(Word::unknown());
            }
            self.push(changed);
        }
    }

    /// Adds the commands of `parallel`, which passes them to a shell; without a command it runs its input.
    fn add_parallel(&mut self, words: &[Word]) {
        let starts = inner_command_starts(words);
        let listed = |word: &Word| word.value().is_some_and(|text| text.starts_with(":::"));
        let is_start = |start: &usize| !words.get(*start).is_none_or(listed);
        self.incomplete |= !starts.iter().any(is_start);
        for start in starts.into_iter().filter(is_start) {
            let inner = words[start..].iter().take_while(|word| !listed(word)).map(Word::masked);
            let text = inner.collect::<Vec<_>>().join(" ");
            let mut changed = mask_parallel_placeholders(&text);
            if changed == text {
                changed.extend([' ', UNKNOWN_CHAR]);
            }
            scan::scan_commands(&changed)
                .into_iter()
                .for_each(|words| self.push(words.into_iter().map(mark_splittable).collect()));
        }
    }

    /// Adds the commands of `find`; an inserted name begins with one of its starting points.
    fn add_find(&mut self, words: &[Word]) {
        let points = find_starting_points(words).unwrap_or_else(|| vec![Word::unknown()]);
        for action in find_actions(words) {
            // The file that is found may be any program.
            let starts_found = |inner: &[Word]| inner.first().is_some_and(|word| word.masked().contains("{}"));
            self.incomplete |= reachable_commands(&words[action.clone()]).into_iter().any(starts_found);
            // With `-execdir` the name has another beginning.
            let inside = words.get(action.start - 1).and_then(Word::value).is_some_and(|word| word.ends_with("dir"));
            let unknown = [Word::unknown()];
            for point in if inside { &unknown[..] } else { &points } {
                let with =
                    |word: &Word| if word.value() == Some("{}") { point.clone() } else { replace_in_word(word, "{}") };
                self.push(words[action.clone()].iter().map(with).collect());
            }
        }
    }
}

fn may_complete_command(word: &Word) -> bool {
    let name = word.value().map(base_name);
    is_find_exec(word) || name.is_some_and(|name| name != "find" && COMPLETERS.contains(&name))
}

/// Returns the placeholders that `xargs` replaces by its input.
fn xargs_placeholders(own: &[Word]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, word) in own.iter().enumerate() {
        let text = word.masked();
        let next = || own.get(at + 1).map(Word::masked);
        let long = text.strip_prefix("--r").filter(|rest| "eplace".starts_with(rest.split('=').next().unwrap_or("")));
        if let Some(rest) = long {
            found.push(rest.split_once('=').map_or("{}", |(_, mark)| mark).to_owned());
        } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
            // Also after other letters: `-0I{}`.
            let Some((_, mark)) = letters.split_once(['I', 'J', 'i']) else { continue };
            match mark {
                "" if letters.ends_with('i') => found.push("{}".to_owned()),
                "" => found.extend(next()),
                mark => found.push(mark.to_owned()),
            }
        }
    }
    found.retain(|mark| !mark.is_empty());
    found
}

fn replace_in_words(words: &[Word], mark: &str) -> Vec<Word> {
    words.iter().map(|word| replace_in_word(word, mark)).collect()
}

/// Returns the word with something unknown in place of each occurrence of the mark.
fn replace_in_word(word: &Word, mark: &str) -> Word {
    let has = |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if text.contains(mark));
    if !word.pieces().iter().any(has) {
        return word.clone();
    }
    Word::from_masked(&word.masked().replace(mark, UNKNOWN_CHAR.encode_utf8(&mut [0; 4])))
}

/// Returns a text with something unknown wherever `parallel` may insert a value: `{}`, `{.}`, `{1}`, `{= … =}`.
fn mask_parallel_placeholders(text: &str) -> String {
    let mut rest = text;
    let mut changed = String::new();
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((_, behind)) = behind.split_once('}') else { break };
        changed.push_str(before);
        changed.push(UNKNOWN_CHAR);
        rest = behind;
    }
    changed + rest
}

/// Marks a word as possibly becoming several words, or none.
fn mark_splittable(word: Word) -> Word {
    if word.is_dynamic() { Word::from_masked(&word.masked()) } else { word }
}

/// Returns words with the beginnings of the names that `find` prints; `None` if they may begin with anything.
fn find_starting_points(words: &[Word]) -> Option<Vec<Word>> {
    let values: Vec<&str> = words.iter().map(Word::value).collect::<Option<_>>()?;
    let listed = |word: &&str| word.starts_with("-files0") || *word == "-f";
    if values.iter().any(listed) {
        return None;
    }
    let options = |word: &&str| matches!(*word, "-H" | "-L" | "-P") || word.starts_with("-O");
    let mut points: Vec<&str> = values[1..].iter().copied().skip_while(options).collect();
    let end = points.iter().position(|word| word.starts_with(['-', '(', '!', ',', ')'])).unwrap_or(points.len());
    points.truncate(end);
    if points.is_empty() {
        points.push(".");
    }
    let word = |point: &&str| Word::from_masked(&format!("{point}{UNKNOWN_CHAR}"));
    (points.len() <= MOST_POINTS).then(|| points.iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed_to(text: &str) -> Vec<String> {
        let words: Vec<Word> = text.split(' ').map(Word::from_literal).collect();
        let shown = |words: &Vec<Word>| words.iter().map(Word::display_text).collect::<Vec<_>>().join(" ");
        complete_commands(&words).commands.iter().map(shown).collect()
    }

    #[test]
    fn words_are_added_where_the_program_adds_them() {
        for (text, whole) in [
            ("xargs git", "git …"),
            ("sudo xargs -n 1 git add", "git add …"),
            ("xargs -I{} git {} x", "git … x"),
            ("xargs -0I % git a%b", "git a…b"),
            ("xargs --replace git {}", "git …"),
            ("xargs --replace=X git X", "git …"),
            ("xargs -i git {}", "git …"),
            ("xargs -I{} git add", "git add …"),
            ("xargs xargs git", "git … …"),
            ("xargs -I% xargs -I{} git {} %", "git … …"),
            ("parallel git", "git …"),
            ("parallel git {} ::: push", "git …"),
            ("parallel -j 4 git {1} x", "git … x"),
            ("entr git /_", "git …"),
            ("find . -exec git {} ;", "git .…"),
            ("find push pull -name x -exec git {} ;", "git pull…"),
            ("find . -execdir git {} +", "git …"),
        ] {
            let found = completed_to(text);
            assert!(found.iter().any(|one| one == whole), "{text}: {found:?}");
        }
        assert_eq!(completed_to("find . -exec xargs git ;"), ["xargs git", "git …"]);
        assert_eq!(completed_to("git add x"), [""; 0]);
        assert_eq!(completed_to("find . -name xargs"), [""; 0]);
    }

    #[test]
    fn lines_that_are_commands_are_unseen() {
        for (text, unseen) in [("parallel", true), ("parallel -j 4", true), ("parallel ls", false), ("xargs", false)] {
            let words: Vec<Word> = text.split(' ').map(Word::from_literal).collect();
            assert_eq!(complete_commands(&words).incomplete, unseen, "{text}");
        }
    }
}
