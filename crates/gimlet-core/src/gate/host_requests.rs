//! Requests of the driving program itself, decided by the rules of the session. The user is not asked: a call that
//! would need a question is refused, except where the program's own request is the answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_policy::{
    Behavior, Decision, PermissionUpdate, RuleScope, RuleSource, RuleValue, SandboxPlacement, UpdateDestination,
    Verdict, VerdictReason,
};
use gimlet_proto::{
    AccessNeed, AgentPath, DirectoryRequester, EventBody, Notice, NoticeLevel, PermissionMode, PermissionRuleView,
    PermissionsView, ServerRequest, SessionOverrides, provider_safe_name,
};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, to_string};

use super::decision_log::FinalDecision;
use super::policy_input::PolicyOutcome;
use super::{Gate, PolicyCall, lock};
use crate::call::CallScope;
use crate::panics::catch_panic;
use crate::services::SessionServices;
use crate::tool::{PermissionVerdict, ServerRequestFacts};

/// Tool whose rules apply to reading.
const READING: &str = "Read";

/// Permission for one request of the driving program. Like a [`Permit`](super::Permit), it cannot be created outside
/// the gate or used twice.
pub struct HostPermit {
    wish: ServerRequest,
}

impl HostPermit {
    /// Returns the request that it permits.
    pub fn into_request(self) -> ServerRequest {
        self.wish
    }
}

impl Gate {
    /// Returns the path, without symlinks, of a file that may be read without a question, or the reason why it may
    /// not. The mode does not count: a user who bypasses questions for the model has not opened everything to the
    /// program.
    pub(crate) fn resolve_readable(&self, services: &SessionServices, path: &Path) -> Result<PathBuf, String> {
        self.refresh_settings_without_hooks(services);
        let path = services.paths().expand_path(path);
        let needs = [AccessNeed::Read(path.clone())];
        let own = &PermissionVerdict::Passthrough;
        let judged =
            PolicyCall { tool: READING, also_named: &[], needs: &needs, input: None, needs_person: false, own };
        let PolicyOutcome { verdict, resolved, .. } =
            self.judge_host_request(PermissionMode::Default, services, judged);
        match verdict.decision {
            Decision::Allow => {}
            Decision::Deny => return Err(verdict.model_text(READING)),
            Decision::Ask => {
                return Err(format!("{} may not be read without asking: {}", path.display(), verdict.explain()));
            }
        }
        resolved.into_iter().next().map(|(_, real)| real).ok_or_else(|| format!("{} does not exist", path.display()))
    }

    /// Returns true if calls of this scope may read a file without a question, in the mode of the scope.
    pub(crate) fn may_read_unasked(&self, scope: &CallScope, path: &Path) -> bool {
        self.judge_reading(scope, path).0 == Decision::Allow
    }

    /// Returns the decision on reading a file in the mode of the scope, and the path with symlinks resolved.
    pub(super) fn judge_reading(&self, scope: &CallScope, path: &Path) -> (Decision, Option<PathBuf>) {
        let needs = [AccessNeed::Read(path.to_owned())];
        let own = &PermissionVerdict::Passthrough;
        let judged =
            PolicyCall { tool: READING, also_named: &[], needs: &needs, input: None, needs_person: false, own };
        let PolicyOutcome { verdict, resolved, .. } =
            self.judge_host_request(self.mode_for(scope), &scope.services, judged);
        (verdict.decision, resolved.into_iter().next().map(|(_, real)| real))
    }

    /// Permits the call of a server's tool by a hook, unless a rule or the server's configuration forbids it, or a rule
    /// wants a person asked about it: nobody is.
    pub(crate) fn permit_hook_request(
        &self,
        services: &SessionServices,
        wish: ServerRequest,
        sought: &ServerRequestFacts,
    ) -> Result<HostPermit, String> {
        self.permit_request(services, wish, sought, Decider::Hook)
    }

    /// Permits a request of the program to a server, unless a rule or the server's configuration forbids it.
    pub(crate) fn permit_server_request(
        &self,
        services: &SessionServices,
        wish: ServerRequest,
        sought: &ServerRequestFacts,
    ) -> Result<HostPermit, String> {
        self.permit_request(services, wish, sought, Decider::Host)
    }

