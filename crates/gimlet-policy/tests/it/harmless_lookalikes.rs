//! Texts that look harmless and are not, next to those that look alike and are. Each trap was once a way around some
//! simpler reading of the rules.

use gimlet_policy::Decision::{Allow, Ask};
use gimlet_policy::{DecisionContext, RuleSet};
use gimlet_proto::PermissionMode;

use crate::fixtures::{decide_by_default, decide_command, decide_in_context, rules, test_context};

fn assert_all_ask(texts: &[&str], rules: &RuleSet) {
    let allowed: Vec<&&str> = texts.iter().filter(|text| decide_by_default(text, rules) == Allow).collect();
    assert!(allowed.is_empty(), "allowed: {allowed:#?}");
}

fn assert_all_run(texts: &[&str], rules: &RuleSet) {
    let asked: Vec<&&str> = texts.iter().filter(|text| decide_by_default(text, rules) != Allow).collect();
    assert!(asked.is_empty(), "asked: {asked:#?}");
}

#[test]
fn values_that_only_show_at_run_time_lead_no_reader_astray() {
    assert_all_ask(
        &[
            "cat $(echo /etc/passwd)",
            "head a]$HOME/x}",
            "head a]$-!}",
            "head a]$1}",
            "cat \"$(cat list)\"",
            "for f in $(cat list); do cat \"$f\"; done",
            "for f in /etc/passwd; do cat \"$f\"; done",
            "for f in 'x /etc/passwd'; do cat $f; done",
            "for f in x\\ /etc/passwd; do cat $f; done",
            "for f in '* /etc/passwd'; do cat $f; done",
            "for f in ~/.ssh/id; do cat \"$f\"; done",
            "for f in /etc/*; do cat \"$f\"; done",
            "for f in a; do cat \"$f/../../../etc/passwd\"; done",
            "for f in ..; do cat a/$f/$f/$f/etc/passwd; done",
            "cat \"$x\"/etc/passwd",
            "cat $x$y/etc/passwd",
            "for f in $(false); do :; done; cat $f/etc/passwd",
            "cat \"$HOME/.ssh/id_rsa\"",
            "cat $KUBECONFIG",
            "cat /$x",
            "cat /etc/$x",
            "cat {/etc/passwd,a}",
            "cat -$x",
            "echo ~/.ssh/*",
            "echo /etc/*",
            "ls $HOME",
            "echo /etc/passwd | xargs cat",
            "find . -path './x/etc/passwd' | tail -c 12 | xargs cat",
            "git ls-files --format=/etc/passwd | xargs cat",
            "grep -he -l f | xargs cat",
            "grep -e -l f | xargs cat",
            "grep x $y-f/etc/passwd",
            "diff a $y--to-file=/etc/passwd",
            "cat .*/.*/etc/passwd",
            "echo x | grep -l --label=/etc/passwd x | xargs cat",
            "find . -printf /etc/passwd | xargs cat",
            "xargs cat < list",
            "ls | xargs sort",
            "ls | xargs find",
            "sort $x",
            "find $x",
            "git log $x",
            "uniq \"$x\"",
            "head -n $n -c /etc/passwd",
            "head -n $(cat list) a",
            "grep -A `cat list` x a",
            "cut -c $(cat list) a",
            "head -n $HOME a",
            "printf '%s' /etc/*",
            "printf '%s' ~/*",
            "head $x -n /etc/passwd",
            "grep \"$x\" /etc/passwd a",
            "cat < $x",
            "cat < <(cat /etc/passwd)",
            "echo \"$(< /etc/passwd)\"",
            "cat <(cat /etc/shadow)",
        ],
        &RuleSet::default(),
    );
    assert_all_run(
        &[
            "for f in a b; do cat \"$f\"; done",
            "for d in */; do ls \"$d/src\"; done",
            "for f in src/*.rs; do wc -l \"$f\"; done",
            "for i in 1 2 3; do echo \"$i of $x\"; done",
            "cat \"$f\"",
            "cat src/$f",
            "head -n $n file",
            "for n in 1 2; do head -n $n file; done",
            "head -n \"$(wc -l < a)\" b",
            "printf '%s' *.rs",
            "find . -name '*.rs' | head -n 20 | xargs wc -l",
            "for f in $(find src -name '*.rs'); do head -5 \"$f\"; done",
            "grep -rl foo src | sort -u | xargs cat",
            "rg -l foo | xargs wc -l",
            "ls *.rs | xargs wc -l",
            "ls | xargs echo",
            "diff <(ls a) <(ls b)",
            "cat < a",
            "echo \"$(< a)\"",
            "grep \"foo $x\" src/a",
            "echo $((1 + 2)) ${#x} ${x:-a} \"${f%.rs}\"",
        ],
        &RuleSet::default(),
    );
}

