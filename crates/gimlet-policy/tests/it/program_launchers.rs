//! A program that a rule forbids, started by other programs: those that the tables know are seen through, and where nobody
//! knows what a program does with its words, a forbidden name among them asks.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_policy::{Decision, DecisionContext, SandboxPlacement};
use gimlet_proto::PermissionMode::{BypassPermissions, Default as Ordinary};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_command, decide_in_context, rules, test_context};

fn decide_in_bypass(text: &str) -> Decision {
    decide_command(text, &rules(&["Bash(rm:*)", "Bash(curl:*)", "Bash(git push:*)"], &[], &[]), BypassPermissions)
}

/// Ways to start `rm x` that are known to be ways to start it.
const CERTAIN: &[&str] = &[
    "flock /tmp/l -c 'rm x'",
    "flock -n /tmp/l --command 'rm x'",
    "flock /tmp/l rm x",
    "setarch x86_64 rm x",
    "setarch -R rm x",
    "linux64 rm x",
    "choom -n 5 rm x",
    "choom -n 5 -- rm x",
    "sg users -c 'rm x'",
    "sg users 'rm x'",
    "runuser -u me -- rm x",
    "runuser me -c 'rm x'",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "/lib/ld-musl-x86_64.so.1 --preload a.so /bin/rm x",
    "git -c alias.z='!rm x' z",
    "git -c user.name=a -c alias.z=!'rm x' z",
    "busybox rm x",
    "busybox sh -c 'rm x'",
    "script -qc 'rm x' /dev/null",
    "watch 'rm x'",
    "parallel rm ::: x",
    "parallel 'rm {}' ::: x",
    "printf 'rm x\\n' | parallel",
    "echo 'rm x' | xargs -I{} sh -c '{}'",
    "entr rm x",
    "$x/rm x",
    "~/bin/rm x",
    "pkexec rm x",
    "env -S 'rm x'",
    "bash -c -- 'rm x'",
    "bash -c -o pipefail 'rm x'",
    "bash -co pipefail 'rm x'",
    "bash +c 'rm x'",
    "bash -rcfile f -c 'rm x'",
    "script -Ocfile -c 'rm x'",
    "env -uS -S 'rm x'",
    "env -S 'rm\\_x'",
    "env -iS'nice\\_rm x'",
    "git -c alias.y='!ls' -c alias.z='!rm x' z",
    "compgen -C 'rm x'",
    "compgen -W '$(rm x)'",
    "bash /dev//stdin <<< 'rm x'",
    "bash /dev/./stdin <<< 'rm x'",
    "bash /dev/../dev/stdin <<< 'rm x'",
    "source /proc/thread-self/fd/0 <<< 'rm x'",
    "source -- /dev/stdin <<< 'rm x'",
    "cd /dev; bash stdin <<< 'rm x'",
    "su <<< 'rm x'",
    "script -q /dev/null <<< 'rm x'",
    "chroot / <<< 'rm x'",
    "PROMPT_COMMAND='rm x' bash -i",
    "x='rm x'; eval \"$x\"",
    "x='ls; rm x'; bash -c \"$x\"",
];

