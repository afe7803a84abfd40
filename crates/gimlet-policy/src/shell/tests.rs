//! Tests of difficult texts: which count as one simple command, are read-only, are destructive, or are not understood.

use std::path::{Path, PathBuf};

use super::{EnvironmentNames, ParseTrouble, ShellAnalysis, ShellFacts, Word, analyse};

pub(super) fn analyse_in_repo(text: &str) -> ShellAnalysis {
    let roots = [PathBuf::from("/repo")];
    analyse(
        text,
        &ShellFacts {
            cwd: Path::new("/repo"),
            roots: &roots,
            home: Some(Path::new("/home/dev")),
            environment: Some(&EnvironmentNames::default()),
        },
    )
}

fn found_commands(text: &str) -> Vec<String> {
    let join = |words: Vec<Word>| words.iter().map(Word::masked).collect::<Vec<_>>().join(" ");
    analyse_in_repo(text).commands.into_iter().map(join).collect()
}

#[test]
fn one_simple_command_gives_its_words_after_quote_removal() {
    let cases: &[(&str, &[&str])] = &[
        ("npm run test", &["npm", "run", "test"]),
        ("  npm\t run  test \n", &["npm", "run", "test"]),
        ("git commit -m \"a && b; c | d\"", &["git", "commit", "-m", "a && b; c | d"]),
        ("git commit -m 'use $(foo) `bar`'", &["git", "commit", "-m", "use $(foo) `bar`"]),
        ("echo \"price \\$5 \\n\"", &["echo", "price $5 \\n"]),
        ("c\\url x", &["curl", "x"]),
        ("cu\"r\"l ''", &["curl", ""]),
        ("cu\\\nrl x", &["curl", "x"]),
        ("npm run \\\n  test", &["npm", "run", "test"]),
        ("$'\\x63url' $'a\\'b'", &["curl", "a'b"]),
        ("ls my\\ dir", &["ls", "my dir"]),
        ("echo \"  \" \" a\"", &["echo", "  ", " a"]),
        ("echo a#b", &["echo", "a#b"]),
        ("xargs -I {} echo {}", &["xargs", "-I", "{}", "echo", "{}"]),
        ("echo 1 -3 0x1f", &["echo", "1", "-3", "0x1f"]),
        ("echo =cmd a=b $", &["echo", "=cmd", "a=b", "$"]),
        ("a\\ ", &["a "]),
        ("echo 'line one\n\nline two'", &["echo", "line one\n\nline two"]),
        ("cat file\u{e9}.txt", &["cat", "file\u{e9}.txt"]),
    ];
    for (text, words) in cases {
        assert_eq!(analyse_in_repo(text).simple.as_deref(), Some(words.map_owned().as_slice()), "{text:?}");
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|word| (*word).to_owned()).collect()
    }
}

#[test]
fn anything_more_than_static_words_is_not_simple() {
    for text in [
        "",
        " ",
        "a;b",
        "a; b",
        "a && b",
        "a || b",
        "a | b",
        "a |& b",
        "a & b",
        "a &",
        "a;",
        "a\nb",
        "(a)",
        "{ a; }",
        "! a",
        "a > b",
        "a >| b",
        "a >> b",
        "a < b",
        "a <<< b",
        "a <<E\nx\nE",
        "a <> b",
        "a &> b",
        "a 2>&1",
        ">b a",
        "a $x",
        "a ${x}",
        "a ${x:-$(rm)}",
        "a $(b)",
        "a `b`",
        "a \"$(b)\"",
        "a \"`b`\"",
        "a <(b)",
        "a >(b)",
        "a $((1))",
        "a $[1]",
        "a *",
        "a ?",
        "a [b]",
        "a ~",
        "a ~/x",
        "a b=~/x",
        "a {b,c}",
        "a {1..3}",
        "{a,b}",
        "X=1 a",
        "X=1",
        "X+=1 a",
        "x[0]=1 a",
        "a $\"b\"",
        "a # b",
        "a - <<E\nx\nE",
        "a ;; b",
        "a ;& b",
        "a 'b",
        "a \"b",
        "a `b",
        "a $(b",
        "a \\",
        "a \\ b",
        "a \u{0}",
        "a\rb",
        "a\r\n",
        "a\u{a0}b",
        "a \u{2003}b",
        "a \u{202e}b",
        "a\u{200b}b",
        "a \u{e0041}",
        "if a; then b; fi",
        "for x in a; do b; done",
        "while a; do b; done",
        "case a in b) c;; esac",
        "a() { b; }",
        "function a { b; }",
        "coproc a",
        "[[ a ]]",
        "[ a ]",
        "((a))",
        "export A=b",
        "declare A",
        "unset A",
        "a )",
        "a (b)",
        "echo `` x",
        "$a b",
        "\"$a\" b",
        "a=b",
        "select x in a; do b; done",
        "let 'x=1' ; a",
        "a @(b|c)",
        "echo $'a\\\\' ; rm x; echo 'b",
        "echo $'a\\\\'\nrm x\necho 'b",
        "time a | b",
        "then a",
        "a &&",
        "| a",
        "a\u{1b}[2K",
    ] {
        assert_eq!(analyse_in_repo(text).simple, None, "{text:?}");
    }
}

