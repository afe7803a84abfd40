//! The help of every command as text, so that a change of wording is reviewed as such; completions and man pages.
#![allow(clippy::unwrap_used, reason = "in a test a broken world is a failed test")]

use gimlet_testkit::{RunOutput, TestWorld};

use crate::world;

/// Commands whose help is kept, beside those that a test finds in the main help.
const NESTED: [&[&str]; 8] = [
    &["hooks", "test"],
    &["permissions", "check"],
    &["permissions", "simulate"],
    &["sandbox", "run"],
    &["sandbox", "explain"],
    &["config", "set"],
    &["sessions", "search"],
    &["sessions", "rm"],
];

async fn run_gimlet(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").args(args.iter().copied()).finish().await
}

/// Returns the names of the commands that the main help lists.
fn listed_commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    lines.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).filter(|name| name != "help").collect()
}

#[tokio::test]
async fn the_help_of_every_command_reads_as_kept() {
    let world = world();
    let short = run_gimlet(&world, &["-h"]).await.expect_code(0).stdout.clone();
    insta::assert_snapshot!("help_short", short);
    let full = run_gimlet(&world, &["--help"]).await.expect_code(0).stdout.clone();
    insta::assert_snapshot!("help_full", full);
    assert!(short.lines().count() * 2 < full.lines().count(), "-h is a summary of --help");
    let commands = listed_commands(&short);
    assert!(commands.len() >= 12, "{commands:?}");
    for command in &commands {
        let help = run_gimlet(&world, &[command, "--help"]).await.expect_code(0).stdout.clone();
        insta::assert_snapshot!(format!("help_{}", command.replace('-', "_")), help);
    }
    for path in NESTED {
        let args: Vec<&str> = path.iter().copied().chain(["--help"]).collect();
        let help = run_gimlet(&world, &args).await.expect_code(0).stdout.clone();
        insta::assert_snapshot!(format!("help_{}", path.join("_")), help);
    }
}

#[tokio::test]
async fn completion_scripts_and_man_pages_name_every_command() {
    let world = world();
    let short = run_gimlet(&world, &["-h"]).await.expect_code(0).stdout.clone();
    for shell in ["bash", "zsh", "fish"] {
        let script = run_gimlet(&world, &["completions", shell]).await.expect_code(0).stdout.clone();
        for command in listed_commands(&short) {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
    let dir = world.path("man/man1");
    run_gimlet(&world, &["man-pages", &dir]).await.expect_code(0);
    for command in listed_commands(&short) {
        let page = std::fs::read_to_string(format!("{dir}/gimlet-{command}.1")).unwrap();
        assert!(page.contains(".SH NAME"), "{command}");
    }
    world.file("occupied", "");
    let blocked = run_gimlet(&world, &["man-pages", &world.path("occupied")]).await;
    assert!(blocked.expect_code(1).stderr.contains("cannot be written"), "{}", blocked.stderr);
}

/// bash itself accepts the script and completes a command with it.
#[tokio::test]
async fn bash_completes_commands_with_the_script() {
    let world = world();
    let script = run_gimlet(&world, &["completions", "bash"]).await.expect_code(0).stdout.clone();
    let file = world.file("completions.bash", script);
    let line = "COMP_WORDS=(gimlet sess); COMP_CWORD=1; _gimlet gimlet sess gimlet; echo \"${COMPREPLY[*]}\"";
    #[allow(clippy::disallowed_methods, reason = "the test asks bash itself")]
    let output = std::process::Command::new("bash").args(["-c", &format!(". '{}'; {line}", file.display())]).output();
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout).trim(), "sessions");
}