#[test]
fn nothing_sets_what_a_later_command_depends_on() {
    assert_all_ask(
        &[
            "for PATH in /tmp/evil; do ls; done",
            "for IFS in /; do ls; done",
            "for http_proxy in evil; do ls; done",
            "echo a {PATH}>/dev/null; ls",
            "echo a {fd}>&1",
            "x=1; ls",
            "CI=1",
            "LANG+=x ls",
            "CI=$(id) ls",
            "LD_PRELOAD=x ls",
            "export CI=1; ls",
            "printf -v PATH x; ls",
            "printf \"$f\" PATH",
            "printf '%n' PATH",
            "echo ${PATH:=/tmp}",
            "echo ${x=1}",
            "echo ${x@P}",
            "echo ${!x}",
            "echo ${a[$(id)]}",
            "echo $((a[0]))",
            "for x in 'a[$(touch y)]'; do echo $((x)); done",
            "[[ 'a[$(touch y)]' -eq 1 ]]",
            "for o in -v; do [ $o 'a[$(touch y)]' ]; done",
            "[ -v 'a[$(touch y)]' ]",
            "[[ -v x ]]",
            "test -v x",
            "((x++))",
            "let x=1",
            "read x",
            "ls() { touch x; }; ls",
            "coproc ls",
            "select x in a; do ls; done",
            "shopt -s dotglob",
            "set -o noglob",
            "unset PATH",
            "date 010100002020",
            "date --se=now",
        ],
        &RuleSet::default(),
    );
    assert_all_run(
        &[
            "CI=1 LANG=C ls",
            "[ -f a ] && cat a",
            "[ \"$x\" = a ] || echo b",
            "[ $? -eq 0 ] && echo ok",
            "[[ -n $x && ! -d src ]] && ls",
            "test -d src",
            "date +%Y-%m-%d",
            "printf '%s\\n' \"$x\"",
        ],
        &RuleSet::default(),
    );
}

#[test]
fn directories_are_followed_through_loops_and_subshells() {
    let below = DecisionContext { cwd: "/srv/repo/a/b".into(), ..test_context(PermissionMode::Default) };
    let decide = |text: &str| decide_in_context(text, &RuleSet::default(), &below);
    assert_eq!(decide("cd .. && ls"), Allow);
    assert_eq!(decide("cat ../x"), Allow);
    for text in [
        "for i in 1 2 3; do cd ..; cat x; done",
        "while false; do cd ..; done; cat x",
        "cd .. && cat ../x",
        "cd ../../.. && ls",
        "(cd ..; cd ..; cd ..; cat x)",
    ] {
        assert_ne!(decide(text), Allow, "{text}");
    }
    let none = RuleSet::default();
    assert_all_ask(
        &["cd", "cd -", "cd ..", "cd \"$x\"", "cd .git", "cd sub && git status", "cd /etc && cat passwd"],
        &none,
    );
    assert_all_run(&["cd sub && ls", "cd . && git status", "cd /srv/repo && git log -3", "(cd sub; ls)"], &none);
    let reading = rules(&[], &[], &["Bash(read:*)", "Bash(source:*)"]);
    assert_all_ask(&["for d in a; do read d <<< /etc; cat \"$d/passwd\"; done", "source x; cat passwd"], &reading);
    // A rule for `cd` lets it go anywhere, and then nothing relative is known any more.
    let roaming = rules(&[], &[], &["Bash(cd:*)", "Bash(pushd:*)"]);
    assert_all_ask(
        &["cd /etc && cat passwd", "cd -P /etc && cat passwd", "cd \"$x\" && cat a", "pushd /etc && cat passwd"],
        &roaming,
    );
}