#[test]
fn a_denied_word_is_found_wherever_bash_would_run_it() {
    for text in [
        "rm x",
        "a; rm x",
        "a && rm x",
        "a || rm x",
        "a | rm x",
        "a |& rm x",
        "a & rm x",
        "a\nrm x",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "X=1 Y=2 rm x",
        ">out rm x",
        "rm >out x",
        "rm x > out 2>&1",
        "2>/dev/null rm x",
        "echo $(rm x)",
        "echo `rm x`",
        "echo \"a $(rm x) b\"",
        "echo \"`rm x`\"",
        "cat <(rm x)",
        "a > >(rm x)",
        "echo ${y:-$(rm x)}",
        "echo \"${y:+$(rm x)}\"",
        "echo $((1 + $(rm x)))",
        "y=$(rm x)",
        "y=(a $(rm x))",
        "export y=$(rm x)",
        "if a; then rm x; fi",
        "if rm x; then a; fi",
        "if a; then b; else rm x; fi",
        "if a; then b; elif rm x; then c; fi",
        "for i in 1 2; do rm x; done",
        "for i in $(rm x); do a; done",
        "while rm x; do a; done",
        "until a; do rm x; done",
        "case a in b) rm x;; esac",
        "case $(rm x) in *) ;; esac",
        "f() { rm x; }; f",
        "function f { rm x; }",
        "coproc rm x",
        "coproc JOB rm x",
        "time rm x",
        "cat <<E\n$(rm x)\nE",
        "cat <<E\n`rm x`\nE",
        "cat <<< $(rm x)",
        "[[ a =~ $(rm x) ]]",
        "[ \"$(rm x)\" ]",
        "sudo rm x",
        "env -i A=1 rm x",
        "nohup timeout 5 rm x",
        "ls | xargs rm x",
        "exec rm x",
        "bash -c 'rm x'",
        "sh -ec \"rm x\"",
        "eval 'rm x'",
        "eval rm x",
        "sudo bash -c 'a; rm x'",
        "watch -n1 'rm x'",
        "trap 'rm x' EXIT",
        "r\\m x",
        "'rm' x",
        "r''m x",
        "$'\\x72m' x",
        "r\\\nm x",
        "rm\t\tx",
        "a ;; rm x",
        "a && && rm x",
        "a ) ; rm x",
        "echo 'open\nrm x",
        "rm x &&",
        "echo $'a\\\\'\nrm x\necho 'b",
        "echo $'a\\\\' ; rm x; echo 'b",
        "a\r\nrm x",
        "a\u{0}; rm x",
        "echo `` ; rm x",
        "cat <<'E' ; rm x\nbody\nE",
        "echo\\\n#; rm x",
        "echo ${y:-<(rm x)}",
        "echo ${y:-a `rm x` b}",
        "echo ${y:-a $(rm x) b}",
        "echo ${y/a/$(rm x)}",
        "echo ${y#$(rm x)}",
        "echo ${y:$(rm x)}",
        "case a in $(rm x)) b;; esac",
        "case a in *$(rm x)*) b;; esac",
        "echo $[$(rm x)]",
        "echo ``\nrm x",
        "cat <<E\nx\nE y\n`rm x`\nE",
        "cat <<'E'\nbody\nE\nrm x",
        "a &>out; rm x",
        "if true; then rm x",
        "echo $(rm x",
        "((y = $(rm x)))",
        "x[$(rm x)]=1",
        "select y in a; do rm x; done",
        "{ { { rm x; }; }; }",
        "a <> b; rm x",
    ] {
        let commands = found_commands(text);
        assert!(commands.iter().any(|command| has_removal(command)), "{text:?} gave {commands:?}");
    }
}

