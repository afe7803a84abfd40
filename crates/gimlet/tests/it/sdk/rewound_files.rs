//! Going back to any prompt of a long session with many changes, by the main conversation and by subagents, restores
//! every file exactly: bytes, mode, links and absence.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use gimlet_script::{BlockSpec, ReceivedRequest, Script, ScriptedReply, ToolInput};
use serde_json::{Value, json};

use super::*;
use crate::world;

const TURNS: usize = 50;
const FILES: usize = 5_000;

/// Files by their names: content and permission bits.
type FileTree = BTreeMap<String, (String, u32)>;

/// One change.
#[derive(Clone, Debug)]
enum FileChange {
    Create { path: String, content: String },
    Overwrite { path: String, content: String },
    Edit { path: String, old: String, new: String },
}

/// Changes of one turn.
#[derive(Clone, Debug, Default)]
struct TurnPlan {
    main: Vec<FileChange>,
    agent: Vec<FileChange>,
}

/// Reproducible random numbers.
struct ChangeDice(u64);

impl ChangeDice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

fn first_tree() -> FileTree {
    let file = |number: usize| {
        let mode = if number.is_multiple_of(7) { 0o755 } else { 0o644 };
        (format!("src/{:02}/file{number}.txt", number % 100), (format!("line {number}\nlast {number}\n"), mode))
    };
    (0..FILES).map(file).collect()
}

/// Makes the changes of all turns; also returns the files as they are before each of them.
fn plan_turns(seed: u64, mut tree: FileTree) -> (Vec<TurnPlan>, Vec<FileTree>) {
    let mut dice = ChangeDice(seed);
    let mut trees = Vec::new();
    let mut plans = Vec::new();
    for turn in 0..TURNS {
        trees.push(tree.clone());
        let mut plan = TurnPlan::default();
        for step in 0..dice.roll(4) {
            plan.main.push(random_change(&mut dice, &mut tree, &format!("{turn}-{step}")));
        }
        if dice.roll(4) == 0 {
            for step in 0..1 + dice.roll(3) {
                plan.agent.push(random_change(&mut dice, &mut tree, &format!("{turn}-a{step}")));
            }
        }
        plans.push(plan);
    }
    (plans, trees)
}

fn random_change(dice: &mut ChangeDice, tree: &mut FileTree, mark: &str) -> FileChange {
    // A few files take most changes, as in real work.
    let names: Vec<String> = tree.keys().filter(|name| name.starts_with("src/0")).cloned().collect();
    let path = names[dice.roll(40.min(names.len()))].clone();
    match dice.roll(4) {
        0 => {
            let path = format!("src/0new/deep{}/made-{mark}.txt", dice.roll(5));
            let content = format!("made {mark}\n");
            tree.insert(path.clone(), (content.clone(), 0o644));
            FileChange::Create { path, content }
        }
        1 => {
            let content = format!("written {mark}\nsecond line\n");
            tree.get_mut(&path).unwrap().0.clone_from(&content);
            FileChange::Overwrite { path, content }
        }
        _ => {
            let content = &mut tree.get_mut(&path).unwrap().0;
            let old = content.lines().next().unwrap().to_owned();
            let new = format!("edited {mark}");
            *content = content.replacen(&old, &new, 1);
            FileChange::Edit { path, old, new }
        }
    }
}

fn call(name: &str, input: Value) -> BlockSpec {
    BlockSpec::Tool { name: name.to_owned(), input: ToolInput::Json(input), id: None, times: 1 }
}

fn calls_for(project: &Path, changes: &[FileChange]) -> Vec<BlockSpec> {
    let full = |path: &String| project.join(path).to_string_lossy().into_owned();
    let blocks = changes.iter().flat_map(|change| match change {
        FileChange::Create { path, content } => {
            vec![call("Write", json!({"file_path": full(path), "content": content}))]
        }
        FileChange::Overwrite { path, content } => vec![
            call("Read", json!({"file_path": full(path)})),
            call("Write", json!({"file_path": full(path), "content": content})),
        ],
        FileChange::Edit { path, old, new } => vec![
            call("Read", json!({"file_path": full(path)})),
            call("Edit", json!({"file_path": full(path), "old_string": old, "new_string": new})),
        ],
    });
    blocks.collect()
}

/// Plays the plan: a prompt names its turn, and so does the task of a subagent.
fn answer(project: &Path, plans: &[TurnPlan], request: &ReceivedRequest) -> ScriptedReply {
    let done = ScriptedReply {
        blocks: vec![BlockSpec::Text { text: "Done.".to_owned(), times: 1 }],
        ..ScriptedReply::default()
    };
    if !request.tool_results().is_empty() {
        return done;
    }
    let text = request.last_user_text();
    let number = |mark: &str| -> Option<usize> {
        let rest = &text[text.find(mark)? + mark.len()..];
        rest.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
    };
    let mut blocks = Vec::new();
    if let Some(turn) = number("agent turn ") {
        blocks = calls_for(project, &plans[turn].agent);
    } else if let Some(turn) = number("main turn ") {
        blocks = calls_for(project, &plans[turn].main);
        if !plans[turn].agent.is_empty() {
            let task = json!({"description": "Change files", "prompt": format!("agent turn {turn} begins"),
                "subagent_type": "general-purpose"});
            blocks.push(call("Agent", task));
        }
    }
    if blocks.is_empty() { done } else { ScriptedReply { blocks, ..ScriptedReply::default() } }
}

