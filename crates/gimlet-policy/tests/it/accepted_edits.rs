//! The mode that accepts edits: commands that do nothing but edit files in the working directories pass, wherever they
//! stand; what leads out, through links as well, asks.

use gimlet_policy::Decision::{Allow, Ask};
use gimlet_policy::{Decision, RuleSet};
use gimlet_proto::PermissionMode;

use crate::fixtures::{decide_with_table, exact_repository, rules};

const FILES: &[(&str, Option<&str>)] = &[
    ("d/one", None),
    ("d/deep/two", None),
    ("repo/.git/config", None),
    ("linked/l", Some("/etc/passwd")),
    ("src/a.o", None),
    ("src/b.o", None),
    ("odd/-rf", None),
    ("out", Some("/outside")),
    ("trap/d/one", Some("/outside/x")),
    ("x.o", None),
    ("lnks/a/l3", Some("../out")),
    ("lnks/out/o", None),
    ("tgt/f", Some("/outside/f")),
    ("lock/x.lock", None),
    ("mm/m", None),
    ("mm/.env", None),
    ("f", None),
    ("pre/d/deep/new", None),
    ("pre/pre/x", None),
    ("new", Some("/outside/new")),
    ("pk1/a", None),
    ("pk2/sub/.git/config", None),
];

fn decide_edit(text: &str) -> Decision {
    decide_edit_with_rules(&RuleSet::default(), text)
}

fn decide_edit_with_rules(rules: &RuleSet, text: &str) -> Decision {
    decide_with_table(text, &exact_repository(FILES), rules, PermissionMode::AcceptEdits)
}

#[test]
fn edits_in_the_working_directories_pass() {
    for text in [
        "cp -r d dst",
        "cp -a d/. dst",
        "cp -r d src dst",
        "cp -r d dst && touch dst/x && echo hi > dst/y",
        "rm -rf dst && cp -r d dst",
        "mkdir -p dst && cp -R d dst",
        "cd src && touch a",
        "cd src && rm -f a.o && mkdir -p deep",
        "rm src/*.o",
        "rm -f -- *.o",
        "rm -r pk1*",
        "cd src && rm *.o",
        "for f in src/*.o; do rm \"$f\"; done",
        "touch src/?.o",
        "mkdir -p src/{x,y}/deep",
        "rm src/{a,b}.o",
    ] {
        assert_eq!(decide_edit(text), Allow, "{text}");
    }
}

#[test]
fn edits_that_may_lead_out_or_to_protected_files_ask() {
    for text in [
        "cp -r repo dst",
        "cp -r linked dst",
        "cp -r d trap",
        "cp -r d out",
        "cp -r d ../dst",
        "cp -r /etc/x dst",
        "cp -rd d dst",
        "cp d/* dst",
        "cd d && cd deep && touch ../x",
        "cd out && touch a",
        "cd $x && touch a",
        "cd .. && touch a",
        "cd d; cd \"$x\"; rm one",
        "rm out/*",
        "rm odd/../-*",
        "cd odd && rm *",
        "rm *",
        "rm -r pk*",
        "rm -rf p?2",
        "for d in pk*; do rm -rf $d; done",
        "rm -rf -- *",
        "rm .[a-z]*",
        "rm .g*/config",
        "rm *.yml",
        "rm -r {src,.}",
        "rm {-r,src}",
        "touch {a,.git/config}",
        "touch {a,../b}",
        "rm -r src/*",
        "rm $f",
        "rm -rf $d/*",
        "rm ~/x*",
        "for f in $(ls); do rm $f; done",
        "ln -s /etc e; cp -r d e",
        "touch -- src/-rf && rm src/*",
    ] {
        assert_eq!(decide_edit(text), Ask, "{text}");
    }
}

#[test]
fn a_copied_link_is_no_plain_edit_and_nothing_is_written_through_it() {
    let linking = "cp -r lnks/a/l3 l9";
    for text in [linking, "cp -r lnks/a/l3/ l9", "cp -r lnks/a/l3 .", "cp -a lnks/a/l3/. l9", "cp -r missing l9"] {
        assert_eq!(decide_edit(text), Ask, "{text}");
    }
    let copying = rules(&[], &[], &["Bash(cp:*)"]);
    assert_eq!(decide_edit_with_rules(&copying, linking), Allow);
    for then in ["touch l9/x", "echo hi > l9/x", "rm l9/o", "mkdir l9/x", "sed -i s/a/b/ l9/o"] {
        assert_eq!(decide_edit_with_rules(&copying, &format!("{linking} && {then}")), Ask, "{then}");
    }
}

#[test]
fn nothing_is_written_through_a_name_that_the_text_itself_gives() {
    let naming = rules(&[], &[], &["Bash(mv:*)", "Bash(ln:*)", "Bash(cp:*)"]);
    for naming_it in
        ["mv out l9", "mv -f out l9", "ln -s /outside l9", "ln -sf /outside ./l9", "cp -P out l9", "cp -d out l9"]
    {
        for then in [
            "touch l9/x",
            "touch l9",
            "echo hi > l9/x",
            "echo hi > l9",
            "rm l9/o",
            "mkdir l9/x",
            "cd d && touch ../l9/x",
        ] {
            for joint in [" && ", "; ", "\n"] {
                let text = format!("{naming_it}{joint}{then}");
                assert_eq!(decide_edit_with_rules(&naming, &text), Ask, "{text}");
            }
        }
    }
    for text in [
        "mv out d && touch d/out/x",
        "mv out d/ && touch d/out/x",
        "mv -t d out && touch d/out/x",
        "ln -s /etc && touch etc/x",
        "ln -s /outside . && touch outside/x",
        "sudo ln -s /outside l9; touch l9/x",
        "mv $x l9 && touch f",
        "cp -r $x l9 && touch l9/x",
        "cp -a lnks/a/l3 l9 && touch l9/x",
        "for n in a b; do ln -s /outside $n; done; touch a/x",
        "touch l9/x; ln -s /outside l9; touch l9/x",
    ] {
        assert_eq!(decide_edit_with_rules(&naming, text), Ask, "{text}");
    }
    for text in [
        "mv f g && touch src/a.o",
        "mv f d/ && touch d/one",
        "ln -s d l9 && touch src/x",
        "ln -s d l9 && echo hi > src/x",
        "mv f g && mkdir new2",
        "cp f g && touch g",
    ] {
        assert_eq!(decide_edit_with_rules(&naming, text), Allow, "{text}");
    }
    let writing = rules(&[], &[], &["Bash(ln:*)", "Bash(make:*)", "Edit(src/**)"]);
    let ordinary = |text: &str| decide_with_table(text, &exact_repository(FILES), &writing, PermissionMode::Default);
    assert_eq!(ordinary("ln -s /outside src/e && make > src/e/x"), Ask);
    assert_eq!(ordinary("ln -s /outside src/e && make > src/f"), Allow);
}

