use super::*;
use proptest::prelude::*;

/// Returns the highlighted words as `text:tone`, without those of plain text.
fn tones(language: &str, code: &str) -> Vec<String> {
    let mut highlighter = CodeHighlighter::for_language(language).unwrap();
    let mut out = Vec::new();
    for line in code.lines() {
        let styled = highlighter.highlight_line(line);
        assert_eq!(styled.text(), line);
        for span in styled.spans {
            if span.style.tone != TextTone::Text && !span.text.trim().is_empty() {
                out.push(format!("{}:{:?}", span.text.trim(), span.style.tone));
            }
        }
    }
    out
}

#[test]
fn rust_is_told_apart() {
    let code = "fn f<'a>(x: &'a str) -> Option<u8> { // c\n    let c = '\\''; let s = r#\"a\"b\nc\"#; println!(\"{c}\"); /* a\n/* b */ */ 0x1f != 1.5e-3 }";
    assert_eq!(
        tones("rust", code),
        [
            "fn:Keyword",
            "'a:TypeName",
            "'a:TypeName",
            "str:TypeName",
            "Option:TypeName",
            "u8:TypeName",
            "// c:Comment",
            "let:Keyword",
            "'\\'':Literal",
            "let:Keyword",
            "r#\"a\"b:Literal",
            "c\"#:Literal",
            "println!:FunctionName",
            "\"{c}\":Literal",
            "/* a:Comment",
            "/* b */ */:Comment",
            "0x1f:Number",
            "1.5e-3:Number",
        ]
    );
}

#[test]
fn other_languages_are_told_apart() {
    let python = tones("python", "@cached\ndef f(self): # c\n    \"\"\"a\n    b\"\"\"\n    return None");
    assert_eq!(
        python,
        [
            "@cached:TypeName",
            "def:Keyword",
            "f:FunctionName",
            "self:Number",
            "# c:Comment",
            "\"\"\"a:Literal",
            "b\"\"\":Literal",
            "return:Keyword",
            "None:Number"
        ]
    );
    assert_eq!(
        tones("json", "{\"a\": \"b\", \"c\": [1, true]}"),
        ["\"a\":FunctionName", "\"b\":Literal", "\"c\":FunctionName", "1:Number", "true:Number"]
    );
    assert_eq!(
        tones("yaml", "# c\nname: x\n- run: 'y' # d"),
        ["# c:Comment", "name:FunctionName", "run:FunctionName", "'y':Literal", "# d:Comment"]
    );
    assert_eq!(
        tones("html", "<a href=\"x\">t</a><!-- c\nd --><br/>"),
        [
            "<a:Keyword",
            "href:TypeName",
            "\"x\":Literal",
            ">:Keyword",
            "</a>:Keyword",
            "<!-- c:Comment",
            "d -->:Comment",
            "<br/>:Keyword"
        ]
    );
    assert_eq!(
        tones("sh", "if [ \"$A\" ]; then echo $B # c"),
        ["if:Keyword", "\"$A\":Literal", "then:Keyword", "echo:Keyword", "$B:TypeName", "# c:Comment"]
    );
    assert_eq!(tones("sql", "SELECT a FROM t -- c"), ["SELECT:Keyword", "FROM:Keyword", "-- c:Comment"]);
    assert_eq!(tones("diff", "@@ -1 +1 @@\n-a\n+b"), ["@@ -1 +1 @@:Accent", "-a:Removed", "+b:Added"]);
    assert!(CodeHighlighter::for_path("/x/src/main.rs").is_some() && CodeHighlighter::for_path("Makefile").is_some());
    assert!(CodeHighlighter::for_path("notes.txt").is_none() && CodeHighlighter::for_path("LICENSE").is_none());
}

proptest! {
    #[test]
    fn no_character_is_lost(name in "rust|python|js|json|html|css|yaml|lua|haskell|diff|make|php", code in "\\PC{0,200}", more in "[-\"'`#/*<>=a-z0-9 \\\\{}!@$é漢]{0,200}") {
        let mut highlighter = CodeHighlighter::for_language(&name).unwrap();
        for line in code.lines().chain(more.lines()) {
            let highlighted = highlighter.highlight_line(line).text();
            prop_assert_eq!(highlighted.as_str(), line);
        }
    }
}
