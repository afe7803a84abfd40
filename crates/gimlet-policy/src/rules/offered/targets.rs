//! Programs that build targets or run tasks, and take any number of them: whoever says yes to `make test` has said nothing
//! about `make test deploy`.

use crate::shell::Word;

/// Such a program, the letters of its options whose value may be the next word, and its long options of that kind.
struct Builder {
    name: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
}

const fn builder(name: &'static str, letters: &'static str, long: &'static [&'static str]) -> Builder {
    Builder { name, letters, long }
}

const BUILDERS: &[Builder] = &[
    builder("ant", "", &["-logger", "-listener", "-find"]),
    builder("gradle", "xp", &["--exclude-task", "--project-dir", "--tests", "--console", "--max-workers"]),
    builder("gradlew", "xp", &["--exclude-task", "--project-dir", "--tests", "--console", "--max-workers"]),
    builder("just", "d", &["--working-directory"]),
    builder("make", "CjloOW", &["--directory", "--jobs", "--load-average", "--old-file", "--what-if"]),
    builder("mvn", "Tpr", &["--threads", "--projects", "--resume-from"]),
    builder("ninja", "Cjkl", &[]),
    builder("rails", "e", &["--environment"]),
    builder("rake", "jm", &["--jobs"]),
    builder("task", "doC", &["--dir", "--output", "--concurrency"]),
];

fn builder_of(start: &[&str]) -> Option<&'static Builder> {
    BUILDERS.iter().find(|builder| start.first() == Some(&builder.name))
}

/// Whether a program takes further targets behind the first one.
pub(super) fn takes_targets(words: &[&str]) -> bool {
    builder_of(words).is_some()
}

/// Whether one of the words behind the beginning of a command may be a further target.
pub(super) fn name_further(start: &[&str], rest: &[Word]) -> bool {
    let Some(builder) = builder_of(start) else { return false };
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

impl Builder {
    fn takes_value(&self, option: &str) -> bool {
        let cluster = option.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        self.long.contains(&option) || cluster.is_some_and(|letters| letters.ends_with(|c| self.letters.contains(c)))
    }
}