/// Returns true if the command itself, or the one that a wrapper in front of it runs, is `rm x`.
fn has_removal(command: &str) -> bool {
    let words: Vec<Word> = command.split(' ').map(Word::from_literal).collect();
    let first_two = |inner: &[Word]| {
        inner.first().and_then(Word::value) == Some("rm") && inner.get(1).and_then(Word::value) == Some("x")
    };
    super::reachable_commands(&words).into_iter().any(first_two)
}

#[test]
fn text_that_only_looks_like_a_command_is_none() {
    for text in [
        "echo rm x",
        "echo 'rm x'",
        "echo \"; rm x\"",
        "ls # rm x",
        "cat <<'E'\nrm x\nE",
        "git commit -m 'a\nrm x'",
        "grep -e 'rm x' f",
        "echo \\; rm x",
    ] {
        assert!(
            !found_commands(text).iter().any(|command| has_removal(command)),
            "{text:?} gave {:?}",
            found_commands(text)
        );
    }
}

#[test]
fn read_only_commands_and_their_lists() {
    for text in [
        "ls",
        "ls -la src",
        "cat README.md",
        "head -n 50 a",
        "head -n50 a",
        "tail -20 a",
        "pwd",
        "wc -l a b",
        "grep -rn TODO src",
        "grep -e a -e b src",
        "grep --include='*.rs' -r x .",
        "grep /etc/x src",
        "diff -u a b",
        "which node",
        "du -sh target",
        "echo hi",
        "printf '%s\\n' a",
        "printf -- '%d' 1",
        "true",
        ":",
        "whoami",
        "uname -a",
        "stat a",
        "cd src && ls",
        "ls | head -5",
        "ls; pwd",
        "ls\npwd",
        "ls || echo no",
        "ls 2>/dev/null",
        "ls > /dev/null 2>&1",
        "ls >&2",
        "cat /repo/a",
        "cat -- -n",
        "ls -- src",
        "cat -",
        "cat /dev/null",
        "ls --color=auto",
        "cd /repo && cat a",
        "cat $x",
        "cat *",
        "ls &",
        "tail -f a",
        "tail --follow a",
        "grep -f pats x",
        "LANG=C ls",
        "git status",
        "cat < a",
        "(ls)",
        "! ls",
        "ls # note",
        "time ls",
        "command ls",
    ] {
        assert!(analyse_in_repo(text).read_only, "{text:?}");
    }
}

#[test]
fn whatever_is_not_in_the_table_is_not_read_only() {
    for text in [
        "sleep 1",
        "ls > out",
        "ls >> /dev/nullx",
        "cat /etc/passwd",
        "cat ../x",
        "cat ~/x",
        "grep -f /etc/passwd x",
        "grep --file=p x",
        "grep --reg=x y",
        "printf -v x y",
        "printf '%n' PATH",
        "printf '%5n' PATH",
        "diff -l a b",
        "du --files0-from=x",
        "wc --files0-from=x",
        "cd",
        "cd -",
        "cd ..",
        "cd /",
        "cd ~",
        "cd a b",
        "cd .git && ls",
        "cd src && cat ../../x",
        "cd src && cat ../x",
        "cat a/../b",
        "cat /repo/a/../b",
        "cat ./a/./../b",
        "cd a/.. && ls",
        "ls a/b/../..",
        "./ls",
        "/bin/ls",
        "ls() { a; }; ls",
        "cat a | sh",
        "ls --sort",
        "cat -Q a",
        "cat /proc/self/environ",
        "ls $(a)",
        "ls --hyperlink /etc",
        "cd src; cat /etc/passwd",
        "cat a\\\n/../../etc/passwd",
    ] {
        let analysis = analyse_in_repo(text);
        assert!(!analysis.read_only, "{text:?} reads {:?}", analysis.reads);
    }
}

