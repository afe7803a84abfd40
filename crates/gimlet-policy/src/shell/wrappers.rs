//! Unwrapping of programs that run another command (`sudo`, `env`, `timeout`, `xargs` …), for deny rules and for facts
//! about a command. Findings of this module must never allow anything.

use std::ops::Range;

use super::scan::assigned_name;
use super::shell_programs::is_shell;
use super::word::Word;

/// Maximum number of nested commands that are unwrapped; the rest is kept as it is.
const MOST_LAYERS: usize = 8;

struct WrapperProgram {
    name: &'static str,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Words that come before the command.
    operands: usize,
}

const fn new_wrapper(name: &'static str, valued: &'static [&'static str], operands: usize) -> WrapperProgram {
    WrapperProgram { name, valued, operands }
}

const WRAPPERS: &[WrapperProgram] = &[
    new_wrapper("time", &["-f", "-o", "--format", "--output"], 0),
    new_wrapper("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    new_wrapper("nice", &["-n", "--adjustment"], 0),
    new_wrapper("nohup", &[], 0),
    new_wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    new_wrapper("command", &[], 0),
    new_wrapper("builtin", &[], 0),
    new_wrapper("exec", &["-a"], 0),
    new_wrapper("coproc", &[], 0),
    new_wrapper(
        "xargs",
        &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-chars",
            "--max-procs",
            "--process-slot-var",
        ],
        0,
    ),
    new_wrapper(
        "sudo",
        &[
            "-u",
            "-g",
            "-h",
            "-p",
            "-C",
            "-r",
            "-t",
            "-T",
            "-U",
            "-D",
            "-R",
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chdir",
            "--chroot",
            "--role",
            "--type",
            "--close-from",
            "--command-timeout",
            "--other-user",
        ],
        0,
    ),
    new_wrapper("doas", &["-u", "-C"], 0),
    new_wrapper("env", &["-u", "-C", "-S", "--unset", "--chdir", "--split-string"], 0),
    new_wrapper("setsid", &[], 0),
    new_wrapper("ionice", &["-c", "-n", "-p", "-P", "-u", "--class", "--classdata"], 0),
    new_wrapper("watch", &["-n", "-q", "--interval", "--equexit"], 0),
    new_wrapper("flock", &["-w", "-E", "--timeout", "--wait", "--conflict-exit-code"], 1),
    new_wrapper("strace", &["-o", "-e", "-p", "-s", "-u", "-E", "-P", "-S", "-a", "-b", "-I", "-O", "-X"], 0),
    new_wrapper("ltrace", &["-o", "-e", "-p", "-s", "-u", "-l", "-n", "-a", "-F"], 0),
    new_wrapper("chrt", &["-p", "-T", "-P", "-D"], 1),
    new_wrapper("taskset", &["-p"], 1),
    new_wrapper("unbuffer", &[], 0),
    new_wrapper("busybox", &[], 0),
    new_wrapper("noglob", &[], 0),
    new_wrapper("nocorrect", &[], 0),
    new_wrapper("caffeinate", &["-t", "-w"], 0),
    new_wrapper("chroot", &["--groups", "--userspec"], 1),
    new_wrapper(
        "setpriv",
        &[
            "--ambient-caps",
            "--apparmor-profile",
            "--bounding-set",
            "--egid",
            "--euid",
            "--groups",
            "--inh-caps",
            "--pdeathsig",
            "--regid",
            "--reuid",
            "--rgid",
            "--ruid",
            "--securebits",
            "--selinux-label",
        ],
        0,
    ),
    new_wrapper(
        "unshare",
        &[
            "-G",
            "-R",
            "-S",
            "-w",
            "--boottime",
            "--map-group",
            "--map-groups",
            "--map-user",
            "--map-users",
            "--monotonic",
            "--propagation",
            "--root",
            "--setgid",
            "--setgroups",
            "--setuid",
            "--wd",
        ],
        0,
    ),
    new_wrapper("nsenter", &["-G", "-S", "-t", "--setgid", "--setuid", "--target"], 0),
    new_wrapper("runuser", &["-G", "-g", "-s", "-u", "-w", "--group", "--shell", "--supp-group", "--user"], 0),
    new_wrapper("systemd-run", &["-E", "-M", "-p", "-u", "--gid", "--property", "--slice", "--uid", "--unit"], 0),
    new_wrapper("prlimit", &["-p", "--pid"], 0),
    new_wrapper("numactl", &["-C", "-N", "-m"], 0),
    new_wrapper("parallel", &["-I", "-N", "-j", "-n", "--jobs"], 0),
    new_wrapper("fakeroot", &["-b", "-i", "-l", "-s"], 0),
    new_wrapper("eatmydata", &[], 0),
    new_wrapper("entr", &[], 0),
    new_wrapper("toybox", &[], 0),
    new_wrapper("valgrind", &[], 0),
    new_wrapper("choom", &["-n", "-p", "--adjust", "--pid"], 0),
    new_wrapper("setarch", &[], 0),
    new_wrapper("linux32", &[], 0),
    new_wrapper("linux64", &[], 0),
    new_wrapper("i386", &[], 0),
    new_wrapper("i686", &[], 0),
    new_wrapper("x86_64", &[], 0),
    new_wrapper("uname26", &[], 0),
    new_wrapper("pkexec", &["--user"], 0),
    new_wrapper("gosu", &[], 1),
    new_wrapper("catchsegv", &[], 0),
];

/// The dynamic loader, under any name, is a wrapper as well.
const LOADER: WrapperProgram = new_wrapper(
    "ld.so",
    &[
        "--argv0",
        "--audit",
        "--glibc-hwcaps-mask",
        "--glibc-hwcaps-prepend",
        "--inhibit-rpath",
        "--library-path",
        "--preload",
    ],
    0,
);

fn find_wrapper(name: &str) -> Option<&'static WrapperProgram> {
    let loader =
        name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld64.so") || name == "ld.so";
    if loader { Some(&LOADER) } else { WRAPPERS.iter().find(|wrapper| wrapper.name == name) }
}

