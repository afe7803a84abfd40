//! Flags and commands that gimlet knows by name only, and those that make sense only to some.

use clap::CommandFactory;

use super::CliArgs;

/// Number of values that follow a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagArity {
    Nothing,
    One,
    /// A value, unless another flag follows.
    Optional,
}

/// Flags of the reference CLI whose features gimlet does not have yet. Users get an error that names the flag; for
/// programs that drive a session, which pass on their own callers' flags, they are ignored.
const NOT_YET: &[(&str, FlagArity)] = &[
    ("--plugin-url", FlagArity::One),
    ("--prompt-suggestions", FlagArity::Nothing),
    ("--debug-to-stderr", FlagArity::Nothing),
    ("--mcp-debug", FlagArity::Nothing),
    ("--exclude-dynamic-system-prompt-sections", FlagArity::Nothing),
    ("--worktree", FlagArity::Optional),
    ("-w", FlagArity::Optional),
    ("--tmux", FlagArity::Nothing),
    ("--bg", FlagArity::Nothing),
    ("--background", FlagArity::Nothing),
    ("--exec", FlagArity::One),
    ("--disable-slash-commands", FlagArity::Nothing),
    ("--ide", FlagArity::Nothing),
    ("--ax-screen-reader", FlagArity::Nothing),
    ("--teammate-mode", FlagArity::One),
    ("--record", FlagArity::One),
    ("--from-pr", FlagArity::Optional),
    ("--workload", FlagArity::One),
];

/// Flags that mean something only to a program that drives the session.
const DRIVEN_ONLY: &[&str] = &["--permission-prompts", "--session-mirror", "--await-initialize"];

/// Flags that belong to services of another vendor.
const NEVER: &[(&str, FlagArity)] = &[
    ("--chrome", FlagArity::Nothing),
    ("--no-chrome", FlagArity::Nothing),
    ("--cloud", FlagArity::Optional),
    ("--remote", FlagArity::Optional),
    ("--teleport", FlagArity::Optional),
    ("--environment", FlagArity::One),
    ("--ref", FlagArity::One),
    ("--remote-control", FlagArity::Optional),
    ("--rc", FlagArity::Optional),
    ("--channels", FlagArity::One),
    ("--dangerously-load-development-channels", FlagArity::One),
    ("--advisor", FlagArity::One),
];

/// Flags that have no effect with an empty value. Programs pass them on even when their own value is empty.
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
    "--plugin-dir",
    "--plugin-dir-no-mcp",
    "--system-prompt-file",
    "--append-system-prompt-file",
    "--system-prompt-snapshot",
    "--name",
    "-n",
    "--debug-file",
];

/// Flags whose next argument is free text, even if it has the form of a flag.
const TEXTS: &[&str] = &["--system-prompt", "--append-system-prompt", "--append-subagent-system-prompt"];

/// Flags that cannot be ignored: their callers rely on rules that would be missing.
const NEVER_WITHOUT: &[&str] = &["--project-config-root", "--managed-settings-in-initialize"];

/// Commands of the reference CLI that gimlet does not have yet.
const COMMANDS_NOT_YET: &[&str] = &[
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

/// Commands that belong to services of another vendor.
const COMMANDS_NEVER: &[&str] = &["remote-control", "self-hosted-runner", "gateway", "ultrareview"];

/// Checks the arguments before they are parsed; returns an error message for flags and commands known by name only.
pub(crate) fn refuse_unavailable(args: &[String]) -> Option<String> {
    // Commands have flags of their own, which the parser knows.
    if args.first().is_some_and(|first| CliArgs::command().get_subcommands().any(|known| known.get_name() == first)) {
        return None;
    }
    for (_, flag) in find_flags(args) {
        let name = flag.split('=').next().unwrap_or(flag);
        if NEVER_WITHOUT.contains(&name) {
            return Some(format!("the flag {name} is not available in this version of gimlet, and cannot be left out"));
        }
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
    let command = match args {
        [command] => command,
        // A word before a whole sentence is the beginning of something else.
        [command, next, ..] if !next.contains(' ') => command,
        _ => return None,
    };
    if COMMANDS_NOT_YET.contains(&command.as_str()) {
        return Some(format!("the command '{command}' is not available in this version of gimlet"));
    }
    COMMANDS_NEVER.contains(&command.as_str()).then(|| {
        format!("the command '{command}' is not available: it belongs to a hosted service that gimlet does not use")
    })
}

/// Returns true if a program drives the session.
pub(crate) fn is_driven(args: &[String]) -> bool {
    flag_value(args, "--input-format") == Some("stream-json")
}

/// Returns `Some` if a program reads the output, with true if it expects all messages as one list.
pub(crate) fn program_expects_list(args: &[String]) -> Option<bool> {
    match flag_value(args, "--output-format")? {
        "stream-json" => Some(false),
        "json" => Some(args.iter().any(|arg| arg == "--verbose")),
        _ => None,
    }
}

/// The arguments without the flags that are known by name only or say nothing, and the names of the former.
pub(crate) fn remove_unavailable(args: Vec<String>) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut aside) = (Vec::new(), Vec::new());
    let reads_prompt = flag_value(&args, "--system-prompt-file").is_some_and(|file| !file.is_empty());
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        if TEXTS.contains(&arg.as_str()) {
            let text = args.next();
            // SDKs say with an empty prompt that they were given none.
            if !(reads_prompt && arg == "--system-prompt" && text.as_deref() == Some("")) {
                kept.push(arg);
                kept.extend(text);
            }
            continue;
        }
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
            (Some(_), _) | (None, FlagArity::Nothing) => false,
            // The next argument is the value, in any form.
            (None, FlagArity::One) => true,
            (None, FlagArity::Optional) => args.peek().is_some_and(|next| !next.starts_with('-')),
        };
        if has_value {
            drop(args.next());
        }
    }
    (kept, aside)
}

