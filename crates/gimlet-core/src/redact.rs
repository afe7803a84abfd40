//! Masking of credentials before text enters history or a log: gimlet's own, and those in the environment.
//!
//! A command may print the environment, and a file may hold a key, so tool results are searched for the exact values,
//! all in one pass. Text from the user is never changed.

mod token_shapes;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use gimlet_exec::is_credential_name;
use gimlet_fs::{AtomicFile, FileDurability};
use gimlet_proto::{ContentPart, Env, ResultContent, Secret, View};

pub use token_shapes::mask_tokens;

/// Replacement for a secret.
const MASK: &str = "***";
/// Minimum length of a secret: shorter values are placeholders for local servers, and would match everywhere.
const SHORTEST: usize = 8;
/// Maximum length at which a value of letters alone, or of digits alone, counts as a common word or number.
const LONGEST_WORD: usize = 15;
/// Variable whose lines are headers, whose names are not secret.
const HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";
/// Variable that selects a credential by a name that is not secret.
const CHOICE: &str = "AWS_PROFILE";

/// Maximum number of values: if a helper prints a new key each time, the first ones have expired long before.
const MOST: usize = 256;

/// Values to mask. Clones share them, so a value added to one is masked by all.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<KnownSecrets>>,
}

/// Masked values.
#[derive(Default)]
struct KnownSecrets {
    /// Values, oldest first.
    values: Vec<Secret>,
    /// Search automaton for all values; `None` if there are none.
    finder: Option<AhoCorasick>,
}

impl KnownSecrets {
    fn add(&mut self, value: Secret) -> bool {
        if value.expose().len() < SHORTEST || self.values.contains(&value) {
            return false;
        }
        if self.values.len() == MOST {
            self.values.remove(0);
        }
        self.values.push(value);
        true
    }

    /// Rebuilds the automaton. If one value is a prefix of another, the longer one matches.
    fn rebuild_finder(&mut self) {
        let values = self.values.iter().map(Secret::expose);
        // Building fails only for more text than fits into memory, which 256 values are not.
        self.finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(values).ok();
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor(***)")
    }
}

