//! The flags by which commands of the read-only table write, run a program, or take names from a file, each in every
//! spelling that the command takes: none of them is let through. The lists are kept by hand, from the commands' manuals.

use gimlet_policy::Decision::Allow;

use crate::fixtures::{decide_by_default, rules};

/// What a flag does that a reader must not.
#[derive(Clone, Copy, Debug)]
enum FlagEffect {
    Writes,
    Runs,
    /// Takes the names of what it reads from a file, or code.
    ReadsInstructions,
}

use FlagEffect::{ReadsInstructions, Runs, Writes};

/// A flag, with a value where it takes one.
struct ReaderFlag {
    text: &'static str,
    value: Option<&'static str>,
    does: FlagEffect,
}

const fn plain_flag(text: &'static str, does: FlagEffect) -> ReaderFlag {
    ReaderFlag { text, value: None, does }
}

const fn valued_flag(text: &'static str, value: &'static str, does: FlagEffect) -> ReaderFlag {
    ReaderFlag { text, value: Some(value), does }
}

struct ReaderCommand {
    /// How it begins, and what it works on: together a call that only reads.
    start: &'static str,
    operands: &'static str,
    /// Short flags of its own that change nothing about that, for clusters.
    harmless: &'static str,
    flags: &'static [ReaderFlag],
}

const DIFF_FLAGS: &[ReaderFlag] = &[
    valued_flag("--output", "x", Writes),
    plain_flag("--ext-diff", Runs),
    plain_flag("--textconv", Runs),
    valued_flag("-O", "x", ReadsInstructions),
    plain_flag("--no-index", ReadsInstructions),
];
const LOG_FLAGS: &[ReaderFlag] = &[
    valued_flag("--output", "x", Writes),
    plain_flag("--ext-diff", Runs),
    plain_flag("--textconv", Runs),
    plain_flag("--show-signature", Runs),
    valued_flag("-O", "x", ReadsInstructions),
    valued_flag("--format", "%G?", Runs),
    valued_flag("--pretty", "format:%GS", Runs),
    valued_flag("--format", "%h%+GK", Runs),
    plain_flag("--stdin", ReadsInstructions),
];

