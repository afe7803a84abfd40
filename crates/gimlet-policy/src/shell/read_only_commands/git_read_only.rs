//! Read-only subcommands of git. Git accepts abbreviated long options, so only full ones from these lists count, and
//! nothing may precede the subcommand.

use super::read_only_table::list_contains;

/// Options of every subcommand that prints commits or differences.
const DIFF: &str = "-p -u --patch -s --no-patch --raw --patch-with-raw --indent-heuristic --no-indent-heuristic --minimal \
    --patience --histogram --stat --compact-summary --numstat --shortstat --dirstat --cumulative --summary --name-only \
    --name-status --color --no-color --color-moved --no-color-moved --color-words --word-diff --no-renames \
    --rename-empty --check --full-index --binary --abbrev --no-abbrev -M -C -B -D -R -a -b -w -z -W --find-renames \
    --find-copies --find-copies-harder --break-rewrites --irreversible-delete --pickaxe-all --pickaxe-regex --relative \
    --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space \
    --ignore-blank-lines --function-context --exit-code --quiet -q --no-ext-diff --no-textconv --ignore-submodules \
    --no-prefix --default-prefix --cached --staged --merge-base --unified --cc -c -m --combined-all-paths --submodule=short \
    --diff-merges=off --diff-merges=none --diff-merges=first-parent --diff-merges=1 --diff-merges=separate \
    --diff-merges=combined --diff-merges=c --diff-merges=dense-combined --diff-merges=cc";
const DIFF_VALUED: &str = "--stat --dirstat --color --color-moved --color-moved-ws --word-diff --word-diff-regex \
    --color-words --abbrev --find-renames --find-copies --break-rewrites --diff-filter --diff-algorithm --anchored \
    --inter-hunk-context --unified --ignore-submodules --src-prefix --dst-prefix --line-prefix --ws-error-highlight \
    --relative --stat-width --stat-name-width --stat-count --stat-graph-width \
    --find-object --rotate-to --skip-to --ignore-matching-lines --max-depth";
/// Short options whose value is attached.
const DIFF_ATTACHED: &str = "-U -M -C -B -S -G -l -X -I";

const LOG: &str = "--oneline --graph --decorate --no-decorate --all --branches --tags --remotes --follow --reverse \
    --merges --no-merges --first-parent --topo-order --date-order --author-date-order --abbrev-commit \
    --no-abbrev-commit --full-history --dense --sparse --simplify-merges --simplify-by-decoration --ancestry-path \
    --cherry --cherry-pick --cherry-mark --left-only --right-only --left-right --boundary --walk-reflogs -g -i -E -F -P \
    --regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --invert-grep --all-match --source \
    --relative-date --parents --children --use-mailmap --mailmap --no-mailmap \
    --notes --no-notes --show-notes --clear-decorations --log-size --full-diff --no-walk \
    --expand-tabs --no-expand-tabs --pretty --date --not --remove-empty --show-pulls --exclude-first-parent-only -t -r";
const LOG_VALUED: &str = "--max-count --skip --since --after --until --before --author --committer --grep --grep-reflog \
    --format --pretty --date --decorate --decorate-refs --decorate-refs-exclude --branches --tags --remotes --glob \
    --exclude --min-parents --max-parents --encoding --expand-tabs --notes --show-notes --no-walk --since-as-filter \
    --ancestry-path";
/// Options whose value may also be the next word.
const SPACED: &str = "-n --max-count --skip --since --after --until --before --author --committer --grep -S -G -L";
const LOG_ATTACHED: &str = "-n -L";

/// The options of one subcommand.
struct GitOptions {
    plain: &'static [&'static str],
    valued: &'static [&'static str],
    attached: &'static [&'static str],
    spaced: &'static str,
    /// True if `-20` is a number of commits.
    numeric: bool,
}

