//! Table of commands that only read: one row each, with the flags that may be used and the meaning of the other words.
//! A flag that is not in the row makes a command not read-only, so an omission in the table is always safe.

/// Meaning of the words that are not flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandKind {
    /// Any words, flags included; nothing is opened.
    Text,
    Paths,
    /// One path; a second one would be written.
    OnePath,
    /// The first is a pattern unless a flag supplied one; the others are paths.
    PatternThenPaths,
}

#[derive(Debug)]
pub(super) struct ReadOnlyRow {
    pub(super) name: &'static str,
    pub(super) operands: OperandKind,
    /// True if no flag of the command does more than read: words that are only known at run time may be anything.
    pub(super) flags_are_harmless: bool,
    /// Short flags without a value; they may be clustered.
    pub(super) short: &'static str,
    /// Short flags with a value, attached or in the next word.
    pub(super) valued: &'static str,
    /// Short flags whose value is a file to read, attached or in the next word.
    pub(super) filed: &'static str,
    /// Long flags, whitespace-separated: without a value, with one, with a file.
    pub(super) long: &'static str,
    pub(super) long_valued: &'static str,
    pub(super) long_filed: &'static str,
    /// True if `-20` is a number of lines.
    pub(super) numeric: bool,
    /// Flags that make it recursive; `*` if it always is.
    pub(super) recursive: &'static str,
}

const fn new_row(name: &'static str, operands: OperandKind) -> ReadOnlyRow {
    ReadOnlyRow {
        name,
        operands,
        flags_are_harmless: true,
        short: "",
        valued: "",
        filed: "",
        long: "",
        long_valued: "",
        long_filed: "",
        numeric: false,
        recursive: "",
    }
}

const fn text_row(name: &'static str) -> ReadOnlyRow {
    new_row(name, OperandKind::Text)
}

const GREP: ReadOnlyRow = ReadOnlyRow {
    short: "EFGPiyvwxcloLqshHnbTUzZrRaI",
    valued: "emABCdD",
    filed: "f",
    long: "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp \
           line-regexp count files-with-matches files-without-match only-matching quiet silent no-messages \
           with-filename no-filename line-number byte-offset initial-tab null null-data recursive \
           dereference-recursive text line-buffered color colour unix-byte-offsets binary",
    long_valued: "regexp max-count after-context before-context context include exclude exclude-dir binary-files color \
                  colour label directories devices group-separator",
    long_filed: "file exclude-from",
    numeric: true,
    recursive: "r R recursive dereference-recursive d directories",
    ..new_row("grep", OperandKind::PatternThenPaths)
};

const HEAD: ReadOnlyRow = ReadOnlyRow {
    short: "qvz",
    valued: "nc",
    long: "quiet silent verbose zero-terminated",
    long_valued: "lines bytes",
    numeric: true,
    ..new_row("head", OperandKind::Paths)
};

