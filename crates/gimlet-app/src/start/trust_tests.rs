//! A hostile repository in an interactive session: what of it runs before the trust question is answered, after a yes,
//! and after a no.
//!
//! The session runs in a separate process, this test started again under a tracer, so that every program and every
//! connection is recorded.

#[path = "../../../gimlet/tests/it/hostile_repo/planted_repo.rs"]
mod planted_repo;

use std::path::{Path, PathBuf};
use std::process::Command;

use gimlet_proto::{AskAnswer, AskBody, Env, EventBody, Op, SubmittedPrompt};
use gimlet_script::{Script, ScriptServer};
use gimlet_testkit::TestWorld;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{LaunchOptions, start};
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;
use planted_repo::PlantedRepo;

/// Variable that names the file with the parameters of a traced run's session.
const STAGE: &str = "GIMLET_TRUST_STAGE";
/// File opened when the question is answered, so that the trace has a before and an after.
const MARK: &str = "now-it-is-answered";

#[test]
fn a_hostile_repository_does_nothing_before_the_question_of_trust_is_answered_and_nothing_after_a_no() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match read_stage() {
        Some(stage) => runtime.block_on(run_session(&stage)),
        None => {
            for yes in [false, true] {
                runtime.block_on(run_case(yes));
            }
        }
    }
}

/// Returns the parameters of the session, when this is the traced process.
#[allow(clippy::disallowed_methods, reason = "the test starts itself, and tells itself so")]
fn read_stage() -> Option<Value> {
    let file = std::env::var_os(STAGE)?;
    Some(serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap())
}

