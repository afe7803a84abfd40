//! Texts that look like secrets, regardless of their origin: masked in logs, which users share, and in the decision
//! ledger. The input of the model and transcripts are not changed: a shape is a guess, and a wrong one would alter
//! file content.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexBuilder};

use super::MASK;

/// Tokens recognized by their prefix.
const TOKENS: &[&str] = &[
    // Forges and registries
    r"gh[pousr]_[A-Za-z0-9]{20,255}",
    r"github_pat_[A-Za-z0-9_]{20,255}",
    r"gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|agent|imt)-[A-Za-z0-9_-]{16,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{40,}",
    r"cio[A-Za-z0-9]{32}",
    r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    r"ATATT3[A-Za-z0-9_=-]{40,}",
    // Clouds
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"ya29\.[A-Za-z0-9_-]{20,}",
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"do[opr]_v1_[a-f0-9]{64}",
    r"dapi[a-f0-9]{32}",
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{30,}",
    r"pul-[a-f0-9]{40}",
    r"tskey-[a-z]+-[A-Za-z0-9-]{16,}",
    // Models
    r"sk-(?:[a-z0-9]+-)*[A-Za-z0-9_-]{20,}",
    r"(?:gsk|hf|r8)_[A-Za-z0-9]{30,}",
    r"(?:xai|pplx)-[A-Za-z0-9]{30,}",
    // Other services
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
    r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"whsec_[A-Za-z0-9+/=]{24,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"SK[a-f0-9]{32}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"sntry[us]_[A-Za-z0-9_=+/.-]{30,}",
    r"gl(?:c|sa)_[A-Za-z0-9_+/=]{30,}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}",
    r"(?:ntn|secret)_[A-Za-z0-9]{40,}",
    r"fig[du]_[A-Za-z0-9_-]{30,}",
    r"NRAK-[A-Z0-9]{27}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    // Signed claims
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
];

/// Start of a word. In a log a line break is the two characters `\n`, the second of which would be part of the word.
const START: &str = r"(?:\\[nrt]|\b)";

