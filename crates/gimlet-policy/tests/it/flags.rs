//! The flags by which commands of the read-only table write, run a program, or take names from a file, each in every
//! spelling that the command takes: none of them is let through. The lists are kept by hand, from the commands' manuals.

use gimlet_policy::Decision::Allow;

use crate::worlds::{judge, rules};

/// What a flag does that a reader must not.
#[derive(Clone, Copy, Debug)]
enum Does {
    Writes,
    Runs,
    /// Takes the names of what it reads from a file, or code.
    Obeys,
}

use Does::{Obeys, Runs, Writes};

/// A flag, with a value where it takes one.
struct Flag {
    text: &'static str,
    value: Option<&'static str>,
    does: Does,
}

const fn flag(text: &'static str, does: Does) -> Flag {
    Flag { text, value: None, does }
}

const fn valued(text: &'static str, value: &'static str, does: Does) -> Flag {
    Flag { text, value: Some(value), does }
}

struct Command {
    /// How it begins, and what it works on: together a call that only reads.
    start: &'static str,
    operands: &'static str,
    /// Short flags of its own that change nothing about that, for clusters.
    harmless: &'static str,
    flags: &'static [Flag],
}

const DIFF_FLAGS: &[Flag] = &[
    valued("--output", "x", Writes),
    flag("--ext-diff", Runs),
    flag("--textconv", Runs),
    valued("-O", "x", Obeys),
    flag("--no-index", Obeys),
];
const LOG_FLAGS: &[Flag] = &[
    valued("--output", "x", Writes),
    flag("--ext-diff", Runs),
    flag("--textconv", Runs),
    flag("--show-signature", Runs),
    valued("-O", "x", Obeys),
    valued("--format", "%G?", Runs),
    valued("--pretty", "format:%GS", Runs),
    valued("--format", "%h%+GK", Runs),
    flag("--stdin", Obeys),
];

