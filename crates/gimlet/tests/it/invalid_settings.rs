//! Settings files in every bad shape, in real sessions: the file, the line and the key are named, everything else goes on,
//! and no file that cannot be used makes anything freer than if it were not there.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

mod malformed_rules;
mod managed_settings;
mod setting_types;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::json;

use crate::world;

/// Rules that hold whatever the files say: `touch` and `rmdir` may run, `mkdir` may not, and nothing is said of `chmod`.
const FLAGS: [&str; 5] = ["--allowedTools", "Bash(touch *)", "Bash(rmdir *)", "--disallowedTools", "Bash(mkdir *)"];

async fn serve_commands(commands: &[&str]) -> ScriptServer {
    let calls = commands.iter().map(|command| json!({ "command": command }));
    let script = calls.fold(Script::new(), |script, input| script.call("Bash", input).then());
    script.say("done").serve().await.unwrap()
}

/// A session that tries four things; says of each whether it was done.
async fn run_four_commands(world: &TestWorld, flags: &[&str]) -> (RunOutput, [bool; 4]) {
    let file = world.file("x", "");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    // A second try in the same world finds it there.
    drop(std::fs::create_dir(world.project.join("gone")));
    std::fs::set_permissions(world.project.join("gone"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let model = serve_commands(&["touch made", "mkdir denied", "chmod 600 x", "rmdir gone"]).await;
    let run = world.run(&model).arg("-p").args(FLAGS).args(flags.iter().copied()).args(["--", "go"]).finish().await;
    let exists = |name: &str| world.project.join(name).exists();
    let private = file.metadata().unwrap().permissions().mode() & 0o777 == 0o600;
    let done = [exists("made"), exists("denied"), private, !exists("gone")];
    (run, done)
}

/// The settings files that a session reads, without those of the administrator.
fn settings_files(world: &TestWorld) -> [PathBuf; 3] {
    let project = world.project.join(".claude");
    [world.home.join(".claude/settings.json"), project.join("settings.json"), project.join("settings.local.json")]
}

fn write_file(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Makes something that is no ordinary file.
#[allow(clippy::disallowed_methods, reason = "there is no other way to a named pipe from here")]
fn make_fifo(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

const ALLOWING: &str = "\u{feff}{\"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}";

/// A text with two bytes for each letter.
fn encode_wide(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

/// A rule that allows, and on the second line something that does not fit.
fn settings_with_member(member: &str) -> String {
    format!("{{\"permissions\": {{\"allow\": [\"Bash(chmod *)\"]}},\n{member}}}")
}

/// Takes no room on the disk.
fn write_huge_file(path: &Path) {
    write_file(path, "{");
    std::fs::File::options().write(true).open(path).unwrap().set_len(100 << 20).unwrap();
}

/// What stands behind the name of a shape: how it is made, and what is said about it.
type BadFileShape = (&'static str, fn(&Path), &'static str);

const SHAPES: &[BadFileShape] = &[
    ("cut off", |path| write_file(path, "{\n\"permissions\": {\"allow\": [\"Bash(chmod *)\"]"), ":2:"),
    ("a comma too many", |path| write_file(path, "{\"permissions\": {\n\"allow\": [\"Bash(chmod *)\",]}}"), ":2:"),
    ("a comment", |path| write_file(path, "{\n// mine\n\"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}"), ":2:"),
    ("two objects", |path| write_file(path, "{}\n{\"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}"), ":2:"),
    (
        "a list",
        |path| write_file(path, "\n[{\"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}]"),
        ":2:1: expected an object",
    ),
    ("empty", |path| write_file(path, ""), ":1:"),
    ("only blanks", |path| write_file(path, " \n\n "), "settings"),
    (
        "not text",
        |path| write_file(path, b"{\n\"a\": \"\xff\", \"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}"),
        ":2:7: this byte is not UTF-8",
    ),
    ("two bytes a letter", |path| write_file(path, b"{\0}\0"), ":1:1: this is UTF-16"),
    (
        "two bytes a letter and a mark",
        |path| write_file(path, encode_wide(ALLOWING, u16::to_le_bytes)),
        ":1:1: this is UTF-16",
    ),
    (
        "two bytes a letter the other way round",
        |path| write_file(path, encode_wide(ALLOWING, u16::to_be_bytes)),
        ":1:1: this is UTF-16",
    ),
    (
        "another encoding",
        |path| write_file(path, b"{\r\n\"language\": \"fran\xe7ais\"}"),
        ":2:18: this byte is not UTF-8",
    ),
    ("a mark and a mistake", |path| write_file(path, "\u{feff}{\r\n\"permissions\": [}"), ":2:17"),
    (
        "no number",
        |path| write_file(path, "{\"permissions\": {\"allow\": [\"Bash(chmod *)\"]},\n\"cleanupPeriodDays\": 1e999}"),
        ":2:22",
    ),
    (
        "a number out of range",
        |path| write_file(path, settings_with_member("\"cleanupPeriodDays\": -1")),
        ":2:22: cleanupPeriodDays",
    ),
    (
        "a number far too large",
        |path| write_file(path, settings_with_member("\"autoCompactWindow\": 1e300")),
        ":2:22: autoCompactWindow",
    ),
    ("a text for a switch", |path| write_file(path, settings_with_member("\"verbose\": \"yes\"")), ":2:12: verbose"),
    ("a page", |path| write_file(path, "<!DOCTYPE html>\n<html>"), ":1:1"),
    ("a hundred megabytes", write_huge_file, "larger than 1024 KiB"),
    ("zeros", |path| write_file(path, [0; 4096]), ":1:1"),
    ("a zero in a text", |path| write_file(path, "{\n\"permissions\": {\"allow\": [\"Bash(chmod *)\0\"]}}"), ":2:"),
    ("too large", |path| write_file(path, format!("{{\"a\": \"{}\"}}", "x".repeat(2 << 20))), "larger than 1024 KiB"),
    ("too deep", |path| write_file(path, "[".repeat(100_000)), "deep"),
    (
        "too deep and closed",
        |path| write_file(path, format!("{{\"a\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000))),
        "deep",
    ),
    ("a folder", |path| std::fs::create_dir_all(path).unwrap(), "it is a folder, not a file"),
    ("a pipe", make_fifo, "it is a pipe, a socket or a device, not a file"),
    (
        "a link to itself",
        |path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(path, path).unwrap()
        },
        "cannot be read",
    ),
    (
        "links in a circle",
        |path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let other = path.with_file_name("other");
            std::os::unix::fs::symlink(path, &other).unwrap();
            std::os::unix::fs::symlink(&other, path).unwrap()
        },
        "cannot be read",
    ),
    (
        "a device",
        |path| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/dev/zero", path).unwrap()
        },
        "settings",
    ),
];

/// A script may allow tools of another version.
#[tokio::test]
async fn rules_of_the_command_line_about_other_tools_are_only_remarked_on() {
    let world = world();
    let model = serve_commands(&[]).await;
    let flags = ["-p", "--allowedTools", "Read,LS,my_tool,Bsh", "--disallowedTools", "NotebookRead", "--", "go"];
    let run = world.run(&model).args(flags).finish().await;
    assert_eq!(run.stdout, "done\n", "{}", run.stderr);
    let remarks: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(remarks.len(), 3, "{remarks:?}");
    assert!(remarks[0].contains("deny rule `NotebookRead` names the tool"), "{remarks:?}");
    assert!(remarks[1].contains("there is no tool named 'LS'"), "{remarks:?}");
    assert!(remarks[2].ends_with("there is no tool named 'Bsh'; did you mean Bash?"), "{remarks:?}");
    run.expect_code(0);
}

#[tokio::test]
async fn a_file_of_any_bad_shape_is_named_and_the_rest_goes_on_no_freer_than_without_it() {
    for (name, make, said) in SHAPES {
        for scope in 0..3 {
            let world = world();
            world.file(".git/HEAD", "ref: refs/heads/main\n");
            let file = &settings_files(&world)[scope];
            make(file);
            let (run, done) = run_four_commands(&world, &["--trust"]).await;
            run.expect_code(0);
            assert_eq!(done, [true, false, false, true], "{name}, {scope}: {}", run.stderr);
            let doctor = world.run_at("http://127.0.0.1:9").arg("doctor").finish().await;
            doctor.expect_code(1);
            for page in [&run.stderr, &doctor.stdout] {
                let named = page.lines().any(|line| line.contains(file.to_str().unwrap()) && line.contains(said));
                assert!(named, "{name}, {scope}, {said}: {page}");
            }
        }
    }
}

#[tokio::test]
async fn a_mark_at_the_beginning_and_doubled_keys_cost_nothing_that_forbids() {
    for text in [
        "\u{feff}{\"permissions\": {\"deny\": [\"Bash(rmdir *)\"], \"allow\": [\"Bash(chmod *)\"]}}",
        "{\"permissions\": {\"allow\": [\"Bash(chmod *)\"], \"deny\": [], \"deny\": [\"Bash(rmdir *)\"]}}\r\n",
        "{\"permissions\": {\"allow\": [\"Bash(chmod *)\"], \"deny\": [\"Bash(rmdir *)\"], \"deny\": []}}",
        "{\"permissions\": {\"deny\": [\"Bash(rmdir *)\"]},\r\n\"permissions\": {\"allow\": [\"Bash(chmod *)\"]}}",
        "{\"permissions\": {\"allow\": [\"Bash(chmod *)\"], \"deny\": [\"Bash(\\ud800)\", \"Bash(rmdir *)\"]}}",
    ] {
        let world = world();
        write_file(&settings_files(&world)[0], text);
        let (run, done) = run_four_commands(&world, &[]).await;
        assert_eq!(done, [true, false, true, false], "{text}: {}", run.stderr);
    }
}

#[tokio::test]
async fn what_a_broken_file_forbids_is_still_forbidden_as_far_as_it_can_be_made_out() {
    let text = "{\"permissions\": {\"allow\": [\"Bash(chmod *)\"],\n\"deny\": [\"Bash(rmdir *)\"],}}";
    let latin = [text.as_bytes(), b"\xe7"].concat();
    for bytes in [text.as_bytes(), &text.as_bytes()[..text.len() - 4], &latin, &encode_wide(text, u16::to_le_bytes)] {
        let world = world();
        world.file(".git/HEAD", "ref: refs/heads/main\n");
        write_file(&settings_files(&world)[1], bytes);
        let (run, done) = run_four_commands(&world, &[]).await;
        assert_eq!(done, [true, false, false, false], "{}", run.stderr);
        assert!(run.stderr.contains("except its restrictions, as far as"), "{}", run.stderr);
    }
}

#[tokio::test]
async fn a_file_with_a_mistake_goes_on_closing_what_it_closes() {
    for mistake in ["\"verbose\": \"yes\"}", "}", "\"theme\": // dark\n}"] {
        let world = world();
        let file = &settings_files(&world)[0];
        write_file(file, format!("{{\"permissions\": {{\"disableBypassPermissionsMode\": \"disable\"}},\n{mistake}"));
        let model = serve_commands(&["touch made"]).await;
        let bypassing = world.run(&model).args(["-p", "--dangerously-skip-permissions", "--", "go"]).finish().await;
        bypassing.expect_code(1);
        assert!(bypassing.stderr.contains("disable"), "{mistake}: {}", bypassing.stderr);

        let outside = tempfile::tempdir_in("/var/tmp").unwrap();
        let out = outside.path().join("out");
        write_file(file, format!("{{\"sandbox\": {{\"enabled\": true}},\n{mistake}"));
        let model = serve_commands(&[&format!("touch {}", out.display())]).await;
        let run = world.run(&model).args(["-p", "--allowedTools", "Bash(touch *)", "--", "go"]).finish().await;
        run.expect_code(0);
        assert!(!out.exists(), "{mistake}: {}", run.stderr);
        assert!(run.stderr.contains("except its restrictions"), "{mistake}: {}", run.stderr);
        assert!(model.request(1).tool_result(0).contains("sandbox refused"), "{}", model.request(1).tool_result(0));
    }
}

#[tokio::test]
async fn a_broken_state_file_of_other_programs_is_named_copied_once_and_left_as_it_is() {
    for broken in [&b"{\"projects\": {\n\"/x\": {\"hasTrustDialogAccepted\": tru"[..], b"{\n\xff\xfe}"] {
        let world = world();
        let state = world.home.join(".claude.json");
        write_file(&state, broken);
        write_file(&settings_files(&world)[1], r#"{"model": "theirs"}"#);
        for _ in 0..2 {
            let model = serve_commands(&[]).await;
            let run = world.run(&model).args(["-p", "--", "go"]).finish().await;
            run.expect_code(0);
            let line = run.stderr.lines().find(|line| line.contains(state.to_str().unwrap()));
            let line = line.unwrap_or_else(|| panic!("{}", run.stderr));
            assert!(line.contains("counts as nothing") && line.contains("a copy is in"), "{line}");
            assert!(run.stderr.contains("not trusted"), "{}", run.stderr);
        }
        // Trust is recorded by gimlet for itself; the file stays as it is.
        let trust = world.run_at("http://127.0.0.1:9").args(["trust", "--yes"]).finish().await;
        assert!(trust.stderr.contains("not for other programs"), "{}", trust.stderr);
        assert_eq!(std::fs::read(&state).unwrap(), broken);
        let copies: Vec<PathBuf> =
            world.home.join(".claude/backups").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        let copies: Vec<&PathBuf> =
            copies.iter().filter(|copy| copy.to_str().unwrap().contains(".claude.json.corrupted.")).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        assert_eq!(std::fs::read(copies[0]).unwrap(), broken);
        assert_eq!(copies[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_file_that_is_rewritten_all_the_time_never_opens_more_than_it_says() {
    let world = world();
    let file = settings_files(&world)[0].clone();
    let of = |padding: usize| {
        let rules = "{\"permissions\": {\"deny\": [\"Bash(rmdir *)\"]}";
        format!("{rules}, \"padding\": \"{}\"}}", "x".repeat(padding))
    };
    write_file(&file, of(1));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (stop, file) = (stop.clone(), file.clone());
        let texts = [of(10), of(900_000)];
        move || {
            use std::os::unix::fs::FileExt;
            let file = std::fs::File::options().write(true).open(file).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for text in &texts {
                    file.write_all_at(text.as_bytes(), 0).unwrap();
                    file.set_len(text.len() as u64).unwrap();
                }
            }
        }
    });
    for _ in 0..5 {
        let (run, done) = run_four_commands(&world, &[]).await;
        assert_eq!(done, [true, false, false, false], "{}", run.stderr);
        std::fs::remove_file(world.project.join("made")).unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn a_bad_file_on_the_command_line_ends_the_start_with_one_line() {
    // What a program gives may be larger than a file, and a value that does not fit is a matter of that value.
    let apart =
        ["too large", "a hundred megabytes", "a number out of range", "a number far too large", "a text for a switch"];
    for (name, make, said) in SHAPES.iter().filter(|(name, ..)| !apart.contains(name)) {
        let world = world();
        let file = world.home.join("given.json");
        make(&file);
        let (run, done) = run_four_commands(&world, &["--settings", file.to_str().unwrap()]).await;
        run.expect_code(1);
        assert_eq!(done, [false; 4], "{name}");
        assert_eq!(run.stderr.lines().count(), 1, "{name}: {}", run.stderr);
        assert!(run.stderr.contains(file.to_str().unwrap()) && run.stderr.contains(said), "{name}: {}", run.stderr);
    }
}

/// A world whose binary runs as somebody who is not root, for whom access rights count.
pub(crate) fn unprivileged_world() -> (TestWorld, Option<TestWorld>) {
    if !rustix::process::getuid().is_root() {
        return (world(), None);
    }
    let outer = world();
    let root = outer.project.parent().unwrap().to_owned();
    // The build may lie where nobody else can go.
    let binary = root.join("gimlet");
    std::fs::copy(env!("CARGO_BIN_EXE_gimlet"), &binary).unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    open(&root);
    open(&binary);
    let drop = "setpriv --reuid=65534 --regid=65534 --clear-groups --";
    let world = outer.with_shell_prelude(&format!("exec {drop} '{}' \"$@\"", binary.display()));
    [world.project.parent().unwrap(), &world.project, &world.home].into_iter().for_each(open);
    (world, Some(outer))
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives everything below a folder to everybody, as if the user of the world had made it.
fn share_with_everybody(folder: &Path) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let is_dir = path.is_dir();
        set_mode(&path, if is_dir { 0o777 } else { 0o666 });
        if is_dir {
            share_with_everybody(&path);
        }
    }
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_named_and_the_others_count() {
    let allow = |command: &str| json!({"permissions": {"allow": [format!("Bash({command} *)")]}}).to_string();
    for scope in 0..3 {
        for whole_folder in [false, true] {
            let (world, _outer) = unprivileged_world();
            world.file(".git/HEAD", "ref: refs/heads/main\n");
            let all = settings_files(&world);
            write_file(&all[scope], allow("printenv"));
            share_with_everybody(world.project.parent().unwrap());
            let locked = if whole_folder { all[scope].parent().unwrap() } else { &all[scope] };
            set_mode(locked, 0o000);
            let model = serve_commands(&["touch made", "mkdir denied", "printenv HOME"]).await;
            // What is kept about a session lies in the user's folder, which cannot be used when it is locked.
            let run = world.run(&model).args(["-p", "--trust", "--no-session-persistence"]).args(FLAGS);
            let run = run.args(["--", "go"]).finish().await;
            let code = run.code;
            set_mode(locked, 0o755);
            assert_eq!(code, 0, "{scope}, {whole_folder}: {}", run.stderr);
            let done = ["made", "denied"].map(|name| world.project.join(name).exists());
            assert_eq!(done, [true, false], "{scope}, {whole_folder}: {}", run.stderr);
            assert!(!model.requests().pop().unwrap().tool_result(0).contains("/home"), "{scope}, {whole_folder}");
            let named = |line: &str| line.contains(all[scope].to_str().unwrap()) && line.contains("cannot be read");
            assert!(run.stderr.lines().any(named), "{scope}, {whole_folder}: {}", run.stderr);
        }
    }
}

/// Nobody knows what a file forbids that cannot be read, so nothing is allowed for want of a rule.
#[tokio::test]
async fn with_settings_that_cannot_be_read_nothing_is_allowed_but_by_a_rule() {
    for (scope, flags, runs) in [
        (0, &["--permission-mode", "default"][..], false),
        (0, &["--permission-mode", "bypassPermissions"], false),
        (0, &["--allowedTools", "Read"], true),
        (1, &["--permission-mode", "bypassPermissions"], false),
        (2, &["--permission-mode", "default"], false),
        (2, &["--allowedTools", "Read"], true),
    ] {
        let world = world();
        let file = &settings_files(&world)[scope];
        std::fs::create_dir_all(file).unwrap();
        world.file("a.txt", "content of the file");
        let call = json!({"file_path": world.path("a.txt")});
        let model = Script::new().call("Read", call).then().say("done").serve().await.unwrap();
        let run = world.run(&model).args(["-p"]).args(flags.iter().copied()).args(["--", "go"]).finish().await;
        let said = format!("{}: it is a folder, not a file", file.display());
        assert!(run.stderr.contains(&said), "{}", run.stderr);
        let sent: Vec<u8> = model.requests().iter().flat_map(|request| request.body().to_vec()).collect();
        let sent = String::from_utf8_lossy(&sent);
        assert_eq!(sent.contains("content of the file"), runs, "{flags:?}: {sent}");
        let check = world.run_at("http://127.0.0.1:9").args(["permissions", "check", "--command", "ls"]);
        check.finish().await.expect_code(3);
    }
}