impl Redactor {
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        let redactor = Self::default();
        redactor.add_secrets(secrets);
        redactor
    }

    /// Adds a value to mask.
    pub fn add_secret(&self, secret: Secret) {
        self.add_secrets([secret]);
    }

    /// Adds the values of all variables whose names indicate a credential.
    pub fn add_environment(&self, env: &Env) {
        let text = env.vars().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
        let named = text.filter(|(name, _)| is_credential_name(name) && *name != CHOICE);
        let values = named.flat_map(|(name, value)| match name == HEADERS {
            true => value.lines().filter_map(|line| Some(line.split_once(':')?.1.trim())).collect(),
            false => vec![value.trim()],
        });
        self.add_secrets(values.filter(|value| looks_secret(value)).map(Secret::new));
    }

    /// Adds the values of headers, with and without the word for the credential's type.
    pub fn add_headers<'v>(&self, values: impl IntoIterator<Item = &'v str>) {
        let parts = values.into_iter().flat_map(|value| [Some(value), value.split_once(' ').map(|(_, rest)| rest)]);
        let parts = parts.flatten().map(str::trim).filter(|value| looks_secret(value));
        self.add_secrets(parts.map(Secret::new));
    }

    /// Adds another encoding of every value.
    pub fn add_encoding(&self, spelling: impl Fn(&str) -> String) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let spelt: Vec<Secret> = known.values.iter().map(|value| Secret::new(spelling(value.expose()))).collect();
        drop(known);
        self.add_secrets(spelt);
    }

    fn add_secrets(&self, secrets: impl IntoIterator<Item = Secret>) {
        // The list of values is complete even if a holder of the lock panicked.
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut is_news = false;
        for secret in secrets {
            // Tool output for programs is JSON, in which some values are escaped.
            let spelt = serde_json::to_string(secret.expose()).unwrap_or_default();
            let spelt = spelt.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default();
            is_news |= known.add(Secret::new(spelt));
            is_news |= known.add(secret);
        }
        if is_news {
            known.rebuild_finder();
        }
    }

    /// Returns the text with secrets masked.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(finder) = &known.finder else { return Cow::Borrowed(text) };
        let mut masked = String::new();
        let mut done = 0;
        for found in finder.find_iter(text) {
            masked.push_str(&text[done..found.start()]);
            masked.push_str(MASK);
            done = found.end();
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(&text[done..]);
        Cow::Owned(masked)
    }

    /// Masks secrets in a session file, which is left unchanged if there are none. Blocks.
    pub(crate) fn mask_file(&self, path: &Path) -> io::Result<()> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(finder) = known.finder.clone() else { return Ok(()) };
        drop(known);
        if !copy_masked(&finder, File::open(path)?, io::sink())? {
            return Ok(());
        }
        let mut masked = AtomicFile::create(path)?;
        copy_masked(&finder, File::open(path)?, &mut masked)?;
        masked.rename_into_place(FileDurability::Content)
    }

    fn mask_in_place(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask(text) {
            *text = masked;
        }
    }

    pub(crate) fn mask_content(&self, content: &mut ResultContent) {
        match content {
            ResultContent::Text(text) => self.mask_in_place(text),
            ResultContent::Parts(parts) => {
                for part in parts {
                    if let ContentPart::Text { text } = part {
                        self.mask_in_place(text);
                    }
                }
            }
        }
    }

    pub(crate) fn mask_view(&self, view: &mut View) {
        match view {
            View::Text(text) => self.mask_in_place(text),
            View::Diff { hunks, .. } => {
                hunks.iter_mut().flat_map(|hunk| &mut hunk.lines).for_each(|line| self.mask_in_place(line));
            }
            View::Terminal { command, output, .. } => {
                self.mask_in_place(command);
                self.mask_in_place(output);
            }
            View::Table { rows, .. } => rows.iter_mut().flatten().for_each(|cell| self.mask_in_place(cell)),
            View::Files { .. } | View::Todos(_) => {}
        }
    }
}

/// Copies everything but the values. Returns true if there was one. A value may span two reads.
fn copy_masked(finder: &AhoCorasick, mut from: impl Read, mut to: impl Write) -> io::Result<bool> {
    const CHUNK: u64 = 1 << 20;
    let longest = finder.max_pattern_len();
    let (mut waiting, mut any) = (Vec::new(), false);
    loop {
        let ended = from.by_ref().take(CHUNK).read_to_end(&mut waiting)? == 0;
        // A possible beginning of a value is kept for the next read.
        let sure = if ended { waiting.len() } else { (waiting.len() + 1).saturating_sub(longest) };
        let mut done = 0;
        for found in finder.find_iter(&waiting).take_while(|found| found.start() < sure) {
            to.write_all(&waiting[done..found.start()])?;
            to.write_all(MASK.as_bytes())?;
            (done, any) = (found.end(), true);
        }
        let sure = sure.max(done);
        to.write_all(&waiting[done..sure])?;
        waiting.drain(..sure);
        if ended {
            return Ok(any);
        }
    }
}

