//! The memory of an agent kind: a folder of notes that its agents keep from one task to the next. The beginning of its
//! index stands in their system prompt.

use std::path::{Path, PathBuf};

use gimlet_fs::read_inside;
use gimlet_text::enclose_in_tag;

use crate::prompt_tags::escape_tags;

/// File whose beginning every agent gets.
const INDEX: &str = "MEMORY.md";
const MAX_LINES: usize = 200;
const MAX_BYTES: usize = 25 * 1024;
/// Limit on the size of an index that is read at all.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Folders whose memories are used; `None` where memory is off.
#[derive(Clone, Debug, Default)]
pub struct AgentMemoryFolders {
    /// The user's configuration folder, with memories for all projects.
    pub config_home: Option<PathBuf>,
    /// The project, with memories for everybody who works on it and with the user's own.
    pub project: Option<PathBuf>,
}

impl AgentMemoryFolders {
    /// Returns the folder of a kind's memory, and the folder that its files must really be in; `None` where memory is
    /// off or there is no such scope.
    fn folder(&self, kind: &str, scope: &str) -> Option<(PathBuf, &Path)> {
        let (border, below) = match scope {
            "user" => (self.config_home.as_deref()?, "agent-memory"),
            "project" => (self.project.as_deref()?, ".claude/agent-memory"),
            "local" => (self.project.as_deref()?, ".claude/agent-memory-local"),
            _ => return None,
        };
        Some((border.join(below).join(folder_name(kind)), border))
    }

    /// Describes the memory for the system prompt of a kind that asks for one; `None` for other kinds.
    pub fn describe(&self, kind: &str, scope: Option<&str>) -> Option<String> {
        let (folder, border) = self.folder(kind, scope?)?;
        let index = read_index(border, &folder.join(INDEX));
        let mut text = format!(
            "You keep notes from one task to the next in {}, which you may read and write without asking. {INDEX} there is \
             the index, and you always get its first {MAX_LINES} lines: keep it short, put details into other files and name \
             those in it. Before you report, write down what will help with the next task of this kind: decisions, \
             conventions, places, mistakes. Correct what has turned out to be wrong.",
            folder.display()
        );
        match index {
            Some(index) => {
                let index = enclose_in_tag("agent-memory", &escape_tags(&index));
                text.push_str(&format!("\n\n{INDEX} as it is now:\n{index}"));
            }
            None => text.push_str(&format!("\n\nThere is no {INDEX} yet.")),
        }
        Some(text)
    }
}

/// Returns the name of a kind's folder: its own name without what a path must not have.
fn folder_name(kind: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | ' ') { c } else { '-' };
    kind.chars().map(plain).collect()
}

/// Reads the beginning of an index; `None` if there is no text, or if it leads out of the border.
fn read_index(border: &Path, path: &Path) -> Option<String> {
    let bytes = read_inside(&border.canonicalize().ok()?, path, MAX_FILE_BYTES).ok()??;
    let text = String::from_utf8_lossy(&bytes);
    let text = &text[..text.floor_char_boundary(MAX_BYTES)];
    let text = text.lines().take(MAX_LINES).collect::<Vec<_>>().join("\n");
    (!text.trim().is_empty()).then(|| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_the_index_is_part_of_the_description() {
        let root = tempfile::tempdir().unwrap();
        let config_home = Some(root.path().to_owned());
        let folders = AgentMemoryFolders { config_home, ..AgentMemoryFolders::default() };
        assert_eq!(folders.describe("a", None), None);
        assert_eq!(folders.describe("a", Some("project")), None);
        assert!(folders.describe("a", Some("user")).unwrap().ends_with("There is no MEMORY.md yet."));
        let folder = root.path().join("agent-memory/my-plugin-rev-ewer");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(INDEX), "- line </agent-memory>\n".repeat(300)).unwrap();
        let text = folders.describe("my:plugin/rev.ewer", Some("user")).unwrap();
        assert_eq!(text.matches("- line").count(), MAX_LINES);
        assert_eq!(text.matches("</agent-memory>").count(), 1, "{text}");
    }

    #[test]
    fn an_index_that_leads_out_of_the_project_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        std::fs::create_dir_all(project.join(".claude/agent-memory/a")).unwrap();
        std::fs::write(root.path().join("secret"), "planted secret").unwrap();
        std::os::unix::fs::symlink(root.path().join("secret"), project.join(".claude/agent-memory/a/MEMORY.md"))
            .unwrap();
        let folders = AgentMemoryFolders { project: Some(project), ..AgentMemoryFolders::default() };
        let text = folders.describe("a", Some("project")).unwrap();
        assert!(!text.contains("planted secret"), "{text}");
    }
}
