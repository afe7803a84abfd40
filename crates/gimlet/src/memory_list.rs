//! The memory files of a folder as text, for `/memory`, and what keeps some of them from being used, for
//! `gimlet doctor`.

use std::path::Path;

use gimlet_app::start::MemoryCatalogue;
use gimlet_app::{LaunchRequest, ProcessEnv};
use gimlet_config::{AutoMemory, MemoryFile, MemoryReason, ProblemSeverity, SettingsProblem, SkippedDocument};
use gimlet_core::commands::text_table;

use crate::report::Report;

/// Lists the memory of sessions with these flags.
pub(crate) fn describe_memory(request: &LaunchRequest, around: &ProcessEnv) -> Result<String, Report> {
    let catalogue = MemoryCatalogue::read(request, around)?;
    if catalogue.is_off {
        return Ok("Memory is off: CLAUDE_CODE_DISABLE_CLAUDE_MDS is set.".to_owned());
    }
    let short = |path: &Path| short_path(path, around);
    let mut text = String::new();
    let mut add = |title: &str, rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            let table = text_table(&rows, false);
            text.push_str(&format!("{title}\n{}\n\n", indent(&table)));
        }
    };
    let row = |file: &MemoryFile| {
        let why = match &file.reason {
            MemoryReason::Include { from } => format!("imported by {}", short(from)),
            MemoryReason::AddedFolder => "added folder".to_owned(),
            _ => String::new(),
        };
        vec![file.scope.as_str().to_owned(), short(&file.path), format!("{} bytes", file.text.len()), why]
    };
    let memory = &catalogue.memory;
    let loaded: Vec<Vec<String>> = memory.files.iter().map(row).collect();
    let is_empty = loaded.is_empty();
    add("Memory files, in the order in which the model gets them:", loaded);
    let rules = memory.conditional.iter().filter_map(|rule| {
        let file = rule.files.first()?;
        Some(vec![file.scope.as_str().to_owned(), short(&file.path), rule.patterns.patterns().join(", ")])
    });
    add("Rules that join when the model reads a matching file:", rules.collect());
    add(
        "Files that are not there and would be memory:",
        catalogue.possible.iter().map(|(scope, path)| vec![scope.as_str().to_owned(), short(path)]).collect(),
    );
    add("Not used:", memory.skipped.iter().map(|skipped| vec![describe_skipped(skipped)]).collect());
    let auto = describe_auto_memory(catalogue.auto.as_ref(), around);
    let head = if is_empty { "No memory file is loaded here.\n\n" } else { "" };
    Ok(format!("{head}{text}{auto}"))
}

fn describe_auto_memory(auto: Option<&AutoMemory>, around: &ProcessEnv) -> String {
    let Some(auto) = auto else {
        return "Notes that the model keeps: off. /config autoMemoryEnabled=true turns them on.".to_owned();
    };
    let state = match (&auto.index, &auto.skipped) {
        (_, Some(skipped)) => describe_skipped(skipped),
        (None, None) => "none yet".to_owned(),
        (Some(index), None) => {
            let lines = index.text.lines().count();
            match auto.lines_left_out {
                0 => format!("MEMORY.md has {lines} lines"),
                more => format!("MEMORY.md has {lines} lines that are loaded, and {more} beyond the limit"),
            }
        }
    };
    format!(
        "Notes that the model keeps: on, in {} ({state}). /config autoMemoryEnabled=false turns them off.",
        short_path(&auto.folder, around)
    )
}

fn describe_skipped(skipped: &SkippedDocument) -> String {
    skipped.to_string()
}

/// Returns a problem for each memory file that is not used although somebody wrote it.
pub(crate) fn find_memory_problems(around: &ProcessEnv) -> Vec<SettingsProblem> {
    // What keeps the settings from being read at all is reported elsewhere.
    let Ok(catalogue) = MemoryCatalogue::read(&LaunchRequest::default(), around) else { return Vec::new() };
    let auto = catalogue.auto.and_then(|auto| auto.skipped);
    let skipped = catalogue.memory.skipped.into_iter().chain(auto).map(|skipped| SettingsProblem {
        severity: ProblemSeverity::Info,
        file: skipped.path,
        line: skipped.line,
        column: None,
        key: String::new(),
        message: format!("not used as memory: {}", skipped.reason),
    });
    catalogue.memory.problems.into_iter().chain(skipped).collect()
}

/// Returns a path with the home directory as `~`.
fn short_path(path: &Path, around: &ProcessEnv) -> String {
    let below = around.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
    below.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

fn indent(table: &str) -> String {
    table.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
