//! The tools of one step: looked up by name, then by alias.

use std::sync::Arc;

use gimlet_proto::edit_distance;

use super::AnyTool;

/// The tools that a session offers, in the order in which the model sees them.
#[derive(Clone)]
pub struct ToolSet {
    tools: Arc<[&'static dyn AnyTool]>,
}

impl ToolSet {
    pub fn new(tools: Vec<&'static dyn AnyTool>) -> Self {
        Self { tools: tools.into() }
    }

    pub fn find(&self, name: &str) -> Option<&'static dyn AnyTool> {
        let by_name = self.tools.iter().find(|tool| tool.name() == name);
        by_name.or_else(|| self.tools.iter().find(|tool| tool.aliases().contains(&name))).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &'static dyn AnyTool> {
        self.tools.iter().copied()
    }

    /// The tools that the model is told about.
    pub fn offered(&self) -> impl Iterator<Item = &'static dyn AnyTool> {
        self.iter().filter(|tool| !tool.is_hidden())
    }
}

/// The candidate closest to `name`, if one is close enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_ascii_lowercase();
    let limit = (name.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_and_nothing_else() {
        assert_eq!(nearest("file_pth", ["file_path", "offset"]), Some("file_path"));
        assert_eq!(nearest("read", ["Read", "Write"]), Some("Read"));
        assert_eq!(nearest("raed", ["Read", "Write"]), Some("Read"));
        assert_eq!(nearest("zzz", ["Read", "Write"]), None);
    }
}