    fn permit_request(
        &self,
        services: &SessionServices,
        wish: ServerRequest,
        sought: &ServerRequestFacts,
        decider: Decider,
    ) -> Result<HostPermit, String> {
        self.refresh_settings_without_hooks(services);
        let nothing = Map::new();
        let (tool, input, summary, refused) = match &wish {
            ServerRequest::Call { tool, input } => {
                (tool.clone(), input, to_string(input).unwrap_or_default(), "The tool did not run")
            }
            ServerRequest::Read { server, uri } => {
                (resource_rule_name(server), &nothing, uri.clone(), "The resource was not read")
            }
            // Rules are about requests of the model or the program. This call obtains the answer to a question, and
            // the answer is what is logged.
            ServerRequest::Decide { .. } => {
                return match &sought.verdict {
                    PermissionVerdict::Deny(why) => Err(format!("The tool did not run: {why}")),
                    PermissionVerdict::Ask(_) | PermissionVerdict::Passthrough => Ok(HostPermit { wish }),
                };
            }
        };
        let judged = PolicyCall {
            tool: &tool,
            also_named: &sought.also_named,
            needs: &[AccessNeed::Opaque],
            input: Some(input),
            needs_person: false,
            own: &sought.verdict,
        };
        let mut verdict = self.judge_host_request(PermissionMode::BypassPermissions, services, judged).verdict;
        let word = match verdict.decision {
            // The request of a program itself answers any question; that of a hook answers none.
            Decision::Ask if decider == Decider::Hook => FinalDecision::refused_by_policy(),
            Decision::Deny => FinalDecision::refused_by_policy(),
            Decision::Ask | Decision::Allow => FinalDecision::allowed_by(decider),
        };
        // It was decided in a mode that may differ from the session's; to list that mode as a reason would mislead.
        verdict.reasons.retain(|reason| !matches!(reason, VerdictReason::Mode(_)));
        self.ledger.record_host_request(services, self.mode(), (&tool, &summary), &verdict, &word);
        match verdict.decision {
            Decision::Deny => Err(format!("{refused}: {}", verdict.model_text(&tool))),
            Decision::Ask if decider == Decider::Hook => {
                Err(format!("{refused}: it needs a question, and nobody is asked about a hook: {}", verdict.explain()))
            }
            Decision::Ask | Decision::Allow => Ok(HostPermit { wish }),
        }
    }

    /// Adds a working directory for the rest of the session. One that a program wants must lie inside an existing one,
    /// so nothing becomes reachable that was not before; the user may name any.
    pub(crate) fn add_directory(
        &self,
        services: &SessionServices,
        directory: &Path,
        requester: DirectoryRequester,
    ) -> Result<PathBuf, String> {
        let paths = services.paths();
        let spelled = paths.expand_path(directory);
        let real = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let folder = real(&spelled)?;
        if !folder.is_dir() {
            return Err(format!("{} is no folder", spelled.display()));
        }
        let roots: Vec<PathBuf> = paths.roots.iter().filter_map(|root| real(root).ok()).collect();
        if roots.contains(&folder) {
            return Err(format!("{} is one of the session's folders already", folder.display()));
        }
        if requester == DirectoryRequester::Program && !roots.iter().any(|root| folder.starts_with(root)) {
            return Err(format!("{} lies outside the session's folders", folder.display()));
        }
        let directories = vec![folder.clone()];
        self.apply_update(
            services,
            &PermissionUpdate::AddDirectories { directories, destination: UpdateDestination::Session },
        )?;
        Ok(folder)
    }

