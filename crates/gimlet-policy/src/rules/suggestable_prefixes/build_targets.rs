//! Programs that build targets or run tasks, and take any number of them: a user who accepts `make test` has not
//! accepted `make test deploy`.

use crate::shell::Word;

/// A program that builds targets, with the letters of options whose value may be the next word, and its long options
/// of that kind.
struct BuildTool {
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
}

const fn build_tool(name: &'static str, letters: &'static str, long: &'static [&'static str]) -> BuildTool {
    BuildTool { name, letters, long }
}

const BUILDERS: &[BuildTool] = &[
    build_tool("ant", "", &["-logger", "-listener", "-find"]),
    build_tool("gradle", "xp", &["--exclude-task", "--project-dir", "--tests", "--console", "--max-workers"]),
    build_tool("gradlew", "xp", &["--exclude-task", "--project-dir", "--tests", "--console", "--max-workers"]),
    build_tool("just", "d", &["--working-directory"]),
    build_tool("make", "CjloOW", &["--directory", "--jobs", "--load-average", "--old-file", "--what-if"]),
    build_tool("mvn", "Tpr", &["--threads", "--projects", "--resume-from"]),
    build_tool("ninja", "Cjkl", &[]),
    build_tool("rails", "e", &["--environment"]),
    build_tool("rake", "jm", &["--jobs"]),
    build_tool("task", "doC", &["--dir", "--output", "--concurrency"]),
];

fn find_build_tool(start: &[&str]) -> Option<&'static BuildTool> {
    BUILDERS.iter().find(|builder| start.first() == Some(&builder.name))
}

/// Returns true if a program takes further targets after the first one.
pub(super) fn takes_several_targets(words: &[&str]) -> bool {
    find_build_tool(words).is_some()
}

/// Returns true if one of the words after the beginning of a command may be a further target.
pub(super) fn may_name_further_target(start: &[&str], rest: &[Word]) -> bool {
    let Some(builder) = find_build_tool(start) else { return false };
    let mut takes_value = false;
    for word in rest {
        let is_value = std::mem::take(&mut takes_value);
        match word.value() {
            Some(option) if option.starts_with('-') => takes_value = builder.takes_value(option),
            Some(text) if is_value || text.contains('=') => {}
            _ => return true,
        }
    }
    false
}

impl BuildTool {
    fn takes_value(&self, option: &str) -> bool {
        let cluster = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        self.long.contains(&option) || cluster.is_some_and(|letters| letters.ends_with(|c| self.letters.contains(c)))
    }
}
