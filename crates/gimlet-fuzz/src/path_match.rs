//! Fuzz target for path patterns, compared with a simple and slow reference matcher, and with the one that ripgrep
//! ignores files by.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gimlet_policy::{
    Behavior, Decision, DecisionContext, DeniedFiles, FollowedPath, NeedFacts, ProposedCall, RuleScope, RuleSet,
    RuleSource, decide, normalise, pattern_for_path,
};
use gimlet_proto::AccessNeed;
use ignore::gitignore::GitignoreBuilder;

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_texts};
use crate::permission_corpus::path_rows;

/// Fields: a pattern, a path.
pub const TARGET: FuzzTarget = FuzzTarget { name: "path_match", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "**",
    "*",
    "?",
    "/**",
    "**/",
    "//",
    "~/",
    "./",
    "/",
    "[a-c]",
    "[!a]",
    "[^a]",
    "[]]",
    "[a-]",
    "\\*",
    "\\",
    "..",
    ".",
    "!",
    "src",
    ".env",
    "a",
    "b",
    "A",
    "/repo/",
    "/home/dev/",
    "/repo/src/a",
    "[[:alpha:]]",
    " ",
    "é",
];

const REPO: &str = "/repo";
const HOME: &str = "/home/dev";
/// Limit of the input's length: the reference matcher tries every way to match, so longer inputs would take too long.
const LONGEST: usize = 64;

fn run(data: &[u8]) {
    let Some([pattern, path]) = split_texts::<2>(data) else { return };
    if pattern.len() > LONGEST || path.len() > LONGEST {
        return;
    }
    let path = normalise(Path::new(REPO), Path::new(path));
    // Paths whose text can mean something else than it shows are never allowed by a rule, and can still be forbidden.
    let odd = |path: &Path| {
        let text = path.to_string_lossy();
        text.chars().any(char::is_control) || text.starts_with("/proc/") || text.starts_with("/dev/")
    };
    if let Some(own) = pattern_for_path(&path, false)
        && !odd(&path)
    {
        assert_eq!(allows(&own, &path), Some(true), "{own} was made for {}", path.display());
    }
    // A colon may belong to a parameter, and a lone star is no pattern.
    if pattern.contains(':') || pattern.trim() == "*" || pattern.trim().is_empty() {
        return;
    }
    let (Some(allowed), Some(forbidden)) = (allows(pattern, &path), forbids(pattern, &path)) else { return };
    assert!(forbidden || !allowed, "{pattern} allows {} and does not forbid it", path.display());
    let slow = ReferencePattern::new(pattern.trim());
    assert!(!allowed || slow.matches(&path, false), "{pattern} must not allow {}", path.display());
    assert_eq!(forbidden, slow.matches(&path, true), "forbidding {pattern} for {}", path.display());
    if odd(&path) {
        return;
    }
    assert_eq!(allowed, slow.matches(&path, false), "allowing {pattern} for {}", path.display());
    if let Some(ignored) = ripgrep_ignores(pattern, &path) {
        assert_eq!(allowed, ignored, "ignoring {pattern} for {}", path.display());
    }
}

fn rules(behavior: Behavior, pattern: &str) -> Option<RuleSet> {
    let mut rules = RuleSet::default();
    rules.add(behavior, &format!("Read({pattern})"), &RuleSource::new(RuleScope::Project, REPO)).ok()?;
    Some(rules)
}

/// Returns a context in which nothing may be read without a rule.
fn empty_context() -> DecisionContext {
    DecisionContext { cwd: REPO.into(), home: Some(HOME.into()), ..DecisionContext::default() }
}

