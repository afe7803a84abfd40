//! The languages that are highlighted: for each its names and what its text is made of.

/// Rules of one language.
#[derive(Debug)]
pub(super) struct LanguageRules {
    pub(super) names: &'static [&'static str],
    pub(super) lexer: LexerKind,
    /// Words between spaces, as in the two that follow.
    pub(super) keywords: &'static str,
    /// Names of values.
    pub(super) constants: &'static str,
    pub(super) types: &'static str,
    pub(super) line_comments: &'static [&'static str],
    pub(super) block_comment: Option<(&'static str, &'static str)>,
    pub(super) strings: &'static [StringRule],
    /// Signs that begin a name: `$`, `@`.
    pub(super) sigils: &'static str,
    /// Signs after a bare key.
    pub(super) key_signs: &'static [char],
    pub(super) has_nested_comments: bool,
    /// Raw strings, characters and lifetimes, and macros.
    pub(super) has_rust_literals: bool,
    pub(super) has_capitalized_types: bool,
    pub(super) has_quoted_keys: bool,
    pub(super) has_bare_keys: bool,
    pub(super) ignores_case: bool,
}

/// How a language is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexerKind {
    Code,
    /// Tags and text.
    Markup,
    /// Lines by their first sign.
    Diff,
}

/// One kind of string.
#[derive(Clone, Copy, Debug)]
pub(super) struct StringRule {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    pub(super) has_escapes: bool,
    pub(super) is_multiline: bool,
}

const fn quoted(mark: &'static str) -> StringRule {
    StringRule { open: mark, close: mark, has_escapes: true, is_multiline: false }
}

const fn long(mark: &'static str) -> StringRule {
    StringRule { open: mark, close: mark, has_escapes: true, is_multiline: true }
}

const fn verbatim(mark: &'static str) -> StringRule {
    StringRule { open: mark, close: mark, has_escapes: false, is_multiline: true }
}

const BOTH_QUOTES: &[StringRule] = &[quoted("\""), quoted("'")];

/// Language without any rule.
const BASE: LanguageRules = LanguageRules {
    names: &[],
    lexer: LexerKind::Code,
    keywords: "",
    constants: "true false null",
    types: "",
    line_comments: &[],
    block_comment: None,
    strings: BOTH_QUOTES,
    sigils: "",
    key_signs: &[],
    has_nested_comments: false,
    has_rust_literals: false,
    has_capitalized_types: false,
    has_quoted_keys: false,
    has_bare_keys: false,
    ignores_case: false,
};

/// Language with the comments and names of C.
const C_LIKE: LanguageRules =
    LanguageRules { line_comments: &["//"], block_comment: Some(("/*", "*/")), has_capitalized_types: true, ..BASE };

/// Returns the rules of a language.
pub(super) fn find_language(name: &str) -> Option<&'static LanguageRules> {
    let name = name.trim_start_matches('.');
    LANGUAGES.iter().find(|rules| rules.names.iter().any(|known| known.eq_ignore_ascii_case(name)))
}

