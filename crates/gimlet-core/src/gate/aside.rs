//! What the driving program wants by itself, judged by the rules of the session. Nobody is asked: what would ask the
//! model's calls is no, except where the program's own wish is the answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_policy::{Behavior, Decision, Destination, PermissionUpdate, RuleScope, RuleValue, Walls};
use gimlet_proto::{AgentPath, Body, Level, Need, Notice, PermissionMode, PermissionsView, RuleView, Standing};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::judge::Judgement;
use super::{Gate, Judged, lock};
use crate::services::Services;
use crate::tool::PermissionVerdict;

/// The tool whose rules speak of reading.
const READING: &str = "Read";

impl Gate {
    /// The link-free path of a file that may be read without a question, or why it may not. The mode does not count:
    /// whoever bypasses questions of the model's has not given everything to the program.
    pub(crate) fn may_read(&self, services: &Services, path: &Path) -> Result<PathBuf, String> {
        self.refresh_unasked(services);
        let path = services.paths().expand(path);
        let needs = [Need::Read(path.clone())];
        let own = &PermissionVerdict::Passthrough;
        let judged = Judged { tool: READING, also_named: &[], needs: &needs, input: None, needs_person: false, own };
        let Judgement { verdict, resolved, .. } = self.judge_aside(PermissionMode::Default, services, judged);
        match verdict.decision {
            Decision::Allow => {}
            Decision::Deny => return Err(verdict.model_text(READING)),
            Decision::Ask => {
                return Err(format!("{} may not be read without asking: {}", path.display(), verdict.explain()));
            }
        }
        resolved.into_iter().next().map(|(_, real)| real).ok_or_else(|| format!("{} does not exist", path.display()))
    }

    /// Whether rules forbid a call of a server's tool that the program makes itself.
    pub(crate) fn may_call(
        &self,
        services: &Services,
        tool: &str,
        also_named: &[String],
        input: &Map<String, Value>,
    ) -> Result<(), String> {
        self.refresh_unasked(services);
        let mode = PermissionMode::BypassPermissions;
        let own = &PermissionVerdict::Passthrough;
        let judged = Judged { tool, also_named, needs: &[Need::Opaque], input: Some(input), needs_person: false, own };
        let judgement = self.judge_aside(mode, services, judged);
        match judgement.verdict.decision {
            Decision::Deny => Err(judgement.verdict.model_text(tool)),
            // The wish itself is the answer to whatever would ask.
            Decision::Ask | Decision::Allow => Ok(()),
        }
    }

    /// Works in a further folder for the rest of the session. It must lie inside one that the session works in already,
    /// so nothing comes within reach that was not before.
    pub(crate) fn add_directory(&self, services: &Services, directory: &Path) -> Result<PathBuf, String> {
        let paths = services.paths();
        let spelled = paths.expand(directory);
        let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let folder = real(&spelled)?;
        if !folder.is_dir() {
            return Err(format!("{} is no folder", spelled.display()));
        }
        let roots: Vec<PathBuf> = paths.roots.iter().filter_map(|root| real(root).ok()).collect();
        if roots.contains(&folder) {
            return Err(format!("{} is one of the session's folders already", folder.display()));
        }
        if !roots.iter().any(|root| folder.starts_with(root)) {
            return Err(format!("{} lies outside the session's folders", folder.display()));
        }
        let directories = vec![folder.clone()];
        self.apply(services, &PermissionUpdate::AddDirectories { directories, destination: Destination::Session })?;
        Ok(folder)
    }

    /// Rules and folders as they are now.
    pub(crate) fn view(&self, services: &Services) -> PermissionsView {
        self.refresh_unasked(services);
        let rules = self.rules();
        let of = |behavior: Behavior| {
            let view = move |rule: &gimlet_policy::Rule| RuleView {
                behavior: behavior.as_str(),
                source: public_source(rule.source.scope, &rule.source.label),
                rule: rule.text.clone(),
            };
            rules.rules(behavior).iter().map(view).collect::<Vec<_>>()
        };
        let added = lock(&self.in_force).added.clone();
        let paths = services.paths();
        PermissionsView {
            rules: [Behavior::Deny, Behavior::Ask, Behavior::Allow].into_iter().flat_map(of).collect(),
            directories: paths.roots.into_iter().skip(1).map(|root| (root.clone(), added.contains(&root))).collect(),
            start: paths.project_dir,
        }
    }

    /// What was said for this session alone, as changes that can be made elsewhere, and the mode before planning.
    pub(crate) fn standing(&self) -> (Vec<Arc<RawValue>>, PermissionMode) {
        let in_force = lock(&self.in_force);
        let destination = Destination::Session;
        let of = |behavior: Behavior| {
            let own = in_force.rules.rules(behavior).iter().filter(|rule| rule.source.scope == RuleScope::Session);
            let rules: Vec<RuleValue> = own.map(|rule| RuleValue::of_text(&rule.text)).collect();
            (!rules.is_empty()).then_some(PermissionUpdate::AddRules { rules, behavior, destination })
        };
        let rules = [Behavior::Deny, Behavior::Ask, Behavior::Allow].into_iter().filter_map(of);
        let directories = in_force.added.clone();
        let folders =
            (!directories.is_empty()).then_some(PermissionUpdate::AddDirectories { directories, destination });
        let changes = rules.chain(folders).filter_map(|update| to_raw_value(&update).ok()).map(Arc::from);
        (changes.collect(), in_force.before_plan)
    }

    /// Takes over what was said to the session before this one. What cannot be made is said.
    pub(crate) fn adopt(&self, services: &Services, standing: &Standing) {
        lock(&self.in_force).before_plan = standing.before_plan;
        for change in &standing.changes {
            let update = serde_json::from_str(change.get()).map_err(|error| error.to_string());
            if let Err(why) = update.and_then(|update| self.apply(services, &update)) {
                let text = format!("a change of permissions was not taken over: {why}");
                services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
            }
        }
    }

    fn judge_aside(&self, mode: PermissionMode, services: &Services, judged: Judged<'_>) -> Judgement {
        self.judging_in(mode, services, Walls::None, |judging| judging.judge(judged, None))
    }
}

/// The public name of where a rule comes from.
fn public_source(scope: RuleScope, label: &str) -> &'static str {
    match scope {
        RuleScope::Managed => "policySettings",
        // Flags that hold rules are named as such; the other source on the command line is a settings file.
        RuleScope::CommandLine if label.starts_with("--") && label != "--settings" => "cliArg",
        RuleScope::CommandLine => "flagSettings",
        RuleScope::Local => "localSettings",
        RuleScope::Project => "projectSettings",
        RuleScope::User => "userSettings",
        RuleScope::Session | RuleScope::Hook => "session",
        RuleScope::Skill => "command",
    }
}
