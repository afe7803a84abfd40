//! Flags and commands that gimlet knows by name only, and those that make sense only to some.

use clap::CommandFactory;

use super::Cli;

/// What follows a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    One,
    /// A value, unless another flag follows.
    Maybe,
}

/// Flags of the reference CLI whose features gimlet does not have yet. People get them refused by name; programs that
/// drive a session pass whatever their own callers gave them, and go on without.
const NOT_YET: &[(&str, Takes)] = &[
    ("--plugin-dir", Takes::One),
    ("--plugin-dir-no-mcp", Takes::One),
    ("--plugin-url", Takes::One),
    ("--prompt-suggestions", Takes::Nothing),
    ("--debug-to-stderr", Takes::Nothing),
    ("--mcp-debug", Takes::Nothing),
    ("--append-subagent-system-prompt", Takes::One),
    ("--exclude-dynamic-system-prompt-sections", Takes::Nothing),
    ("--worktree", Takes::Maybe),
    ("-w", Takes::Maybe),
    ("--tmux", Takes::Nothing),
    ("--bg", Takes::Nothing),
    ("--background", Takes::Nothing),
    ("--exec", Takes::One),
    ("--bare", Takes::Nothing),
    ("--safe-mode", Takes::Nothing),
    ("--init", Takes::Nothing),
    ("--init-only", Takes::Nothing),
    ("--maintenance", Takes::Nothing),
    ("--disable-slash-commands", Takes::Nothing),
    ("--autocompact", Takes::One),
    ("--ide", Takes::Nothing),
    ("--ax-screen-reader", Takes::Nothing),
    ("--teammate-mode", Takes::One),
    ("--record", Takes::One),
    ("--from-pr", Takes::Maybe),
];

/// Flags that mean something only to a program that drives the session.
const DRIVEN_ONLY: &[&str] = &[
    "--mcp-config",
    "--strict-mcp-config",
    "--permission-prompt-tool",
    "--permission-prompts",
    "--include-hook-events",
    "--session-mirror",
    "--await-initialize",
];

/// Flags that belong to services of another vendor.
const NEVER: &[(&str, Takes)] = &[
    ("--chrome", Takes::Nothing),
    ("--no-chrome", Takes::Nothing),
    ("--cloud", Takes::Maybe),
    ("--remote", Takes::Maybe),
    ("--teleport", Takes::Maybe),
    ("--environment", Takes::One),
    ("--ref", Takes::One),
    ("--remote-control", Takes::Maybe),
    ("--rc", Takes::Maybe),
    ("--channels", Takes::One),
    ("--dangerously-load-development-channels", Takes::One),
    ("--advisor", Takes::One),
];

/// Flags that an empty value says nothing with. Programs pass on what they were given, also when that was nothing.
const NOTHING_WHEN_EMPTY: &[&str] = &[
    "--model",
    "--fallback-model",
    "--effort",
    "--thinking",
    "--thinking-display",
    "--betas",
    "--permission-mode",
    "--permission-prompt-tool",
    "--permission-prompts",
    "--mcp-config",
    "--settings",
    "--agents",
    "--agent",
    "--json-schema",
    "--add-dir",
    "--system-prompt-file",
    "--append-system-prompt-file",
    "--system-prompt-snapshot",
    "--name",
    "-n",
    "--debug-file",
];

/// Commands of the reference CLI that gimlet does not have yet.
const COMMANDS_NOT_YET: &[&str] = &[
    "mcp",
    "plugin",
    "plugins",
    "agents",
    "attach",
    "logs",
    "stop",
    "kill",
    "rm",
    "respawn",
    "daemon",
    "project",
    "auth",
    "setup-token",
    "update",
    "install",
    "import",
    "replay",
    "serve",
];