static LANGUAGES: &[LanguageRules] = &[
    LanguageRules {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern fn for if impl in let loop match \
            mod move mut pub ref return self Self static struct super trait type union unsafe use where \
            while macro_rules",
        constants: "true false",
        types: "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize",
        strings: &[long("\""), long("b\"")],
        has_nested_comments: true,
        has_rust_literals: true,
        ..C_LIKE
    },
    LanguageRules {
        names: &["python", "py", "python3", "pyi"],
        keywords: "and as assert async await break case class continue def del elif else except finally for from \
            global if import in is lambda match nonlocal not or pass raise return try while with yield",
        constants: "True False None self cls",
        types: "bool bytes dict float int list object set str tuple",
        line_comments: &["#"],
        strings: &[long("\"\"\""), long("'''"), quoted("\""), quoted("'")],
        sigils: "@",
        has_capitalized_types: true,
        ..BASE
    },
    LanguageRules {
        names: &["javascript", "js", "jsx", "mjs", "cjs", "typescript", "ts", "tsx", "mts", "cts"],
        keywords: "abstract as async await break case catch class const continue debugger declare default delete do \
            else enum export extends finally for from function get if implements import in instanceof \
            interface keyof let new of private protected public readonly return satisfies set static super \
            switch this throw try type typeof var void while with yield",
        constants: "true false null undefined NaN Infinity",
        types: "any bigint boolean never number string symbol unknown",
        strings: &[quoted("\""), quoted("'"), long("`")],
        sigils: "@",
        ..C_LIKE
    },
    LanguageRules {
        names: &["go", "golang"],
        keywords: "break case chan const continue default defer else fallthrough for func go goto if import \
            interface map package range return select struct switch type var",
        constants: "true false nil iota",
        types: "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string \
            uint uint8 uint16 uint32 uint64 uintptr",
        strings: &[quoted("\""), quoted("'"), verbatim("`")],
        ..C_LIKE
    },
    LanguageRules {
        names: &["c", "h", "cpp", "c++", "cc", "cxx", "hpp", "hh", "objc", "m", "ino", "cuda", "cu"],
        keywords: "alignas auto break case catch class co_await co_return co_yield concept const constexpr continue \
            default delete do else enum explicit export extern final for friend goto if inline mutable \
            namespace new noexcept operator override private protected public register requires restrict \
            return sizeof static static_assert struct switch template this throw try typedef typename union \
            using virtual volatile while",
        constants: "true false NULL nullptr",
        types: "bool char double float int int8_t int16_t int32_t int64_t long short signed size_t ssize_t \
            uint8_t uint16_t uint32_t uint64_t unsigned void wchar_t",
        sigils: "#",
        ..C_LIKE
    },
    LanguageRules {
        names: &["java", "kotlin", "kt", "kts", "scala", "groovy", "gradle"],
        keywords: "abstract as assert break by case catch class companion const continue data def default do else \
            enum extends final finally for fun if implements import in instanceof interface internal is \
            lateinit match native new object open override package private protected public record return \
            sealed static super suspend switch synchronized this throw throws trait transient try typealias \
            val var volatile when while with yield",
        types: "boolean byte char double float int long short void",
        strings: &[long("\"\"\""), quoted("\""), quoted("'")],
        sigils: "@",
        ..C_LIKE
    },
    LanguageRules {
        names: &["csharp", "cs", "c#"],
        keywords: "abstract as async await base break case catch checked class const continue default delegate do \
            else enum event explicit extern finally for foreach get goto if implicit in init interface \
            internal is lock namespace new operator out override params partial private protected public \
            readonly record ref return sealed set sizeof static struct switch this throw try typeof unsafe \
            using var virtual when where while yield",
        types: "bool byte char decimal double dynamic float int long object short string uint ulong void",
        strings: &[long("\"\"\""), verbatim("@\""), quoted("$\""), quoted("\""), quoted("'")],
        ..C_LIKE
    },
    LanguageRules {
        names: &["swift"],
        keywords: "actor as async await break case catch class continue default defer deinit do else enum extension \
            fallthrough for func guard if import in init inout internal is lazy let mutating open operator \
            override private protocol public repeat rethrows return self Self some static struct subscript \
            super switch throw throws try typealias var weak where while",
        constants: "true false nil",
        strings: &[long("\"\"\""), quoted("\"")],
        sigils: "@",
        has_nested_comments: true,
        ..C_LIKE
    },
    LanguageRules {
        names: &["zig", "dart"],
        keywords: "abstract allowzero and as asm async await break case catch class comptime const continue default \
            defer do else enum errdefer error export extends extern factory final fn for get if implements \
            import in inline is late mixin new orelse packed pub required return set static struct super \
            switch test this threadlocal throw try union unreachable usingnamespace var void volatile while \
            with yield",
        constants: "true false null undefined",
        types: "bool double int num u8 u16 u32 u64 usize i8 i16 i32 i64 f32 f64 String",
        sigils: "@",
        ..C_LIKE
    },
    LanguageRules {
        names: &["php"],
        keywords: "abstract and array as break case catch class clone const continue declare default do echo else \
            elseif empty enum extends final finally fn for foreach function global if implements include \
            instanceof interface isset match namespace new or print private protected public readonly \
            require require_once return static switch throw trait try unset use var while yield",
        types: "bool float int mixed string void",
        line_comments: &["//", "#"],
        sigils: "$",
        ..C_LIKE
    },
    LanguageRules {
        names: &["ruby", "rb"],
        keywords: "alias and attr_accessor attr_reader begin break case class def defined? do else elsif end ensure \
            extend for if in include lambda loop module next not or private proc protected public raise redo \
            require require_relative rescue retry return super then undef unless until when while yield",
        constants: "true false nil self",
        line_comments: &["#"],
        sigils: "@$:",
        has_capitalized_types: true,
        ..BASE
    },
    LanguageRules {
        names: &["elixir", "ex", "exs", "erlang", "erl"],
        keywords: "after alias and case catch cond def defmodule defp defstruct do else end fn for if import in not \
            or quote raise receive require rescue try unless unquote use when with",
        constants: "true false nil",
        line_comments: &["#", "%"],
        strings: &[long("\"\"\""), quoted("\""), quoted("'")],
        sigils: "@:",
        has_capitalized_types: true,
        ..BASE
    },
    LanguageRules {
        names: &["sh", "bash", "shell", "zsh", "console", "shellscript", "ksh", "fish"],
        keywords: "alias break case cd continue do done echo elif else end esac eval exec exit export fi for \
            function if in local read readonly return set shift source then trap unset until while",
        constants: "true false",
        line_comments: &["#"],
        strings: &[long("\""), verbatim("'")],
        sigils: "$",
        ..BASE
    },
    LanguageRules {
        names: &["powershell", "ps1", "pwsh"],
        keywords: "begin break catch class continue do else elseif end exit filter finally for foreach function if \
            in param process return switch throw try until while",
        line_comments: &["#"],
        block_comment: Some(("<#", "#>")),
        sigils: "$",
        ignores_case: true,
        ..BASE
    },
    LanguageRules {
        names: &["json", "jsonc", "json5", "jsonl", "ndjson", "webmanifest"],
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        has_quoted_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["yaml", "yml"],
        constants: "true false null yes no on off True False",
        line_comments: &["#"],
        sigils: "&*!",
        key_signs: &[':', '-', '.', '/'],
        has_bare_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["toml", "ini", "cfg", "conf", "properties", "env", "dotenv", "editorconfig", "service"],
        line_comments: &["#", ";"],
        strings: &[long("\"\"\""), verbatim("'''"), quoted("\""), quoted("'")],
        key_signs: &['=', '.', '-'],
        has_bare_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["sql", "postgresql", "postgres", "mysql", "sqlite", "plsql"],
        keywords: "add all alter analyze and as asc begin between by cascade case check column commit constraint \
            create cross database default delete desc distinct drop else end exists explain false foreign \
            from full function grant group having if in index inner insert intersect into is join key left \
            like limit not offset on or order outer over partition primary references returning right \
            rollback select set table then transaction trigger union unique update using values view when \
            where with",
        types: "bigint blob boolean char date decimal double float int integer json jsonb numeric real serial \
            smallint text time timestamp uuid varchar",
        line_comments: &["--"],
        block_comment: Some(("/*", "*/")),
        ignores_case: true,
        ..BASE
    },
    LanguageRules {
        names: &["css", "scss", "sass", "less"],
        keywords: "",
        constants: "inherit initial none auto unset",
        line_comments: &["//"],
        block_comment: Some(("/*", "*/")),
        sigils: "@$#.",
        key_signs: &[':', '-'],
        has_bare_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["html", "htm", "xml", "svg", "vue", "svelte", "xhtml", "xsl", "plist"],
        lexer: LexerKind::Markup,
        ..BASE
    },
    LanguageRules { names: &["diff", "patch"], lexer: LexerKind::Diff, ..BASE },
    LanguageRules {
        names: &["dockerfile", "docker", "containerfile"],
        keywords: "ADD ARG AS CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL ONBUILD RUN SHELL STOPSIGNAL \
            USER VOLUME WORKDIR",
        line_comments: &["#"],
        sigils: "$",
        ..BASE
    },
    LanguageRules {
        names: &["make", "makefile", "mk", "cmake", "just", "justfile"],
        keywords: "define else elseif endef endforeach endfunction endif export foreach function if ifdef ifeq \
            ifndef ifneq include macro override project set",
        line_comments: &["#"],
        sigils: "$",
        key_signs: &[':', '=', '+', '?'],
        has_bare_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["lua"],
        keywords: "and break do else elseif end for function goto if in local not or repeat return then until while",
        constants: "true false nil self",
        line_comments: &["--"],
        block_comment: Some(("--[[", "]]")),
        strings: &[
            quoted("\""),
            quoted("'"),
            StringRule { open: "[[", close: "]]", has_escapes: false, is_multiline: true },
        ],
        ..BASE
    },
    LanguageRules {
        names: &["haskell", "hs", "elm", "ocaml", "ml", "fsharp", "fs"],
        keywords: "and as begin case class data deriving do else end exception fun function if import in infix \
            instance let match module mutable newtype of open rec sig struct then type val when where with",
        constants: "True False true false",
        line_comments: &["-- ", "//"],
        block_comment: Some(("{-", "-}")),
        strings: &[long("\"")],
        has_nested_comments: true,
        has_capitalized_types: true,
        ..BASE
    },
    LanguageRules {
        names: &["nix", "hcl", "terraform", "tf", "tfvars", "nginx", "bicep"],
        keywords: "assert data else for for_each if import in inherit let locals module output provider rec \
            resource terraform then variable with",
        line_comments: &["#", "//"],
        block_comment: Some(("/*", "*/")),
        strings: &[long("''"), long("\"")],
        sigils: "$",
        key_signs: &['=', '.'],
        has_bare_keys: true,
        ..BASE
    },
    LanguageRules {
        names: &["graphql", "gql", "proto", "protobuf", "thrift"],
        keywords: "directive enum extend fragment implements import input interface message mutation on oneof \
            option optional package query repeated returns rpc scalar schema service subscription syntax \
            type union",
        types: "bool bytes double float int32 int64 string uint32 uint64",
        line_comments: &["#", "//"],
        block_comment: Some(("/*", "*/")),
        strings: &[long("\"\"\""), quoted("\"")],
        sigils: "@$",
        has_capitalized_types: true,
        ..BASE
    },
    LanguageRules {
        names: &["r", "julia", "jl", "perl", "pl", "pm"],
        keywords: "begin break const do else elseif elsif end export for foreach function if import in last let \
            library macro module my next our package quote repeat return struct sub then try unless until \
            use using while",
        constants: "TRUE FALSE NULL NA true false nothing undef",
        line_comments: &["#"],
        sigils: "$@%",
        ..BASE
    },
    LanguageRules {
        names: &["clojure", "clj", "cljs", "lisp", "el", "elisp", "scheme", "scm", "racket", "rkt"],
        keywords: "cond def define defmacro defn defun defvar do fn if lambda let loop ns progn quote recur require \
            setq when",
        constants: "nil true false t",
        line_comments: &[";"],
        strings: &[long("\"")],
        sigils: ":",
        ..BASE
    },
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_belongs_to_one_language() {
        let mut seen = HashSet::new();
        for name in LANGUAGES.iter().flat_map(|rules| rules.names) {
            assert!(seen.insert(*name), "{name}");
            assert!(find_language(name).is_some());
        }
        assert!(find_language("Rust").is_some() && find_language(".py").is_some());
        assert!(find_language("").is_none() && find_language("text").is_none());
    }
}
