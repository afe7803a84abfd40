//! Rules that keep files from being changed, beside programs of every kind: who is known to write one is refused, who may
//! be told to write one asks, and who leaves it alone runs.

use gimlet_policy::Decision::{Allow, Deny};
use gimlet_policy::{Decision, RuleSet};
use gimlet_proto::PermissionMode::BypassPermissions;
use proptest::prelude::*;

use crate::fixtures::{decide_command, decide_with_table, exact_repository, rules};

fn write_deny_rules() -> RuleSet {
    rules(&["Edit(keys/**)", "Edit(out/k)", "Edit(.env)"], &[], &[])
}

const FILES: &[(&str, Option<&str>)] = &[
    ("a.txt", None),
    ("a/k", None),
    (".env", None),
    ("keys/k", None),
    ("keys/deep/z", None),
    ("src/a.rs", None),
    ("src/sub/b.rs", None),
    ("other/keys/k", None),
    ("out/x", None),
    ("tests/t.py", None),
    ("lk", Some("/srv/repo/keys/k")),
];

fn decide_with_kept_files(text: &str) -> Decision {
    decide_with_table(text, &exact_repository(FILES), &write_deny_rules(), BypassPermissions)
}

#[test]
fn known_writers_of_a_denied_file_are_refused() {
    for text in [
        "git rm keys/k",
        "git rm -r keys",
        "git mv keys/k x",
        "git mv a.txt keys/k",
        "git restore keys/k",
        "git restore --source=HEAD~1 -- keys/k",
        "git restore --staged --worktree keys/k",
        "git checkout -- keys/k",
        "git checkout HEAD~1 -- keys/k",
        "git checkout ./keys/k",
        "git clean -fd keys",
        "find keys -delete",
        "find keys -name k -delete",
        "rsync -a src/ keys/",
        "rsync -a --delete src/ keys/",
        "scp host:x keys/k",
        "truncate -s 0 keys/k",
        "install a.txt keys/k",
        "install -m 600 a.txt keys",
        "dd if=a.txt of=keys/k",
        "ln -sf a.txt keys/k",
        "sed -i s/a/b/ keys/k",
        "perl -pi -e s/a/b/ keys/k",
        "tee keys/k",
        "echo x | sponge keys/k",
        "cp a.txt keys/k",
        "cp -t keys a.txt",
        "touch keys/new",
        "shred keys/k",
        "chmod -R u+w keys",
        "echo x > keys/k",
        "sudo rm keys/k",
        "cd keys && rm k",
        "bash -c 'rm keys/k'",
        "bash -c 'echo x > keys/k'",
        "eval 'echo x >> keys/k'",
        "sh <<E\n: > keys/k\nE",
        "git rm lk",
    ] {
        assert_eq!(decide_with_kept_files(text), Deny, "{text}");
        assert!(
            decide_command(text, &write_deny_rules(), BypassPermissions) == Deny || text.ends_with("lk"),
            "{text}, unseen"
        );
    }
}

