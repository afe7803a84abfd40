//! The prompt cache over a long session: nothing that was sent ever changes, and nearly all of it is read back.

use gimlet_script::{Script, ScriptedReply};
use serde_json::json;

use crate::world;

const TURNS: usize = 200;

#[tokio::test]
async fn two_hundred_requests_keep_their_prefix_and_hit_the_cache() {
    let world = world();
    world.file("a.txt", "alpha\n".repeat(40));
    let path = world.path("a.txt");
    let mut asked = 0;
    let program = move |_: &gimlet_script::ReceivedRequest| {
        asked += 1;
        if asked == TURNS {
            return ScriptedReply::say("done");
        }
        let mut reply = ScriptedReply::say(format!("Part {asked} of it."));
        reply.blocks.extend(
            ScriptedReply::call("Read", json!({"file_path": path, "offset": asked % 30 + 1, "limit": 8})).blocks,
        );
        reply
    };
    let model = Script::new().reply_with(program).times(TURNS as u32).serve().await.unwrap();
    let run = world.run(&model).stream("read it all").finish().await;
    run.expect_code(0);
    assert_eq!(run.result()["num_turns"], TURNS);
    assert!(model.rejections().is_empty(), "{:?}", model.rejections());
    let requests = model.requests();
    assert_eq!(requests.len(), TURNS);
    for later in 1..TURNS {
        assert!(model.prefix_equal(later - 1, later), "{later}: {:?}", model.prefix_difference(later - 1, later));
    }
    assert!(requests.iter().all(|request| request.breakpoints().len() <= 4));
    let usage: Vec<_> = requests[1..].iter().map(|request| request.outcome().usage.unwrap()).collect();
    let read: u64 = usage.iter().map(|usage| usage.cache_read_tokens).sum();
    let total: u64 = usage.iter().map(|usage| usage.total()).sum();
    let rate = read as f64 / total as f64;
    assert!(rate >= 0.9, "the hit rate is {rate:.3}");
}
