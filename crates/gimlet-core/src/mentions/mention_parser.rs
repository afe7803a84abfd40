//! Parser for `@names` in a text.

/// Name that may refer to a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mention {
    /// Name as written, without the `@`.
    name: String,
    quoted: bool,
}

/// Characters that may directly follow a name without being part of it.
const BEHIND: [char; 12] = ['.', ':', '!', '?', ')', ']', '}', '>', '\'', '`', '*', '_'];
/// Characters that end a name and may precede the next.
const BETWEEN: [char; 3] = [',', ';', '"'];
/// Maximum length of a path.
const LONGEST_NAME: usize = 4096;

/// Parses the names in a text that begin with `@` at the start of a word, in order: `@file`, `@"a file"`,
/// `@file#3-9`.
pub(crate) fn parse_mentions(text: &str) -> impl Iterator<Item = Mention> {
    text.match_indices('@').filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let begins =
            before.is_whitespace() || BETWEEN.contains(&before) || matches!(before, '\'' | '`' | '(' | '[' | '{');
        begins.then(|| parse_mention(&text[at + 1..])).flatten()
    })
}

fn parse_mention(rest: &str) -> Option<Mention> {
    let rest = &rest[..rest.floor_char_boundary(LONGEST_NAME)];
    let (name, quoted) = match rest.strip_prefix('"') {
        Some(quoted) => (quoted.split(['"', '\n']).next()?, true),
        None => (rest.split(|char: char| char.is_whitespace() || BETWEEN.contains(&char)).next()?, false),
    };
    (!name.is_empty()).then(|| Mention { name: name.to_owned(), quoted })
}

impl Mention {
    /// Returns the server and the address of a resource, written `@server:scheme://path`, the likeliest meaning first.
    pub(crate) fn resource_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let whole = self.name.as_str();
        let bare = if self.quoted { whole } else { whole.trim_end_matches(BEHIND) };
        let both = [Some(whole), (bare != whole).then_some(bare)];
        both.into_iter().flatten().filter_map(|name| {
            let scheme_end = name.find("://")?;
            // A scheme has no colon, so the last one before it ends the server's name.
            let (server, _) = name[..scheme_end].rsplit_once(':')?;
            let uri = &name[server.len() + 1..];
            (!server.is_empty() && !uri.starts_with("://")).then_some((server, uri))
        })
    }

    /// Returns true if it has the form of a web or other address, which is no file.
    pub(crate) fn is_address(&self) -> bool {
        self.name.contains("://")
    }

    /// Returns the agent that may be meant: `@agent-name` or `@"name (agent)"`.
    pub(crate) fn agent_name(&self) -> Option<&str> {
        if self.quoted {
            return self.name.strip_suffix(" (agent)");
        }
        self.name.strip_prefix("agent-").map(|name| name.trim_end_matches(BEHIND)).filter(|name| !name.is_empty())
    }

    /// Returns the possible meanings of the name, the likeliest first: a path, and optionally a line range.
    pub(crate) fn candidate_paths(&self) -> impl Iterator<Item = (&str, Option<(u64, u64)>)> {
        let whole = self.name.as_str();
        let bare = if self.quoted { whole } else { whole.trim_end_matches(BEHIND) };
        let possible = [Some((whole, None)), parse_line_range(whole), Some((bare, None)), parse_line_range(bare)];
        possible.into_iter().flatten().filter(|(path, _)| !path.is_empty())
    }
}

/// Parses `file#5-10`, `file#L5-L10` or `file#5`.
fn parse_line_range(name: &str) -> Option<(&str, Option<(u64, u64)>)> {
    let (path, lines) = name.rsplit_once('#')?;
    let number = |text: &str| text.trim_start_matches('L').parse::<u64>().ok().filter(|line| *line > 0);
    let (first, last) = match lines.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(lines)?, number(lines)?),
    };
    (first <= last).then_some((path, Some((first, last))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        parse_mentions(text).map(|mention| mention.name).collect()
    }

    #[test]
    fn names_begin_words() {
        for (text, found) in [
            ("what does @src/main.rs do?", vec!["src/main.rs"]),
            ("@a.txt and (@b.txt)", vec!["a.txt", "b.txt)"]),
            ("see @app/(group)/[id].tsx.", vec!["app/(group)/[id].tsx."]),
            ("@a.txt,@b.txt;@c.txt", vec!["a.txt", "b.txt", "c.txt"]),
            (r#"{"@scope/one":1,"@scope/two":2}"#, vec!["scope/one", "scope/two"]),
            ("mail me@example.org", vec![]),
            ("a lone @ sign, @", vec![]),
            ("look at @\"my file.txt\" now", vec!["my file.txt"]),
            ("@agent-reviewer and @docs:file://x", vec!["agent-reviewer", "docs:file://x"]),
            ("zwei @größe.txt, @日本.md", vec!["größe.txt", "日本.md"]),
            ("@a\n@b", vec!["a", "b"]),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
    }

    #[test]
    fn some_names_are_those_of_resources() {
        let named = |text: &str| -> Vec<(String, String)> {
            let mention = parse_mentions(text).next().unwrap();
            mention.resource_names().map(|(server, uri)| (server.to_owned(), uri.to_owned())).collect()
        };
        let pair = |server: &str, uri: &str| (server.to_owned(), uri.to_owned());
        assert_eq!(named("@docs:file://a/b"), [pair("docs", "file://a/b")]);
        assert_eq!(named("@docs:x://a."), [pair("docs", "x://a."), pair("docs", "x://a")]);
        assert_eq!(named("@a:b:x://c"), [pair("a:b", "x://c")]);
        for none in ["@https://a.test", "@a.rs", "@:x://a", "@a:b"] {
            assert!(named(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn some_names_may_be_those_of_agents() {
        let agents = |text: &str| {
            parse_mentions(text).filter_map(|mention| mention.agent_name().map(str::to_owned)).collect::<Vec<_>>()
        };
        let text = "ask @agent-reviewer, @\"my helper (agent)\", @agent-, @agent.rs and @agent-Plan.";
        assert_eq!(agents(text), ["reviewer", "my helper", "Plan"]);
    }

    #[test]
    fn a_name_is_never_longer_than_a_path() {
        let text = "@x".repeat(100_000);
        let longest = names(&format!(" {text} @{}", "ä".repeat(5_000))).into_iter().map(|name| name.len()).max();
        assert_eq!(longest, Some(LONGEST_NAME));
    }

    #[test]
    fn a_name_is_tried_without_what_stands_behind_it() {
        let mention = |text: &str| parse_mentions(text).next().unwrap();
        let paths = |text: &str| mention(text).candidate_paths().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
        assert_eq!(paths("is it @a.rs?"), ["a.rs?", "a.rs"]);
        assert_eq!(paths("@\"odd).txt\""), ["odd).txt", "odd).txt"]);
        let lines =
            |text: &str| mention(text).candidate_paths().find_map(|(path, lines)| Some((path.to_owned(), lines?)));
        assert_eq!(lines("@a.rs#5-10."), Some(("a.rs".to_owned(), (5, 10))));
        assert_eq!(lines("@a.rs#L7"), Some(("a.rs".to_owned(), (7, 7))));
        assert_eq!(lines("@a.rs#9-2"), None);
    }
}
