//! Options of otherwise tame commands that name a program to run, a file of code or configuration to load, or another
//! project to take these from. By hand, for the beginnings that are offered and for no others.

use crate::shell::Word;

/// Options of the commands that begin with these words.
struct Risk {
    start: &'static [&'static str],
    /// Whole options. Long ones with two dashes count shortened as well.
    options: &'static [&'static str],
    /// Beginnings of words that count whatever follows them, such as `-p:`.
    beginnings: &'static [&'static str],
    /// Operands and values that lead out of where the command stands name code of somebody else's.
    outside: bool,
}

const fn risk(
    start: &'static [&'static str],
    options: &'static [&'static str],
    beginnings: &'static [&'static str],
    outside: bool,
) -> Risk {
    Risk { start, options, beginnings, outside }
}

const NPM: &[&str] = &[
    "--script-shell",
    "--shell",
    "--node-options",
    "--prefix",
    "-C",
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
const PYTEST: &[&str] =
    &["-p", "-c", "--config-file", "-o", "--override-ini", "--rootdir", "--confcutdir", "--pdbcls", "--basetemp"];
const CHECKER: &[&str] =
    &["--config-file", "--python-executable", "--load-plugins", "--init-hook", "--rcfile", "--config"];
const PYTHON: &[&str] = &["--python", "-p", "--config-file", "--directory", "--project", "-C", "-P"];
const KUBERNETES: &[&str] = &["--kubeconfig", "--post-renderer"];

const RISKS: &[Risk] = &[
    risk(&["git", "init"], &["--template", "--separate-git-dir"], &[], false),
    risk(
        &["git"],
        &["--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--output"],
        &["ext::"],
        false,
    ),
    risk(&["npm"], NPM, &[], false),
    risk(&["pnpm"], NPM, &["--config."], false),
    risk(&["pnpm"], &["--dir", "--shell-emulator", "--global-dir"], &[], false),
    risk(&["yarn"], &["--use-yarnrc", "--cwd", "--script-shell", "--node-options"], &[], false),
    risk(
        &["bun"],
        &["--preload", "-r", "--require", "--import", "--config", "-c", "--cwd", "--shell", "--define"],
        &[],
        false,
    ),
    risk(&["uv", "run", "pytest"], PYTEST, &["-p", "-c", "-o"], true),
    risk(&["poetry", "run", "pytest"], PYTEST, &["-p", "-c", "-o"], true),
    risk(&["uv", "run"], CHECKER, &[], false),
    risk(&["poetry", "run"], CHECKER, &[], false),
    risk(&["uv"], PYTHON, &[], false),
    risk(&["poetry"], PYTHON, &[], false),
    risk(&["cargo"], &["--config", "-C", "-Z", "--config-file", "--tool-config-file"], &["-C", "-Z"], true),
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
            "-C",
            "-compiler",
            "--compiler",
        ],
        &[],
        true,
    ),
    risk(
        &["make"],
        &["--eval", "-f", "--file", "--makefile", "-C", "--directory", "-I", "--include-dir", "-E"],
        &["-f", "-C", "-I", "-E"],
        false,
    ),
    risk(
        &["just"],
        &[
            "--shell",
            "--shell-arg",
            "--shell-command",
            "--justfile",
            "-f",
            "--working-directory",
            "-d",
            "--set",
            "--dotenv-path",
            "--dotenv-filename",
            "--command",
            "-c",
            "--choose",
            "--chooser",
        ],
        &[],
        false,
    ),
    risk(&["kubectl"], KUBERNETES, &[], false),
    risk(&["helm"], KUBERNETES, &[], false),
    risk(
        &["terraform"],
        &[],
        &["-plugin-dir", "--plugin-dir", "-from-module", "--from-module", "-chdir", "--chdir"],
        false,
    ),
    risk(&["brew"], &[], &[], true),
    risk(
        &["dotnet"],
        &["--property", "--settings", "-s", "--test-adapter-path"],
        &["-p:", "/p:", "-property:", "/property:", "-logger:", "/logger:", "-l:", "/l:", "@"],
        true,
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
            "-p",
            "--project-dir",
            "-g",
            "--gradle-user-home",
            "--include-build",
        ],
        &["-Dorg.gradle", "-I"],
        true,
    ),
    risk(&["bundle"], &["--gemfile"], &[], false),
    risk(&["rails"], &["-r", "--require"], &[], true),
    risk(&["mix"], &["-r", "--require", "--import", "--dot-formatter"], &[], true),
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
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        self.options.iter().any(|risky| is_meant(option, risky))
            || self.beginnings.iter().any(|beginning| word.starts_with(beginning))
            || (self.outside && leads_out(value.unwrap_or(word)))
    }
}

/// Whether an option is this one, or a beginning of it that its program may take for it.
fn is_meant(option: &str, risky: &str) -> bool {
    // A whole option of git's that is also the beginning of another.
    option == risky || (option != "--text" && option.len() > 3 && option.starts_with("--") && risky.starts_with(option))
}

fn leads_out(word: &str) -> bool {
    word.starts_with(['/', '~']) || word.split('/').any(|name| name == "..")
}

/// `SHELL=…`, `CC=…`: what a makefile does with a value is to run it as often as not.
fn sets_more_than_a_switch(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    let plain = |value: &str| matches!(value, "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false");
    !name.starts_with('-') && !plain(value) && !value.chars().all(|c| c.is_ascii_digit())
}