#[test]
fn critical_removals_are_found_through_wrappers_and_substitutions() {
    for text in [
        "rm -rf /",
        "rm -rf //",
        "rm -rf /etc",
        "rm -rf /usr/",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf $HOME",
        "rm -rf \"$HOME\"/",
        "rm -rf ${HOME}/*",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf ..",
        "rm -rf ../..",
        "rm -rf src/..",
        "rm -rf /repo",
        "rm -rf /home/dev",
        "rm -rf /home",
        "rm -rf /*",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf ../*",
        "rm -rf \"$DIR\"/*",
        "rm -rf $DIR/",
        "rm -rf $DIR/*",
        "rm -rf $DIR/etc",
        "rm -rf \"$(pwd)\"",
        "rm -rf ~other",
        "rmdir /repo",
        "sudo rm -rf /",
        "echo $(rm -rf /)",
        "bash -c 'rm -rf /'",
        "ls; rm -rf /",
        "X=1 rm -rf /",
        "/bin/rm -rf /",
        "rm -rf a b /",
        "rm -rf -- /",
        "cd / && rm -rf etc",
        "rm -rf /usr/*",
        "rm -r $PWD",
        "rm -rf / |",
        "rm -rf '/'",
    ] {
        assert!(analyse_in_repo(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "rm -rf node_modules",
        "rm -f build/out.o",
        "rm *.o",
        "rm -rf src/*",
        "rm -rf \"$DIR/build/x\"",
        "rm \"$f\"",
        "rm -rf ~/x/y",
        "rm -rf /tmp/work",
        "echo rm -rf /",
        "ls /",
        "rm -rf /repo/target",
        "rm",
        "git rm -r .",
    ] {
        assert_eq!(analyse_in_repo(text).critical_removal, None, "{text:?}");
    }
    for text in ["rm *.o", "rm -f ./a*", "rm src/../*.o", "rm ~/*.txt", "rm /tmp/x*", "echo *.o | xargs rm"] {
        assert!(analyse_in_repo(text).sweeping_removal.is_some(), "{text:?}");
    }
    for text in ["rm src/*.o", "rm -rf src/*", "rm -rf */target", "ls *.o", "rm a.o; ls *.o"] {
        assert_eq!(analyse_in_repo(text).sweeping_removal, None, "{text:?}");
    }
}

#[test]
fn destruction_is_recognised() {
    for text in [
        "rm -r x",
        "rm -f x",
        "rm --force x",
        "git reset --hard",
        "git -C x reset --hard HEAD~1",
        "git clean -fdx",
        "git push --force",
        "git push -f",
        "git push --force-with-lease",
        "git push origin +main",
        "git rebase -i x",
        "git commit --amend",
        "git filter-branch",
        "git branch -D x",
        "mkfs.ext4 /dev/sda",
        "dd if=a of=/dev/sda",
        "psql -c 'DROP TABLE x'",
        "mysql -e \"truncate table x\"",
        "a && sudo rm -rf x",
        "find . -delete",
    ] {
        assert!(analyse_in_repo(text).destructive, "{text:?}");
    }
    for text in
        ["rm x", "git reset", "git push", "git clean -n", "psql -c 'select 1'", "echo rm -rf", "git commit -m x", "ls"]
    {
        assert!(!analyse_in_repo(text).destructive, "{text:?}");
    }
}

#[test]
fn facts_for_time_outs_exit_codes_and_file_state() {
    assert_eq!(analyse_in_repo("sleep 5").starts_with_sleep, Some(5.0));
    assert_eq!(analyse_in_repo("sleep 1m 2 && a").starts_with_sleep, Some(62.0));
    assert_eq!(analyse_in_repo("a && sleep 5").starts_with_sleep, None);
    assert!(analyse_in_repo("a && sudo git status").runs_git && !analyse_in_repo("echo git").runs_git);
    let last = |text: &str| analyse_in_repo(text).last_pipeline_command;
    assert_eq!(last("cat a | grep b").as_deref(), Some("grep"));
    assert_eq!(last("a; timeout 5 grep \"$(rm x)\" f").as_deref(), Some("grep"));
    assert_eq!(last("git -C x diff --stat").as_deref(), Some("git diff"));
    assert_eq!(last("[ -f a ]").as_deref(), Some("["));
    assert_eq!(last("if a; then b; fi"), None);
    assert_eq!(last("a 'b"), None);
    let view = |text: &str| analyse_in_repo(text).view_of_file;
    assert_eq!(view("cat src/a.rs"), Some("/repo/src/a.rs".into()));
    assert_eq!(view("head -n 5 a"), Some("/repo/a".into()));
    assert_eq!(view("sed -n '10,20p' a"), Some("/repo/a".into()));
    assert_eq!(view("grep -n x /etc/a"), Some("/etc/a".into()));
    assert_eq!(view("rg -n x a"), Some("/repo/a".into()));
    for text in ["cat a b", "cat a | head", "cat a > b", "sed -n 's/a/b/p' a", "cat", "ls a", "cat -"] {
        assert_eq!(view(text), None, "{text:?}");
    }
    for text in [
        "sed -i s/a/b/ f",
        "prettier --write .",
        "npx prettier -w .",
        "git checkout x",
        "cargo fmt",
        "echo a > b",
        "cargo clippy --fix",
    ] {
        assert!(analyse_in_repo(text).looks_like_writer, "{text:?}");
    }
    assert!(
        !analyse_in_repo("sed -n 1p f").looks_like_writer
            && !analyse_in_repo("git status").looks_like_writer
            && !analyse_in_repo("ls 2>/dev/null").looks_like_writer
    );
}

