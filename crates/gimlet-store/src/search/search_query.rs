//! Translation of the user's input into a database query. All input is searched for literally; nothing is syntax by
//! accident.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rusqlite::{Connection, OptionalExtension, params_from_iter, types::Value};

use super::searchable_text::separate_unspaced_chars;
use super::{HitRole, SearchRequest};

/// Parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchQuery {
    pub(super) wanted: Vec<SearchTerm>,
    unwanted: Vec<SearchTerm>,
}

/// Words that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchTerm {
    pub(super) text: String,
    /// True if the last word is a prefix.
    pub(super) open: bool,
}

/// An entry that was found, still to be read.
pub(super) struct IndexedEntry {
    pub(super) session: String,
    pub(super) agent: Option<String>,
    pub(super) path: PathBuf,
    pub(super) cwd: Option<String>,
    pub(super) at: u64,
    pub(super) length: usize,
    pub(super) time_ms: Option<i64>,
    pub(super) role: HitRole,
}

impl SearchQuery {
    /// Parses a query; `None` when no word is required.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = SearchQuery { wanted: Vec::new(), unwanted: Vec::new() };
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (unwanted, body) = match rest.strip_prefix('-') {
                Some(body) if !body.is_empty() && !body.starts_with(char::is_whitespace) => (true, body),
                _ => (false, rest),
            };
            let (term, after) = match body.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => body.split_at(body.find(char::is_whitespace).unwrap_or(body.len())),
            };
            let (open, after) = match (term.strip_suffix('*'), after.strip_prefix('*')) {
                (Some(_), _) => (true, after),
                (None, Some(after)) => (true, after),
                (None, None) => (false, after),
            };
            if term.chars().any(char::is_alphanumeric) {
                let list = if unwanted { &mut words.unwanted } else { &mut words.wanted };
                list.push(SearchTerm { text: term.trim_end_matches('*').to_owned(), open });
            }
            rest = after.trim_start();
        }
        (!words.wanted.is_empty()).then_some(words)
    }

    /// Returns the expression for the full-text table, every word in quotes.
    fn to_match_expression(&self) -> String {
        let quoted = |term: &SearchTerm| {
            let text = separate_unspaced_chars(&term.text).replace('"', "\"\"");
            format!("\"{text}\"{}", if term.open { "*" } else { "" })
        };
        let mut expression = self.wanted.iter().map(quoted).collect::<Vec<_>>().join(" AND ");
        if !self.unwanted.is_empty() {
            let unwanted = self.unwanted.iter().map(quoted).collect::<Vec<_>>().join(" OR ");
            expression = format!("({expression}) NOT ({unwanted})");
        }
        expression
    }
}

/// Returns the newest entries that contain the words; some more than requested, because copies of an entry are shown
/// once.
pub(super) fn find_entries(
    db: &mut Connection,
    words: &SearchQuery,
    search: &SearchRequest,
) -> Result<Vec<IndexedEntry>, rusqlite::Error> {
    let mut sql = String::from(
        "SELECT f.session, f.agent, f.path, f.cwd, p.at, p.length, p.time, p.role
         FROM texts t CROSS JOIN places p ON p.id = t.rowid CROSS JOIN files f ON f.id = p.file
         WHERE t.texts MATCH ?",
    );
    let mut values = vec![Value::from(words.to_match_expression())];
    if let Some(since) = search.since_ms {
        // Files that did not change since then cannot have anything; the oldest place of the others bounds the search.
        let Some(first) = first_entry_since(db, since)? else { return Ok(Vec::new()) };
        sql += " AND t.rowid >= ? AND p.time >= ?";
        values.extend([Value::from(first), Value::from(since)]);
    }
    if let Some(dirs) = &search.project_dirs {
        sql += &format!(" AND f.project IN ({})", vec!["?"; dirs.len()].join(", "));
        values.extend(dirs.iter().map(|dir| Value::from(dir.as_os_str().as_bytes().to_vec())));
    }
    sql += " ORDER BY t.rowid DESC LIMIT ?";
    values.push(Value::from(i64::try_from(search.limit.saturating_mul(4)).unwrap_or(i64::MAX)));
    let mut statement = db.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        Ok(IndexedEntry {
            session: row.get(0)?,
            agent: row.get(1)?,
            path: path_from_bytes(row.get(2)?),
            cwd: row.get(3)?,
            at: row.get::<_, i64>(4)?.cast_unsigned(),
            length: usize::try_from(row.get::<_, i64>(5)?).unwrap_or_default(),
            time_ms: row.get(6)?,
            role: HitRole::from_number(row.get(7)?),
        })
    })?;
    rows.collect()
}

fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn first_entry_since(db: &Connection, since_ms: i64) -> Result<Option<i64>, rusqlite::Error> {
    let sql = "SELECT min((SELECT min(p.id) FROM places p WHERE p.file = f.id)) FROM files f WHERE f.modified >= ?1";
    let since = since_ms.saturating_mul(1_000_000);
    Ok(db.query_row(sql, [since], |row| row.get::<_, Option<i64>>(0)).optional()?.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_typed_becomes_words_and_nothing_else() {
        let cases = [
            ("cargo test", Some(r#""cargo" AND "test""#)),
            ("\"cargo test\" fail*", Some(r#""cargo test" AND "fail"*"#)),
            ("a -b -\"c d\"", Some(r#"("a") NOT ("b" OR "c d")"#)),
            ("x NEAR(y) OR text:z", Some(r#""x" AND "NEAR(y)" AND "OR" AND "text:z""#)),
            ("\"never closed", Some(r#""never closed""#)),
            ("日本", Some("\" 日  本 \"")),
            ("- ** \"\" -b", None),
            ("", None),
        ];
        for (typed, asked) in cases {
            assert_eq!(
                SearchQuery::parse(typed).map(|words| words.to_match_expression()).as_deref(),
                asked,
                "{typed:?}"
            );
        }
    }
}
