//! Removals of what the text itself says a name stands for, and of what one program hands to another.

use super::super::tests::look;

#[test]
fn values_that_the_text_gives_are_followed() {
    for text in [
        "x=/; rm -rf $x",
        "x=/\nrm -rf \"$x\"",
        "x=~; rm -rf \"$x\"",
        "x=~/; rm -rf $x",
        "x=$HOME; rm -rf $x",
        "x=${HOME}; rm -rf $x",
        "x=\"${HOME}\"; rm -rf \"$x\"",
        "d=..; rm -rf \"$d\"",
        "d=. && rm -rf \"$d\"",
        "export d=/etc; rm -rf $d",
        "declare -r d=/etc; sudo rm -rf $d",
        "d=/usr; rm -rf ${d}",
        "d=/; rm -rf ${d}etc",
        "d=/; e=$d; rm -rf $e",
        "d='build /'; rm -rf $d",
        "d='-rf /'; rm $d",
        "d=*; rm -rf $d",
        "if true; then d=/; fi; rm -rf $d",
        "rm -rf $d; d=/",
        "bash -c 'd=/; rm -rf $d'",
        "d=/; for x in a b; do rm -rf $d; done",
        "d=build; d=/; rm -rf $d",
    ] {
        assert!(look(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "x=build; rm -rf $x",
        "x=/tmp/work; rm -rf \"$x\"",
        "x=$(mktemp -d); rm -rf \"$x\"",
        "x=`mktemp -d`; trap 'rm -rf \"$x\"' EXIT",
        "x=/; echo $x; rm -rf build",
        "x=$HOME/.cache/tool; rm -rf \"$x\"",
        "x=~/.cache/tool; rm -rf $x",
        "x=$PWD/target/debug; rm -rf \"$x\"",
        "x=$y/build; rm -rf \"$x\"",
        "x=\"a / b\"; rm -rf \"$x\"",
        "PREFIX=/usr x=build; rm -rf $x",
        "x=; rm -rf $x",
        "x=\"$1\"; rm -rf \"$x\"",
    ] {
        assert_eq!(look(text).critical_removal, None, "{text:?}");
    }
}

#[test]
fn what_find_walks_over_is_removed_as_a_whole() {
    for text in [
        "find / -delete",
        "find / -exec rm -rf {} \\;",
        "find / -exec sudo rm {} +",
        "find -L / -type f -delete",
        "find . -delete",
        "find -delete",
        "find . -type f -exec rm {} +",
        "find . -mindepth 1 -maxdepth 1 -exec rm -rf {} +",
        "find ~ -type f -delete",
        "find $HOME -delete",
        "find src /etc -delete",
        "d=/; find $d -delete",
        "find / -name '*.log' -delete",
        "find . -name '*' -delete",
        "find . ! -name keep -delete",
        "find . -name keep -prune -o -type f -delete",
        "find .. -type f -print0 | xargs -0 rm",
        "find / | xargs rm -rf",
        "find . -type f | sort | xargs rm",
        "sudo find / -delete",
    ] {
        assert!(look(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "find . -name '*.pyc' -delete",
        "find . -name '*.o' -exec rm {} +",
        "find . \\( -name a -o -name b \\) -delete",
        "find . -name node_modules -prune -o -name '*.tmp' -delete",
        "find . -type d -empty -delete",
        "find /tmp -mtime +7 -delete",
        "find ~ -name .DS_Store -delete",
        "find build -delete",
        "find ./target -type f -exec rm {} +",
        "find . -name \"$x\" -delete",
        "find \"$dir\" -delete",
        "find . -name '*.orig' | xargs rm -f",
        "find . -type f | grep orig | xargs rm",
        "find . -type f | head -3 | xargs rm",
        "find . -name a -o -name b | xargs rm",
        "find . -name .git -prune -o -name '*.tmp' -print | xargs rm",
        "find . -type f | xargs wc -l",
        "find . -type d -exec rmdir {} +",
        "find / -name x -exec grep rm {} +",
    ] {
        assert_eq!(look(text).critical_removal, None, "{text:?}");
    }
}

#[test]
fn what_is_printed_into_a_removal_is_removed() {
    for text in [
        "echo / | xargs rm -rf",
        "echo a / | xargs rm -rf",
        "echo ~ | xargs rm -rf",
        "echo * | xargs rm -rf",
        "printf '/\\n' | xargs -n1 rm -rf",
        "printf '%s\\n' /etc | xargs rm -rf",
        "echo .. | cat | xargs rm -rf",
        "echo / | xargs -I{} rm -rf {}",
        "echo / | sudo xargs rm -rf",
        "x=/; echo $x | xargs rm -rf",
        "xargs rm -rf <<< /",
        "xargs rm -rf <<E\n/etc\nE",
        "echo / | parallel rm -rf",
    ] {
        assert!(look(text).critical_removal.is_some(), "{text:?}");
    }
    for text in [
        "echo build | xargs rm -rf",
        "echo / | xargs ls",
        "printf '%s\\n' a b | xargs rm",
        "git ls-files -o | xargs rm",
        "ls *.o | xargs rm",
        "echo / ; ls | xargs rm",
        "cat list | xargs rm",
        "echo \"$x\" | xargs rm",
    ] {
        assert_eq!(look(text).critical_removal, None, "{text:?}");
    }
}