pub(super) const ROWS: &[ReadOnlyRow] = &[
    text_row("true"),
    text_row("false"),
    text_row(":"),
    text_row("echo"),
    text_row("pwd"),
    text_row("whoami"),
    text_row("uname"),
    text_row("id"),
    text_row("which"),
    text_row("basename"),
    text_row("dirname"),
    text_row("expr"),
    text_row("seq"),
    text_row("tr"),
    ReadOnlyRow {
        // `-I`, `-T` and `-w` take a value for some and none for others, which could hide a path.
        short: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        long: "all almost-all author escape ignore-backups directory classify file-type full-time \
               group-directories-first no-group human-readable si dereference dereference-command-line inode kibibytes \
               numeric-uid-gid quote-name reverse recursive size zero context literal color hide-control-chars \
               show-control-chars hyperlink",
        long_valued: "sort time time-style format indicator-style quoting-style color hide ignore width tabsize \
                      block-size hyperlink classify",
        ..new_row("ls", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "AbeEnstTuv",
        long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
        ..new_row("cat", OperandKind::Paths)
    },
    HEAD,
    ReadOnlyRow {
        name: "tail",
        short: "qvzfF",
        valued: "ncs",
        long: "quiet silent verbose zero-terminated follow retry",
        long_valued: "lines bytes follow sleep-interval pid max-unchanged-stats",
        ..HEAD
    },
    ReadOnlyRow {
        short: "clLmw",
        long: "bytes chars lines max-line-length words",
        long_valued: "total",
        long_filed: "",
        ..new_row("wc", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "Lft",
        valued: "c",
        long: "dereference file-system terse",
        long_valued: "format printf cached",
        ..new_row("stat", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "0abchHklLmPDsSx",
        valued: "dBt",
        filed: "X",
        long: "all apparent-size bytes total human-readable si summarize one-file-system separate-dirs null count-links \
               inodes no-dereference dereference dereference-args time",
        long_valued: "max-depth block-size threshold exclude time-style time",
        long_filed: "exclude-from",
        ..new_row("du", OperandKind::Paths)
    },
    ReadOnlyRow {
        // `-l` pipes its output to another program.
        short: "abBcdeEinNpqrstTuwyZ",
        valued: "UCLIFxW",
        filed: "X",
        long: "brief report-identical-files context unified ed rcs normal side-by-side show-c-function recursive \
               new-file unidirectional-new-file ignore-case ignore-tab-expansion ignore-trailing-space \
               ignore-space-change ignore-all-space ignore-blank-lines strip-trailing-cr text minimal expand-tabs \
               initial-tab no-dereference left-column suppress-common-lines suppress-blank-empty color \
               speed-large-files no-ignore-file-name-case ignore-file-name-case",
        long_valued: "context unified label width exclude color ignore-matching-lines show-function-line tabsize \
                      horizon-lines palette",
        long_filed: "exclude-from from-file to-file starting-file",
        recursive: "r recursive",
        ..new_row("diff", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "bls",
        valued: "in",
        long: "print-bytes verbose quiet silent",
        long_valued: "ignore-initial bytes",
        ..new_row("cmp", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "123z",
        long: "check-order nocheck-order total zero-terminated",
        long_valued: "output-delimiter",
        ..new_row("comm", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "nsz",
        valued: "bcdf",
        long: "complement only-delimited zero-terminated",
        long_valued: "bytes characters delimiter fields output-delimiter",
        ..new_row("cut", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "p",
        valued: "bdfhilnsvw",
        long: "no-renumber",
        long_valued: "body-numbering section-delimiter footer-numbering header-numbering line-increment \
                      join-blank-lines number-format number-separator starting-line-number number-width",
        ..new_row("nl", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "br",
        valued: "s",
        long: "before regex",
        long_valued: "separator",
        ..new_row("tac", OperandKind::Paths)
    },
    new_row("rev", OperandKind::Paths),
    ReadOnlyRow {
        short: "sz",
        valued: "d",
        long: "serial zero-terminated",
        long_valued: "delimiters",
        ..new_row("paste", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "eEmLPqsz",
        long: "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero",
        long_filed: "relative-to relative-base",
        ..new_row("realpath", OperandKind::Paths)
    },
    ReadOnlyRow {
        short: "femnqsvz",
        long: "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero",
        ..new_row("readlink", OperandKind::Paths)
    },
    ReadOnlyRow { name: "egrep", ..GREP },
    ReadOnlyRow { name: "fgrep", ..GREP },
    GREP,
    ReadOnlyRow {
        flags_are_harmless: false,
        short: "bdfghinMRrVcCmsuz",
        valued: "ktS",
        long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort \
               ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort check merge stable unique \
               zero-terminated debug",
        long_valued: "key field-separator buffer-size sort parallel batch-size check",
        long_filed: "random-source",
        ..new_row("sort", OperandKind::Paths)
    },
    ReadOnlyRow {
        flags_are_harmless: false,
        short: "cdDiuz",
        valued: "fsw",
        long: "count repeated ignore-case unique zero-terminated all-repeated group",
        long_valued: "skip-fields skip-chars check-chars all-repeated group",
        ..new_row("uniq", OperandKind::OnePath)
    },
    ReadOnlyRow {
        flags_are_harmless: false,
        short: "0abcFhHiIlnNopPqsSuUvVwx.",
        valued: "eABCdgjmMtTrE",
        filed: "f",
        long: "auto-hybrid-regex no-auto-hybrid-regex binary no-binary block-buffered no-block-buffered byte-offset \
               no-byte-offset case-sensitive column no-column count count-matches crlf no-crlf debug \
               files files-with-matches files-without-match fixed-strings no-fixed-strings no-follow \
               glob-case-insensitive heading no-heading help hidden no-hidden ignore-case ignore-file-case-insensitive \
               include-zero invert-match no-invert-match json line-buffered line-number no-line-number line-regexp \
               max-columns-preview messages no-messages mmap no-mmap multiline no-multiline multiline-dotall no-config \
               no-filename no-ignore no-ignore-dot no-ignore-exclude no-ignore-files no-ignore-global no-ignore-messages \
               no-ignore-parent no-ignore-vcs no-pcre2-unicode no-require-git no-unicode null null-data \
               one-file-system only-matching passthru pcre2 pcre2-version pretty quiet smart-case sort-files stats \
               stop-on-nonmatch text trace trim type-list unrestricted version vimgrep with-filename word-regexp",
        long_valued: "after-context before-context color colors context context-separator dfa-size-limit encoding \
                      engine field-context-separator field-match-separator generate glob iglob max-columns max-count \
                      max-depth max-filesize path-separator regex-size-limit regexp replace sort sortr threads type \
                      type-add type-clear type-not hyperlink-format",
        long_filed: "file ignore-file",
        recursive: "*",
        ..new_row("rg", OperandKind::PatternThenPaths)
    },
];

/// Returns true if a whitespace-separated list contains this word.
pub(super) fn list_contains(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split_ascii_whitespace().any(|listed| listed == word)
}
