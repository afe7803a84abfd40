//! Texts that bash and the grammar read differently: where a here-document ends, where an expansion closes, what is a
//! comment, what a redirection goes to. Each of them once hid a command.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_proto::PermissionMode;

use crate::fixtures::{decide_by_default, decide_command, rules};

/// Each of them runs `touch P` or writes a file of its own.
const HIDING: &[&str] = &[
    "cat <<'a\\b'\na\\b\ntouch P\nab\n",
    "cat <<\"a\\b\"\na\\b\ntouch P\nab\n",
    "cat <<EOF\nEO\\\nF\ntouch P\nEOF\n",
    "cat <<-EOF\n\tEO\\\nF\ntouch P\nEOF\n",
    "cat <<E>P\nE\nE>P\n",
    "cat <<E>>P\nE\nE>>P\n",
    "cat <<E|sh\ntouch P\nE\nE|sh\n",
    "cat <<E;make\nE\nE;make\n",
    "cat <<'\tE'\n\tE\ntouch P\n\tE",
    "cat <<' E'\n E\ntouch P\n E",
    "cat <<\\\tE\n\tE\ntouch P\n\tE",
    "cat <<'EOF' && ls\n\\\nEOF\ntouch P\nEOF\n",
    "cat <<'EOF' | cat\n\\\nEOF\ntouch P\nEOF\n",
    "cat <<EOF >/dev/null\n\\\nEOF\ntouch P\nEOF\n",
    "cat <<E''\n$(\nls\n)\nE\ntouch P\n",
    "cat <<1''\n$(\nls\n)\n1\ntouch P\n",
    "cat <<-E''\n$(\nls\n)\nE\ntouch P\n",
    "cat << E= &&\nE=\ntouch P\nE=\n",
    "cat << E= |\nE=\ntouch P\nE=\n",
    "echo ${x%{a}\ntouch P\n}",
    "echo ${x%{a}|touch P\n}",
    "echo ${x#{a}|touch P\n}",
    "echo ${x//{a}|touch P\n}",
    "echo ${x^{a}|touch P\n}",
    "echo ${x,,{a}|touch P\n}",
    "cat <<< ${x%{a,b}|touch P }",
    "echo ${x%{a};touch P\n}",
    "echo ${x%{a}|make}",
    "echo ${x%{a}|}",
    "find . -name x -delete<<E\nx\nE",
    "find -delete<<-E\nx\nE",
    "sort a -oP<<'E'\nx\nE",
    "find . 2>&- -delete",
    "find . <&--delete",
    "find . <& --delete",
    "sort a <&--oP",
    "uniq a 2>&- P",
    "git branch 2>&- newb3",
    "cat <&- /etc/hostname",
    "find a <<E >/dev/null -delete\nx\nE",
    "sort a <<E </dev/null -o P\nx\nE",
    "case a in a) find a -delete\\\n 3<a;; esac",
    "cat <<E && find a -delete\\\n 3<a\nx\nE",
    "cat <<E | sort a -oP\\\n 3<a\nx\nE",
    "echo \"$(case a in a) cat <<EOF\nEO\\\nF\ntouch P\nEOF\n;; esac)\"",
    "cat <<Z\n$(case a in a) ls;; esac\ncat <<E>P\nE\nE>P\n)\nZ",
    "echo \"$(case\\\n a in a) cat <<EOF\nEO\\\nF\ntouch P\nEOF\n;; esac)\"",
    "echo \"$(ca\\\nse a in a) cat <<EOF\nEO\\\nF\ntouch P\nEOF\n;; esac)\"",
    "echo \"$(case\na in a) cat <<EOF\nEO\\\nF\ntouch P\nEOF\n;; esac)\"",
    "(\\\n(echo a # )) ; touch P\n) )",
    "echo $(\\\n(echo a # )) | cat ; touch P ; echo $(( \n) )",
    "echo $(cat <<EOF\nEO\\\nFtouch P )\nEOF\n)",
    "git diff -S 0<<<x -S --output=P",
    "git branch --format 0<<<x --list newb",
    "find a ! -name 0<<<x -name -delete",
    "echo $[ ${x:-1] | touch P\n} ]",
    "rm -rf $HOM\\\nE",
    "ab=/; rm -rf $a\\\nb",
    "true <<<2>&1",
    "cat <<-E && ls\n\\\ncurl s\n\nE\n",
    "for f in \nE; do echo; done",
    "for f in # a\nE; do echo; done",
    "case *;  in a) ls;; esac",
    "[[ -n a=]<\"b\" ]]",
    "[[ -f a == b ]]",
    "echo hi >&'--'",
    "echo hi >&'2-'",
    "echo hi >&\"1-\"",
    "echo hi >&'$(touch P)'",
    "echo hi >&'`touch P`'",
    "echo hi >&\\$\\(touch\\ P\\)",
    "echo hi >&$'$(touch P)'",
    "echo hi >&\"\\$(touch P)\"",
    "echo hi 1>&'$(touch P)'",
    "ls >&'a$(touch P)'",
    "echo hi >&'~/zz'",
    "echo hi >&'$HOME/zz'",
    "echo $(( 1 # $(touch P)\n))",
    "echo $[1 # $(touch P)\n]",
    "((1 # $(touch P)\n))",
    "cat <<E\n$(ls # \\\necho '\ntouch P #'\n)\nE",
    "cat <<E\n${x:-$(ls # \\\necho '\ntouch P #'\n)}\nE",
    "cat <<E\n$(rg '\\\n--pre=./evil' 1 .)\nE",
    "cat <<E\n$(git log '\\\n--output=P')\nE",
    "cat <<-E\n	$(git log '\n	--output=P')\n	E",
    "<&\\\n\\\n-rm ls a",
    "<&\\\n\\\n-touch P",
    "<&\\\n\\\n-eval echo hi \";\" touch P",
    "uniq a <&\\\n\\\n-P",
    "uniq a <& \\\n\\\n -P",
    "uniq a <& -P",
    "rg -e 2\\\n3>/dev/null -g --pre=./evil x .",
    "uniq a 99999999999>/dev/null",
    "date 111708302026>/dev/null",
    "cat 99999999999<a",
    "2147483648>/dev/null ls",
    "[[ a =~ x|# ]]; uniq a <& -P",
    "[[ a =~ x|# ]]; <& -rm ls x",
    "[[ a =~ (x # ) ]]; <& -touch P",
    "echo $(( $(: <<E\n )\nE\necho touch P) ))",
    "echo $(( $(cat <<E\ntouch P )\nE\n) ))",
    "echo $(( $(ls # )\necho touch P) ))",
];