const COMMANDS: &[Command] = &[
    Command {
        start: "sort",
        operands: "a.txt",
        harmless: "nru",
        flags: &[
            valued("-o", "x", Writes),
            valued("--output", "x", Writes),
            valued("-T", "x", Writes),
            valued("--temporary-directory", "x", Writes),
            valued("--compress-program", "x", Runs),
            valued("--files0-from", "x", Obeys),
        ],
    },
    Command {
        start: "find",
        operands: ".",
        harmless: "",
        flags: &[
            flag("-delete", Writes),
            valued("-fprint", "x", Writes),
            valued("-fprint0", "x", Writes),
            valued("-fprintf", "x %p", Writes),
            valued("-fls", "x", Writes),
            valued("-exec", "x {} \\;", Runs),
            valued("-exec", "x {} +", Runs),
            valued("-execdir", "x {} \\;", Runs),
            valued("-ok", "x {} \\;", Runs),
            valued("-okdir", "x {} \\;", Runs),
            valued("-files0-from", "x", Obeys),
        ],
    },
    Command {
        start: "rg",
        operands: "x src",
        harmless: "nil",
        flags: &[
            valued("--pre", "x", Runs),
            valued("--hostname-bin", "x", Runs),
            flag("-z", Runs),
            flag("--search-zip", Runs),
        ],
    },
    Command {
        start: "sed -n 1p",
        operands: "a.txt",
        harmless: "",
        flags: &[
            flag("-i", Writes),
            valued("-i", ".bak", Writes),
            flag("--in-place", Writes),
            valued("--in-place", ".bak", Writes),
            valued("-e", "'w x'", Writes),
            valued("-e", "'1e x'", Runs),
            valued("--expression", "'s/a/b/w x'", Writes),
            valued("-f", "x", Obeys),
            valued("--file", "x", Obeys),
        ],
    },
    Command { start: "git diff", operands: "HEAD", harmless: "wb", flags: DIFF_FLAGS },
    Command { start: "git log", operands: "HEAD", harmless: "p", flags: LOG_FLAGS },
    Command { start: "git show", operands: "HEAD", harmless: "p", flags: LOG_FLAGS },
    Command { start: "git shortlog", operands: "HEAD", harmless: "sne", flags: LOG_FLAGS },
    Command {
        start: "git blame",
        operands: "a.txt",
        harmless: "wt",
        flags: &[valued("--contents", "x", Obeys), valued("-S", "x", Obeys), valued("--ignore-revs-file", "x", Obeys)],
    },
    Command {
        start: "git status",
        operands: "src",
        harmless: "sb",
        flags: &[valued("--pathspec-from-file", "x", Obeys)],
    },
    Command {
        start: "git ls-files",
        operands: "src",
        harmless: "mo",
        flags: &[
            valued("-X", "x", Obeys),
            valued("--exclude-from", "x", Obeys),
            valued("--exclude-per-directory", "x", Obeys),
        ],
    },
    Command {
        start: "git rev-parse",
        operands: "HEAD",
        harmless: "q",
        flags: &[flag("--parseopt", Obeys), flag("--sq-quote", Obeys), valued("--resolve-git-dir", "x", Obeys)],
    },
    Command {
        start: "git branch",
        operands: "",
        harmless: "av",
        flags: &[
            valued("-d", "x", Writes),
            valued("-D", "x", Writes),
            valued("--delete", "x", Writes),
            valued("-m", "x", Writes),
            valued("-M", "x", Writes),
            valued("--move", "x", Writes),
            valued("-c", "x", Writes),
            valued("-C", "x", Writes),
            valued("--copy", "x", Writes),
            valued("-f", "x", Writes),
            valued("--force", "x", Writes),
            valued("-u", "x", Writes),
            valued("--set-upstream-to", "x", Writes),
            flag("--unset-upstream", Writes),
            valued("--format", "%(signature)", Runs),
            valued("--sort", "signature:grade", Runs),
            valued("-t", "x", Writes),
            valued("--track", "x", Writes),
            valued("--create-reflog", "x", Writes),
            flag("--edit-description", Runs),
        ],
    },
    Command {
        start: "date",
        operands: "",
        harmless: "u",
        flags: &[valued("-s", "x", Writes), valued("--set", "x", Writes), flag("010112002026", Writes)],
    },
    Command {
        start: "diff",
        operands: "a.txt b.txt",
        harmless: "uw",
        flags: &[flag("-l", Runs), flag("--paginate", Runs)],
    },
    Command { start: "uniq", operands: "a.txt", harmless: "cd", flags: &[flag("x", Writes), flag("-- x", Writes)] },
    Command { start: "wc", operands: "a.txt", harmless: "lw", flags: &[valued("--files0-from", "x", Obeys)] },
    Command { start: "du", operands: "src", harmless: "sh", flags: &[valued("--files0-from", "x", Obeys)] },
    Command { start: "printf", operands: "x", harmless: "", flags: &[] },
    Command { start: "grep", operands: "x a.txt", harmless: "in", flags: &[] },
    Command { start: "tail", operands: "a.txt", harmless: "qv", flags: &[] },
];

/// Options of git's own, which stand before its command.
const BEFORE_GIT: &[&str] = &[
    "-c core.pager=x",
    "-ccore.pager=x",
    "--config-env=core.pager=X",
    "--exec-path=x",
    "-C x",
    "--git-dir=x",
    "--git-dir x",
    "--work-tree=x",
    "--namespace=x",
    "-p",
    "--paginate",
];

/// Every spelling of a flag: long ones shortened and with their value in both places, short ones in clusters.
fn spellings(command: &Command, flag: &Flag) -> Vec<String> {
    let is_long = flag.text.starts_with("--") && !flag.text.contains(' ');
    let mut names = vec![flag.text.to_owned()];
    if is_long {
        names.extend((4..flag.text.len()).map(|length| flag.text[..length].to_owned()));
    } else if flag.text.len() == 2 && flag.text.starts_with('-') {
        let letter = &flag.text[1..];
        names.extend(command.harmless.chars().map(|before| format!("-{before}{letter}")));
        names.extend((!command.harmless.is_empty()).then(|| format!("-{}{letter}", command.harmless)));
    }
    let with_value = |name: String| match flag.value {
        None => vec![name],
        Some(value) if is_long => vec![format!("{name}={value}"), format!("{name} {value}")],
        Some(value) if name.len() == 2 || !command.harmless.is_empty() => {
            vec![format!("{name}{value}"), format!("{name} {value}")]
        }
        Some(value) => vec![format!("{name} {value}")],
    };
    names.into_iter().flat_map(with_value).collect()
}