#[test]
fn a_folder_that_goes_takes_no_file_with_it_that_a_rule_keeps() {
    let keeping = rules(&["Edit(./d/one)", "Read(./lock/x.lock)"], &["Edit(**/m)"], &["Bash(rm:*)", "Bash(mv:*)"]);
    for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::BypassPermissions] {
        let judge = |text: &str| decide_with_table(text, &exact_repository(FILES), &keeping, mode);
        for text in [
            "rm -r d",
            "rm -rf ./d",
            "rm --recursive d",
            "rm --rec d/",
            "rm -rf src d",
            "sudo rm -rf d",
            "cd src && rm -rf ../d",
            "mv d x",
            "mv d src/",
            "mv src d x",
            "mv -t src d",
            "mv lock x",
            "rm -r mm",
            "mv mm x",
            "rm -rf lock && true",
        ] {
            assert_eq!(judge(text), Ask, "{text} in {mode}");
        }
        for text in ["rm -r src", "rm -rf pk1 odd", "mv src x", "mv src d", "rm -r missing", "mv f d", "rm d/deep/two"]
        {
            assert_eq!(judge(text), Allow, "{text} in {mode}");
        }
    }
    // What a folder brings to its new place is looked at as well.
    let arriving = rules(&["Edit(./x/a.o)", "Edit(./y/src/b.o)"], &[], &["Bash(mv:*)"]);
    let judge = |text: &str| decide_with_table(text, &exact_repository(FILES), &arriving, PermissionMode::Default);
    assert_eq!((judge("mv src x"), judge("mv src y"), judge("mv src z"), judge("mv d x")), (Ask, Ask, Allow, Allow));
}

#[test]
fn a_folder_that_the_text_changes_is_not_copied_by_what_was_in_it() {
    for text in [
        "mkdir n && cp f n/f && cp -r n/. tgt",
        "cp f d && cp -r d/. tgt",
        "touch d/f && cp -r d/. tgt",
        "echo x > d/f; cp -r d/. tgt",
        "mv f d; cp -r d/. tgt",
        "cp -r mm/. d && cp -r d/. tgt",
        "cp -r pre/d d/deep/. .",
        "cp -r pre/. .",
    ] {
        assert_eq!(decide_edit(text), Ask, "{text}");
    }
    let making = rules(&[], &[], &["Bash(make:*)"]);
    assert_eq!(decide_edit_with_rules(&making, "make && cp -r d dst"), Ask);
}

#[test]
fn rules_that_close_files_hold_for_what_a_copy_brings_along() {
    let closing = rules(&["Edit(./dst/one)", "Edit(**/*.lock)", "Read(./lo2/m)", "Edit(./.env)"], &[], &[]);
    for text in [
        "cp -r d dst",
        "cp -r d/. dst",
        "cp -rT d dst",
        "cp -r lock q",
        "cp d/one dst",
        "cp mm/m lo2",
        "mv mm/m lo2",
        "cp mm/.env .",
    ] {
        assert_ne!(decide_edit_with_rules(&closing, text), Allow, "{text}");
    }
    for text in ["cp -r d other", "cp d/deep/two dst", "mv mm/m lo3"] {
        assert_eq!(decide_edit_with_rules(&closing, text), Allow, "{text}");
    }
}

/// What is moved or removed with a folder is no plain edit if it is protected, nor is what becomes so.
#[test]
fn a_folder_with_something_protected_in_it_is_not_moved_unasked() {
    let files = exact_repository(&[
        ("d/.claude/settings.json", None),
        ("d/a", None),
        ("deep/er/.git/config", None),
        ("cfg/git/config", None),
        ("plain/a", None),
        ("plain/b/c", None),
        (".config/x", None),
    ]);
    let decided = |text: &str| decide_with_table(text, &files, &rules(&[], &[], &[]), PermissionMode::AcceptEdits);
    for text in [
        "mv d y",
        "mv d/ y",
        "mv ./d y",
        "mv plain d y",
        "mv d plain",
        "mv -f deep plain",
        "mv cfg .config",
        "mv .git x",
        "mv plain .git",
        "rm -r d",
        "rm -rf deep/er",
        "cp -r d y",
        "cp -r plain .claude",
        "cp -r cfg/. .config",
        "rsync -a plain/ d/.claude/",
        "rsync -a d/ plain/",
    ] {
        assert_eq!(decided(text), Ask, "{text}");
    }
    for text in
        ["mv plain y", "mv plain/a y", "mv d/a y", "rm -r plain", "mv plain/b d", "rm -rf build", "cp -r plain y"]
    {
        assert_eq!(decided(text), Allow, "{text}");
    }
}
