//! Tests of removals of values that the text assigns to a variable, and of names that one program passes to another.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::super::tests::analyse_in_repo;
use super::super::{EnvironmentNames, ShellFacts, analyse};

/// Another program runs it in a directory where the name means something else.
#[test]
fn a_removal_that_an_option_sends_elsewhere_is_judged_there() {
    for text in ["env -C / rm -rf usr", "env --chdir=/ rm -rf usr", "sudo -D / rm -rf usr", "env -C/ rm -rf usr"] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text}");
    }
    for text in ["env -C sub rm -rf build", "make -C sub clean && rm -rf build", "x='ls -la'; $x /", "x='rm a'; $x"] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text}");
    }
}

/// An empty variable leaves the root.
#[test]
fn paths_after_an_empty_variable_are_resolved_upwards() {
    for text in [
        "rm -rf $D/../*",
        "rm -rf \"$D\"/../etc",
        "rm -rf $D/a/../*",
        "rm -rf $D/usr/*",
        "rm -rf $D/home/*/*",
        "rm -rf $D/*/../x",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text}");
    }
    for text in ["rm -rf $D/target/*", "rm -rf $D/a/../build", "rm -rf $D/usr/share/app"] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text}");
    }
}

#[test]
fn values_that_the_text_gives_are_followed() {
    for text in [
        "echo ${x%'}'}; R=/etc; rm -rf $R",
        "echo ${x:-'}'}; R=/; rm -rf \"$R\"",
        "p=${x#'}'}; R=/etc; rm -rf $R",
        "x=/; rm -rf $x",
        "x='rm -rf /'; $x",
        "x='rm -rf /'; eval $x",
        "x='ls; rm -rf /'; bash -c \"$x\"",
        "x='rm -rf'; $x /",
        "ls /; rm -rf $_",
        "x=/\nrm -rf \"$x\"",
        "x=~; rm -rf \"$x\"",
        "x=~/; rm -rf $x",
        "x=$HOME; rm -rf $x",
        "x=${HOME}; rm -rf $x",
        "x=\"${HOME}\"; rm -rf \"$x\"",
        "d=..; rm -rf \"$d\"",
        "d=. && rm -rf \"$d\"",
        "export d=/etc; rm -rf $d",
        "declare -r d=/etc; sudo rm -rf $d",
        "d=/usr; rm -rf ${d}",
        "d=/; rm -rf ${d}etc",
        "d=/; e=$d; rm -rf $e",
        "d='build /'; rm -rf $d",
        "d='-rf /'; rm $d",
        "d=*; rm -rf $d",
        "if true; then d=/; fi; rm -rf $d",
        "rm -rf $d; d=/",
        "bash -c 'd=/; rm -rf $d'",
        "d=/; for x in a b; do rm -rf $d; done",
        "d=build; d=/; rm -rf $d",
        "x=$(pwd); rm -rf $x",
        "x=`pwd`; rm -rf \"$x\"",
        "x=$(git rev-parse --show-toplevel); rm -rf $x",
        "x=$(realpath .); rm -rf $x",
        "x=$(echo /); rm -rf $x",
        "x=$(cat list); rm -rf $x",
        "x=$(pwd); y=$x; rm -rf $y",
        "x+=/; rm -rf $x",
        "x=; x+=/etc; rm -rf $x",
        "read x <<< /; rm -rf $x",
        "read -r x y <<< 'a /'; rm -rf $y",
        "read x <<< $HOME; rm -rf $x",
        "read x < list; rm -rf $x",
        "printf -v x /; rm -rf $x",
        "printf -v x %s /; rm -rf $x",
        "printf -vx %s ~; rm -rf $x",
        "r=rm; $r -rf /",
        "r=rm; ${r} -rf ~",
        "r='rm -rf'; $r /",
        "r=/bin/rm; sudo $r -r /",
        "r=rm; x=/; $r -rf $x",
        "$(which rm) -rf /",
        "`command -v rm` -fr ~",
        "\"$RM\" -rf /etc",
        "for x in $(ls -d /*); do rm -rf $x; done",
        "for x in $(pwd); do rm -rf \"$x\"; done",
        "for x in $(cat list); do rm -rf $x; done",
        "for x in /; do rm -rf $x; done",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "x=build; rm -rf $x",
        "x=/tmp/work; rm -rf \"$x\"",
        "x=$(mktemp -d); rm -rf \"$x\"",
        "x=`mktemp -d`; trap 'rm -rf \"$x\"' EXIT",
        "x=/; echo $x; rm -rf build",
        "x=$HOME/.cache/tool; rm -rf \"$x\"",
        "x=~/.cache/tool; rm -rf $x",
        "x=$PWD/target/debug; rm -rf \"$x\"",
        "x=$y/build; rm -rf \"$x\"",
        "x=\"a / b\"; rm -rf \"$x\"",
        "PREFIX=/usr x=build; rm -rf $x",
        "x=; rm -rf $x",
        "x=\"$1\"; rm -rf \"$x\"",
        "x=build; x+=/debug; rm -rf $x",
        "x=$(basename a/b); rm -rf \"$x\"",
        "n=$((i+1)); rm -rf $n",
        "r=rm; $r -rf build",
        "$GREP -r foo .",
        "$CMD -rf src",
        "printf -v x %s build; rm -rf $x",
        "read x <<< build; rm -rf $x",
        "x=$(pwd)/target; rm -rf $x",
        "x=/; ls $x",
        "x=$(cat list); rm $x",
        "read x; rm $x",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text:?}");
    }
}

