//! The binary: arguments, wiring, exit codes. The work is done in its modules.

mod args;
mod auto_mode_cmd;
mod completions_cmd;
mod config_cmd;
mod context_cmd;
mod cost_cmd;
mod demo_cmd;
mod dev_cmd;
mod doctor_cmd;
mod environment;
mod first_run;
mod hooks_cmd;
mod interactive_mode;
mod mcp_cmd;
mod memory_list;
mod permissions_cmd;
mod plugin_cmd;
mod print_mode;
mod report;
mod sandbox_cmd;
mod sdk_mode;
mod session_commands;
mod sessions_cmd;
mod signals;
mod terminal_text;
mod trust_cmd;
mod why_cmd;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use gimlet_model::ProviderConfigError;

use args::{CliArgs, CliCommand, DevCommand, OutputFormat, PermissionsCommand, RunArgs, SandboxCommand};
use report::Report;

fn main() -> ExitCode {
    // The custodian process is this binary too; it must not get past this point.
    gimlet_exec::run_custodian_if_asked();
    std::panic::set_hook(Box::new(|info| {
        gimlet_core::note_panic(info);
        // While the terminal UI is shown, a line would only disturb it; the session reports a panic of its own, and one
        // that ends gimlet is printed once the terminal is back.
        if gimlet_tui::screen::terminal_mode::is_taken() {
            return interactive_mode::note_panic(format_panic(info));
        }
        print_error_line(&format_panic(info));
    }));
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let for_program = args::program_expects_list(&arguments);
    let outcome = match parse_args(arguments) {
        Ok((cli, ignored_flags)) => run_cli(cli, ignored_flags),
        Err(exit) => {
            report_to_program(&exit, for_program);
            Err(exit)
        }
    };
    let code = match outcome {
        Ok(code) => code,
        Err(EarlyExit::Code(code)) => code,
        Err(EarlyExit::Report(report)) => {
            print_error_line(&report.line());
            report.exit_code()
        }
    };
    let Some(error) = LOST.get() else { return code };
    print_error_line(&format!("gimlet: standard output cannot be written: {error}"));
    ExitCode::from(1)
}

enum EarlyExit {
    Code(ExitCode),
    Report(Report),
}

impl From<Report> for EarlyExit {
    fn from(report: Report) -> Self {
        EarlyExit::Report(report)
    }
}

/// Prints a result for invalid arguments, too, if a program expects one for every failure.
fn report_to_program(exit: &EarlyExit, for_program: Option<bool>) {
    let wanted = || environment::read_environment().flag("CLAUDE_CODE_STARTUP_FAILURE_RESULTS");
    if let EarlyExit::Report(report) = exit
        && let Some(as_list) = for_program
        && wanted()
    {
        let session = gimlet_store::new_session_id().to_string();
        print_failure_result(report, &session, as_list);
    }
}

/// Prints the failure result of a session that could not start.
fn print_failure_result(report: &Report, session: &str, as_list: bool) {
    let line = gimlet_serve::startup_failure_line(&report.text(), report.kind(), session);
    print_line(&if as_list { format!("[{line}]") } else { line });
}

/// Returns the parsed arguments, and the flags that were ignored.
fn parse_args(arguments: Vec<String>) -> Result<(CliArgs, Vec<String>), EarlyExit> {
    let driven = args::is_driven(&arguments);
    // Programs pass on their callers' flags, including those of features that do not exist yet.
    let (arguments, without) = if driven { args::remove_unavailable(arguments) } else { (arguments, Vec::new()) };
    Ok((parse_known_args(&arguments)?, without))
}

fn parse_known_args(arguments: &[String]) -> Result<CliArgs, EarlyExit> {
    if let Some(problem) = args::refuse_unavailable(arguments) {
        return Err(Report::new(problem).with_hint("See 'gimlet --help' for what it can do").into());
    }
    let parsed = args::separate_search_words(arguments);
    CliArgs::try_parse_from(std::iter::once("gimlet").chain(parsed.iter().map(String::as_str))).map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            // A closed terminal is no reason to fail.
            drop(error.print());
            return EarlyExit::Code(ExitCode::SUCCESS);
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            drop(error.print());
            return EarlyExit::Code(ExitCode::from(1));
        }
        let text = condense_clap_error(&error.to_string());
        let report = check_mistyped_command(&text, arguments).or_else(|| explain_stray_word(&text, arguments));
        report
            .unwrap_or_else(|| Report::new(text).with_hint(format!("See '{} --help'", args::command_path(arguments))))
            .into()
    })
}

