//! The tools of one step: looked up by name, then by alias.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use gimlet_proto::edit_distance;

use super::{AbsentTools, AnyTool};

/// One tool of a session: of the table, which lives for ever, or one that came from elsewhere and may go again.
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

/// The tools that a session offers, in the order in which the model sees them.
#[derive(Clone)]
pub struct ToolSet {
    tools: Arc<[ToolRef]>,
    /// Nobody can be asked.
    unattended: bool,
    /// Which tool a call of another one means.
    stand_ins: Arc<BTreeMap<String, String>>,
    /// Tools that are not there although somebody wanted them.
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

    /// The same with one more at the end.
    pub fn with(self, tool: ToolRef) -> Self {
        Self { tools: self.tools.iter().cloned().chain([tool]).collect(), ..self }
    }

    /// For a session in which nobody can be asked: tools that live on answers are not offered. A call of one is still
    /// known, and told what to do instead.
    pub fn for_unattended(self) -> Self {
        Self { unattended: true, ..self }
    }

    /// The same, with tools that stand in for others: a call of a key means the tool that is its value.
    pub fn with_substitutes(self, stand_ins: BTreeMap<String, String>) -> Self {
        Self { stand_ins: Arc::new(stand_ins), ..self }
    }

    /// Some of these tools, with the same stand-ins.
    pub(crate) fn restricted_to(&self, tools: impl IntoIterator<Item = ToolRef>) -> Self {
        Self { stand_ins: self.stand_ins.clone(), absent: self.absent.clone(), ..Self::new(tools) }
    }

    /// The guests that can join these tools: one for each name that is still free, the first that came with it.
    pub fn joinable_tools(&self, guests: impl IntoIterator<Item = ToolRef>) -> Vec<ToolRef> {
        let mut taken = HashSet::new();
        let is_new = |guest: &ToolRef| self.find(guest.name()).is_none() && taken.insert(guest.name().to_owned());
        guests.into_iter().filter(is_new).collect()
    }

    /// These tools and [newcomers](Self::newcomers) behind them.
    pub fn with_external_tools(&self, guests: &[ToolRef]) -> Self {
        Self { tools: self.tools.iter().chain(guests).cloned().collect(), ..self.clone() }
    }

    /// The same, knowing of tools that are not there.
    pub fn with_absent(self, absent: Vec<AbsentTools>) -> Self {
        Self { absent: absent.into(), ..self }
    }

    /// Why there is no tool of this name, if its server is known.
    pub fn absence_reason(&self, name: &str) -> Option<&str> {
        let absence = self.absent.iter().find(|absence| name.starts_with(&absence.prefix))?;
        Some(&absence.why)
    }

    /// The name of the tool that a call of this name means: that of its stand-in, also when there is no such tool just
    /// now, for whoever wants commands run elsewhere does not want them run here. A stand-in has none itself.
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

    /// The tools that the model is told about.
    pub fn offered(&self) -> impl Iterator<Item = &ToolRef> {
        let is_of_no_use = |tool: &ToolRef| self.unattended && tool.requires_attended_session();
        self.iter().filter(move |tool| !tool.is_hidden() && !is_of_no_use(tool))
    }
}

/// The candidate closest to `name`, if one is close enough to be a slip.
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