/// The flags among the arguments, with their places.
fn find_flags(args: &[String]) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut args = args.iter().map(String::as_str).enumerate();
    while let Some((at, arg)) = args.next().filter(|(_, arg)| *arg != "--") {
        if arg.starts_with('-') {
            found.push((at, arg));
        }
        if TEXTS.contains(&arg) {
            args.next();
        }
    }
    found
}

/// Returns the value of a flag; the last one if it is repeated.
fn flag_value<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    let mut said = find_flags(args).into_iter().filter_map(|(at, arg)| match arg.strip_prefix(flag) {
        Some("") => args.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    said.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn flags_without_their_feature_are_refused_by_name() {
        assert!(refuse_unavailable(&split_words("-p --session-mirror hello")).unwrap().contains("--session-mirror"));
        assert!(refuse_unavailable(&split_words("auth list")).unwrap().contains("'auth'"));
        assert_eq!(refuse_unavailable(&split_words("-p -- --session-mirror")), None);
        assert_eq!(refuse_unavailable(&split_words("dev scripted-model x.json --record folder")), None);
        assert_eq!(refuse_unavailable(&["-p".to_owned(), "install the tools".to_owned()]), None);
    }

    #[test]
    fn commands_of_hosted_services_are_refused_and_prompts_that_begin_like_them_are_not() {
        for line in ["remote-control", "self-hosted-runner --name x", "gateway start", "ultrareview"] {
            assert!(refuse_unavailable(&split_words(line)).unwrap().contains("hosted service"), "{line}");
        }
        assert_eq!(refuse_unavailable(&["gateway".to_owned(), "what is one of these?".to_owned()]), None);
        assert_eq!(refuse_unavailable(&split_words("-p gateway")), None);
    }

    #[test]
    fn programs_go_on_without_what_is_not_there() {
        let line = "--output-format stream-json --plugin-url x --ide --plugin-url={\"a\":1} --model m \
                    --worktree --chrome --remote-control --channels a --input-format stream-json --worktree tree";
        let args = split_words(&line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(is_driven(&args) && !is_driven(&split_words("-p --output-format stream-json")));
        let (kept, aside) = remove_unavailable(args);
        assert_eq!(kept, split_words("--output-format stream-json --model m --input-format stream-json"));
        assert_eq!(
            aside,
            split_words("--plugin-url --ide --plugin-url --worktree --chrome --remote-control --channels --worktree")
        );
    }

    #[test]
    fn texts_that_look_like_flags_are_texts() {
        let args = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let given = args(&["--system-prompt", "--ide", "--append-system-prompt", "--model=", "--tmux"]);
        let (kept, aside) = remove_unavailable(given.clone());
        assert_eq!((kept.as_slice(), aside), (&given[..4], args(&["--tmux"])));
        assert_eq!(refuse_unavailable(&given[..4]), None);
        assert!(refuse_unavailable(&args(&["--system-prompt", "--", "--ide"])).is_some());
        assert!(!is_driven(&args(&["--system-prompt", "--input-format=stream-json"])));
        let known: Vec<String> = CliArgs::command()
            .get_arguments()
            .filter(|flag| flag.is_allow_hyphen_values_set())
            .filter_map(|flag| Some(format!("--{}", flag.get_long()?)))
            .collect();
        assert_eq!(known, TEXTS);
    }

    #[test]
    fn of_two_that_say_how_input_is_given_the_last_counts() {
        assert!(is_driven(&split_words("--input-format text --input-format stream-json")));
        assert!(!is_driven(&split_words("--input-format stream-json --input-format=text")));
    }

    #[test]
    fn an_empty_prompt_gives_way_to_one_in_a_file() {
        let args = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let given = args(&["--system-prompt", "", "--system-prompt-file", "f"]);
        assert_eq!(remove_unavailable(given).0, args(&["--system-prompt-file", "f"]));
        let given = args(&["--system-prompt", "", "--system-prompt-file", ""]);
        assert_eq!(remove_unavailable(given).0, args(&["--system-prompt", ""]));
    }

    #[test]
    fn what_would_loosen_a_session_by_its_absence_is_refused_to_programs_too() {
        for flag in ["--project-config-root", "--managed-settings-in-initialize"] {
            let (kept, _) = remove_unavailable(split_words(&format!("--input-format stream-json {flag}")));
            assert!(refuse_unavailable(&kept).unwrap().contains(flag));
        }
        assert_eq!(remove_unavailable(split_words("--workload x --verbose")).0, ["--verbose"]);
    }

    #[test]
    fn an_empty_value_says_nothing_where_it_can_mean_nothing() {
        let args = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        let given = args(&["--effort", "", "--model=", "--permission-mode", "", "--system-prompt", "", "--tools="]);
        assert_eq!(remove_unavailable(given).0, args(&["--system-prompt", "", "--tools="]));
        let given = args(&["--resume-drops-turn=", "--setting-sources=", "--effort", "low", "--max-turns", ""]);
        assert_eq!(remove_unavailable(given.clone()).0, given);
    }
}