#[test]
fn lists_and_values_of_last_resort_are_followed() {
    for text in [
        "d=(/); rm -rf $d",
        "d=(\n/\n); rm -rf $d",
        "d=(build /); rm -rf $d",
        "d=([3]=/); rm -rf $d",
        "d+=(/); rm -rf $d",
        "declare -a d=(/); rm -rf $d",
        "d[0]=/; rm -rf $d",
        "d[$i]=/; rm -rf $d",
        "d=(~); rm -rf $d",
        "d=(\"$HOME\"); rm -rf $d",
        "a=(/ /usr); for d in \"${a[@]}\"; do rm -rf \"$d\"; done",
        "mapfile -t d <<< /; rm -rf $d",
        "readarray -d , d <<< /; rm -rf $d",
        "d=${x:-/}; rm -rf $d",
        "d=${x-/etc}; rm -rf $d",
        "d=${x:=/}; rm -rf $d",
        "d=${x:+/}; rm -rf $d",
        "d=\"${x:-$HOME}\"; rm -rf \"$d\"",
        "d=${x:-~}; rm -rf $d",
        "d=${x:-${y:-/}}; rm -rf $d",
        "d=${x:-/}usr; rm -rf $d",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text}");
    }
    for text in [
        "d=(build dist); rm -rf $d",
        "a=(build dist); for d in \"${a[@]}\"; do rm -rf \"$d\"; done",
        "for d in \"${a[@]}\"; do rm -rf \"$d\"; done",
        "d[0]=build; rm -rf $d",
        "d=${x:-build}; rm -rf $d",
        "d=${TMPDIR:-/tmp}/mine; rm -rf \"$d\"",
        "for f in *.tgz; do d=${f%.tgz}; rm -rf \"$d\"; done",
        "n=$((i + 1)); rm -rf $n",
        "mapfile -t d <<< build; rm -rf $d",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text}");
    }
}

/// Process directories lead to arbitrary places.
#[test]
fn proc_aliases_of_places_are_critical() {
    for text in [
        "rm -rf /proc/self/cwd/*",
        "rm -rf /proc/self/cwd/",
        "rm -rf /proc/self/cwd/.",
        "rm -rf /proc/self/cwd/../x",
        "rm -rf /proc/self/c*/x",
        "rm -rf /proc/self/root/usr",
        "rm -rf /proc/self/root/*",
        "rm -rf /proc/thread-self/cwd/*",
        "rm -rf /proc/1/task/1/cwd/x",
        "rm -rf //proc/./$$/cwd/x",
        "find /proc/self/cwd/ -delete",
        "rm -rf /dev/fd/3/*",
        "d=/proc/self/cwd; rm -rf $d/*",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text}");
    }
    for text in ["rm -rf proc/self", "rm -rf ./dev/fd"] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text}");
    }
}

