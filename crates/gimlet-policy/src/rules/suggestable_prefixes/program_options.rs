//! Options of otherwise harmless commands that name a program to run, or a file of code or configuration to load. An
//! option for another working directory is not one of them: users work in several, and their files were there before.
//! The table is written by hand, for the prefixes that are suggested and for no others.

use crate::shell::Word;

/// Options of the commands that begin with these words.
struct RiskyOptions {
    prefix: &'static [&'static str],
    /// Whole options. Abbreviations of long ones with two dashes count as well.
    options: &'static [&'static str],
    /// Prefixes of words that count with any continuation, such as `-p:`.
    prefixes: &'static [&'static str],
    /// Letters that count anywhere in a cluster of short options, and those whose value is the rest of it.
    letters: (&'static str, &'static str),
    /// Substrings that count anywhere in a word.
    substrings: &'static [&'static str],
}

const fn risky_options(
    start: &'static [&'static str],
    options: &'static [&'static str],
    beginnings: &'static [&'static str],
) -> RiskyOptions {
    RiskyOptions { prefix: start, options, prefixes: beginnings, letters: ("", ""), substrings: &[] }
}

/// Returns an entry for a program that accepts clustered short options.
const fn risky_clusters(
    start: &'static [&'static str],
    options: &'static [&'static str],
    letters: (&'static str, &'static str),
) -> RiskyOptions {
    RiskyOptions { letters, ..risky_options(start, options, &[]) }
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

const RISKS: &[RiskyOptions] = &[
    risky_options(&["git", "init"], &["--template", "--separate-git-dir"], &[]),
    risky_options(
        &["git"],
        &["--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--output"],
        &["ext::"],
    ),
    risky_options(&["npm"], NPM, &[]),
    risky_options(&["pnpm"], NPM, &["--config."]),
    risky_options(&["pnpm"], &["--shell-emulator", "--global-dir"], &[]),
    risky_options(&["yarn"], &["--use-yarnrc", "--script-shell", "--node-options"], &[]),
    risky_options(
        &["bun"],
        &["--preload", "-r", "--require", "--import", "--config", "-c", "--shell", "--define"],
        &[],
    ),
    risky_clusters(&["uv", "run", "pytest"], PYTEST, PYTEST_LETTERS),
    risky_clusters(&["poetry", "run", "pytest"], PYTEST, PYTEST_LETTERS),
    risky_options(&["uv", "run"], CHECKER, &[]),
    risky_options(&["poetry", "run"], CHECKER, &[]),
    risky_options(&["uv"], PYTHON, &[]),
    risky_options(&["poetry"], PYTHON, &[]),
    risky_options(&["cargo"], &["--config", "-Z", "--config-file", "--tool-config-file"], &["-Z"]),
    risky_options(
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
    RiskyOptions { substrings: &["-extld", "-extar"], ..risky_options(&["go"], &[], &[]) },
    risky_clusters(&["make"], &["--eval", "--file", "--makefile", "--include-dir"], ("fIE", "CjloOW")),
    risky_options(
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
    risky_options(&["kubectl"], KUBERNETES, &[]),
    risky_options(&["helm"], KUBERNETES, &[]),
    risky_options(&["terraform"], &[], &["-plugin-dir", "--plugin-dir", "-from-module", "--from-module"]),
    risky_options(
        &["dotnet"],
        &["--property", "--settings", "-s", "--test-adapter-path"],
        &["-p:", "/p:", "-property:", "/property:", "-logger:", "/logger:", "-l:", "/l:", "@"],
    ),
    risky_options(
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
    risky_options(&["bundle"], &["--gemfile"], &[]),
    risky_options(&["rails"], &["-r", "--require"], &[]),
    risky_options(&["mix"], &["-r", "--require", "--import", "--dot-formatter"], &[]),
];

/// Returns true if one of the words after the beginning of a command lets it run something else than it is known for.
/// Words that are only known at run time may stand in the open part of any rule.
pub(super) fn may_run_program(start: &[&str], rest: &[Word]) -> bool {
    let risks = || RISKS.iter().filter(|risk| start.starts_with(risk.prefix));
    let known = rest.iter().flat_map(Word::choices).filter_map(Word::value);
    // After `--` a script or a test gets its own words, which the project interprets.
    let makes = start.first() == Some(&"make");
    let own = known.take_while(|word| makes || *word != "--");
    own.into_iter().any(|word| risks().any(|risk| risk.matches_word(word)) || (makes && sets_make_variable(word)))
}

impl RiskyOptions {
    fn matches_word(&self, word: &str) -> bool {
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        self.options.iter().any(|risky| is_abbreviation_of(option, risky))
            || self.prefixes.iter().any(|beginning| word.starts_with(beginning))
            || self.substrings.iter().any(|stretch| word.contains(stretch))
            || self.matches_cluster(word)
    }

    fn matches_cluster(&self, word: &str) -> bool {
        let (risky, ending) = self.letters;
        let cluster = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        cluster.chars().take_while(|letter| !ending.contains(*letter)).any(|letter| risky.contains(letter))
    }
}

/// Returns true if an option is this one, or an abbreviation of it that its program may accept.
fn is_abbreviation_of(option: &str, risky: &str) -> bool {
    // A whole option of git that is also the beginning of another.
    option == risky || (option != "--text" && option.len() > 3 && option.starts_with("--") && risky.starts_with(option))
}

/// Returns true for `SHELL=…`, `CC=…`: a makefile often runs the value.
fn sets_make_variable(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    let plain = |value: &str| matches!(value, "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false");
    !name.starts_with('-') && !plain(value) && !value.chars().all(|c| c.is_ascii_digit())
}