/// Returns true if the tables of this module find the command that a program starts.
pub(crate) fn is_known_wrapper(name: &str) -> bool {
    find_wrapper(name).is_some() || is_shell(name) || matches!(name, "eval" | "source" | "." | "trap" | "su")
}

/// Returns the last segment of a path-qualified command word.
pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns the command itself and every command it would run in turn. If an option's arity is unknown, both readings
/// count.
pub(crate) fn reachable_commands(words: &[Word]) -> Vec<&[Word]> {
    reachable_ranges(words).into_iter().map(|range| &words[range]).collect()
}

/// Returns the ranges in a command of the commands that [`reachable_commands`] finds, the command itself first.
pub(super) fn reachable_ranges(words: &[Word]) -> Vec<Range<usize>> {
    let whole = 0..words.len();
    let mut found = Vec::from([whole]);
    let mut at = 0;
    while at < found.len() && at < MOST_LAYERS {
        let outer = found[at].clone();
        for inner in inner_ranges(&words[outer.clone()]) {
            let inner = outer.start + inner.start..outer.start + inner.end;
            if !inner.is_empty() && !found.contains(&inner) {
                found.push(inner);
            }
        }
        at += 1;
    }
    found
}

/// Returns true if reachable commands run further ones that were not searched because the limit was reached.
pub(super) fn has_unreached_commands(words: &[Word], reach: &[Range<usize>]) -> bool {
    let unexplored = reach.get(MOST_LAYERS..).unwrap_or_default();
    unexplored.iter().any(|range| !inner_ranges(&words[range.clone()]).is_empty())
}

/// Returns the ranges of the commands inside a command.
fn inner_ranges(words: &[Word]) -> Vec<Range<usize>> {
    let Some(name) = words.first().and_then(Word::value).map(base_name) else { return Vec::new() };
    if name == "find" {
        return find_actions(words);
    }
    wrapped_command_starts(name, words).into_iter().map(|start| start..words.len()).collect()
}

/// Returns the own words of a program that runs another one, without its name; `None` if they cannot be distinguished.
pub(crate) fn own_words(words: &[Word]) -> Option<&[Word]> {
    let name = base_name(words.first()?.value()?);
    // A word that may be an option's value or the command counts as both.
    let end = wrapped_command_starts(name, words).into_iter().max()?;
    words.get(1..end)
}

/// Returns the indices at which the command that a program runs may begin.
pub(super) fn inner_command_starts(words: &[Word]) -> Vec<usize> {
    let name = words.first().and_then(Word::value).map(base_name);
    name.map_or(Vec::new(), |name| wrapped_command_starts(name, words))
}

/// Returns true if `find` runs the words after this one.
pub(crate) fn is_find_exec(word: &Word) -> bool {
    matches!(word.value(), Some("-exec" | "-execdir" | "-ok" | "-okdir"))
}

/// Maximum number of actions of one `find` that are each read to their end, across further ones that they may have as
/// words.
const MOST_ACTIONS: usize = 16;

/// Returns the commands that `find` runs for each file, up to the `;` or `+` that ends them. Of very many each ends
/// where the next one begins: this does not occur in practice, and would repeat the whole text for every one of them.
pub(crate) fn find_actions(words: &[Word]) -> Vec<Range<usize>> {
    let starts: Vec<usize> = (1..=words.len()).filter(|at| is_find_exec(&words[at - 1])).collect();
    let many = starts.len() > MOST_ACTIONS;
    let ends = |word: &Word| matches!(word.value(), Some(";" | "+")) || (many && is_find_exec(word));
    let end = |start: usize| words[start..].iter().position(ends).map_or(words.len(), |length| start + length);
    starts.into_iter().map(|start| start..end(start)).collect()
}

