//! Options of otherwise tame commands that name a program to run, or a file of code or configuration to load. Another
//! directory to work in is none of them: people work in several, and what lies there was there before. By hand, for the
//! beginnings that are offered and for no others.

use crate::shell::Word;

/// Options of the commands that begin with these words.
struct Risk {
    start: &'static [&'static str],
    /// Whole options. Long ones with two dashes count shortened as well.
    options: &'static [&'static str],
    /// Beginnings of words that count whatever follows them, such as `-p:`.
    beginnings: &'static [&'static str],
    /// Letters that count anywhere in a cluster of short options, and those whose value is the rest of it.
    letters: (&'static str, &'static str),
    /// Stretches that count anywhere in a word.
    stretches: &'static [&'static str],
}

const fn risk(
    start: &'static [&'static str],
    options: &'static [&'static str],
    beginnings: &'static [&'static str],
) -> Risk {
    Risk { start, options, beginnings, letters: ("", ""), stretches: &[] }
}

/// The same for a program that takes short options together.
const fn clustered(
    start: &'static [&'static str],
    options: &'static [&'static str],
    letters: (&'static str, &'static str),
) -> Risk {
    Risk { letters, ..risk(start, options, &[]) }
}

const NPM: &[&str] = &[
    "--script-shell",
    "--shell",
    "--node-options",
    "--userconfig",
    "--globalconfig",
    "--git",
    "--editor",
    "--viewer",
    "--browser",
    "--init-module",
    "--call",
    "-c",
];
const PYTEST: &[&str] = &["--config-file", "--override-ini", "--rootdir", "--confcutdir", "--pdbcls", "--basetemp"];
const PYTEST_LETTERS: (&str, &str) = ("pco", "kmnrW");
const CHECKER: &[&str] =
    &["--config-file", "--python-executable", "--load-plugins", "--init-hook", "--rcfile", "--config"];
const PYTHON: &[&str] = &["--python", "-p", "--config-file"];
const KUBERNETES: &[&str] = &["--kubeconfig", "--post-renderer"];

const RISKS: &[Risk] = &[
    risk(&["git", "init"], &["--template", "--separate-git-dir"], &[]),
    risk(&["git"], &["--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--output"], &["ext::"]),
    risk(&["npm"], NPM, &[]),
    risk(&["pnpm"], NPM, &["--config."]),
    risk(&["pnpm"], &["--shell-emulator", "--global-dir"], &[]),
    risk(&["yarn"], &["--use-yarnrc", "--script-shell", "--node-options"], &[]),
    risk(&["bun"], &["--preload", "-r", "--require", "--import", "--config", "-c", "--shell", "--define"], &[]),
    clustered(&["uv", "run", "pytest"], PYTEST, PYTEST_LETTERS),
    clustered(&["poetry", "run", "pytest"], PYTEST, PYTEST_LETTERS),
    risk(&["uv", "run"], CHECKER, &[]),
    risk(&["poetry", "run"], CHECKER, &[]),
    risk(&["uv"], PYTHON, &[]),
    risk(&["poetry"], PYTHON, &[]),
    risk(&["cargo"], &["--config", "-Z", "--config-file", "--tool-config-file"], &["-Z"]),
    risk(
        &["go"],
        &[
            "-exec",
            "--exec",
            "-toolexec",
            "--toolexec",
            "-vettool",
            "--vettool",
            "-overlay",
            "--overlay",
            "-modfile",
            "--modfile",
            "-compiler",
            "--compiler",
        ],
        &[],
    ),
    // The linker's options among those of the build name the programs that it starts.
    Risk { stretches: &["-extld", "-extar"], ..risk(&["go"], &[], &[]) },
    clustered(&["make"], &["--eval", "--file", "--makefile", "--include-dir"], ("fIE", "CjloOW")),
    risk(
        &["just"],
        &[
            "--shell",
            "--shell-arg",
            "--shell-command",
            "--justfile",
            "-f",
            "--set",
            "--dotenv-path",
            "--dotenv-filename",
            "--command",
            "-c",
            "--choose",
            "--chooser",
        ],
        &[],
    ),
    risk(&["kubectl"], KUBERNETES, &[]),
    risk(&["helm"], KUBERNETES, &[]),
    risk(&["terraform"], &[], &["-plugin-dir", "--plugin-dir", "-from-module", "--from-module"]),
    risk(
        &["dotnet"],
        &["--property", "--settings", "-s", "--test-adapter-path"],
        &["-p:", "/p:", "-property:", "/property:", "-logger:", "/logger:", "-l:", "/l:", "@"],
    ),
    risk(
        &["gradle"],
        &[
            "-I",
            "--init-script",
            "-b",
            "--build-file",
            "-c",
            "--settings-file",
            "-g",
            "--gradle-user-home",
            "--include-build",
        ],
        &["-Dorg.gradle", "-I"],
    ),
    risk(&["bundle"], &["--gemfile"], &[]),
    risk(&["rails"], &["-r", "--require"], &[]),
    risk(&["mix"], &["-r", "--require", "--import", "--dot-formatter"], &[]),
];

/// Whether one of the words behind the beginning of a command lets it run something else than it is known for. Words that
/// are only known when it runs may stand in the open part of any rule.
pub(super) fn run_programs(start: &[&str], rest: &[Word]) -> bool {
    let risks = || RISKS.iter().filter(|risk| start.starts_with(risk.start));
    let known = rest.iter().flat_map(Word::choices).filter_map(Word::value);
    // Behind `--` a script or a test gets its own words, which are the project's to read.
    let makes = start.first() == Some(&"make");
    let own = known.take_while(|word| makes || *word != "--");
    own.into_iter().any(|word| risks().any(|risk| risk.has(word)) || (makes && sets_more_than_a_switch(word)))
}

impl Risk {
    fn has(&self, word: &str) -> bool {
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        self.options.iter().any(|risky| is_meant(option, risky))
            || self.beginnings.iter().any(|beginning| word.starts_with(beginning))
            || self.stretches.iter().any(|stretch| word.contains(stretch))
            || self.has_letter(word)
    }

    fn has_letter(&self, word: &str) -> bool {
        let (risky, ending) = self.letters;
        let cluster = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        cluster.chars().take_while(|letter| !ending.contains(*letter)).any(|letter| risky.contains(letter))
    }
}

/// Whether an option is this one, or a beginning of it that its program may take for it.
fn is_meant(option: &str, risky: &str) -> bool {
    // A whole option of git's that is also the beginning of another.
    option == risky || (option != "--text" && option.len() > 3 && option.starts_with("--") && risky.starts_with(option))
}

/// `SHELL=…`, `CC=…`: what a makefile does with a value is to run it as often as not.
fn sets_more_than_a_switch(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    let plain = |value: &str| matches!(value, "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false");
    !name.starts_with('-') && !plain(value) && !value.chars().all(|c| c.is_ascii_digit())
}