/// Ways that may start it, for all that anybody knows.
const DOUBTFUL: &[&str] = &[
    "BASH_ALIASES=([g]='rm x')\ng",
    "BASH_ALIASES=([a]=ls [g]=rm)\ng x",
    "declare -A BASH_CMDS=([g]=/bin/rm); g x",
    "sed '1e rm x' f",
    "sed 's/.*/rm x/e' f",
    "sed -e 1d -e 'e rm x' f",
    "awk 'BEGIN { system(\"rm x\") }'",
    "awk '{ print | \"rm x\" }' f",
    "perl -e 'system(\"rm x\")'",
    "perl -e 'exec qw(rm x)'",
    "python3 -c 'import os; os.system(\"rm x\")'",
    "python3 -c 'import subprocess; subprocess.run([\"rm\", \"x\"])'",
    "node -e 'require(\"child_process\").execSync(\"rm x\")'",
    "python3 <<'E'\nimport os\nos.system('rm x')\nE\n",
    "make -f /dev/stdin <<'E'\nall:\n\trm x\nE\n",
    "printf 'all:\\n\\trm x\\n' | make -f -",
    "make --eval='$(shell rm x)'",
    "make SHELL=/bin/rm x",
    "echo 'rm x' | at now",
    "at now <<< 'rm x'",
    "ssh host rm x",
    "ssh host 'rm x'",
    "expect -c 'spawn rm x'",
    "hash -p /bin/rm ls; ls x",
    "alias ls='rm x'; ls",
    "complete -C 'rm x' ls",
    "bind -x '\"a\": rm x'",
    "PS4='$(rm x)' bash -xc ls",
    "BASH_ENV=rm bash -c ls",
    "env PS4='$(rm x)' bash -xc ls",
    "export PROMPT_COMMAND='rm x'",
    "X='rm x'; ls",
    "GIT_SSH_COMMAND='rm x' git fetch",
    "git -c core.pager='rm x' log",
    "git -c core.sshCommand='rm x' fetch",
    "git bisect run rm x",
    "git rebase --exec 'rm x' main",
    "git submodule foreach 'rm x'",
    "git difftool -x 'rm x'",
    "git config alias.z '!rm x'",
    "git clone -u 'rm x' a b",
    "docker exec c rm x",
    "docker run img rm x",
    "npm exec rm x",
    "npx rm x",
    "bundle exec rm x",
    "poetry run rm x",
    "xvfb-run rm x",
    "firejail rm x",
    "proxychains -q rm x",
    "tool --then='r\"\"m x'",
    "tool -c'rm x'",
    "tool 'sh -c \"r\\m x\"'",
    "/bin/r? x",
    "r[m] x",
    "{rm,x}",
    "vim -c '!rm x'",
    "tar cf a --checkpoint=1 --checkpoint-action=exec='rm x' b",
    "tar xf a --to-command='rm x'",
    "rsync -e 'rm x' a b:c",
    "gdb -ex 'shell rm x'",
    "ld.so.wrapper rm x",
    "echo rm | xargs -I{} {} x",
    "BASH_ENV=<(echo rm x) bash -c :",
    "logrotate -f <(echo 'x { postrotate rm x endscript }')",
    "[[ -v 'a[$(rm x)]' ]]",
    "npm exec -c 'rm x'",
    "npm config set script-shell /bin/rm",
    "docker exec -it c sh -c 'rm x'",
    "go build -toolexec 'rm x'",
    "rg --pre rm x",
    "man -P 'rm x' ls",
    "less '+!rm x' f",
    "strace -o '|rm x' ls",
    "split --filter='rm x' f",
    "read 'a[`rm x`]'",
];