#[test]
fn what_find_walks_over_is_removed_as_a_whole() {
    for text in [
        "find / -delete",
        "find / -exec rm -rf {} \\;",
        "find / -exec sudo rm {} +",
        "find -L / -type f -delete",
        "find . -delete",
        "find -delete",
        "find . -type f -exec rm {} +",
        "find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +",
        "find ~ -type f -delete",
        "find $HOME -delete",
        "find src /etc -delete",
        "d=/; find $d -delete",
        "find / -name '*.log' -delete",
        "find . -name '*' -delete",
        "find . ! -name keep -delete",
        "find . -name keep -prune -o -type f -delete",
        "find .. -type f -print0 | xargs -0 rm",
        "find / | xargs rm -rf",
        "find . -type f | sort | xargs rm",
        "sudo find / -delete",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "find . -name '*.pyc' -delete",
        "find . -name '*.o' -exec rm {} +",
        "find . \\( -name a -o -name b \\) -delete",
        "find . -name node_modules -prune -o -name '*.tmp' -delete",
        "find . -type d -empty -delete",
        "find /tmp -mtime +7 -delete",
        "find ~ -name .DS_Store -delete",
        "find build -delete",
        "find ./target -type f -exec rm {} +",
        "find . -name \"$x\" -delete",
        "find \"$dir\" -delete",
        "find . -name '*.orig' | xargs rm -f",
        "find . -type f | grep orig | xargs rm",
        "find . -type f | head -3 | xargs rm",
        "find . -name a -o -name b | xargs rm",
        "find . -name .git -prune -o -name '*.tmp' -print | xargs rm",
        "find . -type f | xargs wc -l",
        "find . -type d -exec rmdir {} +",
        "find / -name x -exec grep rm {} +",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text:?}");
    }
}

#[test]
fn printed_names_fed_to_rm_count_as_removed() {
    for text in [
        "echo / | xargs rm -rf",
        "echo a / | xargs rm -rf",
        "echo ~ | xargs rm -rf",
        "echo * | xargs rm -rf",
        "printf '/\\n' | xargs -n1 rm -rf",
        "printf '%s\\n' /etc | xargs rm -rf",
        "echo .. | cat | xargs rm -rf",
        "echo / | xargs -I{} rm -rf {}",
        "echo / | sudo xargs rm -rf",
        "x=/; echo $x | xargs rm -rf",
        "xargs rm -rf <<< /",
        "xargs rm -rf <<E\n/etc\nE",
        "echo / | parallel rm -rf",
        "ls -d /* | xargs rm -rf",
        "ls -d -- /*/ | xargs rm -rf",
        "ls -d /* | grep x | xargs rm -rf",
        "ls | xargs rm -rf",
        "ls -A . | xargs rm -rf",
        "pwd | xargs rm -rf",
        "cat list | xargs rm -rf",
        "grep x list | xargs rm -rf",
        "sort < list | xargs rm -rf",
        "xargs rm -rf < list",
        "{ echo /; } | xargs rm -rf",
        "ls -d /* | while read f; do rm -rf $f; done",
        "ls -d /* | while read -r f; do rm -rf \"$f\"; done",
        "echo / | while IFS= read -r f; do rm -rf -- \"$f\"; done",
        "find / | while read f; do rm -rf $f; done",
        "cat list | while read f; do rm -rf $f; done",
        "while read f; do rm -rf $f; done < list",
        "while read f; do rm -rf $f; done <<< /",
        "while read f; do rm -rf $f; done < <(ls -d /*)",
        "awk '{print $2}' list | xargs rm -rf",
        "echo / | { read x; rm -rf $x; }",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "echo build | xargs rm -rf",
        "echo / | xargs ls",
        "printf '%s\\n' a b | xargs rm",
        "git ls-files -o | xargs rm",
        "ls *.o | xargs rm",
        "echo / ; ls | xargs rm",
        "cat list | xargs rm",
        "echo \"$x\" | xargs rm",
        "ls -d build/* | xargs rm -rf",
        "ls | grep old | xargs rm -rf",
        "ls *.o | xargs rm -rf",
        "find . -name node_modules | xargs rm -rf",
        "find . -name node_modules -prune | head -3 | xargs rm -rf",
        "find . -name node_modules | while read d; do rm -rf \"$d\"; done",
        "while read -r d; do rm -rf \"$d\"; done < <(find . -name target)",
        "for d in $(find . -name target); do rm -rf $d; done",
        "for d in a b; do rm -rf \"$d\"; done",
        "for d in */; do rm -rf \"$d/target\"; done",
        "git ls-files -o | xargs rm -rf",
        "fd -t d target | xargs rm -rf",
        "grep -rl x src | xargs rm -rf",
        "mktemp -d | xargs rm -rf",
        "cat list | while read f; do rm $f; done",
        "cat list | while read f; do echo $f; done; rm -rf build",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text:?}");
    }
}

