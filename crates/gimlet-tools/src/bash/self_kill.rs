//! Keeps a `pkill` from ending gimlet itself: `pgrep` lists its targets first. If that fails, the command runs.

use std::path::PathBuf;
use std::time::Duration;

use gimlet_core::tool::ToolError;
use gimlet_exec::{
    CaptureLimits, DirectoryReporter, Exec, ForegroundCommand, Shell, SpawnRequest, StdinMode, StreamMode,
};
use gimlet_policy::shell::{ShellAnalysis, Word};

/// Timeout for the check.
const PATIENCE: Duration = Duration::from_secs(2);
/// Far more process numbers than a machine has.
const ANSWER_BYTES: usize = 128 * 1024;
/// Commands that run the command after them.
const WRAPPERS: [&str; 12] =
    ["sudo", "doas", "env", "command", "exec", "nohup", "nice", "ionice", "timeout", "time", "setsid", "xargs"];

/// Refuses a command whose `pkill` would hit this process or the custodian of the session's commands.
pub(super) async fn refuse_self_kill(analysis: &ShellAnalysis, exec: &Exec, shell: &Shell) -> Result<(), ToolError> {
    for arguments in analysis.commands.iter().filter_map(|words| pkill_arguments(words)) {
        let hit = matching_processes(&arguments, exec, shell).await;
        let own = [Some(std::process::id()), exec.custodian_pid()];
        if own.iter().flatten().any(|pid| hit.contains(pid)) {
            return Err(ToolError::failed(format!(
                "Not run: `pkill {}` would also end gimlet, which runs this session. Use a pattern that matches only \
                 the processes you mean, or `kill` with their numbers from `pgrep -a`.",
                arguments.join(" ")
            )));
        }
    }
    Ok(())
}

/// Returns the selecting arguments of a `pkill`; `None` if there is none or its words are not plain.
fn pkill_arguments(words: &[Word]) -> Option<Vec<String>> {
    let name = |word: &Word| word.value().and_then(|text| text.rsplit('/').next().map(str::to_owned));
    let at = words.iter().position(|word| name(word).as_deref() == Some("pkill"))?;
    if at > 0 && !name(words.first()?).is_some_and(|first| WRAPPERS.contains(&first.as_str())) {
        return None;
    }
    let arguments: Vec<&str> = words.get(at + 1..)?.iter().map(Word::value).collect::<Option<_>>()?;
    Some(pgrep_arguments(&arguments))
}

/// Returns the arguments that `pgrep` shares: without the signal and without output options.
fn pgrep_arguments(arguments: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let flag = argument.strip_prefix('-').unwrap_or("");
        let is_signal = flag.len() > 1 && flag.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            || flag.bytes().all(|byte| byte.is_ascii_digit()) && !flag.is_empty();
        match *argument {
            "--signal" => drop(rest.next()),
            "-e" | "--echo" | "-c" | "--count" => {}
            other if is_signal || other.starts_with("--signal=") => {}
            other => kept.push(other.to_owned()),
        }
    }
    kept
}

async fn matching_processes(arguments: &[String], exec: &Exec, shell: &Shell) -> Vec<u32> {
    let spawn = SpawnRequest {
        program: "pgrep".into(),
        args: arguments.iter().map(Into::into).collect(),
        cwd: "/".into(),
        env: shell.environment().to_vec(),
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    };
    let Ok(running) = exec.spawn(spawn).await else { return Vec::new() };
    // The answer stays in memory, so the file is never made.
    let mut asked = ForegroundCommand::new(running, CaptureLimits::for_foreground(ANSWER_BYTES, PathBuf::new()));
    let Ok(finished) = tokio::time::timeout(PATIENCE, asked.finish()).await else { return Vec::new() };
    String::from_utf8_lossy(&finished.output.head).lines().filter_map(|line| line.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gimlet_policy::shell::{ShellFacts, analyse};

    use super::*;

    fn found(command: &str) -> Option<Vec<String>> {
        let facts = ShellFacts { cwd: Path::new("/p"), roots: &[], home: None, environment: None };
        analyse(command, &facts).commands.iter().find_map(|words| pkill_arguments(words))
    }

    #[test]
    fn signals_are_left_out_and_selections_stay() {
        assert_eq!(found("pkill -9 -f server").unwrap(), ["-f", "server"]);
        assert_eq!(found("cd x && sudo /usr/bin/pkill -KILL -U root -x node").unwrap(), ["-U", "root", "-x", "node"]);
        assert_eq!(found("pkill --signal TERM -e node").unwrap(), ["node"]);
    }

    #[test]
    fn other_mentions_and_unknown_words_are_not_asked_about() {
        assert_eq!(found("echo pkill gimlet"), None);
        assert_eq!(found("pkill \"$name\""), None);
    }
}
