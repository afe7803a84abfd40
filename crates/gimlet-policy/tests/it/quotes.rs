//! Single quotes that quote nothing: inside an expansion in double quotes or in a document, and in arithmetic, bash takes
//! them for letters and expands what stands between them.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_proto::PermissionMode;

use crate::worlds::{judge, rules, run};

/// Where such a stretch can stand; `@` is the stretch.
const PLACES: &[&str] = &[
    "echo \"${x:-'@'}\"",
    "echo \"${x-'@'}\"",
    "echo \"${PATH:+'@'}\"",
    "echo \"${x:-${y:-'@'}}\"",
    "echo \"${x:-$'@'}\"",
    "echo \"a ${x:-b '@' c}\"",
    "cat <<E\n${x:-'@'}\nE\n",
    "cat <<E\na $(( '@' ))\nE\n",
    "[[ -n \"${x:-'@'}\" ]]",
    "case \"${x:-'@'}\" in a) ls;; esac",
    "for f in \"${x:-'@'}\"; do ls; done",
    "printf '%s' \"${x:-'@'}\"",
    "echo ${x:-\"${y:-'@'}\"}",
    "echo $(( '@' ))",
    "(( '@' ))",
    "echo $['@']",
    "head -n $(( '@' )) a",
    "echo ${PATH:'@'}",
    "echo ${PATH:0:'@'}",
    "a['@']=1",
    "echo ${a['@']}",
    "echo \"$(echo \"${x:-'@'}\")\"",
];

fn texts(command: &str) -> impl Iterator<Item = String> {
    let forms = [format!("$({command})"), format!("`{command}`")];
    PLACES.iter().flat_map(move |place| forms.clone().map(|form| place.replace('@', &form)))
}

#[test]
fn nothing_runs_from_between_them_unasked() {
    let bare = rules(&[], &[], &["Bash"]);
    for text in texts("touch made") {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan] {
            assert_ne!(run(&text, &rules(&[], &[], &[]), mode), Allow, "{text}");
        }
        assert_eq!(run(&text, &rules(&[], &[], &[]), PermissionMode::DontAsk), Deny, "{text}");
        assert_eq!(judge(&text, &bare), Ask, "{text}");
    }
}

#[test]
fn what_a_rule_forbids_stays_forbidden_between_them() {
    let forbidding = rules(&["Bash(curl *)"], &[], &["Bash"]);
    for text in texts("curl x") {
        assert_eq!(judge(&text, &forbidding), Deny, "{text}");
        assert_eq!(run(&text, &forbidding, PermissionMode::BypassPermissions), Deny, "{text}");
    }
    for text in texts("rm -rf /") {
        assert_ne!(run(&text, &rules(&[], &[], &[]), PermissionMode::BypassPermissions), Allow, "{text}");
    }
}

/// The grammar ends the quotes where bash ends the expansion.
#[test]
fn a_brace_between_them_ends_the_expansion() {
    for text in ["echo \"${x:-'}'\"; touch made; echo \"}\"", "echo \"${x:-'}\" ; touch made ; echo \"'}\""] {
        assert_ne!(judge(text, &rules(&[], &[], &[])), Allow, "{text}");
    }
}

#[test]
fn quotes_that_quote_and_plain_values_are_left_alone() {
    for text in [
        "echo '${x:-$(touch made)}'",
        "echo ${x:-'a b'}",
        "echo \"${x:-'none'}\"",
        "echo \"it's $(echo 'a;b')\"",
        "echo \"$(grep 'a$' a)\"",
        "grep 'a$(b)' a",
        "echo $((1 + 2))",
    ] {
        assert_eq!(judge(text, &rules(&[], &[], &[])), Allow, "{text}");
    }
}
