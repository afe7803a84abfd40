//! Tools of one step: looked up by name, then by alias.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use gimlet_text::edit_distance;

use super::{AbsentTools, AnyTool};

/// One tool of a session: a static one from the table, or an external one that may be removed.
#[derive(Clone)]
pub enum ToolRef {
    BuiltIn(&'static dyn AnyTool),
    External(Arc<dyn AnyTool>),
}

impl Deref for ToolRef {
    type Target = dyn AnyTool;

    fn deref(&self) -> &Self::Target {
        match self {
            ToolRef::BuiltIn(tool) => *tool,
            ToolRef::External(tool) => tool.as_ref(),
        }
    }
}

impl From<&'static dyn AnyTool> for ToolRef {
    fn from(tool: &'static dyn AnyTool) -> Self {
        ToolRef::BuiltIn(tool)
    }
}

impl<T: AnyTool> From<&'static T> for ToolRef {
    fn from(tool: &'static T) -> Self {
        ToolRef::BuiltIn(tool)
    }
}

impl From<Arc<dyn AnyTool>> for ToolRef {
    fn from(tool: Arc<dyn AnyTool>) -> Self {
        ToolRef::External(tool)
    }
}

/// Tools that a session offers, in the order of the model's list.
#[derive(Clone)]
pub struct ToolSet {
    tools: Arc<[ToolRef]>,
    /// Set if no user can be asked.
    unattended: bool,
    /// Substitutes: the called name, and the tool that it means.
    stand_ins: Arc<BTreeMap<String, String>>,
    /// Expected tools that are absent.
    absent: Arc<[AbsentTools]>,
}

impl ToolSet {
    pub fn new<T: Into<ToolRef>>(tools: impl IntoIterator<Item = T>) -> Self {
        Self {
            tools: tools.into_iter().map(Into::into).collect(),
            unattended: false,
            stand_ins: Arc::default(),
            absent: Arc::default(),
        }
    }

    /// Appends one tool.
    pub fn with(self, tool: ToolRef) -> Self {
        Self { tools: self.tools.iter().cloned().chain([tool]).collect(), ..self }
    }

    /// Sets an unattended session: tools that need answers are not offered. A call of one is still recognized, and
    /// its result states what to do instead.
    pub fn for_unattended(self) -> Self {
        Self { unattended: true, ..self }
    }

    /// Sets the substitutes: a call of a key means the tool that is its value.
    pub fn with_substitutes(self, stand_ins: BTreeMap<String, String>) -> Self {
        Self { stand_ins: Arc::new(stand_ins), ..self }
    }

    /// Returns a set of the given tools, with these substitutes.
    pub(crate) fn restricted_to(&self, tools: impl IntoIterator<Item = ToolRef>) -> Self {
        Self { stand_ins: self.stand_ins.clone(), absent: self.absent.clone(), ..Self::new(tools) }
    }

    /// Returns the external tools that can join this set: the first for each name that is still free.
    pub fn joinable_tools(&self, guests: impl IntoIterator<Item = ToolRef>) -> Vec<ToolRef> {
        let mut taken = HashSet::new();
        let is_new = |guest: &ToolRef| self.find(guest.name()).is_none() && taken.insert(guest.name().to_owned());
        guests.into_iter().filter(is_new).collect()
    }

    /// Returns this set followed by [joinable tools](Self::joinable_tools).
    pub fn with_external_tools(&self, guests: &[ToolRef]) -> Self {
        Self { tools: self.tools.iter().chain(guests).cloned().collect(), ..self.clone() }
    }

    /// Sets the absent tools.
    pub fn with_absent(self, absent: Vec<AbsentTools>) -> Self {
        Self { absent: absent.into(), ..self }
    }

    /// Returns the reason why there is no tool of this name, if its server is known.
    pub fn absence_reason(&self, name: &str) -> Option<&str> {
        let absence = self.absent.iter().find(|absence| name.starts_with(&absence.prefix))?;
        Some(&absence.why)
    }

    /// Returns the name of the tool that a call of this name means: that of its substitute, even if the substitute is
    /// absent, since commands that are to run elsewhere must not run here. Substitutes are not resolved further.
    pub fn resolve_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.stand_ins.get(name).map_or(name, String::as_str)
    }

    pub fn find(&self, name: &str) -> Option<&ToolRef> {
        let by_name = self.tools.iter().find(|tool| tool.name() == name);
        by_name.or_else(|| self.tools.iter().find(|tool| tool.aliases().contains(&name)))
    }

    pub fn iter(&self) -> impl Iterator<Item = &ToolRef> {
        self.tools.iter()
    }

    /// Returns the tools in the model's list.
    pub fn offered(&self) -> impl Iterator<Item = &ToolRef> {
        let is_of_no_use = |tool: &ToolRef| self.unattended && tool.requires_attended_session();
        self.iter().filter(move |tool| !tool.is_hidden() && !tool.is_for_compacted() && !is_of_no_use(tool))
    }
}

/// Returns the candidate closest to `name`, if one is close enough for a typo.
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
        assert_eq!(nearest_name("file_pth", ["file_path", "offset"]), Some("file_path"));
        assert_eq!(nearest_name("read", ["Read", "Write"]), Some("Read"));
        assert_eq!(nearest_name("raed", ["Read", "Write"]), Some("Read"));
        assert_eq!(nearest_name("zzz", ["Read", "Write"]), None);
    }
}