/// Detects a mistyped command name, which makes the words and flags after it unknown. It counts as one if they fit the
/// command with the closest name, or if only a command can have a second word.
fn check_mistyped_command(text: &str, arguments: &[String]) -> Option<Report> {
    let [word, more @ ..] = arguments else { return None };
    let (meant, report) = nearest_command(word)?;
    let corrected = ["gimlet", &meant].into_iter().chain(more.iter().map(String::as_str));
    let fits = || CliArgs::try_parse_from(corrected).is_ok();
    (text.starts_with(STRAY_WORD) || fits()).then_some(report)
}

/// Beginning of the parser's error for a word after the prompt.
const STRAY_WORD: &str = "the subcommand '";

/// Explains a second word, which the parser takes for a command: users mean a prompt, or the filter of the log.
fn explain_stray_word(text: &str, arguments: &[String]) -> Option<Report> {
    let word = text.strip_prefix(STRAY_WORD)?.split('\'').next()?;
    let before = arguments.iter().zip(arguments.iter().skip(1)).find(|(_, next)| *next == word).map(|(flag, _)| flag);
    if let Some(flag) = before.filter(|flag| *flag == "--debug" || *flag == "-d") {
        return Some(
            Report::new(format!("{flag} takes its filter after '=', so '{word}' is one word too many"))
                .with_hint(format!("Write --debug={word}")),
        );
    }
    Some(
        Report::new(format!("the prompt is one argument, and '{word}' is one word too many"))
            .with_hint("Put the prompt in quotes: gimlet -p \"what to do\""),
    )
}

/// Returns the parser's error without the usage text.
fn condense_clap_error(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let said: Vec<&str> = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: ")).collect();
    said.join("; ").replace(":; ", ": ")
}

