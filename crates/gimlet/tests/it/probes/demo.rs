//! `gimlet demo`: the first thing that people try must work, quickly, and leave nothing behind.

use super::*;
use crate::world;

#[tokio::test]
async fn the_demo_ends_green_and_leaves_nothing_behind() {
    let world = world();
    let temp = world.home.join("tmp");
    std::fs::create_dir(&temp).unwrap();
    let begun = Instant::now();
    let run = world
        .run_at("http://127.0.0.1:9")
        .without_env("ANTHROPIC_API_KEY")
        .without_env("ANTHROPIC_BASE_URL")
        .env("TMPDIR", temp.to_string_lossy())
        .arg("demo")
        .finish()
        .await;
    run.expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(run.stdout.contains("the tests are green"), "{}", run.stdout);
    assert_eq!(run.stderr, "");
    assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0);
    let left: Vec<_> = std::fs::read_dir(&world.home).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["tmp"]);
    assert_eq!(std::fs::read_dir(&world.project).unwrap().count(), 0);
}