/// Words of wrappers that never take the next word, despite their form.
const ALONE: &[(&str, &[&str])] = &[
    ("env", &["-"]),
    ("parallel", &["-k", "--bar", "--keep-order"]),
    ("time", &["!"]),
    (
        "xargs",
        &[
            "-0",
            "-p",
            "-r",
            "-t",
            "-x",
            "--exit",
            "--interactive",
            "--max-lines",
            "--no-run-if-empty",
            "--null",
            "--replace",
            "--verbose",
        ],
    ),
];

/// Returns true if a word of a wrapper is complete by itself: one of `ALONE`, or an option with its value in it.
fn takes_no_value(wrapper: &WrapperProgram, text: &str) -> bool {
    let listed = ALONE.iter().any(|(name, words)| *name == wrapper.name && words.contains(&text));
    let valued = |option: &&str| !option.starts_with("--") && text.len() > option.len() && text.starts_with(*option);
    let long = text.starts_with("--") && text.contains('=');
    listed || long || (!text.starts_with("--") && wrapper.valued.iter().any(valued))
}

/// Maximum number of starts of a wrapped command that are checked regardless of the word there.
const MOST_STARTS: usize = 16;

/// Returns the indices at which the wrapped command of a wrapper may begin.
pub(super) fn wrapped_command_starts(name: &str, words: &[Word]) -> Vec<usize> {
    let Some(wrapper) = find_wrapper(name) else { return Vec::new() };
    let mut starts = Vec::new();
    let mut at = 1;
    let mut operands = wrapper.operands;
    while let Some(word) = words.get(at) {
        let text = word.value().unwrap_or("");
        if text == "--" || takes_no_value(wrapper, text) {
            at += 1;
        } else if text.starts_with('-') && text.len() > 1 {
            if wrapper.valued.contains(&text) {
                at += 2;
            } else {
                // An unknown option may or may not take the next word.
                starts.push(at + 2);
                at += 1;
            }
        } else if assigned_name(text).is_some() {
            at += 1;
        } else if operands > 0 {
            operands -= 1;
            at += 1;
        } else {
            break;
        }
    }
    starts.push(at);
    // `coproc NAME command`, `setarch ARCH command`: the word in front is optional.
    if matches!(name, "coproc" | "setarch") {
        starts.push(at + 1);
    }
    // No program has a name like an option; a few such starts are still checked, but not one for every option.
    let is_option = |start: usize| words[start].value().is_some_and(|text| text.starts_with('-'));
    let mut seen = 0;
    starts.retain(|start| {
        seen += 1;
        *start < words.len() && (seen <= MOST_STARTS || !is_option(*start))
    });
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reachable_names(text: &str) -> Vec<String> {
        let words: Vec<Word> = text.split(' ').map(Word::from_literal).collect();
        reachable_commands(&words).iter().map(|inner| inner[0].value().unwrap_or("?").to_owned()).collect()
    }

    #[test]
    fn stacked_wrappers_are_seen_through() {
        for text in [
            "sudo rm x",
            "sudo -n env A=1 timeout 5 rm x",
            "/usr/bin/sudo -u root -- rm x",
            "xargs -n1 rm -f",
            "xargs -n 1 rm -f",
            "nice -n 19 rm x",
            "timeout -k 5 60s rm x",
            "stdbuf -oL rm x",
            "env -i rm x",
            "env - rm x",
            "env - A=1 rm x",
            "xargs --replace rm x",
            "xargs --max-lines rm",
            "time ! rm x",
            "time -p ! time rm x",
            "coproc JOB rm x",
            "flock /tmp/lock rm x",
            "find . -name a -exec rm {} ;",
            "find . -execdir sudo rm {} +",
            "find . -ok true ; -okdir rm {} ;",
            "chroot / rm x",
            "setpriv --reuid 1000 --clear-groups rm x",
            "unshare -r rm x",
            "nsenter -t 1 -m rm x",
            "runuser -u root -- rm x",
        ] {
            assert!(reachable_names(text).contains(&"rm".to_owned()), "{text}: {:?}", reachable_names(text));
        }
    }

    #[test]
    fn arguments_of_the_wrapped_command_are_not_commands() {
        assert!(!reachable_names("sudo echo rm x").contains(&"rm".to_owned()));
        assert!(!reachable_names("timeout 5 grep rm x").contains(&"rm".to_owned()));
        for text in ["xargs -n1 echo rm", "xargs --max-args=1 echo rm", "xargs -0 -r -I{} echo rm", "sudo -uroot ls rm"]
        {
            assert!(!reachable_names(text).contains(&"rm".to_owned()), "{text}: {:?}", reachable_names(text));
        }
    }
}
