//! Files that a person names in a prompt, as in `what does @src/main.rs do?`: the model gets their content with the
//! prompt and need not ask for it.
//!
//! They are read as the Read tool reads, so what it says about them holds for later edits too. No hook is asked, because
//! no model called; the gate is, and only what it allows without a question is attached. The model can still ask for
//! the rest by a call of its own.

mod parse;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{Block, EntryId, Mentions, Say, ToolUseId};
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::call::{self, Author, Incoming};
use crate::conversation::Conversation;
use crate::gate::Permit;
use crate::results::{BatchBudget, Settled};
use crate::tool::{PathContext, ToolRef};
use crate::turn::{Turn, say};
use parse::Mention;

/// The tool that reads them.
const READER: &str = "Read";
/// More than this in one prompt is no longer somebody naming files.
const MOST_FILES: usize = 20;
/// What is listed of a folder.
const MOST_ENTRIES: usize = 500;

/// Attaches what a prompt names, behind the prompt.
pub(crate) async fn attach(conversation: &mut Conversation, turn: &Turn, named: Vec<Mention>, prompt: &EntryId) {
    let mut found: Vec<(ToolUseId, Settled)> = Vec::new();
    let mut names = Vec::new();
    for mention in named {
        // Like no call's: the ledger and the files of large results go by it.
        let id = ToolUseId::new(format!("mention_{prompt}_{}", found.len()));
        if let Some(settled) = read(turn, &mention, &id).await {
            found.push((id, settled));
            names.push(mention.name);
        }
    }
    let left = turn.facts().context_window.saturating_sub(conversation.context_tokens);
    BatchBudget::new(left).fit(&mut found, &turn.result_files);
    for (name, (_, mut settled)) in names.into_iter().zip(found) {
        let changes = settled.changes.drain(..);
        if settled.persisted {
            turn.scope.services.apply_unseen(changes);
        } else {
            turn.scope.services.apply(changes);
        }
        say(
            conversation,
            &format!("The prompt names @{name}. This is what is there:\n\n{}", settled.content.to_text()),
        );
    }
}

/// What a prompt names, as far as that is to be looked for at all.
pub(crate) fn named(turn: &Turn, said: &Say) -> Vec<Mention> {
    if turn.scope.subagent.is_some() || turn.scope.services.paths().env.flag("CLAUDE_CODE_DISABLE_ATTACHMENTS") {
        return Vec::new();
    }
    let mut named: Vec<Mention> = match &said.mentions {
        Mentions::Nowhere => Vec::new(),
        Mentions::In(text) => parse::mentions(text),
        Mentions::Everywhere => {
            said.blocks.iter().filter_map(Block::as_text).flat_map(|text| parse::mentions(&text)).collect()
        }
    };
    let mut seen = std::collections::HashSet::new();
    named.retain(|mention| seen.insert(mention.name.clone()));
    named.truncate(MOST_FILES);
    named
}

/// Reads one; `None` when there is nothing of that name, or nothing that may be read without a question.
async fn read(turn: &Turn, mention: &Mention, id: &ToolUseId) -> Option<Settled> {
    let paths = turn.scope.services.paths();
    let (path, lines, is_folder) = locate(mention, &paths).await?;
    let mut input = json!({ "file_path": path });
    if let Some((first, last)) = lines {
        input["offset"] = json!(first);
        input["limit"] = json!(last.saturating_sub(first).saturating_add(1));
    }
    let incoming = Incoming {
        id: id.clone(),
        name: READER.to_owned(),
        input: Arc::from(to_raw_value(&input).ok()?),
        bad_input: None,
    };
    let (tool, prepared) = call::prepare(&incoming, Author::Answer, &turn.scope.tools, &paths).ok()?;
    let permit = turn.scope.gate.grant_mention(&turn.scope, id, prepared)?;
    if is_folder {
        return list(&permit, path).await;
    }
    run(turn, &incoming, &tool, permit).await
}

/// The first spelling that something has: where it is, which lines are meant, and whether it is a folder.
async fn locate(mention: &Mention, paths: &PathContext) -> Option<(PathBuf, Option<(u64, u64)>, bool)> {
    for (spelled, lines) in mention.spellings() {
        let Some(path) = absolute(&spelled, &paths.cwd, paths.home.as_deref()) else { continue };
        if let Ok(metadata) = tokio::fs::metadata(&path).await {
            return Some((path, lines, metadata.is_dir()));
        }
    }
    None
}

async fn run(turn: &Turn, incoming: &Incoming, tool: &ToolRef, permit: Permit) -> Option<Settled> {
    let mut settled = call::run_unseen(&turn.scope, incoming, tool, permit).await;
    if settled.error.is_some() {
        return None;
    }
    settled.cap(&incoming.id, tool.max_result_chars(), &turn.result_files);
    Some(settled)
}

fn absolute(spelled: &str, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if spelled.contains('\0') {
        return None;
    }
    match spelled.strip_prefix("~/") {
        Some(below) => Some(home?.join(below)),
        None => Some(cwd.join(spelled)),
    }
}

/// The names in a folder, without those that rules keep closed.
async fn list(permit: &Permit, spelled: PathBuf) -> Option<Settled> {
    let closed = permit.closed_files();
    let real =
        permit.resolved().iter().find(|(path, _)| *path == spelled).map_or(spelled.clone(), |(_, real)| real.clone());
    let shown = spelled.clone();
    let names = tokio::task::spawn_blocking(move || {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&real).ok()?.flatten() {
            let name = entry.file_name();
            let places = [real.join(&name), shown.join(&name)];
            if closed.as_ref().is_some_and(|closed| places.iter().any(|place| closed.contains(place))) {
                continue;
            }
            let folder = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            names.push(format!("{}{folder}", name.to_string_lossy()));
        }
        names.sort_unstable();
        Some(names)
    });
    let names = names.await.ok()??;
    let mut text = format!("{}/\n", spelled.display());
    for name in names.iter().take(MOST_ENTRIES) {
        let _ = writeln!(text, "{name}");
    }
    if names.len() > MOST_ENTRIES {
        let _ = writeln!(text, "({} more)", names.len() - MOST_ENTRIES);
    }
    Some(Settled::told(text))
}