#[test]
fn possible_writers_of_a_denied_file_ask() {
    for text in [
        "python3 w.py keys/k",
        "python3 -c \"open('keys/k','w')\"",
        "python3 - <<E\nopen('keys/k', 'w')\nE",
        "echo keys/k | python3 w.py",
        "echo keys/k | xargs python3 w.py",
        "F=keys/k ./tool",
        "for f in keys/k; do ./tool $f; done",
        "while read f; do ./tool $f; done <<< keys/k",
        "./tool keys/*",
        "./tool --out=keys/k",
        "./tool -okeys/k",
        "tar -xf a.tar -C keys",
        "tar xf a.tar -C keys",
        "tar czf keys/a.tgz src",
        "tar -cf keys/a.tar src",
        "tar czf a.tgz --remove-files keys/k",
        "unzip -d keys a.zip",
        "unzip a.zip -d keys",
        "gzip keys/k",
        "sort -o keys/k a.txt",
        "sort -uo keys/k a.txt",
        "sed 's/a/b/w keys/k' a.txt",
        "sed 's/a/b/wkeys/k' a.txt",
        "sed -n wkeys/k a.txt",
        "sed -n -e 1wkeys/k a.txt",
        "awk '{print > \"keys/k\"}' a.txt",
        "awk -v n=1 '{print > \"keys/k\"}' a.txt",
        "awk -F , '{print > \"keys/k\"}' a.txt",
        "awk -F, -v n=1 '{print | \"tee keys/k\"}' a.txt",
        "gawk -l x '{system(\"rm keys/k\")}' a.txt",
        "sed -l 5 's/a/b/w keys/k' a.txt",
        "sed -ne 's/a/b/w keys/k' a.txt",
        "view -es -c '%d' -c 'wq!' keys/k",
        "rsync -a src/ keys/ --exclude foo",
        "rsync -a src/ keys/ --exclude foo -v --exclude \"$X\"",
        "rsync -a src/ keys/ $X",
        "scp a.txt keys/k -P 22",
        "gawk -i inplace '{print}' keys/k",
        "curl -o keys/k http://example.com",
        "wget -P keys http://example.com",
        "vim keys/k",
        "patch -o keys/k a.txt",
        "git diff --output=keys/k",
        "git diff --outp keys/k",
        "git archive -o keys/k HEAD",
        "git clone x keys/y",
        "git apply --directory=keys x.diff",
        "git checkout keys/k",
        "git checkout main keys/k",
        "git stash push keys/k",
        "git reset --hard keys",
        "git -C keys rm k",
        "git -C src rm ../keys/k",
        "env -C keys rm k",
        "env --chdir=src ./tool ../keys/k",
        "make -C keys clean",
        "find keys -exec ./tool {} +",
        "find . -name .env -exec ./tool {} +",
        "find . -exec ./tool {} +",
        "find . -name k -exec sudo ./tool {} +",
        "find . -name k | xargs ./tool",
        "find keys | xargs ./tool",
        "find . | while read f; do ./tool $f; done",
        "ls keys/k | xargs ./tool",
        "ls keys/* | xargs -n1 ./tool",
        "set -- keys/k; ./tool \"$@\"",
        "git clean -fdx",
        "git clean -fdx -e foo",
        "git clean -fd -en keys/deep",
        "git clean -e -n -fd",
        "git clean -nd --no-dry-run -f",
        "git clean -fd -- -n .",
        "git log \"$X\" keys/k",
        "git rm --pathspec-from-file x",
        "strace -o keys/k ls",
        "flock keys/lock ls",
        "npx prettier --write keys/k",
        "npx eslint --fix keys",
        "npx npx bunx uvx eslint --fix keys",
        "npx npx npx npx npx npx npx npx npx npx jest keys",
        "ruff check --add-noqa keys",
        "ruff check \"$X\" keys",
        "eslint $X keys",
        "pytest --junitxml keys/k",
        "pytest --junitxml=keys/k",
        "go build -o keys/k",
        "cargo run -- keys/k",
        "bash script.sh keys/k",
        "bash -c './tool \"$1\"' _ keys/k",
        "KEYS=keys/k; ./tool $KEYS",
        "./tool lk",
        // What lies below is named by no word.
        "rm -r other",
        "git rm -r .",
        "git checkout -- .",
        "git checkout .",
        "git restore .",
        "find . -delete",
        "find . -type f -delete",
        "find . -name '.e*' -delete",
        "find . -delete -name '*.rs'",
        "find . -name \"$X\" -delete",
        "find . -name '*.rs' $X -delete",
        "find . -name {a,k} -delete",
        "find . -exec ./tool {} + -name '*.rs'",
        "find . -print -name '*.rs' | xargs ./tool",
        "rsync -a other/ . --exclude foo",
        "rsync -a --delete src/ . --exclude foo",
        "env -C other rm -r keys",
        "git -C other rm -r keys",
        "env -C other mv keys x",
        "env -C other cp -r ../a/ ../out",
        "rsync -a --delete src/ .",
        "chmod -R u+w .",
        "mv other/keys x && true",
        "cp -r other/keys .",
        "cp -a other/. .",
        "rsync -a other/ .",
        // The target is a folder, and the name one that is kept.
        "cp a/k out",
        "cp a/k out/",
        "mv a/k out",
        "cp -t out a/k",
        "ln -s a/k out",
        "install a/k out",
        "rsync a/k out/",
    ] {
        assert_ne!(decide_with_kept_files(text), Allow, "{text}");
    }
}