#[test]
fn trouble_is_named() {
    assert_eq!(analyse_in_repo("echo 'a").trouble, Some(ParseTrouble::Syntax));
    assert_eq!(analyse_in_repo("ls\r").trouble, Some(ParseTrouble::Character));
    assert_eq!(analyse_in_repo(&format!("echo {}", "a".repeat(10_000))).trouble, Some(ParseTrouble::TooLong));
    assert_eq!(analyse_in_repo(&"(".repeat(1000)).trouble, Some(ParseTrouble::TooDeep));
    assert_eq!(analyse_in_repo("ls && cat <<'E'\nx\nE").trouble, None);
    assert!(analyse_in_repo("for f in a b; do cat \"$f\"; done").fully_parsed);
}

#[test]
fn braces_and_brackets_with_blanks_between_them_are_no_single_word() {
    // To bash the last word of `x=] ]` is a program, and that of `ls > } }` an operand.
    for text in ["a } ]", "x=] ]", "ls > } }", "for i in ] ]; do ls; done", "echo ]\t]", "a; } ]]; b", "npm run ] ]"] {
        assert_eq!(analyse_in_repo(text).trouble, Some(ParseTrouble::Syntax), "{text:?}");
    }
    for text in ["echo ]]", "echo ]\\\n]", "echo ']' ]", "echo ] a ]", "echo '] ]'", "echo \\]\\ ]"] {
        assert_eq!(analyse_in_repo(text).trouble, None, "{text:?}");
    }
}

#[test]
fn readers_take_names_that_begin_with_any_letter() {
    for text in ["head \u{e9}-40", "tail \u{1f574}", "head -n 3 \u{e9}", "head -40 \u{e9}"] {
        assert!(analyse_in_repo(text).read_only, "{text}");
    }
    assert!(!analyse_in_repo("head -\u{e9}4 a").read_only, "no flag that is known");
}

#[test]
fn characters_beyond_ascii_reach_the_grammar_as_letters() {
    // Passed on unchanged, these make the grammar's scanner read outside its tables.
    for text in ["{\u{31860}", "{1..\u{10ffff}", "{12\u{e9}; rm x", "echo {\u{1f574}\u{1f574}"] {
        assert_eq!(analyse_in_repo(text).simple, None, "{text:?}");
    }
    assert!(found_commands("{12\u{e9}; rm x").contains(&"rm x".to_owned()));
    assert_eq!(
        analyse_in_repo("echo '\u{1f574}' \u{e9}").simple,
        Some(vec!["echo".into(), "\u{1f574}".into(), "\u{e9}".into()])
    );
}

#[test]
fn every_place_that_a_list_may_read_is_told_to_whoever_follows_links() {
    let reads = |text: &str| {
        let analysis = analyse_in_repo(text);
        assert!(analysis.read_only, "{text}");
        analysis.reads.iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(reads("cd link"), ["/repo/link", "/repo/link/link"]);
    assert_eq!(reads("cd link && cat x"), ["/repo/link", "/repo/link/link", "/repo/x", "/repo/link/x"]);
    assert_eq!(reads("for f in a b; do cat \"$f\"; done < c"), ["/repo/a", "/repo/b", "/repo/c"]);
    let twice = reads("cd a; cd b; cat x");
    for path in ["/repo/a", "/repo/b", "/repo/a/b", "/repo/x", "/repo/a/x", "/repo/b/x", "/repo/a/b/x"] {
        assert!(twice.iter().any(|read| read == path), "{path} of {twice:?}");
    }
    assert_eq!(reads("head -c 600 notes.txt; true 5"), ["/repo/notes.txt"]);
    assert!(!analyse_in_repo("cd a; cd b; cd c; cd d; cat x").read_only);
}

#[test]
fn climbing_from_one_working_directory_to_another_is_not_read_only() {
    let roots = [PathBuf::from("/a/here"), PathBuf::from("/a/there")];
    let facts = ShellFacts { cwd: Path::new("/a/here"), roots: &roots, home: None, environment: None };
    assert!(analyse("cat /a/there/x", &facts).read_only);
    assert!(!analyse("cat ../there/x", &facts).read_only, "the directory above a link is not the one of its spelling");
    let inside = ShellFacts { cwd: Path::new("/a/here/sub"), ..facts };
    assert!(analyse("cat ../x", &inside).read_only);
}
