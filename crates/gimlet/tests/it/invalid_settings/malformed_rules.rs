//! Rules of every malformed shape, in every list: each is named with its line, costs only itself, and allows nothing.

use serde_json::{Value, json};

use super::{run_four_commands, settings_files, write_file};
use crate::world;

/// What no list can use.
fn malformed_entries() -> Vec<Value> {
    let texts = [
        "",
        "   ",
        "(",
        ")",
        "()",
        "(Bash)",
        "Bash(",
        "Bash(chmod",
        "Bash(chmod *",
        "Bash)",
        "Bash( )",
        "Bash(chmod *) x",
        "Bash chmod",
        "Bash[chmod *]",
        "Bash(chmod * && x)",
        "Bash(chmod * | x)",
        "Bash(chmod *; x)",
        "Bash(chmod $(x))",
        "Bash(chmod `x`)",
        "Bash(chmod * > x)",
        "Bash(chmod *\nx)",
        "Read(!x)",
        "Edit(!/x/**)",
        "WebFetch(host:x)",
        "WebFetch(domain:)",
        "WebFetch(domain:a b)",
        "WebFetch(https://x)",
        "WebSearch(cats)",
        "mcp__a__b(x)",
        "Bash(\u{0}chmod *)",
        "\u{200b}Bash",
        "Bash\u{1b}[31m(chmod *)",
    ];
    let others = [json!(1), json!(true), json!({}), json!({"Bash": "chmod *"}), json!(["Bash(chmod *)"])];
    texts.into_iter().map(|text| json!(text)).chain(others).collect()
}

/// A settings file with one entry a line, the first on line 2.
fn settings_with_list(list: &str, entries: &[Value]) -> String {
    let entries: Vec<String> = entries.iter().map(ToString::to_string).collect();
    format!("{{\"permissions\": {{\"{list}\": [\n{}\n]}}}}", entries.join(",\n"))
}

#[tokio::test]
async fn each_malformed_rule_is_named_with_its_line_and_costs_only_itself() {
    let only_allow = ["*", "Ba*", "mcp__*", "mcp__*__x", "Bash(run_in_background:true)", "Agent(model:x)"];
    for (list, good, expected) in [
        ("allow", "Bash(chmod *)", [true, false, true, true]),
        ("ask", "Bash(rmdir *)", [true, false, false, false]),
        ("deny", "Bash(rmdir *)", [true, false, false, false]),
    ] {
        let mut entries = malformed_entries();
        if list == "allow" {
            entries.extend(only_allow.iter().map(|text| json!(text)));
        }
        let bad = entries.len();
        let world = world();
        let file = &settings_files(&world)[0];
        write_file(file, settings_with_list(list, &entries));
        let (run, done) = run_four_commands(&world, &[]).await;
        run.expect_code(0);
        assert_eq!(done, [true, false, false, true], "{list}: {}", run.stderr);
        let missing: Vec<&Value> = (0..bad)
            .filter(|at| {
                let place = format!("{}:{}", file.display(), at + 2);
                !run.stderr.lines().any(|line| {
                    let rest = line.find(&place).map(|found| &line[found + place.len()..]);
                    rest.is_some_and(|rest| {
                        !rest.starts_with(|c: char| c.is_ascii_digit())
                            && rest.contains(&format!(": permissions.{list}: "))
                    })
                })
            })
            .map(|at| &entries[at])
            .collect();
        assert!(missing.is_empty(), "{list}: {missing:?}\n{}", run.stderr);
        assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
        if list != "allow" {
            assert!(run.stderr.contains("nothing"), "what was to forbid and does not is said: {}", run.stderr);
        }

        entries.push(json!(good));
        let world = crate::world();
        write_file(&settings_files(&world)[0], settings_with_list(list, &entries));
        let (run, done) = run_four_commands(&world, &[]).await;
        assert_eq!(done, expected, "{list}: {}", run.stderr);
    }
}

#[tokio::test]
async fn rules_about_tools_that_nobody_knows_or_without_effect_are_remarked_on() {
    let world = world();
    let file = &settings_files(&world)[0];
    let long = format!("Bash({})", "x".repeat(100_000));
    write_file(
        file,
        settings_with_list("deny", &["Bsah(rmdir *)", "Write(x)", "PowerShell(x)", &long].map(|text| json!(text))),
    );
    let (run, done) = run_four_commands(&world, &[]).await;
    assert_eq!(done, [true, false, false, true], "{}", run.stderr);
    for line in 2..=4 {
        let place = format!("{}:{line}): permissions.deny: ", file.display());
        assert!(run.stderr.contains(&place), "{line}: {}", run.stderr);
    }
    assert!(run.stderr.contains("did you mean `Bash`?"), "{}", run.stderr);
}
