//! Git operations of a command, recognised from its words and its output, for hosts that show them. Pure; nothing here
//! reaches the model.

use std::borrow::Cow;

use gimlet_policy::shell::ShellAnalysis;
use serde::{Deserialize, Serialize};

/// Recognised operation. Member names and values are a public contract.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GitOperation {
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<GitCommit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<GitPush>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<GitBranch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pr: Option<PullRequest>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GitCommit {
    sha: String,
    kind: Cow<'static, str>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GitPush {
    branch: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GitBranch {
    #[serde(rename = "ref")]
    reference: String,
    action: Cow<'static, str>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PullRequest {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    action: Cow<'static, str>,
}

/// Returns the operations of a command, judged by its output; `None` when nothing is recognised.
pub(super) fn recognise_operations(analysis: &ShellAnalysis, output: &str) -> Option<GitOperation> {
    let mut found = GitOperation::default();
    for words in &analysis.commands {
        let words: Vec<&str> = words.iter().map(|word| word.value().unwrap_or("")).collect();
        match words.as_slice() {
            ["git", arguments @ ..] => recognise_git_command(skip_options(arguments), output, &mut found),
            ["gh", "pr", action, arguments @ ..] => {
                found.pr = recognise_pull_request(action, arguments, output).or(found.pr.take());
            }
            _ => {}
        }
    }
    (found != GitOperation::default()).then_some(found)
}

/// Returns the subcommand and its arguments.
fn skip_options<'a, 'b>(mut arguments: &'b [&'a str]) -> &'b [&'a str] {
    loop {
        arguments = match arguments {
            ["-C" | "-c", _, rest @ ..] => rest,
            [option, rest @ ..] if option.starts_with('-') => rest,
            _ => return arguments,
        };
    }
}

fn recognise_git_command(words: &[&str], output: &str, found: &mut GitOperation) {
    let operand =
        |arguments: &[&str]| arguments.iter().rfind(|word| !word.starts_with('-')).map(|&word| word.to_owned());
    let moved = |reference: Option<String>, action: &'static str| {
        reference.map(|reference| GitBranch { reference, action: action.into() })
    };
    match words {
        ["commit", arguments @ ..] => {
            let kind = if arguments.contains(&"--amend") { "amended" } else { "committed" };
            found.commit = new_commit(output, kind).or(found.commit.take());
        }
        ["cherry-pick", ..] => found.commit = new_commit(output, "cherry-picked").or(found.commit.take()),
        ["push", ..] => found.push = pushed_branch(output).map(|branch| GitPush { branch }).or(found.push.take()),
        ["merge", arguments @ ..] if output.contains("Fast-forward") || output.contains("Merge made by") => {
            found.branch = moved(operand(arguments), "merged");
        }
        ["rebase", arguments @ ..] if output.contains("Successfully rebased") => {
            found.branch = moved(operand(arguments), "rebased");
        }
        _ => {}
    }
}

/// `[main 1a2b3c4] Message`, with remarks such as `(root-commit)` before the number.
fn new_commit(output: &str, kind: &'static str) -> Option<GitCommit> {
    output.lines().find_map(|line| {
        let (head, _) = line.strip_prefix('[')?.split_once(']')?;
        let sha = head.split_whitespace().last()?;
        let is_sha = sha.len() >= 7 && sha.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_sha && head.contains(' ')).then(|| GitCommit { sha: sha.to_owned(), kind: kind.into() })
    })
}

/// `1a2b3c4..5d6e7f8  main -> main` or `* [new branch]  main -> main`.
fn pushed_branch(output: &str) -> Option<String> {
    output.lines().find_map(|line| {
        let (before, after) = line.split_once(" -> ")?;
        let is_update = before.contains("..") || before.contains("[new branch]");
        let branch = after.split_whitespace().next()?;
        (is_update && !before.contains("[rejected]")).then(|| branch.to_owned())
    })
}

fn recognise_pull_request(action: &str, arguments: &[&str], output: &str) -> Option<PullRequest> {
    let action = match action {
        "create" => "created",
        "edit" => "edited",
        "merge" if arguments.contains(&"--disable-auto") => "auto-merge-disabled",
        "merge" if arguments.contains(&"--auto") => "auto-merge-enabled",
        "merge" => "merged",
        "comment" => "commented",
        "close" => "closed",
        "reopen" => "reopened",
        "ready" if arguments.contains(&"--undo") => "draft",
        "ready" => "ready",
        _ => return None,
    };
    let url = output.split_whitespace().find(|word| word.starts_with("https://") && word.contains("/pull/"));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let in_url = url.and_then(|url| url.split_once("/pull/")).and_then(|(_, rest)| digits(rest));
    let number = in_url.or_else(|| output.split('#').skip(1).find_map(digits))?;
    Some(PullRequest { number, url: url.map(str::to_owned), action: action.into() })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gimlet_policy::shell::{ShellFacts, analyse};
    use serde_json::{Value, json};

    use super::*;

    fn recognised(command: &str, output: &str) -> Value {
        let facts = ShellFacts { cwd: Path::new("/p"), roots: &[], home: None, environment: None };
        serde_json::to_value(recognise_operations(&analyse(command, &facts), output)).unwrap()
    }

    #[test]
    fn commits_and_pushes_are_recognised_together() {
        let output = "[main 1a2b3c4] Fix it\n 1 file changed\nTo github.com:a/b\n   0123456..1a2b3c4  main -> main";
        assert_eq!(
            recognised("git commit -m 'Fix it' && git -C . push", output),
            json!({"commit":{"sha":"1a2b3c4","kind":"committed"},"push":{"branch":"main"}})
        );
        let amended = recognised("git commit --amend --no-edit", "[main (root-commit) abcdef0] x");
        assert_eq!(amended["commit"]["kind"], "amended");
    }

    #[test]
    fn pull_requests_have_a_number_and_an_action() {
        assert_eq!(
            recognised("gh pr create --fill", "https://github.com/a/b/pull/17\n")["pr"],
            json!({"number":17,"url":"https://github.com/a/b/pull/17","action":"created"})
        );
        assert_eq!(
            recognised("gh pr merge 9 --squash", "✓ Squashed and merged pull request #9")["pr"]["action"],
            "merged"
        );
    }

    #[test]
    fn words_without_an_outcome_are_nothing() {
        assert_eq!(recognised("git push", "! [rejected] main -> main (non-fast-forward)"), Value::Null);
        assert_eq!(recognised("git merge x", "CONFLICT (content)"), Value::Null);
        assert_eq!(recognised("echo '[main 1a2b3c4] x'", "[main 1a2b3c4] x"), Value::Null);
    }
}
