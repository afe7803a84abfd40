//! Slash commands in a session: which prompts are commands, what runs, and what the model sees.

use std::sync::{Arc, Mutex};

use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand};
use gimlet_proto::{
    Block, BoxFuture, CommandKind, EventBody, MentionScope, Op, OpReply, SessionQuery, SubmittedPrompt, TurnEnd,
};
use serde_json::json;

use crate::hook_program::{CallbackReaction, HookProgram, hook};
use crate::hooks_on_calls;
use crate::session_bench::{BenchSetup, SessionBench, call, reply};

/// A command that asks the model for a review; without a subject it fails.
struct ReviewCommand;

impl SlashCommand for ReviewCommand {
    fn name(&self) -> &str {
        "review"
    }

    fn description(&self) -> &str {
        "Review something"
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Prompt
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            match args {
                "" => Err("/review needs a subject".to_owned()),
                subject => Ok(CommandOutput::Prompt(format!("Review {subject} with care."))),
            }
        })
    }
}

/// A command that never ends by itself.
struct HangingCommand;

impl SlashCommand for HangingCommand {
    fn name(&self) -> &str {
        "hang"
    }

    fn description(&self) -> &str {
        "Wait"
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(std::future::pending())
    }
}

fn setup() -> BenchSetup {
    BenchSetup { commands: vec![Arc::new(ReviewCommand), Arc::new(HangingCommand)], ..BenchSetup::default() }
}

fn typed(text: &str) -> SubmittedPrompt {
    SubmittedPrompt { mentions: MentionScope::Everywhere, ..SubmittedPrompt::from_text(text) }
}

/// The texts of the last message of the last request.
fn last_texts(bench: &SessionBench) -> Vec<String> {
    let requests = bench.model.requests();
    let message = requests.last().unwrap().messages.last().unwrap().clone();
    message.blocks.iter().filter_map(|block| block.as_text().map(|text| text.into_owned())).collect()
}

#[tokio::test]
async fn a_prompt_command_is_expanded_after_the_hooks_saw_what_was_typed() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let prompts = seen.clone();
    let program = HookProgram::default().with_callback("h", move |_, input| {
        prompts.lock().unwrap().push(input["prompt"].clone());
        CallbackReaction::Say(json!({}))
    });
    let hooks = vec![hook("UserPromptSubmit", &["h"])];
    let (mut bench, _) = hooks_on_calls::bench(setup(), program, hooks, vec![reply(&[Block::text("fine")])]);
    bench.handle.send(Op::Submit(typed("/review a.rs")));
    assert!(matches!(bench.turn(|_, _| {}).await.end, TurnEnd::Completed));
    assert_eq!(last_texts(&bench).last().map(String::as_str), Some("Review a.rs with care."));
    assert_eq!(*seen.lock().unwrap(), [json!("/review a.rs")]);
    bench.close().await;
}

#[tokio::test]
async fn a_prompt_command_that_fails_sends_no_request_and_what_is_not_typed_is_no_command() {
    let mut bench = SessionBench::new(setup(), vec![reply(&[Block::text("fine")])]);
    bench.handle.send(Op::Submit(typed("/review")));
    let report = bench.turn(|_, _| {}).await;
    let TurnEnd::Command { error: Some(problem) } = report.end else { panic!("{:?}", report.end) };
    assert_eq!((problem.as_str(), bench.model.requests().len()), ("/review needs a subject", 0));
    assert!(matches!(bench.run("/review").await.end, TurnEnd::Completed), "a program's own text is sent as it is");
    assert_eq!(last_texts(&bench).last().map(String::as_str), Some("/review"));
    bench.close().await;
}

#[tokio::test]
async fn a_command_never_joins_a_running_turn() {
    let replies = vec![reply(&[call("a", "Touch", json!({"name": "a"}))]), reply(&[Block::text("done")])];
    let mut bench = SessionBench::new(setup(), replies);
    bench.say("go");
    let mut sent = false;
    let first = bench
        .turn(|event, handle| {
            if matches!(event.body, EventBody::Block(_)) && !std::mem::replace(&mut sent, true) {
                handle.send(Op::Submit(typed("/cost")));
            }
        })
        .await;
    assert_eq!((first.text.as_str(), first.queued), ("done", 1));
    let second = bench.turn(|_, _| {}).await;
    assert!(matches!(second.end, TurnEnd::Command { error: None }) && second.num_turns == 0, "{:?}", second.end);
    assert!(second.text.contains("no price is known for test"), "{}", second.text);
    assert!(bench.model.requests().iter().all(|request| {
        request.messages.iter().flat_map(|message| &message.blocks).all(|block| !block.json().contains("/cost"))
    }));
    bench.close().await;
}

#[tokio::test]
async fn a_command_can_be_interrupted() {
    let mut bench = SessionBench::new(setup(), Vec::new());
    bench.handle.send(Op::Submit(typed("/hang")));
    let report = bench
        .turn(|event, handle| {
            if matches!(event.body, EventBody::Prompt(_)) {
                handle.send(Op::interrupt());
            }
        })
        .await;
    assert!(matches!(report.end, TurnEnd::Aborted { .. }), "{:?}", report.end);
    bench.close().await;
}

#[tokio::test]
async fn the_list_has_the_commands_of_the_application_and_their_names_are_announced() {
    let mut bench = SessionBench::new(setup(), Vec::new());
    let (reply, commands) = OpReply::channel();
    bench.handle.send(Op::Query(SessionQuery::Commands { reply }));
    let commands = commands.await.unwrap().unwrap();
    assert!(commands.iter().any(|command| command.name == "review" && command.kind == CommandKind::Prompt));
    assert!(commands.iter().any(|command| command.name == "clear" && command.kind == CommandKind::Host));
    bench.handle.send(Op::Submit(typed("/help")));
    let mut announced = Vec::new();
    let report = bench
        .turn(|event, _| {
            if let EventBody::TurnStarting(setup) = &event.body {
                announced.clone_from(&setup.slash_commands);
            }
        })
        .await;
    for name in ["review", "cost", "usage", "clear", "new"] {
        assert!(announced.iter().any(|known| known == name), "{name}: {announced:?}");
    }
    assert!(commands.iter().all(|command| report.text.contains(&format!("/{}", command.name))), "{}", report.text);
    bench.close().await;
}