/// Returns true if the value of a variable named like a credential can be a secret: not a switch, number, word, file
/// path or server address. Masking those would remove them throughout code.
fn looks_secret(value: &str) -> bool {
    let is_word = value.chars().all(|char| char.is_alphabetic() || matches!(char, '-' | '_' | '.'));
    let is_number = value.chars().all(|char| char.is_ascii_digit() || matches!(char, '-' | '_' | '.' | ','));
    let is_everyday = (is_word || is_number) && value.len() <= LONGEST_WORD;
    let is_place = value.starts_with(['/', '~', '.', '$']) || (value.contains("://") && !value.contains('@'));
    !is_everyday && !is_place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_values_are_masked_and_placeholders_are_not() {
        let redactor = Redactor::new([Secret::new("sk-0123456789"), Secret::new("k")]);
        assert_eq!(redactor.mask("KEY=sk-0123456789; look"), "KEY=***; look");
        assert!(matches!(redactor.mask("nothing here"), Cow::Borrowed(_)));
        let mut content = ResultContent::Parts(vec![ContentPart::Text { text: "sk-0123456789".into() }]);
        redactor.mask_content(&mut content);
        assert_eq!(content.to_text(), "***");
    }

    #[test]
    fn a_value_that_comes_later_is_masked_by_every_copy_and_the_list_stays_short() {
        let redactor = Redactor::default();
        let copy = redactor.clone();
        for number in 0..=MOST {
            redactor.add_secret(Secret::new(format!("key-number-{number:03}")));
            redactor.add_secret(Secret::new(format!("key-number-{number:03}")));
        }
        assert_eq!(copy.mask("key-number-256 key-number-001"), "*** ***");
        assert_eq!(copy.mask("key-number-000"), "key-number-000");
    }

    #[test]
    fn variables_with_telling_names_are_masked_and_everyday_values_are_not() {
        let env = [
            ("SERVICE_TOKEN", "tok-0123456789"),
            ("DB_PASSWORD", "correcthorsebatterystaple"),
            ("MY_SECRET", "line one\nline \"two\""),
            ("ANTHROPIC_CUSTOM_HEADERS", "X-Team: blue-team-77\nX-Pass: hunter22hunter"),
            ("USE_AUTH", "disabled"),
            ("API_KEY", "short"),
            ("MAX_TOKENS", "128000000"),
            ("SSH_KEY", "/home/me/.ssh/id_ed25519"),
            ("TOKEN_URL", "https://login.example/token"),
            ("AWS_PROFILE", "team-blue-2"),
            ("HOME", "/home/somebody"),
        ];
        let env = env.into_iter().fold(Env::default(), |env, (name, value)| env.with(name, value));
        let redactor = Redactor::default();
        redactor.add_environment(&env);
        for (text, masked) in [
            ("tok-0123456789", "***"),
            ("pw=correcthorsebatterystaple;", "pw=***;"),
            ("a line one\nline \"two\" b", "a *** b"),
            (r#"{"a":"line one\nline \"two\""}"#, r#"{"a":"***"}"#),
            ("X-Team: blue-team-77, hunter22hunter", "X-Team: ***, ***"),
        ] {
            assert_eq!(redactor.mask(text), masked, "{text}");
        }
        for text in ["disabled short 128000000", "/home/me/.ssh/id_ed25519", "https://login.example/token team-blue-2"]
        {
            assert!(matches!(redactor.mask(text), Cow::Borrowed(_)), "{text}");
        }
        assert_eq!(format!("{redactor:?}"), "Redactor(***)");
    }

    #[test]
    fn a_file_is_masked_also_where_a_value_lies_across_two_reads() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("output");
        let redactor = Redactor::new([Secret::new("secret-one"), Secret::new("secret-one-more")]);
        for before in (1 << 20) - 16..=1 << 20 {
            let text = format!("{}secret-one-more and secret-one\u{e9}", "x".repeat(before));
            std::fs::write(&file, [text.as_bytes(), b"\xff"].concat()).unwrap();
            redactor.mask_file(&file).unwrap();
            let masked = std::fs::read(&file).unwrap();
            assert_eq!(masked[before..], *b"*** and ***\xc3\xa9\xff", "{before}");
        }
        std::fs::write(&file, "nothing").unwrap();
        redactor.mask_file(&file).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"nothing");
        assert_eq!(dir.path().read_dir().unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn of_two_values_that_begin_alike_nothing_is_left() {
        for order in [["secret-one", "secret-one-more"], ["secret-one-more", "secret-one"]] {
            let redactor = Redactor::new(order.map(Secret::new));
            assert_eq!(redactor.mask("secret-one-more secret-one"), "*** ***");
        }
    }
}
