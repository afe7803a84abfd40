//! Meaning of exit codes: for some commands 1 is an answer, not a failure. Pure.

use gimlet_exec::CommandExit;
use gimlet_policy::shell::{ShellAnalysis, Word};

/// Commands that print nothing when they succeed.
const SILENT: [&str; 16] = [
    "mv", "cp", "rm", "mkdir", "rmdir", "chmod", "chown", "chgrp", "touch", "ln", "cd", "export", "unset", "sleep",
    "true", "wait",
];
/// Commands that go before another with `&&` and hardly ever decide the exit code themselves.
const PREPARATIONS: [&str; 8] = ["cd", "pushd", "echo", "printf", "export", "set", "source", "true"];

/// Returns the meaning of a nonzero code that is not a failure; `None` if it is one.
pub(super) fn interpret_exit_code(
    command: &str,
    analysis: &ShellAnalysis,
    code: i32,
    output: &str,
) -> Option<&'static str> {
    if code != 1 {
        return None;
    }
    let answer = match analysis.last_pipeline_command.as_deref()? {
        "grep" | "egrep" | "fgrep" | "rg" | "git grep" => "No matches found",
        "diff" | "cmp" | "git diff" => "The files differ",
        "test" | "[" | "[[" => "The condition is false",
        "find" => "Some places could not be searched",
        "pgrep" => "No process matched",
        "jq" => "The last result was false or null",
        _ => return None,
    };
    is_code_of_last_command(command, analysis, output).then_some(answer)
}

/// Returns true if the code can only be the last command's. After `make && grep …` it could be make's.
fn is_code_of_last_command(command: &str, analysis: &ShellAnalysis, output: &str) -> bool {
    let earlier = analysis.commands.split_last().map_or(&[][..], |(_, earlier)| earlier);
    let harmless =
        |words: &Vec<Word>| words.first().and_then(Word::value).is_some_and(|name| PREPARATIONS.contains(&name));
    let only_prepared = !command.contains("&&") || earlier.iter().all(harmless);
    // The shell's own complaints (`bash: line 1: cd: …`) come from what went before.
    only_prepared && !output.lines().any(|line| line.starts_with("bash: line ") || line.starts_with("zsh:"))
}

/// Returns true if empty output is normal for the command.
pub(super) fn expects_no_output(analysis: &ShellAnalysis) -> bool {
    analysis.last_pipeline_command.as_deref().is_some_and(|name| SILENT.contains(&name))
}

/// Returns a remark on an end by a signal that gimlet did not send.
pub(super) fn signal_remark(exit: CommandExit) -> Option<String> {
    let signal = match (exit.signal, exit.code) {
        (Some(signal), _) => signal,
        // A shell reports a killed child this way.
        (None, Some(code @ 129..=159)) => code - 128,
        (None, _) => return None,
    };
    let name = signal_name(signal)?;
    let guess = match signal {
        9 => "; the system may have run out of memory",
        11 | 6 | 4 | 7 | 8 => "; the program crashed",
        _ => "",
    };
    Some(format!("The command was ended by signal {signal} ({name}), which gimlet did not send{guess}."))
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gimlet_policy::shell::{ShellFacts, analyse};

    use super::*;

    fn analysed(command: &str) -> ShellAnalysis {
        analyse(command, &ShellFacts { cwd: Path::new("/p"), roots: &["/p".into()], home: None, environment: None })
    }

    #[test]
    fn a_one_is_an_answer_for_commands_that_answer_questions() {
        for (command, answer) in [
            ("grep x f", "No matches found"),
            ("cat f | rg x", "No matches found"),
            ("cd src && grep -rn x .", "No matches found"),
            ("git grep x", "No matches found"),
            ("make; git diff --exit-code", "The files differ"),
            ("cmp a b", "The files differ"),
            ("test -f x", "The condition is false"),
            ("[ -f x ]", "The condition is false"),
            ("pgrep nobody", "No process matched"),
            ("jq -e .x f", "The last result was false or null"),
            ("find . -name x", "Some places could not be searched"),
        ] {
            assert_eq!(interpret_exit_code(command, &analysed(command), 1, ""), Some(answer), "{command}");
        }
    }

    #[test]
    fn a_failure_stays_one() {
        for (command, code, output) in [
            ("grep x f", 2, ""),
            ("grep x f | sort", 1, ""),
            ("cargo build", 1, ""),
            ("make && grep x log", 1, ""),
            ("cd gone && grep x f", 1, "bash: line 1: cd: gone: No such file or directory"),
        ] {
            assert_eq!(interpret_exit_code(command, &analysed(command), code, output), None, "{command}");
        }
    }

    #[test]
    fn silence_is_expected_of_commands_that_only_do() {
        assert!(expects_no_output(&analysed("mkdir -p a/b")) && expects_no_output(&analysed("ls | wc; rm -f x")));
        assert!(!expects_no_output(&analysed("ls")) && !expects_no_output(&analysed("rm x; ls")));
    }

    #[test]
    fn signals_are_named_whoever_was_hit() {
        let remark = |code, signal| signal_remark(CommandExit { code, signal });
        assert!(remark(None, Some(9)).unwrap().contains("SIGKILL"));
        assert!(remark(Some(139), None).unwrap().contains("SIGSEGV"));
        assert_eq!((remark(Some(1), None), remark(Some(255), None)), (None, None));
    }
}