#[test]
fn common_cleanup_commands_are_not_critical() {
    for text in [
        "rm -rf $PWD/target",
        "rm -rf \"$PWD/target\"",
        "rm -rf ${PWD}/target/*",
        "rm -rf */target",
        "rm -rf ./*/target",
        "rm -rf */node_modules/.cache",
        "rm -rf /tmp/foo*",
        "rm -rf /tmp/foo-*/x",
        "rm -rf \"$TMPDIR/x\"",
        "rm -rf $TMPDIR/x/*",
        "rm -rf ./build/*",
        "rm -rf build/*",
        "rm -rf ~/.cache/x*",
        "d=build; rm -rf $d",
        "rm -rf foo*",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text:?}");
    }
    for text in [
        "rm -rf $PWD/*",
        "rm -rf \"$PWD\"/",
        "rm -rf $PWD/..",
        "rm -rf $PWD/*/",
        "rm -rf */*",
        "rm -rf */.",
        "rm -rf */..",
        "rm -rf /tmp/*",
        "rm -rf /*/target",
        "rm -rf /etc/ss*",
        "rm -rf ~/*/*",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text:?}");
    }
}

/// Ways in which a path becomes the operand of a recursive removal: `V` is the path.
const WAYS: &[&str] = &[
    "rm -rf V",
    "rm -r -f -- V",
    "rm --recursive V",
    "sudo rm -fr V",
    "r=rm; $r -rf V",
    "x=V; rm -rf $x",
    "x=V; rm -rf \"${x}\"",
    "export x=V; rm -rf $x",
    "x=V; y=$x; rm -rf $y",
    "x=$(echo V); rm -rf $x",
    "x=`echo V`; rm -rf $x",
    "printf -v x %s V; rm -rf $x",
    "read x <<< V; rm -rf $x",
    "for x in V; do rm -rf $x; done",
    "for x in a V b; do rm -rf \"$x\"; done",
    "for x in $(echo V); do rm -rf $x; done",
    "echo V | xargs rm -rf",
    "printf '%s\\n' V | sort | xargs -n1 rm -r",
    "echo V | while read x; do rm -rf $x; done",
    "while read x; do rm -rf $x; done <<< V",
    "echo V | { read x; rm -rf \"$x\"; }",
    "bash -c 'rm -rf V'",
    "bash -c 'x=V; rm -rf $x'",
    "find V -delete",
    "find V | xargs rm",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_critical_path_is_critical_however_it_comes_to_be_removed(
        way in prop::sample::select(WAYS),
        path in prop::sample::select(vec!["/", "//", "/.", "/etc", "/usr/", "/repo", "/repo/.", ".", "./", "..", "../..", "/home/dev", "/home", "src/.."]),
        around in prop::sample::select(vec!["C", "ls; C", "true && C", "(C)", "if a; then C; fi", "C | cat", "{ C; }"]),
    ) {
        let text = around.replace('C', &way.replace('V', path));
        prop_assert!(analyse_in_repo(&text).critical_removal.is_some(), "{}", text);
    }

    #[test]
    fn a_path_of_ones_own_is_not(
        way in prop::sample::select(WAYS),
        path in "(\\./)?[a-z]{2,6}(/[a-z]{1,4}){0,2}|/tmp/[a-z]{2,5}|/repo/[a-z]{2,5}",
        around in prop::sample::select(vec!["C", "ls; C", "true && C", "(C)", "if a; then C; fi"]),
    ) {
        let text = around.replace('C', &way.replace('V', &path));
        prop_assert_eq!(analyse_in_repo(&text).critical_removal, None, "{}", text);
    }
}