/// Secrets recognized by the text before them, which is kept. Each has lowercase markers, one of which occurs in
/// every matching text.
const BEHIND: &[(&[&str], &str)] = &[
    // A password in a URL. A placeholder to be filled in by a program is not a password.
    (&["://"], r#"(?i)(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/?\#@'"`]*:)[^\s/@'"`${<][^\s/@'"`]*(?P<tail>@)"#),
    // Headers
    (
        &["authorization"],
        r#"(?i)(?P<head>\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token|digest|negotiate)\s+)[^\s"',;${<]{6,}"#,
    ),
    (&["authorization"], r#"(?i)(?P<head>\bauthorization["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=-]{24,}"#),
    (&["bearer"], r"(?i)(?P<head>\bbearer\s+)[A-Za-z0-9._~+/=-]{20,}"),
    (
        &["api-key", "-token"],
        r#"(?i)(?P<head>\b(?:x-)?(?:api-key|auth-token|access-token|private-token)["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=-]{12,}"#,
    ),
    // Variables and the keys of clouds
    (
        &["token=", "secret=", "password=", "passwd=", "key="],
        r#"(?P<head>\b[A-Z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY)=)(?:'[^']{4,}'|"[^"$]{4,}"|[^\s'"$;&|(<\\]{8,})"#,
    ),
    (&["aws"], r#"(?i)(?P<head>aws_?secret_?access_?key["']?\s*[:=]\s*["']?)[A-Za-z0-9/+=]{40}"#),
    (
        &["token=", "secret=", "password=", "passwd=", "key="],
        r#"(?i)(?P<head>--(?:password|passwd|token|secret|api-?key|access-key)=)[^\s"',;${<\\]{4,}"#,
    ),
    // Connection strings
    (
        &["password", "pwd", "key"],
        r#"(?i)(?P<head>;\s*(?:password|pwd|accountkey|sharedaccesskey)\s*=\s*)[^;"'\s${<]{3,}"#,
    ),
    (&["hooks.slack.com"], r"(?P<head>hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]{16,}"),
    (
        &["private key"],
        r"(?s)(?P<head>-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?P<tail>-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
];

/// Minimum length of a token.
const SHORTEST_TOKEN: usize = 15;

/// One kind of secret. Compiling its regex takes a good part of a millisecond, and most texts need none.
struct TokenShape {
    /// Markers, one of which occurs in every matching text; without markers, a text must have a word as long as a
    /// token.
    marks: &'static [&'static str],
    text: String,
    /// Compiled regex; `None` if the pattern is invalid, which a test excludes.
    expression: OnceLock<Option<Regex>>,
}

impl TokenShape {
    fn new(marks: &'static [&'static str], text: String) -> Self {
        Self { marks, text, expression: OnceLock::new() }
    }

    /// Returns true if the text may match, so that the regex must be run.
    fn may_match(&self, small: &str, has_long_word: bool) -> bool {
        if self.marks.is_empty() { has_long_word } else { self.marks.iter().any(|mark| small.contains(mark)) }
    }

    fn expression(&self) -> Option<&Regex> {
        let made = || RegexBuilder::new(&self.text).size_limit(1 << 24).build().ok();
        self.expression.get_or_init(made).as_ref()
    }
}

static SHAPES: LazyLock<Vec<TokenShape>> = LazyLock::new(|| {
    let tokens = format!(r"(?P<head>{START}|_)(?:{})(?P<tail>)", TOKENS.join("|"));
    let behind = BEHIND.iter().map(|(marks, text)| {
        let text = text.replace(r"\b", START);
        TokenShape::new(marks, if text.contains("<tail>") { text } else { format!("{text}(?P<tail>)") })
    });
    behind.chain([TokenShape::new(&[], tokens)]).collect()
});

/// Returns the text with everything that looks like a secret masked.
pub fn mask_tokens(text: &str) -> Cow<'_, str> {
    let small = text.to_ascii_lowercase();
    let has_long_word = small
        .split(|mark: char| !mark.is_ascii_alphanumeric() && !"_-.:+/=".contains(mark))
        .any(|word| word.len() >= SHORTEST_TOKEN);
    let mut masked = Cow::Borrowed(text);
    for shape in SHAPES.iter().filter(|shape| shape.may_match(&small, has_long_word)) {
        let Some(expression) = shape.expression() else { continue };
        if let Cow::Owned(changed) = expression.replace_all(&masked, format!("${{head}}{MASK}${{tail}}")) {
            masked = Cow::Owned(changed);
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generates a fake secret, so that scanners do not take this file for one with secrets.
    fn made(alphabet: &str, length: usize, seed: usize) -> String {
        let marks: Vec<char> = alphabet.chars().collect();
        (0..length).map(|at| marks[(at * 7 + seed * 13 + at * at) % marks.len()]).collect()
    }

    const MIXED: &str = "aB3dE6gH9jKmN1pQrS4tUvW7xYz0";
    const UPPER: &str = "A2C4E6G7JKLMNPQRSTUVWXYZ";
    const HEX: &str = "0a1b2c3d4e5f6789";

    /// Kinds of tokens, each with the number of characters after its prefix.
    const KINDS: &[(&str, &str, usize)] = &[
        ("ghp_", MIXED, 36),
        ("gho_", MIXED, 36),
        ("ghs_", MIXED, 36),
        ("github_pat_", MIXED, 82),
        ("glpat-", MIXED, 20),
        ("npm_", MIXED, 36),
        ("pypi-", MIXED, 80),
        ("cio", MIXED, 32),
        ("dckr_pat_", MIXED, 27),
        ("ATATT3", MIXED, 60),
        ("AKIA", UPPER, 16),
        ("ASIA", UPPER, 16),
        ("AIza", MIXED, 35),
        ("ya29.", MIXED, 60),
        ("GOCSPX-", MIXED, 28),
        ("dop_v1_", HEX, 64),
        ("dapi", HEX, 32),
        ("hvs.", MIXED, 24),
        ("dp.pt.", MIXED, 43),
        ("pul-", HEX, 40),
        ("tskey-auth-", MIXED, 24),
        ("sk-ant-api03-", MIXED, 90),
        ("sk-proj-", MIXED, 48),
        ("sk-", MIXED, 48),
        ("gsk_", MIXED, 52),
        ("hf_", MIXED, 34),
        ("xai-", MIXED, 80),
        ("xoxb-", MIXED, 40),
        ("xoxp-", MIXED, 40),
        ("xapp-1-", MIXED, 40),
        ("sk_live_", MIXED, 24),
        ("rk_live_", MIXED, 24),
        ("whsec_", MIXED, 32),
        ("SK", HEX, 32),
        ("shpat_", HEX, 32),
        ("sntrys_", MIXED, 60),
        ("glsa_", MIXED, 41),
        ("lin_api_", MIXED, 40),
        ("ntn_", MIXED, 46),
        ("figd_", MIXED, 40),
        ("NRAK-", UPPER, 27),
        ("123456789:AA", MIXED, 33),
        ("AGE-SECRET-KEY-1", UPPER, 58),
    ];

    /// Returns secrets with the text before and after them.
    fn framed() -> Vec<(String, String, &'static str)> {
        let password = made(MIXED, 12, 5);
        let heads: [(&str, &str); 15] = [
            ("mysql --password=", " -u root"),
            ("postgres://app:", "@db.test:5432/main"),
            ("mysql://root:", "@localhost/x"),
            ("redis://:", "@cache:6379"),
            ("https://me:", "@forge.test/repo.git"),
            ("mongodb+srv://u:", "@cluster.test"),
            ("amqps://guest:", "@queue.test/vhost"),
            ("Authorization: Basic ", ""),
            ("Authorization: token ", ""),
            ("\"authorization\": \"Bearer ", "\""),
            ("curl -H 'X-Api-Key: ", "' https://a.test"),
            ("PRIVATE-TOKEN: ", ""),
            ("export DB_PASSWORD=", " && run"),
            ("GITHUB_TOKEN='", "' make"),
            ("Server=tcp:db;User Id=a;Password=", ";Encrypt=true"),
        ];
        heads.iter().map(|(head, tail)| ((*head).to_owned(), password.clone(), *tail)).collect()
    }

    #[test]
    fn tokens_of_every_known_shape_are_masked_wherever_they_stand() {
        let mut tokens: Vec<String> = Vec::new();
        for (at, (head, alphabet, length)) in KINDS.iter().enumerate() {
            tokens.push(format!("{head}{}", made(alphabet, *length, at)));
        }
        tokens.push(format!("SG.{}.{}", made(MIXED, 22, 1), made(MIXED, 43, 2)));
        tokens.push(format!("eyJ{}.eyJ{}.{}", made(MIXED, 30, 3), made(MIXED, 60, 4), made(MIXED, 43, 5)));
        let mut lines: Vec<(String, String)> = Vec::new();
        for token in &tokens {
            for (before, behind) in [
                ("", ""),
                ("echo \"", "\" > x"),
                ("{\"key\":\"", "\"}"),
                ("?a=", "&b=1"),
                ("--token=", " go"),
                ("x\\n", "\\ny"),
            ] {
                lines.push((format!("{before}{token}{behind}"), token.clone()));
            }
        }
        for (head, secret, tail) in framed() {
            lines.push((format!("{head}{secret}{tail}"), secret.clone()));
            lines.push((format!("line\\n{head}{secret}{tail}"), secret));
        }
        let lines_of_key = format!("{}\n{}", made(MIXED, 64, 6), made(MIXED, 64, 7));
        for kind in ["", "RSA ", "EC ", "OPENSSH "] {
            let text = format!("-----BEGIN {kind}PRIVATE KEY-----\n{lines_of_key}\n-----END {kind}PRIVATE KEY-----\n");
            lines.push((text, lines_of_key.clone()));
        }
        let secret = made(MIXED, 40, 8);
        lines.push((format!("aws_secret_access_key = {secret}"), secret));
        let hook = made(MIXED, 40, 9);
        lines.push((format!("https://hooks.slack.com/services/T0/{hook}"), hook));
        assert!(lines.len() >= 200, "{}", lines.len());
        let missed: Vec<&String> =
            lines.iter().filter(|(line, secret)| mask_tokens(line).contains(secret)).map(|(line, _)| line).collect();
        assert!(missed.is_empty(), "{missed:#?}");
        assert!(SHAPES.iter().all(|shape| shape.expression().is_some()), "every expression is one");
    }

    #[test]
    fn what_is_beside_a_secret_stays() {
        let secret = made(MIXED, 12, 1);
        for (head, tail) in [("git clone https://me:", "@forge.test/x"), ("X=1 DB_PASSWORD=", " run it")] {
            assert_eq!(mask_tokens(&format!("{head}{secret}{tail}")), format!("{head}***{tail}"));
        }
        for plain in
            ["https://a.test:8080/x@y", "authorization: Option<String>", "TOKEN=$(cat x)", "sk-learn", "a://$U:$P@b"]
        {
            assert_eq!(mask_tokens(plain), plain);
        }
    }

    #[test]
    fn a_shape_that_needs_a_mark_fits_no_text_without_it() {
        let secret = made(MIXED, 40, 3);
        let heads = [
            "ab://c:",
            "Authorization: Basic ",
            "BEARER ",
            "X-Auth-Token: ",
            "A_PRIVATE_KEY=",
            "AWS_SECRET_ACCESS_KEY: ",
        ];
        for head in heads.iter().chain(&["--Access-Key=", "; PWD = ", "hooks.slack.com/services/"]) {
            let text = format!("{head}{secret}@");
            assert!(!mask_tokens(&text).contains(&secret), "{text}");
        }
        let shortest = format!("xoxb-{}", made(MIXED, 10, 3));
        assert_eq!((shortest.len(), mask_tokens(&shortest)), (SHORTEST_TOKEN, MASK.into()));
    }

    #[test]
    fn ordinary_source_is_left_alone() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut lines, mut hits) = (0_usize, Vec::new());
        let mut folders = vec![crates.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    for line in std::fs::read_to_string(&path).unwrap().lines() {
                        lines += 1;
                        if mask_tokens(line) != line {
                            hits.push(line.trim().to_owned());
                        }
                    }
                }
            }
        }
        // Only credential-like strings in examples and tests may match.
        assert!(lines > 10_000 && hits.len() * 5_000 <= lines, "{} of {lines}: {hits:#?}", hits.len());
    }
}