#[test]
fn programs_that_leave_denied_files_alone_run() {
    for text in [
        "install -m 644 a out",
        "sed -i s/keys/k/ src/main.rs",
        "sed -i -e s/keys/k/g src/main.rs",
        "perl -pi -e s/keys/k/ src/main.rs",
        "cat keys/k",
        "ls keys",
        "ls -la keys/",
        "grep x keys/k",
        "grep -r x keys",
        "rg x keys",
        "git diff keys/k",
        "git log -- keys/k",
        "git add keys/k",
        "git commit -m 'change keys/k' keys/k",
        "git show HEAD:keys/k",
        "git blame keys/k",
        "git reset keys/k",
        "git log --oneline -- keys/k",
        "git log --oneline keys",
        "git commit -m \"$X\" keys/k",
        "git rm --cached keys/k",
        "git restore --staged keys/k",
        "git checkout main",
        "git checkout -b keys/topic",
        "git stash list",
        "find keys -name k",
        "wc -l keys/k | sort -n",
        "sort keys/k",
        "sed -n 1,5p keys/k",
        "sed 's/a/b/' keys/k",
        "awk '{print $1}' keys/k",
        "awk -F , '{print $1}' keys/k",
        "awk -v n=1 -F: '{print n}' keys/k",
        "awk -f a.awk keys/k",
        "sed -e 's/a/b/' keys/k",
        "sed -n -E -e 's/a/b/p' keys/k",
        "sed -nE 's/a/b/p' keys/k",
        "less keys/k",
        "tar czf a.tgz keys",
        "tar czf a.tgz --exclude=.git keys",
        "tar -tf keys/a.tar",
        "rsync -a keys/k backup/",
        "rsync -a keys/k src/a.rs backup/",
        "rsync -a --exclude foo keys/k host:x",
        "rsync -a src/ x/ --exclude foo",
        "scp -P 22 keys/k host:x",
        "scp keys/k host:x",
        "sha512sum keys/k",
        "sudo cat keys/k",
        "sudo -n cat keys/k",
        "timeout 5 head keys/k",
        "bash -c 'cat keys/k'",
        "bash keys/run.sh",
        "python3 keys/run.py",
        "python3 -u keys/run.py x",
        "source keys/env.sh",
        "pytest keys/t.py",
        "pytest -x -v keys",
        "python3 -m pytest -q keys/t.py",
        "npx jest keys",
        "npx npx jest keys",
        "pytest keys/*.py",
        "cargo test keys",
        "cargo build",
        "go test ./keys/...",
        "make keys",
        "npm run keys",
        "npm test",
        "docker build .",
        "cat > notes.md <<E\nsee keys/k\nE",
        "gh pr create --title 'move keys/k' --body 'all of keys/k'",
        "echo keys/k",
        "[ -f keys/k ] && echo yes",
        "for f in keys/*; do echo $f; done",
        "rm -rf src",
        "rm -rf target",
        "cp a.txt b.txt",
        "cp -r src x",
        "mv src x",
        "mv a.txt b.txt && true",
        "git rm -r src",
        "git checkout -- src",
        "find . -name '*.rs' -delete",
        "find . -name '*.rs' -exec ./tool {} +",
        "find . -name '*.rs' | xargs ./tool",
        "find . -exec cat {} +",
        "find . -name '*.py' | xargs wc -l",
        "ls keys | wc -l",
        "ls src | xargs ./tool",
        "git clean -n",
        "git clean -nd",
        "git clean -ndx keys",
        "git clean --dry-run -e foo",
        "git clean -fd src -e foo",
        "git clean -fd src",
        "set -e; cat keys/k",
        "bash -c 'echo x > src/a'",
        "bash -c 'cat < keys/k'",
        "find src -delete",
        "rsync -a src/ x/",
        "rsync -a --delete src/ x/",
        "env -C src cat a.rs",
        "env -C src rm -r sub",
        "git -C src rm -r sub",
        "git -C src log",
        "make -C src",
        "./tool src/a.rs",
        "python3 w.py",
    ] {
        assert_eq!(decide_with_kept_files(text), Allow, "{text}");
    }
}

#[test]
fn rules_about_reading_reach_what_find_starts_and_where_options_lead() {
    let closing = rules(&["Read(keys/**)"], &[], &[]);
    let found = |text: &str| decide_with_table(text, &exact_repository(FILES), &closing, BypassPermissions);
    for text in [
        "find keys -exec ./tool {} +",
        "env -C keys cat k",
        "git -C src show HEAD:../keys/k",
        "env -C src cat ../keys/k",
    ] {
        assert_ne!(found(text), Allow, "{text}");
    }
    for text in ["find keys -name k", "env -C src cat a.rs"] {
        assert_eq!(found(text), Allow, "{text}");
    }
}

#[test]
fn git_puts_back_and_clears_away_without_reading_what_is_closed() {
    let closing = rules(&["Read(.env)"], &[], &[]);
    let found = |text: &str| decide_with_table(text, &exact_repository(FILES), &closing, BypassPermissions);
    for text in ["git checkout .", "git checkout -- .", "git restore .", "git clean -fd", "git clean -nd"] {
        assert_eq!(found(text), Allow, "{text}");
        assert_eq!(decide_command(text, &closing, BypassPermissions), Allow, "{text}, unseen");
    }
    for text in ["git checkout -- .env", "git restore .env", "git clean -fd .env", "rm -r .", "git mv . x"] {
        assert_ne!(found(text), Allow, "{text}");
    }
}

/// Ways to tell a program a path.
fn path_argument(path: &str) -> impl Strategy<Value = String> + use<> {
    let forms = ["P", "'P'", "\"P\"", "-o P", "-oP", "--out=P", "--out P", "of=P", "@P", "a:P", "./P", "src/../P"];
    let forms: Vec<String> = forms.iter().map(|form| form.replace('P', path)).collect();
    prop::sample::select(forms)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_unknown_program_is_told_a_kept_path_without_a_question(
        program in "x[a-z]{2,6}",
        before in prop::collection::vec("-{0,2}[a-z]{1,5}", 0..3),
        told in prop::sample::select(vec!["keys/k", "keys/deep/z", "out/k", ".env"]).prop_flat_map(path_argument),
        after in prop::collection::vec("[a-z.]{1,5}", 0..3),
        around in prop::sample::select(vec!["C", "cd src; C", "true && C", "sudo C", "(C)", "$(C)", "bash -c \"C\"", "if a; then C; fi"]),
    ) {
        let words: Vec<&str> = std::iter::once(&program).chain(&before).chain([&told]).chain(&after).map(String::as_str).collect();
        let text = around.replace('C', &words.join(" "));
        prop_assert_ne!(decide_with_kept_files(&text), Allow, "{}", text);
    }
}