#[test]
fn commands_only_bash_sees_are_never_allowed() {
    let bare = rules(&[], &[], &["Bash"]);
    let edits = rules(&[], &[], &["Edit(**)"]);
    for text in HIDING {
        assert_ne!(decide_by_default(text, &rules(&[], &[], &[])), Allow, "{text:?}");
        assert_ne!(decide_by_default(text, &bare), Allow, "{text:?}");
        assert_ne!(decide_by_default(text, &edits), Allow, "{text:?}");
        assert_ne!(decide_command(text, &rules(&[], &[], &[]), PermissionMode::AcceptEdits), Allow, "{text:?}");
    }
}

#[test]
fn rules_hold_for_commands_only_bash_sees() {
    let denied = rules(&["Bash(touch *)"], &[], &[]);
    for text in HIDING.iter().filter(|text| text.contains("touch P")) {
        let found = decide_command(text, &denied, PermissionMode::BypassPermissions);
        assert!(matches!(found, Ask | Deny), "{text:?} was allowed");
    }
}

#[test]
fn text_both_parsers_read_alike_runs() {
    for text in [
        "cat <<EOF\na $x\nEOF\n",
        "cat <<'EOF'\n$(touch P)\nEOF",
        "cat <<\"E O F\"\ntext\nE O F\n",
        "cat <<\\EOF\n`x`\nEOF\n",
        "cat <<-EOF\n\ta\n\tEOF\n",
        "cat <<EOF | head -n 3\na\nEOF\n",
        "cat <<EOF && ls\nline \\\ngoes on\nEOF\nls",
        "cat - <<EOF\nit's \"x\" # y\nEOF",
        "echo \"$(cat <<'EOF'\na)\nEOF\n)\"",
        "echo ${x%a} ${x:-a} ${x/a/b}",
        "echo \"$x ${y}\" \"${a} ${b}\" \" $(pwd)\" \"$? $(date)\" \"$(date) `whoami`\" \"$x $((1 + 2))\"",
        "for f in *.rs; do echo \"$f $(grep -c x \"$f\")\"; done",
        "cat <<E 2>&1\na\nE\n",
        "ls -l\\\n  -a",
        "ls |& cat; ls || true && (ls) | cat",
        "true &&\n  ls |\n  cat",
        "cat a |\\\n  head -n 1 &&\\\n  ls",
        "echo \"${x%\"}\"}\" \"a $(echo \"b $(echo 'c')\")\"",
        "echo $((1 + 2)) 2>&1",
        "ls >&2",
        "ls 2>&- # it's here",
        "echo a#b '#' \"#\" $# ${#x}",
        "[[ $x =~ a|b ]] && echo 'yes'",
        "for f in *.rs; do\n  # it's a comment\n  wc -l \"$f\"\ndone",
        "case \"$x\" in a|b) ls ;; *) echo 'x' ;; esac",
        "if [ -f a ]; then\n  cat a\nfi\n",
        "ls \\\n  -l \\\n  src",
        "diff <(ls a) <(ls b)",
        "echo `ls` \"`pwd`\"",
        "cat <<EOF\n${x:-\"quoted\"}\nEOF",
        "echo $x \\\n  a 2>/dev/null 1>&2",
        "echo \"a $x\\\n b\"",
    ] {
        assert_eq!(decide_by_default(text, &rules(&[], &[], &[])), Allow, "{text:?}");
    }
}