/// Texts for a shell that only show when they run.
const UNSEEN: &[&str] = &[
    "env -S 'xrm\\c x'",
    "X=push git --config-env=alias.p=X p",
    "git --config-env alias.p=X p",
    "bash -c \"$(rev <<< 'x mr')\"",
    "bash -c -- \"$(rev <<< 'x mr')\"",
    "bash -c -e \"$(rev <<< 'x mr')\"",
    "bash -c -o pipefail \"$(rev <<< 'x mr')\"",
    "env -S \"$(rev <<< 'x mr')\"",
    "env -S\"$(rev <<< 'x mr')\"",
    "env --split-string=\"$(rev <<< 'x mr')\"",
    "env --split \"$(rev <<< 'x mr')\"",
    "trap \"$(rev <<< 'x mr')\" EXIT",
    "trap -- \"$(rev <<< 'x mr')\" EXIT",
    "script -qc \"$(rev <<< 'x mr')\" /dev/null",
    "su -c \"$(rev <<< 'x mr')\"",
    "su --comm=\"$(rev <<< 'x mr')\"",
    "sg users -c \"$(rev <<< 'x mr')\"",
    "flock f -c \"$(rev <<< 'x mr')\"",
    "git -c alias.z=\"!$(rev <<< 'x mr')\" z",
    "mapfile -C \"$(rev <<< 'x mr')\" -c1 a <<< x",
    "watch \"true; $(rev <<< 'x mr')\"",
    "rev <<< 'x mr' | xargs -d '\\n' bash -c",
    "split --filter=\"$(rev <<< 'x mr')\" a",
    "BASH_ENV=/dev/stdin bash -c : < f",
    "BASH_ENV=<(rev <<< 'x mr') bash -c :",
    "BASH_ENV=<(rev <<< 'x mr') ./script",
    "env BASH_ENV=/dev/fd/3 bash -c : 3< f",
    "export BASH_ENV=/dev/stdin; bash -c : < f",
    "ENV=/dev/stdin sh -i -c : < f",
    "bash --rcfile <(rev <<< 'x mr') -i -c :",
    "bash --init-file <(rev <<< 'x mr') -i -c :",
    "bash -rcfile /dev/stdin -i -c : < f",
    "[[ -v \"$(rev <<< ']))x mr($[a')\" ]]",
    "let \"$(rev <<< ')x mr($[a')\"",
    "mkfifo f; rev <<< 'x mr' > f & bash f",
    "mkfifo f; rev <<< 'x mr' > f & source ./f",
    // What is evaluated starts what only shows then.
    "[[ -v 'a[$(t=r; ${t}m x)]' ]]",
    "let 'a[$(t=r; ${t}m x)]=1'",
    "test -v 'a[$(${t-r}m x)]'",
    "test -v 'a[$(\"${t-r}m\" x)]'",
    "x='a[$(${t-r}m x)]'; echo $((x))",
    "for x in 'a[`${t-r}m x`]'; do echo $((x)); done",
    "compgen -C '${t-r}m x' x",
    "compgen -W '$(${t-r}m x)'",
    // A runner is told which program only when it runs.
    "npm exec -- $x",
    "npm explore p -- $x",
    "npm edit p --editor=$x",
    "pip config --editor $x edit",
    "go test -exec $x ./...",
    "go build -toolexec=\"$x\" .",
    "tar -I \"$x\" -cf a b",
    "tar xf a --to-command=$x",
    "rsync -e \"$x\" a b:c",
    "ssh -o ProxyCommand=$x host",
    "ssh -oProxyCommand=\"$x\" host",
    "git ls-remote --exec=$x a",
    "git clone -u $x a b",
    "git merge-index $x -a",
    "sed '1e $x' f",
    "pnpm dlx \"$x\" y",
    "git bisect run $x",
    "git submodule foreach \"$x\"",
    "git rebase -x \"$x\" main",
    "find . -exec $x {} +",
    // A shell expands it once more.
    "man -aP '$x' ls",
    "zip -rTT '$x y' a.zip b",
    "ssh -o ProxyCommand='$x' host",
    "ssh -o 'ProxyCommand $x' host",
    "npm exec -c '$x'",
    "npm edit p --editor='`x`'",
    "tar xf a --to-command='$x'",
    "rsync -e '$x' a b:c",
    "git rebase -x '$x' main",
    "git submodule foreach '$x'",
    "split --filter='$x' f",
    // Nobody sees what they make of what they read.
    "awk '{ system($0) }' f",
    "awk '{ print | \"sh\" }' f",
    "gawk '{ \"r\" \"m x\" | getline }' f",
    "sed e f",
    "gsed 's/^//e' f",
    // Long options may be shortened.
    "split --f='rm x' a",
    "split --fil='rm x' a",
    "install -s --strip-p=rm a b",
    "sort --co=rm a",
    "sort --com rm a",
    "git grep --open='rm x' a",
];