#[test]
fn files_stay_out_of_reach_of_rules_about_commands() {
    let writing = rules(&[], &[], &["Bash(cp:*)", "Bash(rm:*)", "Bash(tee:*)", "Bash(npm run:*)", "Bash(find:*)"]);
    assert_all_ask(
        &[
            "cp a $(echo .git/config)",
            "cp a .git/{config,x}",
            "for f in .git/config; do cp a \"$f\"; done",
            "for f in it; do cp a .g$f/config; done",
            "for d in /; do rm -rf \"$d\"; done",
            "for d in /; do rm -rf \"$d\"home; done",
            "for d in etc; do rm -rf /$d; done",
            "echo .git/config | xargs rm",
            "ls -a | xargs rm -rf",
            "rm .g*/config",
            "rm *.toml",
            "rm -rf \"$DIR\"",
            "cp a \"$DEST\"",
            "npm run x > out",
            "npm run x > $f",
            "npm run x >& out",
            "npm run x | tee .git/config",
            "find . $x",
            "ls | xargs find . -name",
        ],
        &writing,
    );
    assert_all_run(
        &[
            "cp a b",
            "for f in a b; do cp \"$f\" \"$f.bak\"; done",
            "rm -f build/*.o",
            "rm \"$f\"",
            "npm run \"$x\" 2>&1 | tail -5",
            "find . -name x",
        ],
        &writing,
    );
}

#[test]
fn what_bash_reads_otherwise_than_the_grammar_asks() {
    let bare = rules(&[], &[], &["Bash"]);
    assert_all_ask(
        &[
            "[ a && touch x ]",
            "[ a\ntouch x ]",
            "[[ -n == a ]]",
            "echo $((ls) | cat)",
            "((ls); pwd)",
            "echo `echo \\`touch x\\``",
            "if true; then fi",
            "if true; then # no\nfi",
            "while true; do done",
            "{ }",
            "( )",
            "ls | ! cat",
            "for i in a; do # x\ndone",
            "a ;; b",
            "a;&>/dev/null b",
            "ls <<<$ ?",
            "{ls; }",
            "if true; then{ ls; }; fi",
            "[[-n a ]]",
            "ls <> a",
        ],
        &bare,
    );
}

/// The grammar loses a dash that stands before a redirection.
#[test]
fn a_dash_before_a_document_is_a_word() {
    let allowed = rules(&[], &[], &["Bash(python3 *)"]);
    assert_all_run(
        &[
            "python3 - <<'E'\nx\nE\n",
            "python3 a - <<E\nx\nE\n",
            "cat - <<'E'\nx\nE\n",
            "python3 - 2>/dev/null <<'E'\nx\nE\n",
        ],
        &allowed,
    );
    let exact = rules(&[], &[], &["Bash(python3)"]);
    assert_all_ask(&["python3 - <<'E'\nx\nE\n", "python3 --<<'E'\nx\nE\n"], &exact);
    // There the grammar has it in the sign of the document.
    assert_all_ask(&["python3 -<<'E'\nx\nE\n", "python3 -c<<'E'\nx\nE\n"], &allowed);
    assert_all_ask(&["python3 ; - <<'E'\nx\nE\n", "(ls) - <<'E'\nx\nE\n", "python3 -\n- <<'E'\nx\nE\n"], &allowed);
}

/// What only bash's own rules tell.
#[test]
fn signs_that_bash_takes_for_others_ask() {
    let none = rules(&[], &[], &[]);
    assert_all_ask(
        &[
            "echo $((+()))",
            "[[ -n a&b ]]",
            "[[ -n \\ ]]",
            "echo \"$${x:<((}))\"",
            "sed -n 1p 1\\\n 2>&1",
            "head a\\\n 2>b",
        ],
        &none,
    );
    assert_all_run(
        &[
            "echo $(( (1 + 2) * 3 ))",
            "[[ -n a && ( b == c || ! -f d ) ]]",
            "[[ -n \\a ]]",
            "echo \"$$ {x}\"",
            "head a 2>&1",
            "head a2 2>/dev/null",
            "cat a \\\n  2>/dev/null",
        ],
        &none,
    );
}

/// For a host and a port in these names bash opens a connection, and no file.
#[test]
fn dev_tcp_connections_are_not_files() {
    let wide = rules(&[], &[], &["Edit(//**)", "Read(//**)", "Bash(ls *)", "Bash(cat *)"]);
    assert_all_ask(
        &["ls > /dev/tcp/h/80", "cat a >& /dev/udp/h/80", "cat < /dev/tcp/h/80", "ls > /dev//tcp/h/80"],
        &wide,
    );
    assert_all_run(&["ls > /tmp/a", "ls 2> /dev/null"], &wide);
}