fn critical_removal_with_environment(text: &str, names: &[&str]) -> Option<String> {
    let roots = [PathBuf::from("/repo")];
    let environment = EnvironmentNames::new(names);
    let (cwd, home) = (Path::new("/repo"), Some(Path::new("/home/dev")));
    analyse(text, &ShellFacts { cwd, roots: &roots, home, environment: Some(&environment) }).critical_removal
}

/// A value in front of a path may be empty, and then the path starts at the root or the current directory.
#[test]
fn the_path_left_by_an_empty_value_is_judged() {
    for text in [
        "rm -rf \"$UNSET/home/dev\"",
        "rm -rf $UNSET/home/dev/",
        "rm -rf $UNSET/home/./dev",
        "rm -rf $UNSET/home/dev/*",
        "rm -rf \"${UNSET}/home/x/../dev\"",
        "rm -rf $UNSET/repo",
        "rm -rf $UNSET/repo/*",
        "rm -rf $UNSET/etc",
        "rm -rf ${UNSET}..",
        "rm -rf ${UNSET}../..",
        "rm -rf \"$(tool)/home/dev\"",
        "rm -rf ${x:-/}",
        "rm -rf ${x:=~}",
        "rm -rf \"${x:-$HOME}\"",
        "rm -rf ${x-/}home/dev",
        "rm -rf ${list[0]}",
        "rm -rf \"${list[@]}\"",
        "rm -rf $0",
        "rm -rf \"$@\"",
        "rm -rf \"${HOME}\"",
        "rm -rf ~+",
        "rm -rf ~-",
        "rm -rf ~+/..",
        "rm -rf $OLDPWD",
        "rm -rf \"$PWD\"",
        "find $DIRSTACK -delete",
        "find \"$UNSET/home/dev\" -delete",
        "find ${UNSET}.. -exec rm -rf {} +",
        "echo $DIRSTACK | xargs rm -rf",
        "for d in $DIRSTACK; do rm -rf $d; done",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text}");
    }
    for text in [
        "rm -rf $UNSET/home/dev/project/build",
        "rm -rf $UNSET/build",
        "rm -rf $UNSET/repo/build",
        "rm -rf ${UNSET}build",
        "rm -rf $UNSET",
        "rm -rf \"$HOME/.cache/tool\"",
        "x=build; rm -rf $x/target",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text}");
    }
}

#[test]
fn what_bash_sets_or_the_environment_brings_may_be_any_folder() {
    for name in ["DIRSTACK", "_", "BASH_ARGV0", "OLDPWD", "REPLY", "MAPFILE", "BASH_SOURCE", "PWD", "HOME", "OPTARG"] {
        for form in ["rm -rf $@", "rm -rf \"$@\"", "rm -rf \"${@}\"", "rm -rf $@/..", "rm -rf -- $@/.", "sudo rm -r $@"]
        {
            let text = form.replace("{@}", &format!("{{{name}}}")).replace('@', name);
            assert!(analyse_in_repo(&text).critical_removal.is_some(), "{text}");
        }
    }
    for text in [
        "rm -rf $ROOT",
        "rm -rf \"$ROOT\"",
        "rm -rf \"$ROOT/repo\"",
        "rm -rf $ROOT/dev",
        "rm -rf ${ROOT}po",
        "rm -rf ${ROOT}etc",
    ] {
        assert!(critical_removal_with_environment(text, &["ROOT"]).is_some(), "{text}");
    }
    for text in ["rm -rf $ROOT", "rm -rf $ROOT/dev2", "rm -rf ${ROOT}po"] {
        assert_eq!(critical_removal_with_environment(text, &[]), None, "{text}");
    }
    for text in ["rm -rf \"$ROOT/build\"", "rm -f $ROOT", "ROOT=build; rm -rf $ROOT", "rm -rf build/$ROOT"] {
        assert_eq!(critical_removal_with_environment(text, &["ROOT"]), None, "{text}");
    }
}