/// Creates the repository, opens a session there, and checks what it did.
async fn run_case(yes: bool) {
    let world = TestWorld::new("unused");
    let plant = PlantedRepo::new(&world);
    plant.remove_model_variables();
    let before = plant.file_tree();
    // The project's own settings allow the write.
    let write = json!({"file_path": world.path("granted"), "content": "1"});
    let model = Script::new().call("Write", write).then().say("done").serve().await.unwrap();
    let (report, trace) = run_traced(&world, &model, yes).await;

    assert_eq!(report["asked"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["requests_before"], 0, "{report:#}");
    let asked = report["asked"][0].as_array().unwrap();
    for title in [
        "hook SessionStart *",
        "environment variable PLANTED",
        "apiKeyHelper",
        "statusLine",
        "MCP server planted",
        "enabledPlugins evil@market",
        "skill .claude/skills/planted/SKILL.md",
        "agent .claude/agents/planted.md",
        "command .claude/commands/planted.md",
        "allow rule Write",
        "further folder ..",
        "model",
    ] {
        assert!(asked.iter().any(|item| item == title), "{title}: {report:#}");
    }
    let warnings: Vec<&str> = report["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let named: Vec<&&str> = warnings.iter().filter(|warning| warning.contains("not trusted")).collect();
    assert!(
        named.len() == 1 && named[0].contains("MCP servers planted") && named[0].contains("hooks "),
        "{warnings:?}"
    );

    let text = std::fs::read_to_string(&trace).unwrap();
    let answered = text.lines().position(|line| line.contains(MARK)).expect("the question was answered");
    let until = if yes { answered } else { text.lines().count() };
    // The custodian of commands to come is gimlet itself.
    let is_foreign =
        |line: &&str| line.contains("execve(") && !line.contains("execve(\"/proc/self/exe\", [\"cmd-custodian\"");
    let programs: Vec<&str> = text.lines().take(until).filter(is_foreign).collect();
    assert_eq!(programs.len(), 1, "only the test itself may have started: {programs:#?}");
    let elsewhere = |line: &&str| {
        line.contains("sa_family=AF_INET") && !line.contains(&format!("htons({})", model.address().port()))
    };
    let sent: Vec<&str> = text.lines().take(until).filter(elsewhere).collect();
    assert!(sent.is_empty(), "{sent:#?}");
    assert_eq!(plant.trace_violations(&trace, Some(model.address().port())), Vec::<String>::new(), "yes: {yes}");
    assert_eq!((plant.triggered_canaries(), plant.count_connections()), (Vec::new(), 0), "yes: {yes}");

    let recorded = world.home.join(".claude/gimlet/trust.json").exists();
    let mut after = plant.file_tree();
    let granted = after.remove(&world.project.join("granted")).is_some();
    assert_eq!(after, before, "nothing else of the project changed");
    // A trusted rule allows at once; otherwise a question is asked, which this session refuses.
    assert_eq!((granted, recorded, report["refused"] == 1), (yes, yes, !yes), "{report:#}");
}

/// Runs this test under a tracer as the session's process; returns its report and the trace.
async fn run_traced(world: &TestWorld, model: &ScriptServer, yes: bool) -> (Value, PathBuf) {
    let file = |name: &str| world.home.parent().unwrap().join(name);
    let stage = json!({"home": world.home, "project": world.project, "url": model.url(), "yes": yes,
        "mark": file(MARK), "report": file("report")});
    std::fs::write(file("stage"), stage.to_string()).unwrap();
    let trace = file("trace");
    #[allow(clippy::disallowed_methods, reason = "the tracer is not part of what is tested")]
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-s", "4096", "-e", "trace=execve,execveat,connect,sendto,openat", "-o"]).arg(&trace);
    strace.arg("--").arg(std::env::current_exe().unwrap()).args(["--exact", "--nocapture", "--test-threads=1"]);
    strace.arg("start::trust_tests::a_hostile_repository_does_nothing_before_the_question_of_trust_is_answered_and_nothing_after_a_no");
    strace.env(STAGE, file("stage"));
    let output = tokio::task::spawn_blocking(move || strace.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report = std::fs::read_to_string(file("report")).unwrap_or_else(|error| panic!("{error}: {said}"));
    (serde_json::from_str(&report).unwrap(), trace)
}

/// Opens the session and answers its questions: the trust question as the stage demands, every other one with no.
async fn run_session(stage: &Value) {
    let path = |name: &str| PathBuf::from(stage[name].as_str().unwrap());
    let home = path("home");
    let env = Env::default()
        .with("HOME", &home)
        .with("PATH", "/usr/bin:/bin")
        .with("ANTHROPIC_API_KEY", "test-key")
        .with("ANTHROPIC_BASE_URL", stage["url"].as_str().unwrap());
    let config_home = home.join(".claude");
    let around = ProcessEnv { env, cwd: path("project"), home: Some(home), config_home };
    let manner = LaunchOptions { attended: true, ..LaunchOptions::default() };
    let started =
        start(&LaunchRequest::default(), &around, &manner).await.unwrap_or_else(|error| panic!("{}", error.text()));
    let mut events = started.handle.subscribe();
    let mut life = JoinSet::new();
    life.spawn(started.session_future);
    started.handle.send(Op::Submit(SubmittedPrompt::from_text("go")));

    let (mut asked, mut refused, mut requests, mut requests_before) = (Vec::new(), 0, 0, 0);
    let no = || AskAnswer::No { message: String::new(), interrupt: false };
    while let Some(event) = events.next().await {
        match &event.body {
            EventBody::Requesting => requests += 1,
            EventBody::Ask(ask) => {
                let answer = match &ask.body {
                    AskBody::Trust(question) => {
                        asked.push(question.items.iter().map(|item| item.title.clone()).collect::<Vec<_>>());
                        requests_before = requests;
                        touch_file(&path("mark"));
                        if stage["yes"] == true { AskAnswer::yes() } else { no() }
                    }
                    AskBody::Permission(_)
                    | AskBody::Question { .. }
                    | AskBody::Plan { .. }
                    | AskBody::Elicitation(_) => {
                        refused += 1;
                        no()
                    }
                };
                started.handle.send(Op::Answer { ask: ask.id, answer });
            }
            EventBody::TurnEnded(_) => {
                started.handle.send(Op::Close);
            }
            _ => {}
        }
    }
    while life.join_next().await.is_some() {}
    let report = json!({"asked": asked, "refused": refused, "requests_before": requests_before,
        "warnings": started.warnings});
    std::fs::write(path("report"), report.to_string()).unwrap();
}

fn touch_file(path: &Path) {
    std::fs::write(path, "").unwrap();
}