/// Says what is wrong with the arguments before they are parsed: flags and commands that are known by name only.
pub(crate) fn refuse_unavailable(args: &[String]) -> Option<String> {
    // Commands have flags of their own, which the parser knows.
    if args.first().is_some_and(|first| Cli::command().get_subcommands().any(|known| known.get_name() == first)) {
        return None;
    }
    let flags = args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-'));
    for flag in flags {
        let name = flag.split('=').next().unwrap_or(flag);
        if NOT_YET.iter().any(|(known, _)| *known == name) {
            return Some(format!("the flag {name} is not available in this version of gimlet"));
        }
        if DRIVEN_ONLY.contains(&name) && !is_driven(args) {
            return Some(format!("the flag {name} is only available with --input-format stream-json"));
        }
        if NEVER.iter().any(|(known, _)| *known == name) {
            return Some(format!("the flag {name} belongs to a hosted service that gimlet does not use"));
        }
    }
    match args {
        [command] if COMMANDS_NOT_YET.contains(&command.as_str()) => {
            Some(format!("the command '{command}' is not available in this version of gimlet"))
        }
        [command, next, ..] if COMMANDS_NOT_YET.contains(&command.as_str()) && !next.contains(' ') => {
            Some(format!("the command '{command}' is not available in this version of gimlet"))
        }
        _ => None,
    }
}

/// Whether a program drives the session.
pub(crate) fn is_driven(args: &[String]) -> bool {
    value_of(args, "--input-format") == Some("stream-json")
}

/// Whether whoever reads the output expects the protocol's lines.
pub(crate) fn wants_stream(args: &[String]) -> bool {
    value_of(args, "--output-format") == Some("stream-json")
}

/// The arguments without the flags that are known by name only or say nothing, and the names of the former.
pub(crate) fn set_aside(args: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut aside) = (Vec::new(), Vec::new());
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        let (name, glued) = arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        if NOTHING_WHEN_EMPTY.contains(&name) {
            match (glued, args.peek()) {
                (Some(""), _) => {}
                (None, Some(value)) if value.is_empty() => drop(args.next()),
                _ => kept.push(arg),
            }
            continue;
        }
        let Some((flag, takes)) = NOT_YET.iter().chain(NEVER).find(|(flag, _)| *flag == name) else {
            kept.push(arg);
            continue;
        };
        aside.push((*flag).to_owned());
        let has_value = match (glued, takes) {
            (Some(_), _) | (None, Takes::Nothing) => false,
            // Whatever it looks like.
            (None, Takes::One) => true,
            (None, Takes::Maybe) => args.peek().is_some_and(|next| !next.starts_with('-')),
        };
        if has_value {
            drop(args.next());
        }
    }
    (kept, aside)
}

fn value_of<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix(flag) {
        Some("") => args.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn flags_without_their_feature_are_refused_by_name() {
        assert!(refuse_unavailable(&words("-p --mcp-config x.json hello")).unwrap().contains("--mcp-config"));
        assert!(refuse_unavailable(&words("mcp list")).unwrap().contains("'mcp'"));
        assert_eq!(refuse_unavailable(&words("-p -- --mcp-config")), None);
        assert_eq!(refuse_unavailable(&words("dev scripted-model x.json --record folder")), None);
        assert_eq!(refuse_unavailable(&["-p".to_owned(), "install the tools".to_owned()]), None);
    }

    #[test]
    fn programs_go_on_without_what_is_not_there() {
        let line = "--output-format stream-json --plugin-dir x --bare --plugin-url={\"a\":1} --model m \
                    --worktree --chrome --remote-control --channels a --input-format stream-json --worktree tree";
        let args = words(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(is_driven(&args) && !is_driven(&words("-p --output-format stream-json")));
        let (kept, aside) = set_aside(args);
        assert_eq!(kept, words("--output-format stream-json --model m --input-format stream-json"));
        assert_eq!(
            aside,
            words("--plugin-dir --bare --plugin-url --worktree --chrome --remote-control --channels --worktree")
        );
    }

    #[test]
    fn an_empty_value_says_nothing_where_it_can_mean_nothing() {
        let args = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let given = args(&["--effort", "", "--model=", "--permission-mode", "", "--system-prompt", "", "--tools="]);
        assert_eq!(set_aside(given).0, args(&["--system-prompt", "", "--tools="]));
        let given = args(&["--resume-drops-turn=", "--setting-sources=", "--effort", "low", "--max-turns", ""]);
        assert_eq!(set_aside(given.clone()).0, given);
    }
}
