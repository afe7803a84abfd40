//! One small generator for each rule by which commands and paths are judged.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_policy::{Decision, NeedFacts, ProposedCall, RuleSet, decide};
use gimlet_proto::{AccessNeed, PermissionMode};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_by_default, decide_command, rules, test_context};

/// A word that no shell does anything to.
fn plain_word() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9_.]{0,6}"
}

/// Commands that only read.
fn reader_command() -> impl Strategy<Value = String> {
    const FORMS: &[&str] = &[
        "ls",
        "cat @",
        "head -n 3 @",
        "wc -l @",
        "grep -n x @",
        "git status",
        "pwd",
        "echo @",
        "find . -name @",
        "sort @",
    ];
    (select(FORMS), plain_word()).prop_map(|(form, word)| form.replace('@', &word))
}

/// Commands that nothing speaks for.
fn unknown_command() -> impl Strategy<Value = String> {
    (select(&["curl", "python3", "make", "touch", "git push", "npm i", "chmod 7", "sort -o"]), plain_word())
        .prop_map(|(name, word)| format!("{name} {word}"))
}

/// Ways to put commands together; `@` is where they go.
const FRAMES: &[&str] = &[
    "@",
    "(@)",
    "{ @; }",
    "if true; then @; fi",
    "if @; then ls; fi",
    "while false; do @; done",
    "for f in a; do @; done",
    "case a in b) @;; esac",
    "! @",
    "true && @",
    "false || @",
    "ls; @",
    "ls | @",
    "@ | cat",
    "ls\n@",
    "@ & ls",
    "echo \"$(@)\"",
    "echo `@`",
    "cat <(@)",
    "echo ${x:-$(@)}",
    "cat <<E\n$(@)\nE\n",
    "cat <<< \"$(@)\"",
    "@ # note",
];