const COMMANDS: &[ReaderCommand] = &[
    ReaderCommand {
        start: "sort",
        operands: "a.txt",
        harmless: "nru",
        flags: &[
            valued_flag("-o", "x", Writes),
            valued_flag("--output", "x", Writes),
            valued_flag("-T", "x", Writes),
            valued_flag("--temporary-directory", "x", Writes),
            valued_flag("--compress-program", "x", Runs),
            valued_flag("--files0-from", "x", ReadsInstructions),
        ],
    },
    ReaderCommand {
        start: "find",
        operands: ".",
        harmless: "",
        flags: &[
            plain_flag("-delete", Writes),
            valued_flag("-fprint", "x", Writes),
            valued_flag("-fprint0", "x", Writes),
            valued_flag("-fprintf", "x %p", Writes),
            valued_flag("-fls", "x", Writes),
            valued_flag("-exec", "x {} \\;", Runs),
            valued_flag("-exec", "x {} +", Runs),
            valued_flag("-execdir", "x {} \\;", Runs),
            valued_flag("-ok", "x {} \\;", Runs),
            valued_flag("-okdir", "x {} \\;", Runs),
            valued_flag("-files0-from", "x", ReadsInstructions),
        ],
    },
    ReaderCommand {
        start: "rg",
        operands: "x src",
        harmless: "nil",
        flags: &[
            valued_flag("--pre", "x", Runs),
            valued_flag("--hostname-bin", "x", Runs),
            plain_flag("-z", Runs),
            plain_flag("--search-zip", Runs),
        ],
    },
    ReaderCommand {
        start: "sed -n 1p",
        operands: "a.txt",
        harmless: "",
        flags: &[
            plain_flag("-i", Writes),
            valued_flag("-i", ".bak", Writes),
            plain_flag("--in-place", Writes),
            valued_flag("--in-place", ".bak", Writes),
            valued_flag("-e", "'w x'", Writes),
            valued_flag("-e", "'1e x'", Runs),
            valued_flag("--expression", "'s/a/b/w x'", Writes),
            valued_flag("-f", "x", ReadsInstructions),
            valued_flag("--file", "x", ReadsInstructions),
        ],
    },
    ReaderCommand { start: "git diff", operands: "HEAD", harmless: "wb", flags: DIFF_FLAGS },
    ReaderCommand { start: "git log", operands: "HEAD", harmless: "p", flags: LOG_FLAGS },
    ReaderCommand { start: "git show", operands: "HEAD", harmless: "p", flags: LOG_FLAGS },
    ReaderCommand { start: "git shortlog", operands: "HEAD", harmless: "sne", flags: LOG_FLAGS },
    ReaderCommand {
        start: "git blame",
        operands: "a.txt",
        harmless: "wt",
        flags: &[
            valued_flag("--contents", "x", ReadsInstructions),
            valued_flag("-S", "x", ReadsInstructions),
            valued_flag("--ignore-revs-file", "x", ReadsInstructions),
        ],
    },
    ReaderCommand {
        start: "git status",
        operands: "src",
        harmless: "sb",
        flags: &[valued_flag("--pathspec-from-file", "x", ReadsInstructions)],
    },
    ReaderCommand {
        start: "git ls-files",
        operands: "src",
        harmless: "mo",
        flags: &[
            valued_flag("-X", "x", ReadsInstructions),
            valued_flag("--exclude-from", "x", ReadsInstructions),
            valued_flag("--exclude-per-directory", "x", ReadsInstructions),
        ],
    },
    ReaderCommand {
        start: "git rev-parse",
        operands: "HEAD",
        harmless: "q",
        flags: &[
            plain_flag("--parseopt", ReadsInstructions),
            plain_flag("--sq-quote", ReadsInstructions),
            valued_flag("--resolve-git-dir", "x", ReadsInstructions),
        ],
    },
    ReaderCommand {
        start: "git branch",
        operands: "",
        harmless: "av",
        flags: &[
            valued_flag("-d", "x", Writes),
            valued_flag("-D", "x", Writes),
            valued_flag("--delete", "x", Writes),
            valued_flag("-m", "x", Writes),
            valued_flag("-M", "x", Writes),
            valued_flag("--move", "x", Writes),
            valued_flag("-c", "x", Writes),
            valued_flag("-C", "x", Writes),
            valued_flag("--copy", "x", Writes),
            valued_flag("-f", "x", Writes),
            valued_flag("--force", "x", Writes),
            valued_flag("-u", "x", Writes),
            valued_flag("--set-upstream-to", "x", Writes),
            plain_flag("--unset-upstream", Writes),
            valued_flag("--format", "%(signature)", Runs),
            valued_flag("--sort", "signature:grade", Runs),
            valued_flag("-t", "x", Writes),
            valued_flag("--track", "x", Writes),
            valued_flag("--create-reflog", "x", Writes),
            plain_flag("--edit-description", Runs),
        ],
    },
    ReaderCommand {
        start: "date",
        operands: "",
        harmless: "u",
        flags: &[valued_flag("-s", "x", Writes), valued_flag("--set", "x", Writes), plain_flag("010112002026", Writes)],
    },
    ReaderCommand {
        start: "diff",
        operands: "a.txt b.txt",
        harmless: "uw",
        flags: &[plain_flag("-l", Runs), plain_flag("--paginate", Runs)],
    },
    ReaderCommand {
        start: "uniq",
        operands: "a.txt",
        harmless: "cd",
        flags: &[plain_flag("x", Writes), plain_flag("-- x", Writes)],
    },
    ReaderCommand {
        start: "wc",
        operands: "a.txt",
        harmless: "lw",
        flags: &[valued_flag("--files0-from", "x", ReadsInstructions)],
    },
    ReaderCommand {
        start: "du",
        operands: "src",
        harmless: "sh",
        flags: &[valued_flag("--files0-from", "x", ReadsInstructions)],
    },
    ReaderCommand { start: "printf", operands: "x", harmless: "", flags: &[] },
    ReaderCommand { start: "grep", operands: "x a.txt", harmless: "in", flags: &[] },
    ReaderCommand { start: "tail", operands: "a.txt", harmless: "qv", flags: &[] },
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
fn spellings(command: &ReaderCommand, flag: &ReaderFlag) -> Vec<String> {
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
fn is_other_flag(start: &str, spelling: &str) -> bool {
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
        assert_eq!(decide_by_default(&format!("{start} {operands}"), &none), Allow, "{start} {operands} reads");
        for flag in command.flags {
            for spelling in spellings(command, flag).iter().filter(|spelling| !is_other_flag(start, spelling)) {
                let harmless = command.harmless.get(..1).map(|letter| format!("-{letter} ")).unwrap_or_default();
                for text in [
                    format!("{start} {spelling} {operands}"),
                    format!("{start} {operands} {spelling}"),
                    format!("{start} {harmless}{spelling} {operands}"),
                    format!("timeout 5 {start} {spelling} {operands}"),
                ] {
                    assert_ne!(decide_by_default(&text, &none), Allow, "{text} {:?}", flag.does);
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
            assert_ne!(decide_by_default(&text, &none), Allow, "{text}");
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
        assert_ne!(decide_by_default(text, &none), Allow, "{text}");
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
        assert_eq!(decide_by_default(text, &none), Allow, "{text}");
    }
}