/// A shortened name that is another flag of the same command, which only reads, is not the one that is meant.
fn is_another(start: &str, spelling: &str) -> bool {
    const OTHERS: &[(&str, &[&str])] = &[
        ("git", &["--text", "--no", "--show", "--copy", "--format", "--pretty", "--track", "--not", "--exclude"]),
        ("git branch", &["--color", "--contains"]),
        ("git rev-parse", &["--sq"]),
    ];
    let name = spelling.split(['=', ' ']).next().unwrap_or(spelling);
    OTHERS.iter().any(|(program, others)| start.starts_with(program) && others.contains(&name))
}

#[test]
fn no_flag_that_writes_or_runs_is_let_through_in_any_spelling() {
    let none = rules(&[], &[], &[]);
    for command in COMMANDS {
        let (start, operands) = (command.start, command.operands);
        assert_eq!(judge(&format!("{start} {operands}"), &none), Allow, "{start} {operands} reads");
        for flag in command.flags {
            for spelling in spellings(command, flag).iter().filter(|spelling| !is_another(start, spelling)) {
                let harmless = command.harmless.get(..1).map(|letter| format!("-{letter} ")).unwrap_or_default();
                for text in [
                    format!("{start} {spelling} {operands}"),
                    format!("{start} {operands} {spelling}"),
                    format!("{start} {harmless}{spelling} {operands}"),
                    format!("timeout 5 {start} {spelling} {operands}"),
                ] {
                    assert_ne!(judge(&text, &none), Allow, "{text} {:?}", flag.does);
                }
            }
        }
    }
}

#[test]
fn no_option_in_front_of_a_command_of_git_is_let_through() {
    let none = rules(&[], &[], &[]);
    for option in BEFORE_GIT {
        for rest in ["status", "log -3", "diff", "branch"] {
            let text = format!("git {option} {rest}");
            assert_ne!(judge(&text, &none), Allow, "{text}");
        }
    }
}

#[test]
fn words_that_assign_or_evaluate_are_not_let_through() {
    let none = rules(&[], &[], &[]);
    for text in [
        "printf -v x y",
        "printf -vx y",
        "printf -- -v%n y",
        "printf '%n' x",
        "test -v x",
        "[ -v x ]",
        "[[ -v x ]]",
        "[[ a -eq b ]]",
        "[[ $n -gt 1 ]]",
        "[[ -o $x ]]",
        "[ -t 'a[$(curl x)]' ]",
        "[[ a =~ ^$(curl x)$ ]]",
        "[[ a =~ $(curl x) ]]",
        "xargs -I{} ls {}",
        "xargs -a a.txt ls",
        "time -o x ls",
        "cd -P /etc",
        "sed -n '1w x' a.txt",
        "sed -n '1p;w x' a.txt",
        "sed -n 1pw a.txt",
        "sed -n '1e x' a.txt",
        "sed 1p a.txt",
    ] {
        assert_ne!(judge(text, &none), Allow, "{text}");
    }
}

#[test]
fn conditions_that_only_look_are_let_through() {
    let none = rules(&[], &[], &[]);
    for text in [
        "[[ \"$x\" =~ ^[0-9]+$ ]]",
        "[[ $x =~ ^b.*$ ]]",
        "[ -t 1 ]",
        "[[ -t 0 ]]",
        "[[ $x =~ ^a ]]",
        "[[ a < b ]]",
        "[[ -o pipefail ]]",
        "[[ -n $x && $y != z ]]",
    ] {
        assert_eq!(judge(text, &none), Allow, "{text}");
    }
}