fn decide_path(tool: &str, path: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let need = if tool == "Read" { AccessNeed::Read(path.into()) } else { AccessNeed::Write(path.into()) };
    let needs = [NeedFacts { need, resolved: Some(path.into()), hops: vec![] }];
    decide(
        &ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        &test_context(mode),
    )
    .decision
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_strictest_list_decides_whatever_is_more_specific(word in plain_word()) {
        let (exact, prefix) = (format!("Bash(tool {word})"), "Bash(tool:*)");
        let text = format!("tool {word}");
        prop_assert_eq!(decide_by_default(&text, &rules(&[prefix], &[&exact], &[&exact])), Deny);
        prop_assert_eq!(decide_by_default(&text, &rules(&[], &[prefix], &[&exact])), Ask);
        prop_assert_eq!(decide_by_default(&text, &rules(&[], &[], &[&exact])), Allow);
        prop_assert_eq!(decide_by_default(&text, &RuleSet::default()), Ask);
    }

    #[test]
    fn broken_texts_and_hidden_characters_are_never_allowed(
        reader in reader_command(),
        break_ in select(&["\"", "'", "$(", "`", " &&", " |", " ;;", ")", "\r", "\u{0}", "\u{1b}", "\u{85}", "\u{202e}", "\u{e0041}"]),
    ) {
        prop_assert_ne!(decide_by_default(&format!("{reader}{break_}"), &rules(&[], &[], &["Bash"])), Allow);
    }

    #[test]
    fn every_part_counts_wherever_it_stands(reader in reader_command(), stranger in unknown_command(), frame in select(FRAMES)) {
        prop_assert_eq!(decide_by_default(&frame.replace('@', &reader), &RuleSet::default()), Allow, "{}", frame.replace('@', &reader));
        let text = frame.replace('@', &stranger);
        prop_assert_ne!(decide_by_default(&text, &RuleSet::default()), Allow, "{}", text);
        let name = stranger.split(' ').next().unwrap();
        prop_assert_eq!(decide_by_default(&text, &rules(&[&format!("Bash({name}:*)")], &[], &["Bash"])), Deny, "{}", text);
        prop_assert_eq!(decide_by_default(&text, &rules(&[], &[&format!("Bash({name}:*)")], &["Bash"])), Ask, "{}", text);
    }

    #[test]
    fn here_documents_and_comments_are_data_when_quoted(stranger in unknown_command()) {
        let denying = rules(&["Bash(curl:*)", "Bash(python3:*)"], &[], &[]);
        for text in [format!("cat <<'E'\n{stranger}\n$({stranger})\nE\n"), format!("ls # {stranger}"), format!("echo '; {stranger}'")] {
            prop_assert_eq!(decide_by_default(&text, &denying), Allow, "{}", text);
        }
    }

    #[test]
    fn quoting_of_a_static_word_changes_nothing(letters in "[a-z]{2,6}", at in 1usize..2) {
        let (head, tail) = letters.split_at(at);
        let denying = rules(&[&format!("Bash({letters}:*)")], &[], &[]);
        let allowing = rules(&[], &[], &[&format!("Bash(tool {letters})")]);
        for word in [
            format!("\"{letters}\""), format!("'{letters}'"), format!("{head}''{tail}"), format!("{head}\"{tail}\""),
            format!("\\{letters}"), format!("{head}\\\n{tail}"), format!("$'{letters}'"),
        ] {
            prop_assert_eq!(decide_by_default(&format!("{word} x"), &denying), Deny, "{}", word);
            prop_assert_eq!(decide_by_default(&format!("tool  \t{word}"), &allowing), Allow, "{}", word);
        }
    }

    #[test]
    fn an_expansion_equals_no_word_of_a_rule(
        word in select(&["$x", "\"$x\"", "${x}", "$(pwd)", "`pwd`", "{a,b}", "~", "*", "a$x", "$((1))"]),
        rest in plain_word(),
    ) {
        let allowing = rules(&[], &[], &["Bash(tool run:*)", "Bash(git * main)"]);
        prop_assert_eq!(decide_by_default(&format!("tool run {word} {rest}"), &allowing), Allow);
        for text in [format!("tool {word} {rest}"), format!("{word} run"), format!("git push {word}"), format!("{word} {rest}")] {
            prop_assert_ne!(decide_by_default(&text, &allowing), Allow, "{}", text);
        }
        // Only a word that could be the denied one matters.
        let deciding = decide_by_default(&format!("git {word}"), &rules(&["Bash(git push:*)"], &[], &["Bash(git:*)"]));
        prop_assert_eq!(deciding == Allow, word == "a$x");
    }

    #[test]
    fn prefixes_end_at_words_and_globs_at_commands(word in plain_word(), more in "[a-z]{1,4}") {
        let prefix = rules(&[], &[], &[&format!("Bash(tool {word}:*)")]);
        prop_assert_eq!(decide_by_default(&format!("tool {word}"), &prefix), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool {word} {more}"), &prefix), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool {word}{more}"), &prefix), Ask);
        prop_assert_eq!(decide_by_default(&format!("./tool {word}"), &prefix), Ask);
        let glob = rules(&[], &[], &[&format!("Bash(tool * {word})")]);
        prop_assert_eq!(decide_by_default(&format!("tool {more} x {word}"), &glob), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool {more} {word} -x"), &glob), Ask);
        prop_assert_ne!(decide_by_default(&format!("tool {more}; curl {word}"), &glob), Allow);
    }

    #[test]
    fn wrappers_come_off_for_allow_and_more_of_them_for_deny(
        free in select(&["timeout 5", "time", "nice -n 5", "nohup", "stdbuf -oL", "command", "builtin", "nice timeout 1m", "CI=1"]),
        barred in select(&["sudo", "doas", "env", "env A=1", "setsid", "ionice -c 3", "watch", "exec", "xargs -n1", "sudo -n env timeout 5"]),
        word in plain_word(),
    ) {
        let allowing = rules(&[], &[], &["Bash(tool:*)"]);
        let denying = rules(&["Bash(tool:*)"], &[], &["Bash"]);
        prop_assert_eq!(decide_by_default(&format!("{free} tool {word}"), &allowing), Allow);
        prop_assert_ne!(decide_by_default(&format!("{barred} tool {word}"), &allowing), Allow);
        prop_assert_ne!(decide_by_default(&format!("{free} {barred} tool {word}"), &allowing), Allow);
        prop_assert_eq!(decide_by_default(&format!("{free} tool {word}"), &denying), Deny);
        prop_assert_eq!(decide_by_default(&format!("{barred} tool {word}"), &denying), Deny);
    }

    #[test]
    fn assignments_defeat_an_allow_and_never_a_deny(name in "[A-Z][A-Z_]{2,9}", value in plain_word()) {
        const HARMLESS: &[&str] = &["NODE_ENV", "CI", "LANG", "LC_ALL", "TZ", "NO_COLOR", "FORCE_COLOR", "TERM", "RUST_BACKTRACE", "RUST_LOG", "PYTHONUNBUFFERED", "GOOS", "GOARCH"];
        prop_assume!(!HARMLESS.contains(&name.as_str()));
        let (allowing, denying) = (rules(&[], &[], &["Bash(tool:*)"]), rules(&["Bash(tool:*)"], &[], &[]));
        for text in [format!("{name}={value} tool"), format!("{name}={value}; ls"), format!("export {name}={value}"), format!("declare {name}={value}")] {
            prop_assert_ne!(decide_by_default(&text, &allowing), Allow, "{}", text);
        }
        prop_assert_eq!(decide_by_default(&format!("{name}={value} tool"), &denying), Deny);
        for harmless in HARMLESS {
            prop_assert_eq!(decide_by_default(&format!("{harmless}={value} tool"), &allowing), Allow);
            prop_assert_ne!(decide_by_default(&format!("{harmless}=$x tool"), &allowing), Allow);
        }
    }

    #[test]
    fn redirections_are_files_of_their_own(
        operator in select(&[">", ">>", ">|", "&>", "&>>", ">&", "2>", "3>"]),
        file in plain_word(),
        elsewhere in select(&["~/x", "$x", "../x", "/etc/x", "/dev/tcp/h/1", ".git/config", "*.x", ".mcp.json"]),
    ) {
        let opening = rules(&["Edit(/shut/**)"], &[], &["Bash(tool:*)", "Edit(/out/**)", "Edit(.git/**)"]);
        prop_assert_eq!(decide_by_default(&format!("tool {operator} out/{file}"), &opening), Allow);
        prop_assert_ne!(decide_by_default(&format!("tool {operator} x{file}"), &opening), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool {operator} shut/{file}"), &opening), Deny);
        prop_assert_ne!(decide_by_default(&format!("tool {operator} {elsewhere}"), &opening), Allow);
        prop_assert_ne!(decide_by_default(&format!("cd sub && tool {operator} out/{file}"), &opening), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool {operator} /dev/null"), &opening), Allow);
        prop_assert_eq!(decide_by_default(&format!("tool < {file}"), &opening), Allow);
        prop_assert_ne!(decide_by_default("tool < /etc/passwd", &opening), Allow);
    }

    #[test]
    fn readers_read_only_here_and_only_with_known_flags(
        reader in select(&["cat", "head -n 2", "wc", "ls -l", "grep x", "sort", "du -sh", "stat", "sed -n 1p", "rg x", "find", "diff a"]),
        file in plain_word(),
        flag in "--[a-z]{1,3}[0-9][a-z]{0,3}",
    ) {
        let none = RuleSet::default();
        prop_assert_eq!(decide_by_default(&format!("{reader} {file}"), &none), Allow);
        for place in ["/etc/", "~/", "../", "/home/dev/.ssh/", "x/../../"] {
            prop_assert_ne!(decide_by_default(&format!("{reader} {place}{file}"), &none), Allow, "{} {}", reader, place);
        }
        let (name, rest) = reader.split_once(' ').unwrap_or((reader, ""));
        prop_assert_ne!(decide_by_default(&format!("{name} {flag} {rest} {file}"), &none), Allow);
        prop_assert_ne!(decide_by_default(&format!("./{reader} {file}"), &none), Allow);
    }

    #[test]
    fn guarded_readers_take_no_glob_and_no_flag_that_writes_or_runs(file in plain_word(), bad in select(&[
        "sort -o@", "sort -ro @", "sort --output=@", "sort --compress-program=@", "uniq a @", "find . -delete", "find . -exec @ {} +",
        "find . -execdir @ ;", "find . -ok @ ;", "find . -fprint @", "find . -fls @", "find . -fprintf @ x", "rg --pre @ x", "rg --pre=@ x",
        "rg --hostname-bin @ x", "rg -z x", "sed -i s/a/b/ @", "sed -n 'w @' a", "sed s/a/b/e @", "sed -n 1p -i @", "git -c a=@ log",
        "git log --output=@", "git log --outp=@", "git diff --ext-diff", "git show --textconv", "git log -O@", "git branch @", "git branch -D @",
        "git -C @ status", "git --exec-path=@ status", "git fetch --upload-pack=@", "date -s @", "date --set=@", "printf -v @ x",
        "sort *", "find *", "git diff *", "sed -n 1p *", "rg x *", "uniq *",
    ])) {
        let text = bad.replace('@', &file);
        prop_assert_ne!(decide_by_default(&text, &RuleSet::default()), Allow, "{}", text);
    }

    #[test]
    fn no_rule_opens_a_protected_path(
        form in select(&["tee @", "cp a @", "mv a @", "ln -s a @", "install a @", "dd if=a of=@", "truncate -s0 @", "touch @", "mkdir @", "rm @", "chmod 7 @", "sed -i s/a/b/ @", "echo a > @", "echo a >> @"]),
        path in select(&[".git/config", ".GIT/x", ".claude/settings.json", "sub/.vscode/x", ".bashrc", "a/../.git/x", ".mcp.json", ".husky/x", "./.npmrc", ".g'i't/x"]),
    ) {
        let allowing = rules(&[], &[], &["Edit(**)", "Bash"]);
        let text = form.replace('@', path);
        prop_assert_ne!(decide_by_default(&text, &allowing), Allow, "{}", text);
    }

    #[test]
    fn critical_removals_ask_in_every_frame(
        target in select(&["/", "/etc", "~", "$HOME", ".", "..", "/srv/repo", "/srv", "/*", "*", "\"$D\"/*", "$D/", "../*"]),
        frame in select(FRAMES),
    ) {
        let text = frame.replace('@', &format!("rm -rf {target}"));
        prop_assert_ne!(decide_by_default(&text, &rules(&[], &[], &["Bash", "Bash(rm:*)"])), Allow, "{}", text);
    }

    #[test]
    fn critical_removals_ask_by_whatever_name_and_through_whatever_program(
        target in select(&["/", "/etc", "~", "$HOME", ".", "..", "/srv/repo", "/srv", "../..", "/usr/"]),
        name in "[a-z]{1,5}",
        form in select(&[
            "#=@; rm -rf $#", "#=@\nrm -rf \"$#\"", "export #=@ && rm -r \"$#\"", "q#=@; #=$q#; rm -rf $#",
            "true && #=@; [ -n \"$#\" ] && rm -rf \"$#\"", "echo @ | xargs rm -rf", "echo # @ | xargs -n1 rm -rf",
            "find @ -delete", "find # @ -type f -exec rm {} +", "find @ -type f -print0 | xargs -0 rm -f",
            "#=@; find $# -mindepth 1 -delete",
        ]),
    ) {
        let text = form.replace('#', &name).replace('@', target);
        prop_assert_eq!(decide_command(&text, &RuleSet::default(), PermissionMode::BypassPermissions), Ask, "{}", text);
        let harmless = form.replace('#', &name).replace('@', "build/out");
        prop_assert_eq!(decide_command(&harmless, &RuleSet::default(), PermissionMode::BypassPermissions), Allow, "{}", harmless);
    }

    #[test]
    fn scripts_are_not_what_they_contain(word in plain_word(), runner in select(&[
        "bash -c '@'", "sh -c \"@\"", "eval '@'", "eval @", "bash <<'E'\n@\nE\n", "echo '@' | sh", "source @", ". @", "exec @", "trap '@' EXIT",
        "alias x='@'", "hash -p @ ls", "enable -f @ ls", "f() { @; }", "coproc @", "python3 -c '@'", "watch @", "setsid @", "ionice @", "flock l @",
        "find . -exec @ ;",
    ])) {
        let allowing = rules(&[], &[], &["Bash(tool:*)", "Bash(watch:*)", "Bash(setsid:*)", "Bash(ionice:*)", "Bash(flock:*)", "Bash(find:*)"]);
        let text = runner.replace('@', &format!("tool {word}"));
        prop_assert_ne!(decide_by_default(&text, &allowing), Allow, "{}", text);
    }

    #[test]
    fn a_closed_file_is_closed_to_readers_too(
        reader in select(&["cat", "head -1", "tail -n 2", "grep KEY", "sed -n 1p", "wc -l", "nl", "sort", "less"]),
        spelling in select(&[".env", "./.env", "sub/../.env", "sub/.env", "'.env'", ".en''v", "/srv/repo/.env", ".ENV"]),
    ) {
        let closing = rules(&["Read(.env)"], &[], &["Bash"]);
        prop_assert_eq!(decide_by_default(&format!("{reader} {spelling}"), &closing), Deny);
        prop_assert_eq!(decide_by_default(&format!("{reader} < {spelling}"), &closing), Deny);
        prop_assert_ne!(decide_by_default(&format!("{reader} $x"), &closing), Allow);
        prop_assert_ne!(decide_by_default(&format!("{reader} ~/.ssh/id"), &RuleSet::default()), Allow);
    }

    #[test]
    fn paths_are_judged_by_place_mode_and_segment(name in "[a-z]{1,6}", mode in select(&PermissionMode::ALL[..])) {
        let none = RuleSet::default();
        let inside = format!("/srv/repo/{name}/a");
        prop_assert_eq!(decide_path("Read", &inside, &none, mode), Allow);
        prop_assert_eq!(decide_path("Read", &format!("/srv/repo-{name}/a"), &none, PermissionMode::Default), Ask);
        let denied = rules(&[&format!("Read({name}/**)")], &[], &["Read", "Edit", "Write"]);
        prop_assert_eq!(decide_path("Read", &inside, &denied, mode), Deny);
        prop_assert_eq!(decide_path("Write", &inside, &denied, mode), Deny);
        prop_assert_eq!(decide_path("Read", &inside.to_uppercase().replace("/SRV/REPO", "/srv/repo"), &denied, mode), Deny);
        let allowed = rules(&[], &[], &[&format!("Edit({name}/**)")]);
        prop_assert_eq!(decide_path("Write", &inside, &allowed, PermissionMode::Default), Allow);
        prop_assert_eq!(decide_path("Write", &format!("/srv/repo/0/{name}/a"), &allowed, PermissionMode::Default), Ask);
        prop_assert_eq!(decide_path("Write", &format!("/srv/repo/{name}/.git/x"), &allowed, PermissionMode::Default), Ask);
        prop_assert_ne!(decide_path("Read", &format!("/proc/self/root/{name}"), &rules(&[], &[], &["Read"]), PermissionMode::Default), Allow);
    }
}
