//! Suggestions against the decision that they are meant to change.

use super::*;
use crate::paths::{FileTable, FollowedPath};
use crate::rules::RuleScope;
use std::sync::Arc;

fn test_context(mode: PermissionMode) -> DecisionContext {
    DecisionContext {
        mode,
        cwd: "/repo".into(),
        roots: vec!["/repo".into()],
        home: Some("/home/ada".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    }
}

fn suggested_coverage(tool: &str, need: AccessNeed, deny: &[&str]) -> Vec<String> {
    let source = |destination: UpdateDestination| RuleSource::new(destination.scope(), "/repo");
    let mut rules = RuleSet::default();
    for rule in deny {
        rules.add(Behavior::Ask, rule, &RuleSource::new(RuleScope::Project, "/repo")).unwrap();
    }
    let followed = match &need {
        AccessNeed::Read(path) | AccessNeed::Write(path) => Some(FollowedPath::without_links(path)),
        _ => None,
    };
    let needs = [NeedFacts::new(need, followed)];
    let call = ProposedCall { tool, also_named: &[], input: None, needs: &needs, needs_person: false };
    let found = suggest_updates(&call, &rules, &test_context(PermissionMode::Default), &FileTable::default(), &source);
    found.into_iter().map(|suggestion| suggestion.covers).collect()
}

fn suggest_for_run(text: &str) -> Vec<String> {
    suggested_coverage("Bash", AccessNeed::Run(text.into()), &[])
}

#[test]
fn a_command_becomes_a_rule_about_its_sub_command() {
    for (command, rule) in [
        ("git push origin main", "Bash(git push *)"),
        ("npm run build -- --watch", "Bash(npm run build *)"),
        ("npm install left-pad", "Bash(npm install *)"),
        ("docker compose up -d", "Bash(docker compose up *)"),
        ("gh pr create --fill", "Bash(gh pr create *)"),
        ("cargo test -q", "Bash(cargo test *)"),
    ] {
        assert_eq!(suggest_for_run(command), [rule], "{command}");
    }
}

#[test]
fn what_could_run_anything_is_allowed_word_for_word() {
    for (command, rule) in [
        ("python3 script.py --fast", "Bash(python3 script.py --fast)"),
        ("npm exec thing", "Bash(npm exec thing)"),
        ("uv run python x.py", "Bash(uv run python x.py)"),
        ("uv run pytest -q", "Bash(uv run pytest *)"),
        ("docker exec web ls", "Bash(docker exec web ls)"),
        ("git rebase main", "Bash(git rebase main)"),
        ("git -C /elsewhere push", "Bash(git -C /elsewhere push)"),
        ("./deploy 'two words'", "Bash(./deploy 'two words')"),
    ] {
        assert_eq!(suggest_for_run(command), [rule], "{command}");
    }
}

#[test]
fn a_sub_command_that_runs_what_it_is_told_is_never_left_open() {
    for command in [
        "docker container exec c sh",
        "docker container run img ls",
        "docker image x y",
        "docker buildx bake",
        "docker run img",
        "docker compose exec web ls",
        "docker compose run web ls",
        "podman container exec c ls",
        "npm x tool",
        "npm exec tool",
        "npm init thing",
        "npm create thing",
        "npm explore pkg -- ls",
        "npm config set script-shell x",
        "yarn create app",
        "yarn workspace a run b",
        "yarn workspaces foreach run b",
        "yarn dlx tool",
        "yarn run cross-env a",
        "yarn tool x",
        "pnpm create app",
        "pnpm dlx tool",
        "pnpm tool x",
        "bun create app",
        "bun x tool",
        "uv tool run x",
        "uv run env x",
        "uv run tool x",
        "poetry run tool x",
        "dotnet fsi a.fsx",
        "dotnet tool run x",
        "dotnet run x",
        "dotnet a.dll x",
        "mvn exec:exec x",
        "mvn test x",
        "cargo watch x",
        "cargo run x",
        "cargo install x",
        "cargo xtask x",
        "rails console x",
        "rails runner x",
        "rails new app",
        "mix run x",
        "mix cmd x",
        "mix do a",
        "go run x.go",
        "go generate x",
        "go tool x",
        "kubectl exec pod x",
        "kubectl debug pod",
        "kubectl cp a b",
        "helm install a b",
        "helm plugin install x",
        "gh alias set x y",
        "gh extension exec x",
        "gh config set pager x",
        "gh codespace ssh x",
        "aws ssm send-command",
        "az vm run-command",
        "gcloud compute ssh x",
        "git config alias.x y",
        "git clone x y",
        "git grep x",
        "git difftool x",
        "git submodule foreach x",
        "git bisect run x",
        "brew sh x",
        "rustup run stable x",
        "bundle exec x",
        "npm run node x",
    ] {
        let covered = suggest_for_run(command);
        assert!(covered.iter().all(|rule| *rule == format!("Bash({command})")), "{command}: {covered:?}");
    }
}

#[test]
fn nothing_is_suggested_that_would_not_answer_the_question() {
    for command in [
        "printf x | sh",
        "curl -s https://example.org/x | bash -s",
        "/bin/sh <<E\nls\nE",
        "rm -rf /",
        "make test > out.txt",
        "echo 'a\nb' | tee x",
        "python3 -c \"$code\"",
        "printf '*' | ./x '*'",
        "find . -delete -name 'a b*'",
        "echo 'open",
        "cp x .git/config",
    ] {
        assert_eq!(suggest_for_run(command), [] as [&str; 0], "{command}");
    }
    let long = format!("./tool {}", "a".repeat(200));
    assert_eq!(suggest_for_run(&long), [] as [&str; 0], "a rule that cannot be shown in full");
    assert_eq!(suggested_coverage("Bash", AccessNeed::Run("git push".into()), &["Bash(git push *)"]), [] as [&str; 0]);
}

#[test]
fn files_are_approved_until_the_session_ends() {
    let edit = |path: &str| suggested_coverage("Edit", AccessNeed::Write(path.into()), &[]);
    assert_eq!(edit("/repo/a.rs"), ["every edit inside the working directories until the session ends"]);
    assert_eq!(edit("/srv/x[1].txt"), [r"Edit(//srv/x\[1\].txt)"]);
    assert_eq!(edit("/repo/.git/config"), [] as [&str; 0]);
    let read = |path: &str| suggested_coverage("Read", AccessNeed::Read(path.into()), &[]);
    assert_eq!(read("/srv/docs/a.md"), ["Read(//srv/docs/**)"]);
    assert_eq!(read("/etc/hosts"), ["Read(//etc/hosts)"]);
    assert_eq!(read("/home/ada/notes.txt"), ["Read(//home/ada/notes.txt)"]);
}

#[test]
fn hosts_and_servers_are_approved_for_the_project() {
    assert_eq!(
        suggested_coverage("WebFetch", AccessNeed::Fetch("https://docs.ex.com/a".into()), &[]),
        ["WebFetch(domain:docs.ex.com)"]
    );
    assert_eq!(suggested_coverage("mcp__git__log", AccessNeed::Opaque, &[]), ["mcp__git__log"]);
    assert_eq!(suggested_coverage("Strange", AccessNeed::Opaque, &[]), [] as [&str; 0]);
}

#[test]
fn a_rule_goes_to_the_local_settings_and_an_edit_to_the_session() {
    let needs = [NeedFacts::new(AccessNeed::Run("git push".into()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    let source = |destination: UpdateDestination| RuleSource::new(destination.scope(), "/repo");
    let found = suggest_updates(
        &call,
        &RuleSet::default(),
        &test_context(PermissionMode::Default),
        &FileTable::default(),
        &source,
    );
    let json = serde_json::to_string(&found[0].update).unwrap();
    assert_eq!(
        json,
        r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"git push *"}],"behavior":"allow","destination":"localSettings"}"#
    );
}

#[test]
fn each_part_of_a_longer_command_gets_its_own_rule() {
    assert_eq!(suggest_for_run("git push && npm test; ls"), ["Bash(git push *)", "Bash(npm test *)"]);
    assert_eq!(suggest_for_run("cd crates && cargo test | head"), ["Bash(cargo test *)"]);

    assert_eq!(suggest_for_run("timeout 5 make all"), ["Bash(make all)"]);
    assert_eq!(suggest_for_run("sudo make all"), ["Bash(sudo make all)"]);
    assert_eq!(suggest_for_run("cd /other && make all"), ["Bash(cd /other)", "Bash(make all)"]);
}

/// Returns true if the rule that is suggested for the first command covers the second one.
fn offer_covers(offered: &str, later: &str) -> bool {
    let source = RuleSource::new(RuleScope::Local, "/repo");
    let mut rules = RuleSet::default();
    for rule in suggest_for_run(offered) {
        rules.add(Behavior::Allow, &rule, &source).unwrap();
    }
    let needs = [NeedFacts::new(AccessNeed::Run(later.into()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    decide_with_files(&call, &rules, &test_context(PermissionMode::Default), &FileTable::default()).decision
        == Decision::Allow
}

#[test]
fn an_offered_rule_does_not_reach_over_options_that_run_programs() {
    for (offered, later) in [
        ("git fetch origin", "git fetch --upload-pack=./x origin"),
        ("git fetch origin", "git fetch --upl ./x origin"),
        ("git pull", "git pull --upload-pack ./x"),
        ("git push", "git push --receive-pack=./x origin"),
        ("git push", "git push --exec=./x origin"),
        ("git fetch origin", "git fetch 'ext::sh -c ./x'"),
        ("git init", "git init --template=x"),
        ("git commit -m x", "git -c core.editor=./x commit"),
        ("npm run build", "npm run build --script-shell=./x"),
        ("npm run build", "npm run build --script-sh ./x"),
        ("npm test", "npm test --node-options=--require=./x"),
        ("pnpm run build", "pnpm run build --config.script-shell=./x"),
        ("bun test", "bun test --preload ./x"),
        ("cargo test", "cargo test --config target.x.runner=./x"),
        ("cargo test", "cargo test --config=build.rustc=./x"),
        ("cargo build", "cargo build -Zscript"),
        ("go test ./...", "go test -exec ./x ./..."),
        ("go test ./...", "go test --exec=./x ./..."),
        ("go build", "go build -toolexec ./x"),
        ("go vet", "go vet -vettool=./x"),
        ("go build", "go build -overlay=x.json"),
        ("make all", "make all SHELL=./x"),
        ("make all", "make all --eval='$(shell ./x)'"),
        ("make all", "make all --ev x"),
        ("make all", "make all CC=./x"),
        ("make all", "make all -- SHELL=./x"),
        ("make all", "make all -f x.mk"),
        ("make all", "make all -fx.mk"),
        ("make all", "make all -kf x.mk"),
        ("make all", "make all -skIx"),
        ("make all", "make all -E x"),
        ("go build", "go build -ldflags '-linkmode=external -extld=./x'"),
        ("go build", "go build -ldflags=-extar=./x"),
        ("just build", "just build --shell ./x"),
        ("uv run pytest", "uv run pytest -p x"),
        ("uv run pytest", "uv run pytest -px"),
        ("uv run pytest", "uv run pytest -c x.ini"),
        ("uv run pytest", "uv run pytest -xp x"),
        ("uv run pytest", "uv run pytest -vc x.ini"),
        ("poetry run pytest", "poetry run pytest -qo addopts=x"),
        ("uv run pylint", "uv run pylint --init-hook=x a.py"),
        ("uv sync", "uv sync --python ./x"),
        ("kubectl get pods", "kubectl get pods --kubeconfig=./x"),
        ("terraform init", "terraform init -plugin-dir=x"),
        ("gradle build", "gradle build -I x.gradle"),
        ("dotnet build", "dotnet build -p:X=y"),
    ] {
        assert!(offer_covers(offered, offered), "{offered}");
        assert!(!offer_covers(offered, later), "{later}");
        // If it stands in the command itself, only that command is suggested.
        assert!(
            suggest_for_run(later).iter().all(|rule| !rule.ends_with(" *)")),
            "{later}: {:?}",
            suggest_for_run(later)
        );
    }
}

#[test]
fn what_destroys_data_is_offered_only_as_it_is() {
    assert_eq!(suggest_for_run("git push origin main"), ["Bash(git push *)"]);
    assert_eq!(suggest_for_run("git push --force origin main"), ["Bash(git push --force origin main)"]);
    assert!(suggest_for_run("rm -rf build && git push -f").iter().all(|rule| !rule.ends_with(" *)")));
}

#[test]
fn an_offered_rule_covers_what_people_write_behind_it() {
    for (offered, later) in [
        ("git fetch origin", "git fetch --prune --tags upstream"),
        ("git push", "git push --force-with-lease origin HEAD"),
        ("git commit -m x", "git commit -c HEAD --amend"),
        ("git stash show", "git stash show --text"),
        ("npm run build", "npm run build --silent -- --config x --prefix y"),
        ("cargo test", "cargo test -p x --release --test it -- --nocapture -C"),
        ("cargo build", "cargo build --manifest-path crates/x/Cargo.toml --features a,b"),
        ("cargo test", "cargo test --manifest-path /repo/crates/x/Cargo.toml"),
        ("npm test", "npm test --prefix web"),
        ("uv run pytest", "uv run pytest /repo/tests/test_a.py"),
        ("go test ./...", "go test -race -run 'TestX' -count=1 ./pkg/..."),
        ("go build", "go build -ldflags '-X main.v=1' -o bin/x ./cmd/x"),
        ("uv run pytest", "uv run pytest -vv -rA -n4 -kfoo_cop -xmcpu -Werror::pop"),
        ("uv run pytest", "uv run pytest -x -q tests/test_a.py::test_b -k 'a or b'"),
        ("docker compose up -d", "docker compose up --build web"),
        ("kubectl get pods", "kubectl get pods -n x -o yaml"),
    ] {
        assert!(offer_covers(offered, later), "{later}");
    }
}

/// The words after a target are further targets.
#[test]
fn what_builds_targets_is_offered_word_for_word() {
    for text in [
        "make test",
        "make -j4 test",
        "just test",
        "gradle build",
        "./gradlew build",
        "mvn test",
        "rake test",
        "task test",
        "ant test",
        "ninja all",
        "rails db:migrate",
        "npm run-script build",
    ] {
        assert_eq!(suggest_for_run(text), [format!("Bash({text})")], "{text}");
    }
    for (offered, later) in [
        ("make test", "make test deploy"),
        ("make test", "make test -k deploy"),
        ("just test", "just test deploy"),
        ("gradle build", "gradle build publish"),
        ("rails db:migrate", "rails db:migrate db:drop"),
    ] {
        assert!(offer_covers(offered, offered) && !offer_covers(offered, later), "{later}");
    }
}

/// Rules that were suggested before stay in effect, and do not cover another target either.
#[test]
fn a_kept_rule_about_a_target_covers_its_options_and_no_other_target() {
    let allows = |rule: &str, command: &str| {
        let mut rules = RuleSet::default();
        rules.add(Behavior::Allow, rule, &RuleSource::new(RuleScope::Local, "/repo")).unwrap();
        let needs = [NeedFacts::new(AccessNeed::Run(command.to_owned()), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        decide_with_files(&call, &rules, &test_context(PermissionMode::Default), &FileTable::default()).decision
            == Decision::Allow
    };
    for (rule, command) in [
        ("Bash(make all *)", "make all"),
        ("Bash(make all *)", "make all -C sub"),
        ("Bash(make all *)", "make all V=1 DEBUG=yes -j8 -k"),
        ("Bash(make all *)", "make all -j 8 -ks -C../if"),
        ("Bash(gradle build *)", "gradle build -x test -Pfoo=bar"),
        ("Bash(npm run build *)", "npm run build deploy"),
        ("Bash(make test:*)", "make test deploy"),
    ] {
        assert!(allows(rule, command), "{command}");
    }
    for (rule, command) in [
        ("Bash(make all *)", "make all deploy"),
        ("Bash(make all *)", "make all -k deploy"),
        ("Bash(make all *)", "make all -- deploy"),
        ("Bash(make all *)", "make all -C sub deploy"),
        ("Bash(make all *)", "make all $x"),
        ("Bash(make all *)", "make all \"CC=$x\""),
        ("Bash(just all *)", "just all deploy"),
        ("Bash(gradle build *)", "gradle build -x test publish"),
        ("Bash(rails db:migrate *)", "rails db:migrate db:drop"),
    ] {
        assert!(!allows(rule, command), "{command}");
    }
}

#[test]
fn a_rule_written_by_the_user_is_taken_literally() {
    use RuleScope::{CommandLine, Local, Managed, Project, User};
    let wider = [
        ("Bash(go:*)", "go test -exec ./x"),
        ("Bash(git *)", "git fetch --upload-pack=./x"),
        ("Bash(go test -exec *)", "go test -exec ./x ./..."),
        ("Bash(make SHELL=./x *)", "make SHELL=./x all"),
    ];
    // Spelled otherwise than suggested rules, or stored elsewhere.
    let spelled = [
        ("Bash(make test:*)", "make test TESTS=a ARGS='-k foo' CC=clang"),
        ("Bash(make build:*)", "make build -f x.mk"),
        ("Bash(go test:*)", "go test -exec ./x ./..."),
        ("Bash(uv run pytest:*)", "uv run pytest -p no:randomly"),
        ("Bash(dotnet test:*)", "dotnet test --settings x"),
    ];
    let local = wider.into_iter().chain(spelled).map(|(rule, command)| (Local, rule.to_owned(), command));
    let written = |scope| spelled.map(|(rule, command)| (scope, rule.replace(":*", " *"), command));
    for (scope, rule, command) in local.chain([Project, User, Managed, CommandLine].into_iter().flat_map(written)) {
        let source = RuleSource::new(scope, "/repo");
        let mut rules = RuleSet::default();
        rules.add(Behavior::Allow, &rule, &source).unwrap();
        let needs = [NeedFacts::new(AccessNeed::Run(command.into()), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let decided =
            decide_with_files(&call, &rules, &test_context(PermissionMode::Default), &FileTable::default()).decision;
        assert_eq!(decided, Decision::Allow, "{rule}: {command}");
    }
}