fn run_cli(cli: CliArgs, ignored_flags: Vec<String>) -> Result<ExitCode, EarlyExit> {
    if cli.version {
        print_line(&format!("{} (gimlet {})", gimlet_proto::COMPAT_VERSION, gimlet_proto::VERSION));
        return Ok(ExitCode::SUCCESS);
    }
    match cli.command {
        Some(CliCommand::Version) => {
            print_line(&full_version());
            Ok(ExitCode::SUCCESS)
        }
        Some(CliCommand::Why(options)) => Ok(why_cmd::run(&options, &environment::read_process_env()?)?),
        Some(CliCommand::Sessions { command }) => Ok(sessions_cmd::run(&command, &environment::read_process_env()?)?),
        Some(CliCommand::Cost(args)) => Ok(cost_cmd::run(&args, &environment::read_process_env()?)?),
        Some(CliCommand::Context(args)) => Ok(context_cmd::run(&args, &environment::read_process_env()?)?),
        Some(CliCommand::Config { command }) => Ok(config_cmd::run(&command, &environment::read_process_env()?)?),
        Some(CliCommand::AutoMode { command }) => Ok(auto_mode_cmd::run(&command, &environment::read_process_env()?)?),
        Some(CliCommand::Trust(args)) => Ok(trust_cmd::run(&args, &environment::read_process_env()?)?),
        Some(CliCommand::Mcp { command }) => {
            Ok(run_in_runtime(mcp_cmd::run(command, environment::read_process_env()?))?)
        }
        Some(CliCommand::Plugin { command }) => Ok(plugin_cmd::run(&command, &environment::read_process_env()?)?),
        Some(CliCommand::Hooks { command }) => {
            Ok(run_in_runtime(hooks_cmd::run(command, environment::read_process_env()?))?)
        }
        Some(CliCommand::Doctor { json }) => Ok(doctor_cmd::run(&environment::read_process_env()?, json)),
        Some(CliCommand::Completions { shell }) => {
            completions_cmd::print_completions(shell);
            Ok(ExitCode::SUCCESS)
        }
        Some(CliCommand::ManPages { dir }) => {
            completions_cmd::write_man_pages(&dir)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(CliCommand::Demo) => {
            let env = environment::read_environment();
            gimlet_exec::hide_credentials(&env);
            Ok(run_in_runtime(demo_cmd::run(&env))?)
        }
        Some(CliCommand::Dev { command: DevCommand::ScriptedModel(options) }) => {
            Ok(run_in_runtime(dev_cmd::serve_scripted_model(&options))?)
        }
        Some(CliCommand::Permissions { command: PermissionsCommand::Check(options) }) => {
            Ok(permissions_cmd::check_call(&options)?)
        }
        Some(CliCommand::Permissions { command: PermissionsCommand::Simulate(options) }) => {
            Ok(permissions_cmd::simulate(&options)?)
        }
        Some(CliCommand::Sandbox { command: SandboxCommand::Run(args) }) => {
            Ok(run_in_runtime(sandbox_cmd::run(args, &environment::read_process_env()?))?)
        }
        Some(CliCommand::Sandbox { command: SandboxCommand::Explain(args) }) => {
            print_line(&gimlet_serve::sanitise(&run_in_runtime(sandbox_cmd::explain(
                &args,
                &environment::read_process_env()?,
            ))?));
            Ok(ExitCode::SUCCESS)
        }
        None => run_session(&cli.run, ignored_flags),
    }
}

fn run_session(run: &RunArgs, ignored_flags: Vec<String>) -> Result<ExitCode, EarlyExit> {
    if run.print || run.init_only || run.is_driven() {
        return Ok(run_headless_session(run, ignored_flags)?);
    }
    if let Some(report) = run.prompt.as_deref().and_then(explain_bare_word) {
        return Err(report.into());
    }
    // A prompt with output to a pipe means print mode.
    if run.prompt.is_some() && !io::stdout().is_terminal() {
        return Ok(run_headless_session(&RunArgs { print: true, ..run.clone() }, ignored_flags)?);
    }
    run_terminal_session(run, ignored_flags)
}

/// Returns the report for a single word that is no command: more likely a command was meant than a prompt.
fn explain_bare_word(word: &str) -> Option<Report> {
    let is_bare = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
    if !is_bare {
        return None;
    }
    if let Some((_, report)) = nearest_command(word) {
        return Some(report);
    }
    let command = CliArgs::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let commands = names.join(", ");
    let hint = format!("To send it as a prompt: gimlet -p {word:?}. The commands are {commands}");
    Some(Report::new(format!("there is no command '{word}'")).with_hint(hint))
}

/// Returns the command that a mistyped word means, with a report: such a word is not a prompt.
fn nearest_command(word: &str) -> Option<(String, Report)> {
    let command = CliArgs::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let is_slip = !names.contains(&word) && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    if !is_slip {
        return None;
    }
    let meant = gimlet_core::tool::nearest_name(word, names)?;
    let report = Report::new(format!("there is no command '{word}'"))
        .with_hint(format!("Did you mean 'gimlet {meant}'? To send it as a prompt: gimlet -p {word:?}"));
    Some((meant.to_owned(), report))
}

/// Runs print mode and driven sessions; a program that reads results gets one even when the session cannot start.
fn run_headless_session(run: &RunArgs, ignored_flags: Vec<String>) -> Result<ExitCode, Report> {
    let mut listens = false;
    let outcome = environment::read_process_env().and_then(|around| {
        // Commands may inspect their parent process. No thread has been started yet.
        gimlet_exec::hide_credentials(&around.env);
        // A flag for a copy of the transcript overrides the environment.
        let unkept = around.env.flag("CLAUDE_CODE_SKIP_PROMPT_HISTORY") && !run.session_mirror;
        let mut run = RunArgs {
            no_session_persistence: run.no_session_persistence || unkept,
            safe_mode: run.safe_mode || around.env.flag("CLAUDE_CODE_SAFE_MODE"),
            bare: run.bare || around.env.flag("CLAUDE_CODE_SIMPLE"),
            ..run.clone()
        };
        // With a program as the reader of the answer there is no user to ask.
        let may_ask = !run.is_driven() && run.output_format == OutputFormat::Text;
        if may_ask && run.resume.as_deref() == Some("") {
            print_mode::check_prompt(&run, &around)?;
            run.resume = Some(sessions_cmd::pick_session(&around)?);
        }
        let (run, request) = (&run, &run.to_launch_request(ignored_flags));
        if !run.is_driven() {
            return run_in_runtime(print_mode::run(run, request, &around));
        }
        sdk_mode::check_start(run, request, &around)?;
        listens = true;
        run_in_runtime(sdk_mode::run(run, request, &around))
    });
    if let Err(report) = &outcome
        && run.output_format != OutputFormat::Text
    {
        let session = [&run.session_id, &run.resume].into_iter().flatten().find(|id| gimlet_store::is_session_id(id));
        let session = session.cloned().unwrap_or_else(|| gimlet_store::new_session_id().to_string());
        print_failure_result(report, &session, run.output_format == OutputFormat::Json && run.verbose);
    }
    if outcome.is_err() && run.is_driven() && !listens {
        sdk_mode::read_first_line();
    }
    outcome
}

/// Runs the terminal UI, or says what it lacks.
fn run_terminal_session(run: &RunArgs, ignored_flags: Vec<String>) -> Result<ExitCode, EarlyExit> {
    let around = environment::read_process_env()?;
    let unkept = around.env.flag("CLAUDE_CODE_SKIP_PROMPT_HISTORY");
    let run = &RunArgs {
        no_session_persistence: run.no_session_persistence || unkept,
        safe_mode: run.safe_mode || around.env.flag("CLAUDE_CODE_SAFE_MODE"),
        bare: run.bare || around.env.flag("CLAUDE_CODE_SIMPLE"),
        ..run.clone()
    };
    let has_terminal = interactive_mode::has_terminal(&around);
    let advice = match first_run::check_credentials(&around) {
        Ok(()) => None,
        // Who can be asked for a key is asked; whoever resumes a session has one somewhere.
        Err(ProviderConfigError::MissingCredential { .. }) if has_terminal && run.resume.as_deref() != Some("") => {
            Some(first_run::login_advice(&around.env))
        }
        Err(ProviderConfigError::MissingCredential { .. }) => {
            print_error_line(&first_run::setup_instructions(&around.env));
            return Err(EarlyExit::Code(ExitCode::from(1)));
        }
        Err(error) => return Err(Report::new(error.to_string()).into()),
    };
    if !has_terminal {
        // A terminal that cannot move its cursor still shows lines.
        if run.prompt.is_some() && io::stdout().is_terminal() {
            return Ok(run_headless_session(&RunArgs { print: true, ..run.clone() }, ignored_flags)?);
        }
        let session = match (&run.resume, run.continue_session) {
            (Some(name), _) if name.is_empty() => " --resume".to_owned(),
            (Some(name), _) => format!(" --resume '{name}'"),
            (None, true) => " --continue".to_owned(),
            (None, false) => String::new(),
        };
        return Err(Report::new("the terminal UI needs a terminal for input and output, and TERM must not be dumb")
            .with_hint(format!("Use print mode: gimlet -p \"what to do\"{session}  (gimlet --help shows more)"))
            .into());
    }
    // Commands may inspect their parent process. No thread has been started yet.
    gimlet_exec::hide_credentials(&around.env);
    let request = run.to_launch_request(ignored_flags);
    Ok(run_in_runtime(interactive_mode::run(run, &request, &around, advice))?)
}

/// Runs the work on a single-threaded runtime; blocking work has its own threads.
fn run_in_runtime<T>(work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Report::new(format!("gimlet cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // A read of standard input cannot be cancelled; do not wait for it.
    runtime.shutdown_background();
    result
}

/// Formats a panic in one line: message and location. Work continues where it can; a tool that panics fails only its
/// call.
fn format_panic(info: &std::panic::PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    format!("gimlet: internal error in {place}: {}. Please report this", text.unwrap_or("no message"))
}

fn full_version() -> String {
    format!(
        "gimlet {}\ncompatible with version {} of the reference CLI\n{} {}",
        gimlet_proto::VERSION,
        gimlet_proto::COMPAT_VERSION,
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

fn print_line(text: &str) {
    record_write_result(writeln!(io::stdout(), "{text}"));
}

/// First error that lost output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Returns true if the write to standard output succeeded. A closed pipe is not a failure; any other lost output makes
/// the run fail.
fn record_write_result(written: io::Result<()>) -> bool {
    let is_written = written.is_ok();
    if let Some(error) = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        // The first error is enough.
        drop(LOST.set(error));
    }
    is_written
}

/// Prints remarks of a session that is over.
fn print_remarks(remarks: &[String]) {
    remarks.iter().for_each(|remark| print_error_line(&format!("gimlet: {remark}")));
}

fn print_error_line(text: &str) {
    // Arguments are untrusted text.
    drop(writeln!(io::stderr(), "{}", gimlet_serve::sanitise(text)));
}