    /// Returns the current rules and folders.
    pub(crate) fn permissions_view(&self, services: &SessionServices) -> PermissionsView {
        self.refresh_settings_without_hooks(services);
        let rules = self.rules();
        let of = |behavior: Behavior| {
            let view = move |rule: &gimlet_policy::Rule| PermissionRuleView {
                behavior: behavior.as_str(),
                source: public_source_name(&rule.source),
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

    /// Returns the rules and folders of this session alone, as changes that can be applied elsewhere, and the mode
    /// before planning.
    pub(crate) fn session_overrides(&self) -> (Vec<Arc<RawValue>>, PermissionMode) {
        let in_force = lock(&self.in_force);
        let destination = UpdateDestination::Session;
        let of = |behavior: Behavior| {
            let own = in_force.rules.rules(behavior).iter().filter(|rule| rule.source.scope == RuleScope::Session);
            let rules: Vec<RuleValue> = own.map(|rule| RuleValue::from_text(&rule.text)).collect();
            (!rules.is_empty()).then_some(PermissionUpdate::AddRules { rules, behavior, destination })
        };
        let rules = [Behavior::Deny, Behavior::Ask, Behavior::Allow].into_iter().filter_map(of);
        let directories = in_force.added.clone();
        let folders =
            (!directories.is_empty()).then_some(PermissionUpdate::AddDirectories { directories, destination });
        let changes = rules.chain(folders).filter_map(|update| to_raw_value(&update).ok()).map(Arc::from);
        (changes.collect(), in_force.before_plan)
    }

    /// Removes the rules that were added for this session and allow one of these names.
    pub(crate) fn revoke_session_rules(&self, services: &SessionServices, names: &[String]) {
        let rules = self.rules();
        let of_session = rules.rules(Behavior::Allow).iter().filter(|rule| rule.source.scope == RuleScope::Session);
        let named =
            of_session.map(|rule| RuleValue::from_text(&rule.text)).filter(|rule| names.contains(&rule.tool_name));
        let rules: Vec<RuleValue> = named.collect();
        if rules.is_empty() {
            return;
        }
        let (behavior, destination) = (Behavior::Allow, UpdateDestination::Session);
        if let Err(text) = self.apply_update(services, &PermissionUpdate::RemoveRules { rules, behavior, destination })
        {
            services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }

    /// Applies the overrides of the session before this one. Changes that fail are reported.
    pub(crate) fn adopt_overrides(&self, services: &SessionServices, standing: &SessionOverrides) {
        lock(&self.in_force).before_plan = standing.mode_before_plan;
        for change in &standing.changes {
            let update = serde_json::from_str(change.get()).map_err(|error| error.to_string());
            if let Err(why) = update.and_then(|update| self.apply_update(services, &update)) {
                let text = format!("a change of permissions was not taken over: {why}");
                services
                    .publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
            }
        }
    }

    fn judge_host_request(
        &self,
        mode: PermissionMode,
        services: &SessionServices,
        judged: PolicyCall<'_>,
    ) -> PolicyOutcome {
        let judge = || {
            self.with_policy_input_in_mode(mode, services, SandboxPlacement::None, |judging| {
                judging.judge(judged, None)
            })
        };
        catch_panic(judge).unwrap_or_else(|panicked| {
            panicked.log_for(services, &AgentPath::default(), "deciding for the driving program");
            PolicyOutcome { verdict: undecidable(), resolved: Vec::new(), closed: None }
        })
    }
}

/// Returns the verdict for a decision that itself failed.
pub(super) fn undecidable() -> Verdict {
    let reasons = vec![VerdictReason::Tool("deciding on it failed inside gimlet".to_owned())];
    Verdict { decision: Decision::Deny, reasons }
}

/// Returns the name under which rules decide on reading a server's resource: no tool can have it, so only rules about
/// the whole server apply.
fn resource_rule_name(server: &str) -> String {
    format!("mcp__{}__resources/read", provider_safe_name(server))
}

/// Returns the public name of a rule's source.
fn public_source_name(source: &RuleSource) -> &'static str {
    match source.scope {
        RuleScope::Managed => "policySettings",
        RuleScope::CommandLine if source.is_cli_flag() => "cliArg",
        RuleScope::CommandLine => "flagSettings",
        RuleScope::Local => "localSettings",
        RuleScope::Project => "projectSettings",
        RuleScope::User => "userSettings",
        RuleScope::Session | RuleScope::Hook => "session",
        RuleScope::Skill => "command",
    }
}