fn decide_read(rules: &RuleSet, path: &Path) -> Decision {
    let needs = [NeedFacts::new(AccessNeed::Read(path.to_owned()), Some(FollowedPath::without_links(path)))];
    decide(
        &ProposedCall { tool: "Read", also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        &empty_context(),
    )
    .decision
}

fn allows(pattern: &str, path: &Path) -> Option<bool> {
    Some(decide_read(&rules(Behavior::Allow, pattern)?, path) == Decision::Allow)
}

fn forbids(pattern: &str, path: &Path) -> Option<bool> {
    let rules = rules(Behavior::Deny, pattern)?;
    let denied = decide_read(&rules, path) == Decision::Deny;
    let closed = DeniedFiles::new(&rules, &empty_context(), &[]).is_some_and(|closed| closed.contains(path));
    assert_eq!(denied, closed, "a call and a walk disagree about {}", path.display());
    Some(denied)
}

/// Pattern parsed as documented, matched by trying everything.
struct ReferencePattern<'p> {
    base: &'static str,
    names: Vec<&'p str>,
    /// Matches at any depth: always, or only when it forbids.
    floats: (bool, bool),
    directory_only: bool,
}

impl<'p> ReferencePattern<'p> {
    fn new(pattern: &'p str) -> Self {
        let (base, rest, relative) = if let Some(rest) = pattern.strip_prefix("//") {
            ("/", rest, false)
        } else if pattern == "~" {
            (HOME, "**", false)
        } else if let Some(rest) = pattern.strip_prefix("~/") {
            (HOME, rest, false)
        } else if let Some(rest) = pattern.strip_prefix('/') {
            (REPO, rest, false)
        } else {
            (REPO, pattern, !pattern.starts_with("./"))
        };
        let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        let whole_tree = matches!(names.as_slice(), [name, "**"] if *name != "**");
        let floats = (relative && names.len() == 1, relative && whole_tree);
        Self { base, names, floats, directory_only: rest.ends_with('/') }
    }

    fn matches(&self, path: &Path, forbids: bool) -> bool {
        let folded = |path: &Path| match forbids {
            true => path.to_string_lossy().to_ascii_lowercase(),
            false => path.to_string_lossy().into_owned(),
        };
        let (path, base) = (PathBuf::from(folded(path)), folded(Path::new(self.base)));
        let Ok(below) = path.strip_prefix(base) else { return false };
        let below: Vec<String> = below.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let (always, forbidding) = self.floats;
        let starts = if always || (forbidding && forbids) { below.len().max(1) } else { 1 };
        let ends = if self.directory_only && !forbids { below.len().saturating_sub(1) } else { below.len() };
        (0..starts).any(|start| (start..=ends).any(|end| names_match(&self.names, &below[start..end], forbids)))
    }
}

/// Returns true if a sequence of name patterns matches a sequence of names.
fn names_match(patterns: &[&str], names: &[&str], forbids: bool) -> bool {
    names_match_from(patterns, names, forbids, &mut HashSet::new())
}

/// Matches the remaining patterns and names. Failed positions are remembered, because several stars would otherwise
/// take exponential time.
fn names_match_from(patterns: &[&str], names: &[&str], forbids: bool, failed: &mut HashSet<(usize, usize)>) -> bool {
    if failed.contains(&(patterns.len(), names.len())) {
        return false;
    }
    let fits = match (patterns, names) {
        ([], _) => names.is_empty(),
        // A rule that allows a folder's content does not allow the folder itself.
        (["**"], _) => forbids || !names.is_empty(),
        (["**", rest @ ..], _) => {
            (0..=names.len()).any(|skipped| names_match_from(rest, &names[skipped..], forbids, failed))
        }
        ([pattern, patterns @ ..], [name, names @ ..]) => {
            let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            name_matches(&pattern, &name, forbids) && names_match_from(patterns, names, forbids, failed)
        }
        (_, []) => false,
    };
    if !fits {
        failed.insert((patterns.len(), names.len()));
    }
    fits
}

/// Returns true if the pattern of one name matches it.
fn name_matches(pattern: &[char], name: &[char], fold: bool) -> bool {
    name_matches_from(pattern, name, fold, &mut HashSet::new())
}

/// Matches the rest of one name; failed positions are remembered, as in `names_match_from`.
fn name_matches_from(pattern: &[char], name: &[char], fold: bool, failed: &mut HashSet<(usize, usize)>) -> bool {
    if failed.contains(&(pattern.len(), name.len())) {
        return false;
    }
    let fits = name_matches_here(pattern, name, fold, failed);
    if !fits {
        failed.insert((pattern.len(), name.len()));
    }
    fits
}

