//! Memory: which files, in which order, with what they import, and what is left out.

use std::collections::HashSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use gimlet_config::{
    DocumentReader, MemoryFiles, MemoryOptions, MemoryReason, MemoryScope, ProjectTrust, SettingSources,
    auto_memory_folder,
};

use crate::fixture::{SettingsFixture, write_file_at};

fn reader(world: &SettingsFixture) -> DocumentReader {
    DocumentReader::new(&world.locations(), SettingSources::default())
}

fn with_options<T>(look: impl FnOnce(&MemoryOptions<'_>) -> T) -> T {
    let trust = ProjectTrust::none();
    look(&MemoryOptions { trust: &trust, may_read: &|_| true, managed_text: None, excludes: &[], added_folders: &[] })
}

fn read_memory(world: &SettingsFixture) -> MemoryFiles {
    with_options(|options| reader(world).memory(options))
}

fn texts(memory: &MemoryFiles) -> Vec<&str> {
    memory.files.iter().map(|file| file.text.as_str()).collect()
}

fn reasons(memory: &MemoryFiles) -> String {
    memory.skipped.iter().map(|skipped| format!("{skipped}\n")).collect()
}

#[test]
fn memory_is_read_from_broad_to_close() {
    let mut world = SettingsFixture::new();
    world.cwd = world.project.join("sub");
    std::fs::create_dir_all(&world.cwd).unwrap();
    let above = world.project.parent().unwrap().to_owned();
    for (place, text) in [
        (world.managed.join("CLAUDE.md"), "managed"),
        (world.home.join(".claude/CLAUDE.md"), "user"),
        (world.home.join(".claude/rules/b.md"), "user rule"),
        (above.join("CLAUDE.md"), "above"),
        (world.project.join("CLAUDE.md"), "project"),
        (world.project.join(".claude/CLAUDE.md"), "hidden"),
        (world.project.join(".claude/rules/deep/a.md"), "---\ndescription: r\n---\nrule"),
        (world.project.join("CLAUDE.local.md"), "local"),
        (world.project.join(".claude/CLAUDE.local.md"), "hidden local"),
        (world.project.join("AGENTS.md"), "not read beside CLAUDE.md"),
        (world.cwd.join("AGENTS.md"), "agents"),
    ] {
        write_file_at(&place, text);
    }
    let trust = ProjectTrust::none();
    let added = world.home.join("added");
    write_file_at(&added.join("CLAUDE.md"), "added");
    let options = MemoryOptions {
        trust: &trust,
        may_read: &|_| true,
        managed_text: Some("from settings"),
        excludes: &[],
        added_folders: &[&added],
    };
    let memory = reader(&world).memory(&options);
    let expected = [
        "from settings",
        "managed",
        "user",
        "user rule",
        "above",
        "project",
        "hidden",
        "rule",
        "local",
        "hidden local",
        "agents",
        "added",
    ];
    assert_eq!(texts(&memory), expected);
    let scopes: Vec<&str> = memory.files.iter().map(|file| file.scope.as_str()).collect();
    assert_eq!(scopes[..4], ["Managed", "Managed", "User", "User"]);
    assert_eq!(scopes[8..], ["Local", "Local", "Project", "Project"]);
    assert_eq!(memory.files[11].reason, MemoryReason::AddedFolder);
    assert_eq!(reasons(&memory), "");

    for (sources, expected) in [
        ("project", &["managed", "above", "project", "hidden", "rule", "agents"][..]),
        ("user", &["managed", "user", "user rule"]),
        ("local", &["managed", "local", "hidden local"]),
    ] {
        let reader = DocumentReader::new(&world.locations(), sources.parse().unwrap());
        assert_eq!(texts(&with_options(|options| reader.memory(options))), expected, "{sources}");
    }
}

#[test]
fn imports_follow_their_text_and_end() {
    let world = SettingsFixture::new();
    world.write_file(
        "CLAUDE.md",
        "Start @docs/1.md and @docs/1.md `@no.md` @property @gone/none.md\n<!-- @docs/hidden.md -->\n",
    );
    for hop in 1..=5 {
        world.write_file(&format!("docs/{hop}.md"), format!("hop {hop} @{}.md @../CLAUDE.md\n", hop + 1));
    }
    world.write_file("docs/hidden.md", "hidden");
    let memory = read_memory(&world);
    let expected = [
        "Start @docs/1.md and @docs/1.md `@no.md` @property @gone/none.md",
        "hop 1 @2.md @../CLAUDE.md",
        "hop 2 @3.md @../CLAUDE.md",
        "hop 3 @4.md @../CLAUDE.md",
        "hop 4 @5.md @../CLAUDE.md",
    ];
    assert_eq!(texts(&memory), expected);
    assert_eq!(memory.files[1].reason, MemoryReason::Include { from: world.project.join("CLAUDE.md") });
    let said = reasons(&memory);
    assert!(said.contains("CLAUDE.md:1: not used: the import @gone/none.md: the file does not exist"), "{said}");
    assert!(said.contains("docs/4.md:1: not used: the import @5.md: imports are followed through 4 files"), "{said}");
    assert_eq!(memory.skipped.len(), 2, "{said}");
}

#[test]
fn hostile_imports_are_named_and_the_rest_is_read() {
    let world = SettingsFixture::new();
    let big = world.write_file("big.md", "");
    std::fs::File::options().write(true).open(big).unwrap().set_len(50 << 20).unwrap();
    world.write_file("binary.md", b"a\0b");
    world.write_file("latin.md", b"caf\xe9");
    std::fs::create_dir(world.project.join("folder.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.project.join("pipe.md"), 0o600.into()).unwrap();
    symlink("loop.md", world.project.join("loop.md")).unwrap();
    world.write_file(
        "CLAUDE.md",
        "@big.md @binary.md @latin.md @folder.md @pipe.md @loop.md @/dev/zero @/proc/self/environ @good.md\n",
    );
    world.write_file("good.md", "good");
    let memory = read_memory(&world);
    assert_eq!(texts(&memory)[1..], ["caf\u{fffd}", "good"]);
    assert_eq!(memory.problems.len(), 1, "{:?}", memory.problems);
    let said = reasons(&memory);
    for part in [
        "big.md: not used: it is larger than 4096 KiB",
        "binary.md: not used: it is not text",
        "folder.md: not used: it is a folder, not a file",
        "pipe.md: not used: it is a pipe, a socket or a device, not a file",
        "@loop.md: the file does not exist",
        "it leads out of the project, to /dev/zero",
        "it leads out of the project, to /proc/",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_users_memory_imports_from_anywhere_that_may_be_read() {
    let world = SettingsFixture::new();
    write_file_at(&world.home.join(".claude/CLAUDE.md"), "Mine @~/notes.md @~/.ssh/id_rsa @deny\\ me.md\n");
    write_file_at(&world.home.join("notes.md"), "notes");
    write_file_at(&world.home.join(".ssh/id_rsa"), "SECRET");
    write_file_at(&world.home.join(".claude/deny me.md"), "SECRET");
    symlink(world.home.join(".ssh/id_rsa"), world.home.join(".claude/linked.md")).unwrap();
    let trust = ProjectTrust::none();
    let may_read = |path: &Path| !path.ends_with(".ssh/id_rsa") && !path.ends_with("deny me.md");
    let options =
        MemoryOptions { trust: &trust, may_read: &may_read, managed_text: None, excludes: &[], added_folders: &[] };
    let memory = reader(&world).memory(&options);
    assert_eq!(texts(&memory)[1..], ["notes"]);
    assert_eq!(memory.skipped.len(), 2, "{}", reasons(&memory));
    assert_eq!(memory.files[1].scope, MemoryScope::User);
}

#[test]
fn rules_for_some_files_join_when_one_of_these_is_read() {
    let world = SettingsFixture::new();
    world.write_file(".claude/rules/ts.md", "---\npaths: src/**/*.{ts,tsx}\n---\nTyped @types.md\n");
    world.write_file(".claude/rules/types.md", "Always");
    world.write_file(".claude/rules/old.md", "---\nglobs: [\"*.md\"]\n---\nMarkdown\n");
    world.write_file(".claude/rules/all.md", "---\npaths:\n- \"**\"\n---\nEvery file\n");
    world.write_file(".claude/rules/bad.md", "---\n[\n---\nlost");
    write_file_at(&world.home.join(".claude/rules/mine.md"), "---\npaths: \"*.rs\"\n---\nMine\n");
    let memory = read_memory(&world);
    assert_eq!(texts(&memory), ["Every file", "Always"]);
    let matching = |file: &str| -> Vec<&str> {
        let rules = memory.conditional.iter().filter(|rule| rule.matches(&world.project.join(file)));
        rules.flat_map(|rule| &rule.files).map(|file| file.text.as_str()).collect()
    };
    assert_eq!(matching("src/x/a.tsx"), ["Typed @types.md"], "what it imports is there already");
    assert_eq!(
        (matching("README.md"), matching("a.rs"), matching("docs/b.md")),
        (vec!["Markdown"], vec!["Mine"], vec![])
    );
    world.write_file("src/real.ts", "");
    symlink(world.project.join("src"), world.project.join("link")).unwrap();
    assert_eq!(matching("link/real.ts"), ["Typed @types.md"]);
    let rule = memory.conditional.iter().find(|rule| rule.matches(&world.project.join("src/a.ts"))).unwrap();
    assert_eq!(rule.files[0].reason, MemoryReason::PathGlobMatch { patterns: vec!["src/**/*.{ts,tsx}".to_owned()] });
    assert_eq!(rule.patterns.patterns(), ["src/**/*.{ts,tsx}"]);
    let said = reasons(&memory);
    assert!(said.contains("bad.md:") && said.contains("the front matter cannot be read"), "{said}");
}

#[test]
fn nested_memory_joins_once() {
    let world = SettingsFixture::new();
    world.write_file("CLAUDE.md", "top @apps/shared.md");
    world.write_file("apps/shared.md", "shared");
    world.write_file("apps/CLAUDE.md", "apps @shared.md");
    world.write_file("apps/web/AGENTS.md", "web");
    world.write_file("apps/web/.claude/rules/css.md", "---\npaths: \"**/*.css\"\n---\ncss");
    world.write_file("apps/web/CLAUDE.local.md/x", "");
    std::fs::remove_dir_all(world.project.join("apps/web/CLAUDE.local.md")).unwrap();
    let reader = reader(&world);
    let start = with_options(|options| reader.memory(options));
    assert_eq!(texts(&start), ["top @apps/shared.md", "shared"]);
    let mut delivered: HashSet<_> = start.real_paths();
    let file = world.project.join("apps/web/a.css");
    let nested = with_options(|options| reader.nested_memory(&file, options, &delivered));
    assert_eq!(texts(&nested), ["apps @shared.md", "web", "css"]);
    assert_eq!(nested.files[0].reason, MemoryReason::NestedTraversal);
    assert_eq!(nested.files[2].reason, MemoryReason::PathGlobMatch { patterns: vec!["**/*.css".to_owned()] });
    delivered.extend(nested.real_paths());
    assert!(with_options(|options| reader.nested_memory(&file, options, &delivered)).files.is_empty());
    let other = with_options(|options| {
        reader.nested_memory(&world.project.join("apps/web/a.js"), options, &start.real_paths())
    });
    assert_eq!((texts(&other), other.conditional.len()), (vec!["apps @shared.md", "web"], 1));
    let outside = with_options(|options| reader.nested_memory(&world.project.join("../x/a"), options, &delivered));
    assert!(outside.files.is_empty());
}

#[test]
fn excluded_files_are_left_out_and_one_file_is_read_once() {
    let world = SettingsFixture::new();
    write_file_at(&world.managed.join("CLAUDE.md"), "managed");
    world.write_file("AGENTS.md", "agents");
    symlink("AGENTS.md", world.project.join("CLAUDE.md")).unwrap();
    world.write_file(".claude/CLAUDE.md", "@../AGENTS.md hidden");
    world.write_file(".claude/rules/r.md", "rule");
    let memory = read_memory(&world);
    assert_eq!(texts(&memory), ["managed", "agents", "@../AGENTS.md hidden", "rule"]);
    let trust = ProjectTrust::none();
    let excludes =
        ["**/rules/**".to_owned(), "**/AGENTS.md".to_owned(), "**/managed/**".to_owned(), "~/x.md".to_owned()];
    let options = MemoryOptions {
        trust: &trust,
        may_read: &|_| true,
        managed_text: None,
        excludes: &excludes,
        added_folders: &[],
    };
    let memory = reader(&world).memory(&options);
    assert_eq!(texts(&memory), ["managed", "@../AGENTS.md hidden"], "also by the name that a link leads to");
    assert!(reasons(&memory).contains("r.md: not used: `claudeMdExcludes` leaves it out"));
}

#[test]
fn memory_above_the_project_counts_only_if_it_is_safe_from_others() {
    let world = SettingsFixture::new();
    let above = world.project.parent().unwrap().to_owned();
    let file = write_file_at(&above.join("CLAUDE.md"), "above @docs/near.md @../far.md");
    write_file_at(&above.join("docs/near.md"), "near");
    world.write_file("CLAUDE.md", "project");
    assert_eq!(texts(&read_memory(&world)), ["above @docs/near.md @../far.md", "near", "project"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let memory = read_memory(&world);
    assert_eq!(texts(&memory), ["project"]);
    assert!(reasons(&memory).contains("may be written by everybody"), "{}", reasons(&memory));
}

#[test]
fn memory_beyond_the_budget_is_left_out_whole() {
    let world = SettingsFixture::new();
    world.write_file("CLAUDE.md", "x".repeat(100));
    world.write_file(".claude/CLAUDE.md", "y".repeat(500));
    world.write_file("CLAUDE.local.md", "z".repeat(50));
    let memory = read_memory(&world);
    let selection = memory.select(200);
    assert_eq!(selection.included.iter().map(|file| file.text.len()).collect::<Vec<_>>(), [100, 50]);
    assert_eq!(
        selection.left_out.iter().map(|file| &file.path).collect::<Vec<_>>(),
        [&world.project.join(".claude/CLAUDE.md")]
    );
}

#[test]
fn the_models_memory_has_a_folder_and_limits() {
    let world = SettingsFixture::new();
    let locations = world.locations();
    let sessions = world.home.join(".claude/projects/p");
    let folder = auto_memory_folder(&locations, None, &sessions).unwrap();
    assert_eq!(folder, sessions.join("memory"));
    assert_eq!(auto_memory_folder(&locations, Some("~/m"), &sessions), Some(world.home.join("m")));
    assert_eq!(auto_memory_folder(&locations, Some("relative"), &sessions), None);
    let memory = reader(&world).auto_memory(&folder);
    assert!(memory.index.is_none() && memory.skipped.is_none());
    write_file_at(&folder.join("MEMORY.md"), "- line\n".repeat(250));
    let memory = reader(&world).auto_memory(&folder);
    let index = memory.index.unwrap();
    assert_eq!((index.text.lines().count(), memory.lines_left_out, index.scope), (200, 50, MemoryScope::Auto));
    std::fs::set_permissions(folder.join("MEMORY.md"), std::fs::Permissions::from_mode(0o666)).unwrap();
    let memory = reader(&world).auto_memory(&folder);
    assert!(memory.index.is_none());
    assert!(memory.skipped.unwrap().to_string().contains("may be written by everybody"));
}
