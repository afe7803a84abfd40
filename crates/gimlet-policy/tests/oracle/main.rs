//! What the engine allows against what bash does with it: random commands are decided, and those that would run without
//! a question are run in a jail of stand-ins. Every program that starts must be one that the rules or the table of
//! readers speak for, with words that the analysis has seen; no file may change but those that a rule opens.
//!
//! Slow, so not among the tests that run by default; `scripts/oracle` runs it.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

mod bash_jail;
mod random_commands;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bash_jail::{BashJail, JailOutcome};
use gimlet_policy::shell::{ShellFacts, Word, analyse};
use gimlet_policy::{Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleSet, RuleSource, decide};
use gimlet_proto::{AccessNeed, PermissionMode};
use random_commands::CommandGenerator;

/// Commands that are generated for each test; `ORACLE_COMMANDS` at build time says otherwise.
const COMMANDS: Option<&str> = option_env!("ORACLE_COMMANDS");
const SEED: Option<&str> = option_env!("ORACLE_SEED");
const THREADS: usize = 2;

fn parse_number(text: Option<&str>, otherwise: u64) -> u64 {
    text.map_or(otherwise, |text| text.parse().unwrap())
}

fn rules(anchor: &Path, deny: &[&str], allow: &[&str]) -> RuleSet {
    let source = RuleSource::new(gimlet_policy::RuleScope::Project, anchor);
    let mut rules = RuleSet::default();
    for (behavior, list) in [(Behavior::Deny, deny), (Behavior::Allow, allow)] {
        list.iter().for_each(|rule| rules.add(behavior, rule, &source).unwrap());
    }
    rules
}