fn read_tree(folder: &Path) -> FileTree {
    let mut tree = FileTree::new();
    let mut folders = vec![folder.join("src")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap().map(Result::unwrap) {
            let metadata = entry.path().symlink_metadata().unwrap();
            if metadata.is_dir() {
                folders.push(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            let content = match metadata.is_symlink() {
                true => format!("-> {}", std::fs::read_link(entry.path()).unwrap().display()),
                false => std::fs::read_to_string(entry.path()).unwrap(),
            };
            tree.insert(name, (content, metadata.mode() & 0o777));
        }
    }
    tree
}

#[track_caller]
fn assert_same_tree(found: &FileTree, wanted: &FileTree, what: &str) {
    let odd: Vec<_> = wanted.iter().filter(|(name, file)| found.get(*name) != Some(file)).collect();
    let extra: Vec<_> = found.keys().filter(|name| !wanted.contains_key(*name)).collect();
    assert!(odd.is_empty() && extra.is_empty(), "{what}: wanted {odd:?}, and not {extra:?}");
}

#[tokio::test]
async fn files_are_as_they_were_at_any_of_fifty_prompts() {
    for seed in [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03] {
        let world = world();
        let tree = first_tree();
        for (name, (content, mode)) in &tree {
            let path = world.file(name, content);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        let (plans, trees) = plan_turns(seed, tree);
        let (project, played) = (world.project.clone(), Arc::new(plans));
        let script = Script::new().reply_with(move |request| answer(&project, &played, request)).forever();
        let model = script.serve().await.unwrap();
        let run = world.run(&model).args(["--permission-mode", "acceptEdits"]);
        let mut host = SdkHost::start(run.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"));
        let id = |turn: usize| format!("00000000-0000-4000-8000-{turn:012}");
        for turn in 0..TURNS {
            let content = format!("main turn {turn} begins");
            host.send_line(json!({"type": "user", "uuid": id(turn), "message": {"role": "user", "content": content},
                "parent_tool_use_id": null, "session_id": ""}));
            host.result().await;
        }
        assert!(model.failures().is_empty(), "{:?}", model.failures());
        let mut dice = ChangeDice(seed ^ 7);
        for _ in 0..12 {
            let turn = dice.roll(TURNS);
            let answer = host.send_request(json!({"subtype": "rewind_files", "user_message_id": id(turn)})).await;
            assert_eq!(answer["response"]["canRewind"], true, "{answer}");
            assert_same_tree(&read_tree(&world.project), &trees[turn], &format!("seed {seed:x}, turn {turn}"));
        }
        host.end().await.clean(0);
    }
}

#[tokio::test]
async fn files_under_several_names_keep_them_and_links_stay_links() {
    let world = world();
    world.file("src/one.txt", "first\n");
    std::fs::hard_link(world.project.join("src/one.txt"), world.project.join("src/two.txt")).unwrap();
    world.file("src/target.txt", "aim\n");
    std::os::unix::fs::symlink("target.txt", world.project.join("src/link.txt")).unwrap();
    let before = read_tree(&world.project);
    let edit = |path: &str, old: &str| {
        let path = world.path(path);
        [
            call("Read", json!({"file_path": path})),
            call("Edit", json!({"file_path": path, "old_string": old, "new_string": "changed"})),
        ]
    };
    let mut blocks: Vec<BlockSpec> = edit("src/one.txt", "first").to_vec();
    blocks.extend(edit("src/link.txt", "aim"));
    let script = Script::new().reply(ScriptedReply { blocks, ..ScriptedReply::default() }).then().say("Done.");
    let model = script.serve().await.unwrap();
    let run = world.run(&model).args(["--permission-mode", "acceptEdits"]);
    let mut host = SdkHost::start(run.env("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true"));
    let id = "00000000-0000-4000-8000-000000000001";
    host.send_line(json!({"type": "user", "uuid": id, "message": {"role": "user", "content": "change them"},
        "parent_tool_use_id": null, "session_id": ""}));
    host.result().await;
    assert_eq!((world.read("src/two.txt").as_str(), world.read("src/target.txt").as_str()), ("changed\n", "changed\n"));
    host.send_request(json!({"subtype": "rewind_files", "user_message_id": id})).await;
    assert_same_tree(&read_tree(&world.project), &before, "links");
    assert_eq!(world.project.join("src/one.txt").metadata().unwrap().nlink(), 2);
    host.end().await.clean(0);
}