fn git_options(subcommand: &str) -> Option<GitOptions> {
    let (plain, valued, attached, spaced, numeric): (&'static [_], &'static [_], &'static [_], _, _) = match subcommand
    {
        "log" | "show" => (&[DIFF, LOG], &[DIFF_VALUED, LOG_VALUED], &[DIFF_ATTACHED, LOG_ATTACHED], SPACED, true),
        "diff" => (&[DIFF, "--ours --theirs --base -0"], &[DIFF_VALUED], &[DIFF_ATTACHED], "-S -G", false),
        "status" => (
            &["-s --short -b --branch --porcelain --long -v --verbose -u --untracked-files --ignored -z --column \
               --no-column --ahead-behind --no-ahead-behind --renames --no-renames --show-stash --ignore-submodules \
               --find-renames"],
            &["--porcelain --untracked-files --ignored --ignore-submodules --column --find-renames"],
            &["-u"],
            "",
            false,
        ),
        "blame" => (
            &["-b --root --show-stats -l -t -p --porcelain --line-porcelain --incremental -s -f --show-name -n \
               --show-number -e --show-email -w -M -C --minimal --color-lines --color-by-age --first-parent -c \
               --score-debug --progress --no-progress --abbrev"],
            &["--date --since --abbrev --encoding"],
            &["-L -M -C"],
            "-L --date --since",
            false,
        ),
        "ls-files" => (
            &[
                "-z -t -v -f -c --cached -d --deleted -m --modified -o --others -i --ignored -s --stage -u --unmerged -k \
               --killed --directory --no-empty-directory --eol --deduplicate --full-name --recurse-submodules \
               --abbrev --error-unmatch --sparse --exclude-standard",
            ],
            &["--exclude --abbrev --format --with-tree"],
            &["-x"],
            "-x --exclude --format",
            false,
        ),
        "rev-parse" => (
            &[
                "--show-toplevel --show-prefix --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree \
               --is-inside-git-dir --is-bare-repository --is-shallow-repository --show-superproject-working-tree --short \
               --abbrev-ref --symbolic --symbolic-full-name --verify -q --quiet --all --branches --tags --remotes \
               --shared-index-path --show-object-format --show-ref-format --revs-only --no-revs --flags --no-flags --not \
               --sq",
            ],
            &["--short --abbrev-ref --branches --tags --remotes --glob --exclude --since --after --until --before \
               --path-format --disambiguate --show-object-format --default --prefix"],
            &[],
            "--default --prefix",
            false,
        ),
        "describe" => (
            &["--dirty --broken --all --tags --contains --abbrev --exact-match --debug --long --always --first-parent"],
            &["--dirty --broken --abbrev --candidates --match --exclude"],
            &[],
            "--match --exclude --candidates",
            false,
        ),
        "shortlog" => (
            &[LOG, "-n -s -e -c --numbered --summary --email --committer"],
            &[LOG_VALUED, "--group"],
            &["-w"],
            "--since --after --until --before --author --group",
            true,
        ),
        "branch" => (
            &[
                "-a --all -r --remotes -v -vv -q --quiet --verbose --list --show-current --contains --no-contains --merged \
               --no-merged --color --no-color --column --no-column --abbrev --no-abbrev --ignore-case -i --omit-empty",
            ],
            &["--contains --no-contains --merged --no-merged --points-at --sort --format --color --column --abbrev"],
            &[],
            "--sort --format --points-at",
            false,
        ),
        _ => return None,
    };
    Some(GitOptions { plain, valued, attached, spaced, numeric })
}

/// Returns the words of `git SUBCOMMAND …` that may name paths; `None` unless it only reads.
pub(super) fn git_path_operands<'a>(arguments: &[&'a str]) -> Option<Vec<&'a str>> {
    let (subcommand, rest) = arguments.split_first()?;
    let options = git_options(subcommand)?;
    if rest.iter().any(|word| checks_signatures(subcommand, word)) {
        return None;
    }
    let mut operands = Vec::new();
    let (mut flags, mut listing, mut at) = (true, false, 0);
    while let Some(word) = rest.get(at) {
        at += 1;
        if !flags || !word.starts_with('-') || *word == "-" {
            operands.push(*word);
        } else if *word == "--" {
            flags = false;
        } else if options.spaced.split_ascii_whitespace().any(|spaced| spaced == *word) {
            // The value; a missing one is an error in git.
            at += 1;
        } else if options.is_known(word) {
            let by_commit = *subcommand == "branch" && BY_COMMIT.contains(word);
            listing |= by_commit || *word == "--list";
            // The next word is the commit, even if it looks like an option.
            if by_commit && rest.get(at).is_some_and(|next| next.starts_with('-')) {
                return None;
            }
        } else {
            return None;
        }
    }
    // A name creates a branch, except as a pattern or a commit to list by.
    (*subcommand != "branch" || listing || operands.is_empty()).then_some(operands)
}