/// Decides on as many texts as asked for, runs what is allowed, and hands each outcome to `judge`, which names a fault.
fn compare_with_bash(
    name: &str,
    mode: PermissionMode,
    deny: &[&str],
    allow: &[&str],
    judge: fn(&str, &JailOutcome, &BashJail) -> Option<String>,
) {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (commands, seed) = (parse_number(COMMANDS, 50_000), parse_number(SEED, clock));
    let (allowed, programs, endless) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let faults: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (allowed, programs, endless) = (&allowed, &programs, &endless);
                scope.spawn(move || {
                    let folder = format!("gimlet-oracle-{}-{name}-{thread}", std::process::id());
                    let jail = BashJail::new(std::env::temp_dir().join(folder)).unwrap();
                    let rules = rules(&jail.work_folder(), deny, allow);
                    let world = DecisionContext {
                        mode,
                        cwd: jail.work_folder(),
                        roots: vec![jail.work_folder()],
                        home: Some(jail.home_folder()),
                        environment: Some(Arc::new(jail.environment())),
                        ..DecisionContext::default()
                    };
                    let mut faults = Vec::new();
                    for at in (thread as u64..commands).step_by(THREADS) {
                        let text = CommandGenerator::new(seed.wrapping_add(at)).command_text();
                        let needs = [NeedFacts::new(AccessNeed::Run(text.clone()), None)];
                        let call = ProposedCall {
                            tool: "Bash",
                            also_named: &[],
                            input: None,
                            needs: &needs,
                            needs_person: false,
                        };
                        if decide(&call, &rules, &world).decision == Decision::Allow {
                            let outcome = jail.run(&text).unwrap();
                            allowed.fetch_add(1, Ordering::Relaxed);
                            programs.fetch_add(outcome.started.len(), Ordering::Relaxed);
                            endless.fetch_add(usize::from(!outcome.ended), Ordering::Relaxed);
                            faults.extend(judge(&text, &outcome, &jail).map(|fault| format!("{fault}\n  {text:?}")));
                        }
                    }
                    faults
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    #[allow(clippy::print_stdout, reason = "the figures are what one runs this for")]
    {
        let (allowed, programs) = (allowed.load(Ordering::Relaxed), programs.load(Ordering::Relaxed));
        println!(
            "{name}: {commands} commands from seed {seed}, {allowed} allowed and run, {programs} programs started"
        );
        println!("{name}: {} did not end by themselves, {} faults", endless.into_inner(), faults.len());
    }
    assert!(programs.into_inner() > 0, "nothing was started, so nothing was seen");
    assert!(faults.is_empty(), "{} faults, the first: {:#?}", faults.len(), &faults[..faults.len().min(15)]);
}

/// Whether the rules of the test or the set of readers speak for a call.
fn is_covered_by_rules(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((name, arguments)) = words.split_first() else { return false };
    let has = |flags: &[&str]| arguments.iter().any(|word| flags.iter().any(|flag| word.starts_with(flag)));
    match *name {
        // Behind a pipe it is a program, everywhere else a keyword.
        "time" => {
            let rest: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            is_covered_by_rules(&rest)
        }
        "npm" => arguments.first() == Some(&"run"),
        // As a program, behind such a `time`, it changes nothing.
        "make" | "cd" => true,
        "echo" | "printf" | "true" | "false" | "pwd" | "test" | "ls" | "cat" | "head" | "tail" | "grep" | "wc"
        | "tr" | "cut" | "diff" | "basename" | "dirname" | "stat" | "du" | "seq" | "expr" | "id" | "whoami"
        | "uname" | "which" | "realpath" | "readlink" | "comm" | "cmp" | "nl" | "tac" | "rev" | "paste" => true,
        "date" => !has(&["-s", "--set"]) && arguments.iter().all(|word| word.starts_with(['+', '-'])),
        "sort" => !has(&["-o", "--o", "--compress"]),
        "uniq" => arguments.iter().filter(|word| !word.starts_with('-')).count() <= 1,
        "find" => !has(&["-exec", "-ok", "-delete", "-fprint", "-fls"]),
        "rg" => !has(&["--pre", "--hostname-bin", "-z"]),
        "sed" => arguments.first() == Some(&"-n") && arguments.get(1).is_some_and(|script| *script == "1p"),
        "git" => {
            matches!(arguments.first(), Some(&("status" | "log" | "diff")))
                || matches!(arguments, ["branch"] | ["branch", "--"])
        }
        _ => false,
    }
}

/// Whether a reader is given a path that leads out of the working folder.
fn reads_outside(words: &[String], work: &Path) -> bool {
    const READERS: &[&str] = &[
        "cat", "cmp", "comm", "cut", "diff", "du", "find", "grep", "head", "ls", "nl", "paste", "rev", "rg", "sed",
        "sort", "stat", "tac", "tail", "uniq", "wc",
    ];
    let Some((name, arguments)) = words.split_first() else { return false };
    let is_reader = READERS.contains(&name.as_str());
    // What they look for is no file.
    let patterns = usize::from(matches!(name.as_str(), "grep" | "rg"));
    let operands = arguments.iter().filter(|word| !word.starts_with('-')).skip(patterns);
    let leads_out = |path: &Path| path.is_absolute() && !path.starts_with(work) && !path.starts_with("/dev");
    is_reader && operands.map(Path::new).any(|path| leads_out(path) || path.starts_with(".."))
}

/// Whether a call is what some command of the analysis says: static words as they are, any words for the others.
fn is_predicted(call: &[String], commands: &[Vec<Word>]) -> bool {
    const WRAPPERS: &[&str] = &["timeout", "nice", "nohup", "xargs", "stdbuf", "command", "builtin", "time"];
    commands.iter().any(|words| {
        let wrapped = words.iter().any(|word| word.value() == Some("xargs"));
        let wraps = words.first().and_then(Word::value).is_some_and(|name| WRAPPERS.contains(&name));
        let starts = if wraps { words.len() } else { 1 };
        (0..starts).any(|start| fits(&words[start..], call, wrapped))
    })
}

fn fits(words: &[Word], call: &[String], open_end: bool) -> bool {
    match (words.split_first(), call.split_first()) {
        (None, None) => true,
        (None, Some(_)) => open_end,
        (Some((word, rest)), first) => match word.value() {
            Some(text) => first.is_some_and(|(value, others)| value == text && fits(rest, others, open_end)),
            None if word.may_split() => (0..=call.len()).any(|taken| fits(rest, &call[taken..], open_end)),
            None => first.is_some_and(|(_, others)| fits(rest, others, open_end)),
        },
    }
}

#[test]
fn whatever_is_allowed_runs_only_what_was_foreseen() {
    compare_with_bash(
        "default-mode",
        PermissionMode::Default,
        &["Bash(curl:*)"],
        &["Bash(npm run:*)", "Bash(make:*)", "Edit(/out/**)"],
        |text, outcome, jail| {
            let (work, roots) = (jail.work_folder(), [jail.work_folder()]);
            let commands =
                analyse(text, &ShellFacts { cwd: &work, roots: &roots, home: None, environment: None }).commands;
            let unforeseen =
                outcome.started.iter().find(|call| !is_covered_by_rules(call) || !is_predicted(call, &commands));
            let unforeseen = unforeseen.or_else(|| outcome.started.iter().find(|call| reads_outside(call, &work)));
            let written = outcome.written.iter().find(|path| !path.starts_with("work/out/"));
            match (outcome.syntax_error, unforeseen, written) {
                (true, ..) => Some("bash does not take it".to_owned()),
                (_, Some(call), _) => Some(format!("started {call:?}")),
                (.., Some(path)) => Some(format!("wrote {path}")),
                _ => None,
            }
        },
    );
}

#[test]
fn a_denied_program_never_starts_even_where_everything_else_may() {
    compare_with_bash("bypass-mode", PermissionMode::BypassPermissions, &["Bash(curl:*)"], &[], |_, outcome, _| {
        let denied = |call: &&Vec<String>| call.first().is_some_and(|name| name == "curl");
        outcome.started.iter().find(denied).map(|call| format!("started {call:?}"))
    });
}

/// What the two above rest on: nothing of a run goes on after it, and what it did is known.
#[test]
fn an_endless_run_is_killed_and_its_effects_are_reported() {
    let jail =
        BashJail::new(std::env::temp_dir().join(format!("gimlet-oracle-{}-endless", std::process::id()))).unwrap();
    for text in [
        "until curl; false; do :; done 2>/dev/null & true",
        "set -m; { curl; while :; do :; done; } & true",
        "curl; trap '' TERM HUP INT; while :; do :; done",
    ] {
        let outcome = jail.run(text).unwrap();
        assert!(!outcome.ended, "{text}");
        assert!(outcome.started.iter().any(|call| call == &["curl"]), "{text}: {outcome:?}");
        let left = std::fs::read_dir("/proc").unwrap().filter(|entry| {
            let folder = entry.as_ref().unwrap().path();
            std::fs::read_link(folder.join("cwd")).is_ok_and(|cwd| cwd.starts_with(jail.work_folder()))
        });
        assert_eq!(left.count(), 0, "{text}");
    }
    assert!(jail.run("ls & wait").unwrap().ended);
}
