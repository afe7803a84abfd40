//! The Bash tool: runs one command text in a fresh shell.
//!
//! This file is the tool's contract; its submodules run the command and format the result. Nothing here decides if a
//! command may run or parses shell syntax: both belong to `gimlet_policy`. No file is written unless output is long or
//! a command goes to the background.

mod background;
#[cfg(test)]
pub(crate) mod command_harness;
mod command_result;
mod confinement_denial;
mod cwd;
mod exit_code;
mod file_effects;
mod git_operation;
mod image;
mod limits;
mod output;
mod output_window;
mod run;
mod script_caps;
mod self_kill;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use gimlet_core::SessionServices;
use gimlet_core::tool::{
    AgentAvailability, CallFailure, CallHint, ErrorClass, InputProblem, PathContext, PreviewContext, PromptContext,
    ResultCap, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_policy::shell::{ShellAnalysis, analyse};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::command_result::EXIT_CODE;
use self::limits::{BashLimits, LARGEST_OUTPUT};
use self::output::BashOutput;

/// Maximum leading `sleep` of a foreground call.
const LONGEST_SLEEP_SECONDS: f64 = 30.0;
/// Maximum length of a command shown as the call's summary.
const LONGEST_SUMMARY: usize = 300;
/// Space beside the output for the tool's own remarks.
const REMARKS: usize = 4_000;

const LEAVING: &str = "Only when a command failed because of that and cannot be done otherwise, run it again with \
                       `dangerouslyDisableSandbox`; the user is asked.";

/// Runs commands.
pub(crate) struct Bash;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BashInput {
    /// The command to run.
    command: String,
    /// Milliseconds after which the call no longer waits. Default and ceiling are in the description of the tool;
    /// larger values are lowered.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    /// What the command does, in 5 to 10 words.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Return at once and let the command go on. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_in_background: Option<bool>,
    /// Run outside the sandbox, where there is one. Default false.
    #[serde(rename = "dangerouslyDisableSandbox", skip_serializing_if = "Option::is_none")]
    dangerously_disable_sandbox: Option<bool>,
    /// Found out once and used by every question about the call.
    #[serde(skip)]
    analysis: OnceLock<Arc<ShellAnalysis>>,
}

impl BashInput {
    /// Returns the analysis of the command. The runtime prepares an input again when paths change, so the first
    /// analysis is kept.
    fn analysis(&self, cx: &PathContext) -> &Arc<ShellAnalysis> {
        self.analysis.get_or_init(|| Arc::new(analyse(&self.command, &cx.shell_facts())))
    }

    fn wants_background(&self) -> bool {
        self.run_in_background == Some(true)
    }

    /// Returns the model's description of the call, or the command.
    fn title(&self) -> String {
        let given = self.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        given.map_or_else(|| self.summary(), one_line)
    }

    fn summary(&self) -> String {
        one_line(&self.command)
    }
}

/// Returns the text on one line, truncated for display.
fn one_line(text: &str) -> String {
    let mut line = text.trim().lines().map(str::trim).collect::<Vec<_>>().join(" ⏎ ");
    if line.len() > LONGEST_SUMMARY {
        line.truncate(output_window::char_boundary_before(&line, LONGEST_SUMMARY));
        line.push('…');
    }
    line
}

/// Returns true if the call would wait for its leading `sleep`. One sent to the background with `&` is not waited for.
fn waits_for_sleep(command: &str) -> bool {
    let spaced = command.replace("&&", " ").replace(">&", " ").replace("&>", " ");
    command.trim_start().starts_with("sleep") && !spaced.contains('&')
}

/// Splits the exit code that a failure's first line states from the output after it.
fn split_exit_code(failure: &str) -> Option<(i32, &str)> {
    let (head, output) = failure.split_once('\n').unwrap_or((failure, ""));
    Some((head.strip_prefix(EXIT_CODE)?.trim().parse().ok()?, output))
}

impl Tool for Bash {
    const NAME: &'static str = "Bash";
    type Input = BashInput;
    type Output = BashOutput;

    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        const PLAIN: &str = include_str!("bash.md");
        const WITH_BACKGROUND: &str = concat!(include_str!("bash.md"), include_str!("bash/background.md"));
        let mut text = if cx.background { WITH_BACKGROUND } else { PLAIN }.trim_end().to_owned();
        if let Some(may_leave) = cx.sandbox {
            let leave = if may_leave { LEAVING } else { "There is no way out of it." };
            text += &include_str!("bash/sandbox.md").trim_end().replace("{leave}", leave);
        }
        let millis = |wanted| BashLimits::new(&cx.env, wanted).timeout.as_millis().to_string();
        text.replace("{default}", &millis(None)).replace("{ceiling}", &millis(Some(u64::MAX))).into()
    }

    fn hidden_parameters(&self, cx: &PromptContext) -> &'static [&'static str] {
        // The parameter is always accepted; the model sees it only where it has an effect.
        match (cx.background, cx.sandbox == Some(true)) {
            (true, true) => &[],
            (true, false) => &["dangerouslyDisableSandbox"],
            (false, true) => &["run_in_background"],
            (false, false) => &["dangerouslyDisableSandbox", "run_in_background"],
        }
    }

    /// Starts processes ahead of the call, because loading a shell takes longer than most commands. In the sandbox each
    /// command needs its own shell.
    fn anticipate(&self, sign: CallHint, services: &SessionServices) {
        match (sign, services.processes()) {
            (CallHint::PromptReady | CallHint::RequestSent, Ok((exec, _))) => exec.prestart_custodian(),
            // A confined shell is ready from the second confined command on; many sessions have none.
            (CallHint::ToolNamed, Ok((exec, shell))) if !services.is_sandboxed() => shell.prestart_shell(exec),
            _ => {}
        }
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "run shell commands"
    }

    /// Returns the command, and for a read-only one also each file it names: the gate resolves symlinks, the analysis
    /// cannot.
    fn needs(&self, input: &BashInput, cx: &PathContext) -> Vec<AccessNeed> {
        let analysis = input.analysis(cx);
        let mut needs = vec![AccessNeed::Run(input.command.clone())];
        if analysis.read_only {
            needs.extend(analysis.reads.iter().cloned().map(AccessNeed::Read));
        }
        needs
    }

    fn is_read_only(&self, input: &BashInput, cx: &PathContext) -> bool {
        input.analysis(cx).read_only
    }

    fn is_destructive(&self, input: &BashInput, cx: &PathContext) -> bool {
        input.analysis(cx).destructive
    }

    fn is_concurrency_safe(&self, input: &BashInput, cx: &PathContext) -> bool {
        !input.wants_background() && self.is_read_only(input, cx)
    }

    fn validate_input(&self, input: &BashInput, cx: &PathContext) -> Result<(), InputProblem> {
        if input.command.trim().is_empty() {
            return Err(InputProblem::new(1, "`command` is empty: give the command to run"));
        }
        if input.command.contains('\0') {
            return Err(InputProblem::new(2, "`command` contains a NUL character, which no shell can be given"));
        }
        if input.wants_background() {
            return match BashLimits::allows_background(&cx.env) {
                true => Ok(()),
                false => Err(InputProblem::new(
                    3,
                    "background commands are switched off: run the command without `run_in_background`",
                )),
            };
        }
        let seconds = input.analysis(cx).starts_with_sleep.unwrap_or(0.0);
        if seconds > LONGEST_SLEEP_SECONDS && waits_for_sleep(&input.command) {
            return Err(InputProblem::new(
                4,
                format!(
                    "the command would only wait for {seconds} s; at most {LONGEST_SLEEP_SECONDS} s are allowed. To wait \
                     for something, run a loop that checks for it with `run_in_background`; you are told when it ends."
                ),
            ));
        }
        Ok(())
    }

    fn description(&self, input: &BashInput, _cx: &PathContext) -> String {
        input.summary()
    }

    fn preview(&self, input: &BashInput, _cx: &PreviewContext) -> View {
        View::Terminal { command: input.command.clone(), output: String::new(), exit_code: None }
    }

    fn failure_view(&self, input: &BashInput, failure: &CallFailure<'_>) -> View {
        match failure.class {
            ErrorClass::ExecFailed | ErrorClass::TimedOut | ErrorClass::Interrupted => {
                let (exit_code, output) =
                    split_exit_code(failure.text).map_or((None, failure.text), |(code, output)| (Some(code), output));
                View::Terminal { command: input.command.clone(), output: output.to_owned(), exit_code }
            }
            _ => View::Text(failure.text.to_owned()),
        }
    }

    fn auto_classifier_input(&self, input: &BashInput) -> String {
        match input.dangerously_disable_sandbox {
            Some(true) => format!("{}\n(to run outside the sandbox)", input.command),
            Some(false) | None => input.command.clone(),
        }
    }

    /// Returns the upper bound of the output limit; output within the limit is not truncated.
    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Chars(LARGEST_OUTPUT + REMARKS)
    }

    fn eager_input(&self) -> bool {
        true
    }

    async fn call(&self, input: BashInput, cx: &ToolContext) -> Result<ToolResult<BashOutput>, ToolError> {
        run::run(&input, cx).await
    }

    fn parse_output(&self, json: &str) -> Option<BashOutput> {
        BashOutput::parse_foreign(json)
    }

    fn to_blocks(&self, output: &BashOutput) -> ResultContent {
        output.for_model()
    }

    fn view(&self, input: &BashInput, output: &BashOutput) -> View {
        output.for_people(&input.command)
    }
}