/// A test of an element evaluates its subscript.
#[test]
fn a_test_of_an_element_asks_under_every_rule() {
    let bare = rules(&[], &[], &["Bash"]);
    assert_all_ask(
        &[
            "[[ -v a[1] ]]",
            "test -v a[1]",
            "[ -v 'a[$x]' ]",
            "[[ -v $x ]]",
            "[[ ! -v a[b] ]]",
            "command test -v 'a[$(x)]'",
            "builtin test -v a[1]",
        ],
        &bare,
    );
    assert_all_run(&["[[ -v a ]]", "test -n a", "[[ -n a[1] ]]"], &bare);
}

/// Other builtins evaluate the subscripts of the names they are given, and some run a word.
#[test]
fn names_that_builtins_evaluate_ask_under_rules_for_them() {
    let builtins = ["printf", "read", "let", "mapfile", "readarray", "unset", "getopts", "wait", "compgen"];
    let named: Vec<String> = builtins.iter().map(|name| format!("Bash({name} *)")).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let traps = [
        "printf -v 'a[$(touch P)]' x",
        "printf -v'a[$(touch P)]' x",
        "for o in -v; do printf $o 'a[$(touch P)]' x; done",
        "command printf -v 'a[`touch P`]' x",
        "read 'a[$(touch P)]' <<< x",
        "read -rp ok 'a[$(touch P)]' <<< x",
        "let 'a[$(touch P)]=1'",
        "mapfile -C 'touch P' -c 1 a <<< x",
        "readarray -t -c1 -C 'touch P' a <<< x",
        "for o in -C; do mapfile $o 'touch P' -c 1 a <<< x; done",
        "unset 'a[$(touch P)]'",
        "getopts ab 'a[$(touch P)]'",
        "wait -n -p 'a[$(touch P)]'",
        "compgen -W '$(touch P)'",
        "compgen -C 'touch P' x",
    ];
    assert_all_ask(&traps, &rules(&[], &[], &named));
    assert_all_ask(&traps, &rules(&[], &[], &["Bash"]));
    // Those that others go by are set by no rule for the builtin.
    assert_all_ask(
        &[
            "printf -v PATH x; printf x",
            "printf -vPATH x",
            "command printf -v BASH_ENV x",
            "read -r PATH < f; printf x",
            "read -ra x IFS",
            "readarray -t PATH < f",
            "mapfile -n 1 http_proxy < f",
            "unset PATH; wait",
            "getopts ab HOME",
            "wait -n -p PATH",
        ],
        &rules(&[], &[], &named),
    );
    // What names stand for is evaluated as well.
    assert_all_ask(&["for y in 'a[$(touch P)]'; do let y; done"], &rules(&[], &[], &named));
    assert_all_run(
        &[
            "printf '%s[%d]\\n' \"$x\" 1",
            "printf -v x '%s' \"$y\"",
            "read -r -p 'Sure? [y/N] ' answer",
            "read -rp \"$question\" answer",
            "read -r -d '' -n 5 x",
            "read -r",
            "mapfile -t -d '' -n 3 found < f",
            "unset x y",
            "mapfile -t lines < f",
            "wait",
        ],
        &rules(&[], &[], &named),
    );
    assert_all_run(&["let i=i+1", "printf -v x a"], &rules(&[], &[], &["Bash"]));
}

#[test]
fn edits_are_accepted_only_for_plain_edits_inside() {
    let none = RuleSet::default();
    for text in [
        "mkdir -p src/new && touch src/new/a.rs",
        "mv a b",
        "cp src/a copy",
        "rm -rf build",
        "rmdir old",
        "sed -i 's/a/b/g' src/a.rs",
        "CI=1 timeout 5 touch a",
        "echo done > notes.txt",
        "git status && mkdir x",
        "cd sub && touch a",
    ] {
        assert_eq!(decide_command(text, &none, PermissionMode::AcceptEdits), Allow, "{text}");
        assert_eq!(decide_command(text, &none, PermissionMode::Default), Ask, "{text}");
        assert_eq!(decide_command(text, &none, PermissionMode::DontAsk), gimlet_policy::Decision::Deny, "{text}");
    }
    for text in [
        "touch /etc/x",
        "mkdir ../x",
        "cp /etc/passwd a",
        "mv a .git/hooks/pre-commit",
        "cp tmp/bunfig.toml .",
        "rm -rf .",
        "rm -rf *",
        "rm -rf .git",
        "rm $x",
        "touch \"$x\"",
        "sed -i '1e id' a",
        "sed -i 's/a/b/w /tmp/x' a",
        "cd sub && echo x > a",
        "cd $x && touch a",
        "chmod 777 a",
        "ln -s /etc a",
        "tee a",
        "echo x > ../out",
        "echo x > .mcp.json",
        "mkdir a; curl x",
        "sudo mkdir a",
        "ls | xargs rm",
    ] {
        assert_ne!(decide_command(text, &none, PermissionMode::AcceptEdits), Allow, "{text}");
    }
}