fn name_matches_here(pattern: &[char], name: &[char], fold: bool, failed: &mut HashSet<(usize, usize)>) -> bool {
    let same = |expected: char, c: char| expected == c || (fold && expected.eq_ignore_ascii_case(&c));
    let mut step = |rest: &[char], fits: &dyn Fn(char) -> bool| match name {
        [c, name @ ..] => fits(*c) && name_matches_from(rest, name, fold, failed),
        [] => false,
    };
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|taken| name_matches_from(rest, &name[taken..], fold, failed)),
        ['?', rest @ ..] => step(rest, &|_| true),
        ['\\', c, rest @ ..] => step(rest, &|found| same(*c, found)),
        ['[', inside @ ..] => match parse_class(inside) {
            Some((members, negated, rest)) => step(rest, &|c| {
                let fits = |c: char| members.iter().any(|(low, high)| *low <= c && c <= *high) != negated;
                fits(c) || (fold && (fits(c.to_ascii_uppercase()) || fits(c.to_ascii_lowercase())))
            }),
            None => step(inside, &|c| c == '['),
        },
        [c, rest @ ..] => step(rest, &|found| same(*c, found)),
    }
}

type CharClass<'a> = (Vec<(char, char)>, bool, &'a [char]);

/// Returns the members of a class, true if it is negated, and the rest; `None` when it has no end.
fn parse_class(inside: &[char]) -> Option<CharClass<'_>> {
    let (negated, mut rest) = match inside {
        ['!' | '^', rest @ ..] => (true, rest),
        _ => (false, inside),
    };
    let mut members = Vec::new();
    loop {
        let low;
        (low, rest) = match rest {
            [']', rest @ ..] if !members.is_empty() => return Some((members, negated, rest)),
            ['\\', c, rest @ ..] => (*c, rest),
            ['\\'] | [] => return None,
            [c, rest @ ..] => (*c, rest),
        };
        let high;
        (high, rest) = match rest {
            ['-', ']', ..] | ['-'] => (low, rest),
            ['-', '\\', c, rest @ ..] => (*c, rest),
            ['-', '\\'] => return None,
            ['-', c, rest @ ..] => (*c, rest),
            _ => (low, rest),
        };
        members.push((low, high));
    }
}

/// Returns the result of ripgrep's matcher, or `None` where a pattern has another meaning there.
fn ripgrep_ignores(pattern: &str, path: &Path) -> Option<bool> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-*?/".contains(c);
    let odd = pattern.starts_with("//") || pattern.contains("./") || pattern.split('/').any(|name| name == ".");
    let inside = path.strip_prefix(REPO).is_ok_and(|below| !below.as_os_str().is_empty());
    if odd || pattern.contains("//") || !inside || !pattern.chars().all(plain) {
        return None;
    }
    let mut builder = GitignoreBuilder::new(REPO);
    builder.add_line(None, pattern).ok()?;
    let matcher = builder.build().ok()?;
    // Everything in an ignored folder is ignored. The root itself is not a file that a pattern could match.
    let mut above = path.ancestors().take_while(|above| *above != Path::new(REPO));
    Some(above.any(|above| matcher.matched(above, above != path).is_ignore()))
}

fn seeds() -> Vec<Vec<u8>> {
    let pattern = |rule: &str| Some(rule.split_once('(')?.1.strip_suffix(')')?.to_owned());
    let rows = path_rows().into_iter().flat_map(move |row| {
        let path = row.path;
        let patterns = row.rules.into_iter().filter_map(move |(_, rule)| pattern(&rule));
        patterns.map(move |pattern| join_fields(&[pattern.as_bytes(), path.as_bytes()]))
    });
    rows.chain([join_fields(&[b"[!a-c]*/**/x?.\\*", b"/repo/d1/e/xy.*"])]).collect()
}