/// The same name where it starts nothing.
const HARMLESS: &[&str] = &[
    "grep rm file",
    "grep -rn 'rm x' src",
    "echo rm",
    "echo rm | xargs grep -r",
    "echo \"$(echo rm)\"",
    "echo 'rm x'",
    "printf '%s' 'rm x'",
    "which curl",
    "cat <<'E'\nrm x\nE\n",
    "ls rm",
    "find . -name rm",
    "timeout 5 grep rm x",
    "xargs grep rm",
    "man rm",
    "git rm x",
    "git commit -m 'rm x'",
    "git log --grep='rm x'",
    "git commit -F /dev/stdin <<'E'\nrm the old code\nE\n",
    "docker rm c",
    "docker run --rm img ls",
    "npm rm pkg",
    "apt install curl",
    "brew install curl",
    "pip install curl",
    "cargo add curl",
    "make rm",
    "npm run rm",
    "sed 's/rm/cp/' f",
    "sed -n '/rm/p' f",
    "sed 's/[^/]*rm$//' README.md",
    "sed -i 's,e,rm,g' src/main.rs e",
    "sed -E -e 's|rm|e|' -e '/e/d' f",
    "find . -name '*.rs' -exec grep rm {} +",
    "npm rm -g pkg",
    "awk '/a|b/ { print }' f",
    "awk '{ print $1 | \"sort -n\" }' f",
    "awk -F'|' '{ print $2 }' f",
    "awk -F '|' -v x=1 '{ print $2 }' f",
    "zip -T a.zip",
    "git rebase -x 'make test' main",
    "git submodule foreach 'git status $x'",
    "npm exec prettier \"$f\"",
    "git pull origin \"$b\"",
    "git cherry-pick -x \"$c\"",
    "tar -czf \"$x\" src",
    "rsync -a \"$x\" b",
    "ssh -o User=\"$u\" host ls",
    "sed \"s/a/$b/\" f",
    "docker run --rm -v \"$PWD\":/x img ls",
    "npm run build -- \"$x\"",
    "git commit -m \"$x\"",
    "pnpm rm pkg",
    "bun rm pkg",
    "zip -r rm.zip rm",
    "man -k rm",
    "go test ./rm -run rm",
    "just rm",
    "pip download curl",
    "helm upgrade rm chart",
    "docker compose rm web",
    "git stash push rm",
    "git add rm",
    "git checkout -b rm",
    "awk '/rm/ { print $1 }' f",
    "pgrep curl",
    "gh pr create --title 'rm x'",
    "docker run -v /srv/rm.d:/x img ls",
    "rg rm src",
    "make && echo 'rm x'",
    "touch curl",
    "mkdir rm",
    "python3 tool.py --format",
    "ENV=$stage npm start",
    "BASH_ENV=env.sh bash script.sh",
    "x=$(wc -l < f); echo $((x + 1))",
    "bash -euo pipefail script.sh \"$x\"",
    "bash --norc script.sh -c rm",
    "trap cleanup EXIT",
    "source .venv/bin/activate",
    "split --lines=5 \"$f\"",
    "sort --reverse $files",
    "[[ -v x ]] && test -n \"$x\"",
    "read -r -p \"$question\" answer",
];

/// The rule is about two words, and neither an alias nor a program of its own hides them.
#[test]
fn a_subcommand_of_git_is_found_under_its_other_names() {
    for text in [
        "git -c alias.p=push p",
        "git -c alias.p='push origin' -c user.name=x p",
        "git -C sub -c Alias.p=push p",
        "git -c alias.p='-C sub push' p",
        "git --shallow-file x push",
        "git-push origin",
        "/usr/lib/git-core/git-push",
        "sudo /usr/lib/git-core/git-push",
    ] {
        assert_eq!(decide_in_bypass(text), Deny, "{text}");
    }
    for text in [
        "git -c alias.p=pull p",
        "git -c color.ui=push status",
        "git-pull",
        "git-lfs push",
        "gitpush",
        "x=(push pull)",
        "git --config-env=user.name=X pull",
    ] {
        assert_eq!(decide_in_bypass(text), Allow, "{text}");
    }
}

#[test]
fn programs_that_start_others_are_seen_through() {
    let wrong: Vec<_> = CERTAIN.iter().filter(|text| decide_in_bypass(text) != Deny).collect();
    assert!(wrong.is_empty(), "not denied: {wrong:#?}");
}

#[test]
fn a_forbidden_name_among_the_words_of_an_unknown_program_asks() {
    let wrong: Vec<_> = DOUBTFUL.iter().filter(|text| decide_in_bypass(text) != Ask).collect();
    assert!(wrong.is_empty(), "does not ask: {wrong:#?}");
}

