//! Skills: texts of users, projects and gimlet itself that tell the model how to do something. The user types one as a
//! command, or the model loads it with a tool; either way its rendered text becomes one message of the conversation.
//!
//! Files are read elsewhere. Commands inside a text run only if the gate allows them without a question, and what a
//! skill grants or changes holds for the turn that loads it.

mod argument_substitution;
mod inline_command;
mod live_skill_set;
mod loaded_skills;
mod session_skill;
mod skill_command;
mod skill_expansion;
mod skill_loading;
mod skill_set;
mod turn_grants;
mod typed_skills;

pub use live_skill_set::LiveSkillSet;
pub(crate) use loaded_skills::{LoadedSkills, find_loaded_skills};
pub use session_skill::{SessionSkill, SkillSource};
pub use skill_command::SkillCommand;
pub(crate) use skill_expansion::ExpandedSkill;
pub use skill_loading::SkillLoad;
pub use skill_set::SkillSet;
pub(crate) use turn_grants::TurnGrants;
pub(crate) use typed_skills::{TypedSkills, parse_typed_skills};
