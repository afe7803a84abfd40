//! Single quotes that quote nothing: inside an expansion in double quotes or in a document, and in arithmetic, bash takes
//! them for letters and expands what stands between them. And text in double quotes that the grammar takes for no more.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_proto::PermissionMode;

use crate::fixtures::{decide_by_default, decide_command, rules};

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

/// Where a dollar sign stands alone before an expansion.
const BEHIND_DOLLARS: &[&str] = &[
    "echo \"$ @\"",
    "echo \"$\t@\"",
    "echo \"a $ b @\"",
    "cat <<E\n$ @\nE\n",
    "echo $ @",
    "echo \"$ $ @\"",
    "echo \"$  $@\"",
];

fn fill_places(places: &[&str], command: &str) -> Vec<String> {
    let forms = [format!("$({command})"), format!("`{command}`")];
    places.iter().flat_map(|place| forms.clone().map(|form| place.replace('@', &form))).collect()
}

#[test]
fn nothing_between_ineffective_quotes_runs_unasked() {
    let bare = rules(&[], &[], &["Bash"]);
    for text in fill_places(PLACES, "touch made") {
        for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan] {
            assert_ne!(decide_command(&text, &rules(&[], &[], &[]), mode), Allow, "{text}");
        }
        assert_eq!(decide_command(&text, &rules(&[], &[], &[]), PermissionMode::DontAsk), Deny, "{text}");
        assert_eq!(decide_by_default(&text, &bare), Ask, "{text}");
    }
}

#[test]
fn rules_hold_between_ineffective_quotes() {
    let forbidding = rules(&["Bash(curl *)"], &[], &["Bash"]);
    for text in [fill_places(PLACES, "curl x"), fill_places(BEHIND_DOLLARS, "curl x")].concat() {
        assert_eq!(decide_by_default(&text, &forbidding), Deny, "{text}");
        assert_eq!(decide_command(&text, &forbidding, PermissionMode::BypassPermissions), Deny, "{text}");
    }
    for text in [fill_places(PLACES, "rm -rf /"), fill_places(BEHIND_DOLLARS, "rm -rf /")].concat() {
        assert_ne!(decide_command(&text, &rules(&[], &[], &[]), PermissionMode::BypassPermissions), Allow, "{text}");
    }
}

#[test]
fn a_dollar_sign_that_stands_alone_hides_nothing() {
    for text in fill_places(BEHIND_DOLLARS, "touch made") {
        assert_eq!(decide_by_default(&text, &rules(&[], &[], &[])), Ask, "{text}");
    }
}

/// Quotes inside the command do not hide its name, and a brace in quotes does not end the reading of what follows.
#[test]
fn what_follows_and_what_is_split_is_found() {
    let forbidding = rules(&["Bash(rm:*)"], &[], &["Bash"]);
    let many = ": {a,b}".repeat(34);
    for text in ["echo $(( '$(r\"\"m -rf /)' ))".to_owned(), format!("echo ${{x:-'}}'}}; rm -rf /; {many}")] {
        assert_eq!(decide_by_default(&text, &forbidding), Deny, "{text}");
        assert_ne!(decide_command(&text, &rules(&[], &[], &[]), PermissionMode::BypassPermissions), Allow, "{text}");
    }
}

/// The grammar ends the quotes where bash ends the expansion.
#[test]
fn a_brace_between_ineffective_quotes_ends_the_expansion() {
    for text in ["echo \"${x:-'}'\"; touch made; echo \"}\"", "echo \"${x:-'}\" ; touch made ; echo \"'}\""] {
        assert_ne!(decide_by_default(text, &rules(&[], &[], &[])), Allow, "{text}");
    }
}

/// A line that goes on is one line to bash before anything else is.
#[test]
fn a_broken_line_hides_no_expansion() {
    for text in [
        "echo $\\\n(touch made)",
        "echo \"$\\\n(touch made)\"",
        "echo \"$\\\n\\\n(touch made)\"",
        "cat <<E\n$\\\n(touch made)\nE\n",
        "cat <<E\n$\\\n{x:-`touch made`}\nE\n",
        "cat <\\\n(touch made)",
        "echo \"\\\\$(touch made)\"",
        "cat <<E\n\\\\$(touch made)\nE\n",
    ] {
        assert_ne!(decide_by_default(text, &rules(&[], &[], &[])), Allow, "{text}");
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
        "echo \"costs 5$ and $x\"",
        "echo \"\\$(a)\"",
        "echo \"$ a\"",
    ] {
        assert_eq!(decide_by_default(text, &rules(&[], &[], &[])), Allow, "{text}");
    }
}