#[test]
fn a_text_that_only_shows_when_it_runs_asks() {
    let wrong: Vec<_> = UNSEEN.iter().filter(|text| decide_in_bypass(text) != Ask).collect();
    assert!(wrong.is_empty(), "does not ask: {wrong:#?}");
    // And only where a rule could be about it.
    let open = |text: &&&str| decide_command(text, &rules(&[], &[], &[]), BypassPermissions) != Allow;
    let wrong: Vec<_> = UNSEEN.iter().filter(open).collect();
    assert!(wrong.is_empty(), "asks without a rule: {wrong:#?}");
}

#[test]
fn a_forbidden_name_that_starts_nothing_is_a_word_like_others() {
    let wrong: Vec<_> = HARMLESS.iter().filter(|text| decide_in_bypass(text) != Allow).collect();
    assert!(wrong.is_empty(), "not allowed: {wrong:#?}");
}

#[test]
fn neither_a_broad_rule_nor_a_sandbox_answers_such_a_doubt() {
    let deny = ["Bash(rm:*)"];
    let walled = DecisionContext { sandbox: SandboxPlacement::Sufficient, ..test_context(Ordinary) };
    for text in ["ssh host rm x", "python3 -c 'os.system(\"rm x\")'", "git bisect run rm x"] {
        assert_eq!(decide_command(text, &rules(&deny, &[], &["Bash"]), Ordinary), Ask, "{text}");
        assert_eq!(decide_in_context(text, &rules(&deny, &[], &[]), &walled), Ask, "{text}");
        assert_eq!(decide_command(text, &rules(&[], &deny, &["Bash"]), BypassPermissions), Ask, "{text}");
        assert_eq!(decide_command(text, &rules(&["Bash(wget:*)"], &[], &["Bash"]), Ordinary), Allow, "{text}");
    }
    let several = rules(&["Bash(git push --force:*)"], &[], &["Bash"]);
    assert_eq!(decide_command("tool git push --force", &several, Ordinary), Ask);
    assert_eq!(decide_command("tool git push", &several, Ordinary), Allow);
}

/// Whoever forbids a subcommand means it, whatever options the program has in front of it.
#[test]
fn options_in_front_of_a_subcommand_hide_nothing() {
    let deny =
        rules(&["Bash(git push:*)", "Bash(npm publish:*)", "Bash(docker push *)", "Bash(make deploy)"], &[], &[]);
    for (text, expected) in [
        ("git -C . push", Deny),
        ("git --no-pager push origin", Deny),
        ("git -c a.b=c -C \"$d\" push", Deny),
        ("git --git-dir x --work-tree=y -P push", Deny),
        ("sudo git -C . push", Deny),
        ("/usr/bin/git -p push", Deny),
        ("git -C . \"$x\"", Ask),
        ("npm --silent publish", Ask),
        ("npm --prefix a publish", Ask),
        ("docker --context a push x", Ask),
        ("make -j4 deploy", Ask),
        ("git -C push status", Allow),
        ("git --no-pager log push", Allow),
        ("git -C . stash push", Allow),
        ("npm --silent install", Allow),
        ("npm install --save publish", Allow),
        ("make -j4 test", Allow),
    ] {
        assert_eq!(decide_command(text, &deny, BypassPermissions), expected, "{text}");
    }
    // A rule that allows means what it says.
    assert_eq!(decide_command("git -C . push", &rules(&[], &[], &["Bash(git push:*)"]), Ordinary), Ask);
    assert_eq!(decide_command("git -C . push", &rules(&[], &["Bash(git push:*)"], &["Bash"]), Ordinary), Ask);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_launcher_hides_a_forbidden_program(
        // No program that gimlet knows has such a name: `fmt denied x` only reads a file of that name.
        launcher in "[a-z]{3,8}9",
        options in prop::collection::vec(select(&["-x", "--yes", "-n 5", "--into=a", "file", "--"]), 0..3),
        form in select(&["@", "'@'", "-c '@'", "--run='@'", "-e'@'", "\"true; @\"", "'sh -c \"@\"'", "'{ @; }'", "VAR='@'"]),
    ) {
        let text = format!("{launcher} {} {}", options.join(" "), form.replace('@', "denied x"));
        let decision = decide_command(&text, &rules(&["Bash(denied:*)"], &[], &["Bash"]), BypassPermissions);
        prop_assert_ne!(decision, Allow, "{}", text);
    }
}