/// Returns true if a word causes signatures to be checked by a program from the configuration: `%GK`, `%+GK`, and for
/// branches `%(signature)`, also as a sort key.
fn checks_signatures(subcommand: &str, word: &str) -> bool {
    let placeholder = |text: &str| text.strip_prefix(['+', '-', ' ']).unwrap_or(text).starts_with('G');
    word.split('%').skip(1).any(placeholder) || (subcommand == "branch" && word.contains("signature"))
}

/// Options of `git branch` that list by a commit.
const BY_COMMIT: &[&str] = &["--contains", "--no-contains", "--merged", "--no-merged"];

impl GitOptions {
    /// Returns true for several short options in one word, none of which takes a value.
    fn is_cluster(&self, word: &str) -> bool {
        let Some(letters) = word.strip_prefix('-').filter(|letters| letters.is_ascii()) else { return false };
        let known = |letter: char| self.plain.iter().any(|list| list_contains(list, &format!("-{letter}")));
        !letters.is_empty() && letters.chars().all(known)
    }

    fn is_known(&self, word: &str) -> bool {
        let any = |lists_of: &[&str], word: &str| lists_of.iter().any(|list| list_contains(list, word));
        let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if any(self.plain, word) || (self.numeric && number(&word[1..])) {
            return true;
        }
        match word.split_once('=') {
            Some((name, _)) if name.starts_with("--") => any(self.valued, name),
            _ if word.starts_with("--") => false,
            // `-U3`, `-sb`
            _ => word.get(..2).is_some_and(|flag| word.len() > 2 && any(self.attached, flag)) || self.is_cluster(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::git_path_operands;

    fn is_read_only(text: &str) -> bool {
        git_path_operands(&text.split(' ').collect::<Vec<_>>()).is_some()
    }

    #[test]
    fn a_branch_is_listed_only_by_a_word_that_is_an_option() {
        for text in [
            "branch",
            "branch --list x*",
            "branch -a --list x",
            "branch --sort -committerdate",
            "branch --format %(refname) --list x",
            "branch --merged main",
            "branch --no-merged",
            "branch --contains HEAD x",
        ] {
            assert!(is_read_only(text), "{text}");
        }
        for text in [
            "branch x",
            "branch --format --list x",
            "branch --sort --list x",
            "branch --sort --merged x",
            "branch --points-at --contains x",
            "branch -- --list x",
            "branch --merged --format -D x",
        ] {
            assert!(!is_read_only(text), "{text}");
        }
    }

    #[test]
    fn signatures_are_left_unchecked() {
        for format in ["%GK", "%+GK", "%-G?", "% GS", "%h%+G?", "%<(9)%GK", "%%%GK"] {
            assert!(git_path_operands(&["log", &format!("--format={format}")]).is_none(), "{format}");
            assert!(git_path_operands(&["shortlog", &format!("--group=format:{format}")]).is_none(), "{format}");
        }
        for text in ["branch --format=%(signature:key)", "branch --sort signature", "branch --sort=-signature:grade"] {
            assert!(!is_read_only(text), "{text}");
        }
        for text in ["log --format=%gD%ad", "log --grep=GPG", "log -- signature.rs", "branch --format=%(refname)"] {
            assert!(is_read_only(text), "{text}");
        }
    }

    #[test]
    fn merges_are_shown_by_ways_that_are_known() {
        for text in
            ["show --diff-merges=first-parent HEAD", "log -p --diff-merges=off", "show --diff-merges=dense-combined"]
        {
            assert!(is_read_only(text), "{text}");
        }
        for text in [
            "show --diff-merges=remerge HEAD",
            "log -p --diff-merges=r",
            "show --diff-merges=on",
            "show --remerge-diff",
        ] {
            assert!(!is_read_only(text), "{text}");
        }
    }

    #[test]
    fn repositories_that_history_names_are_not_entered() {
        assert!(is_read_only("log -p --submodule=short"));
        for text in ["log -p --submodule", "show --submodule=log", "diff --submodule=diff"] {
            assert!(!is_read_only(text), "{text}");
        }
    }

    #[test]
    fn short_options_may_share_a_word_if_each_is_known() {
        for text in [
            "status -sb",
            "status -sbu",
            "shortlog -sne HEAD",
            "branch -av",
            "branch -avv",
            "ls-files -om --exclude-standard",
            "blame -wt a",
            "diff -wb",
        ] {
            assert!(is_read_only(text), "{text}");
        }
        for text in
            ["branch -aD x", "branch -vd x", "diff -wO/tmp/x", "log -pO", "status -sx", "branch -am x", "diff -é"]
        {
            assert!(!is_read_only(text), "{text}");
        }
    }
}