#[test]
fn plan_mode_enforces_nothing_where_bypassing_is_open() {
    let asking = rules(&[], &["Bash(git push:*)"], &[]);
    let open = DecisionContext { bypass_available: true, ..test_context(PermissionMode::Plan) };
    assert_eq!(decide_in_context("make", &asking, &open), Allow);
    assert_eq!(decide_in_context("git push", &asking, &open), Ask);
    assert_eq!(decide_in_context("rm -rf /", &asking, &open), Ask);
    assert_eq!(decide_in_context("make", &asking, &test_context(PermissionMode::Plan)), Ask);
    assert_eq!(decide_in_context("ls > x", &asking, &test_context(PermissionMode::Plan)), Ask);
}

#[test]
fn no_number_of_directories_hides_a_protected_one() {
    let enough = |count: usize| (0..count).map(|n| format!("cd d{n}; ")).collect::<String>();
    for count in [1, 3, 10, 20, 100] {
        let command = format!("{}cd .git/hooks; cp /repo/x pre-commit", enough(count));
        assert_ne!(decide_by_default(&command, &rules(&[], &[], &["Bash(cp *)", "Bash(cd *)"])), Allow, "{count}");
    }
}

#[test]
fn file_lists_last_words_and_operands_like_options_open_nothing() {
    assert_all_ask(
        &[
            "printf '/etc/shadow\\0' | sort --files0-from -",
            "wc --files0-from=list",
            "du --files0-from list",
            "echo /etc/passwd; cat $_",
            "cat \"$_\"",
            "git log --format --output=/tmp/x",
            "git shortlog --format --output=/tmp/x",
        ],
        &rules(&[], &[], &[]),
    );
}

#[test]
fn edits_that_bring_unseen_names_or_move_links_are_no_plain_edits() {
    let none = rules(&[], &[], &[]);
    for text in ["cp -r tree out", "cp -rT tree /repo", "cp -a s o", "cp -P link up", "mv deep/lnk up && cp x up/y"] {
        assert_eq!(decide_command(text, &none, PermissionMode::AcceptEdits), Ask, "{text}");
    }
    for text in ["cp a b", "mv a b", "mkdir d && touch d/a && cp d/a e", "rm -r d"] {
        assert_eq!(decide_command(text, &none, PermissionMode::AcceptEdits), Allow, "{text}");
    }
}

#[test]
fn lists_in_braces_are_several_words_and_never_a_fixed_one() {
    let none = RuleSet::default();
    for text in [
        "cat src/{a,b}.rs",
        "ls {src,docs}",
        "ls -l {src,docs}/*",
        "for f in {a,b}; do cat $f; done",
        "echo {a,b}",
        "cat part{1..3}.txt",
        "ls log.{3..1} x{0..1}{a,b}",
        "for i in {1..20}; do cat \"part$i\"; done",
    ] {
        assert_eq!(decide_by_default(text, &none), Allow, "{text}");
    }
    let allowing = rules(&[], &[], &["Bash(git status:*)", "Bash(rm:*)", "Bash(cp:*)"]);
    for text in [
        "cat {a,/etc/passwd}",
        "cat {a,../b}",
        "cat {a,~/x}",
        "grep x {-f,/etc/passwd}",
        "{ls,src}",
        "git {status,x}",
        "git {push,--force}",
        "sort {a,b}",
        "find {a,b}",
        "rm -r {a,/}",
        "rm -r {a,~}",
        "rm {-r,$x/*}",
        "cp a .git/{config,x}",
        "cat {a,{b,c}}",
        "cat {01..3}",
        "cat {1..99}",
        "cat {a..c}",
        "cat /etc/{1..3}",
        "cat ../{1..3}",
        "rm -r /{1..2}",
        "git stat{1..2}us",
        "cat {a,b",
        "cat {${x@P},b}",
        "for f in {a,/etc/passwd}; do cat $f; done",
    ] {
        assert_eq!(decide_by_default(text, &allowing), Ask, "{text}");
    }
    assert_eq!(decide_by_default("rm {a,b}", &rules(&["Bash(rm a:*)"], &[], &["Bash"])), Ask, "a rule may be about it");
}
