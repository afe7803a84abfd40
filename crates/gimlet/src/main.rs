//! The binary: arguments, wiring, exit codes. Everything it does is in the rooms below.

mod args;
mod auto_mode;
mod config_cmd;
mod demo;
mod dev;
mod doctor;
mod lookup;
mod page;
mod permissions;
mod print;
mod report;
mod sandbox;
mod sdk;
mod sessions_cmd;
mod settings;
mod signals;
mod start;
mod surroundings;
mod trust;
mod welcome;
mod why;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use gimlet_model::ConfigError;
use gimlet_proto::Env;

use args::{Cli, Command, DevCommand, OutputFormat, PermissionsCommand, RunArgs, SandboxCommand};
use report::Report;
use surroundings::Surroundings;

fn main() -> ExitCode {
    // The process that keeps commands is this binary too; it must not get as far as anything below.
    gimlet_exec::run_custodian_if_asked();
    std::panic::set_hook(Box::new(|info| {
        gimlet_core::note_panic(info);
        say_on_stderr(&panic_line(info));
    }));
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let for_program = args::read_by_program(&arguments);
    let outcome = match parse(arguments) {
        Ok(cli) => run(cli),
        Err(exit) => {
            tell_program(&exit, for_program);
            Err(exit)
        }
    };
    let code = match outcome {
        Ok(code) => code,
        Err(Exit::Code(code)) => code,
        Err(Exit::Report(report)) => {
            say_on_stderr(&report.line());
            report.exit_code()
        }
    };
    let Some(error) = LOST.get() else { return code };
    say_on_stderr(&format!("gimlet: standard output cannot be written: {error}"));
    ExitCode::from(1)
}

enum Exit {
    Code(ExitCode),
    Report(Report),
}

impl From<Report> for Exit {
    fn from(report: Report) -> Self {
        Exit::Report(report)
    }
}

/// A program that wants a result for every failure gets one for arguments that make no sense, too.
fn tell_program(exit: &Exit, for_program: Option<bool>) {
    let wanted = || surroundings::environment().flag("CLAUDE_CODE_STARTUP_FAILURE_RESULTS");
    if let Exit::Report(report) = exit
        && let Some(as_list) = for_program
        && wanted()
    {
        let session = gimlet_store::new_session_id().to_string();
        tell_failure(report, &session, as_list);
    }
}

/// The result of a session that there was none of.
fn tell_failure(report: &Report, session: &str, as_list: bool) {
    let line = gimlet_serve::startup_failure(&report.text(), report.kind(), session);
    say(&if as_list { format!("[{line}]") } else { line });
}

fn parse(arguments: Vec<String>) -> Result<Cli, Exit> {
    let driven = args::is_driven(&arguments);
    // Programs pass on what their own callers gave them, also for features that are not there yet.
    let (arguments, without) = if driven { args::set_aside(arguments) } else { (arguments, Vec::new()) };
    let mut cli = parse_known(&arguments)?;
    cli.run.without = without;
    Ok(cli)
}

fn parse_known(arguments: &[String]) -> Result<Cli, Exit> {
    if let Some(problem) = args::refuse_unavailable(arguments) {
        return Err(Report::new(problem).hint("See 'gimlet --help' for what it can do").into());
    }
    let parsed = args::with_words_last(arguments);
    Cli::try_parse_from(std::iter::once("gimlet").chain(parsed.iter().map(String::as_str))).map_err(|error| {
        if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
            // A closed terminal is no reason to fail.
            drop(error.print());
            return Exit::Code(ExitCode::SUCCESS);
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            drop(error.print());
            return Exit::Code(ExitCode::from(1));
        }
        let text = in_one_line(&error.to_string());
        let report = mistyped_with_more(&text, arguments).or_else(|| stray_word(&text, arguments));
        report
            .unwrap_or_else(|| Report::new(text).hint(format!("See '{} --help'", args::command_named(arguments))))
            .into()
    })
}

/// A slip in the name of a command makes the words and flags behind it unknown. It is one where they fit the command that
/// is nearly named, or where nothing but a command has a second word.
fn mistyped_with_more(text: &str, arguments: &[String]) -> Option<Report> {
    let [word, more @ ..] = arguments else { return None };
    let (meant, report) = mistyped_command(word)?;
    let corrected = ["gimlet", &meant].into_iter().chain(more.iter().map(String::as_str));
    let fits = || Cli::try_parse_from(corrected).is_ok();
    (text.starts_with(STRAY_WORD) || fits()).then_some(report)
}

/// What the parser says of a word behind the prompt.
const STRAY_WORD: &str = "the subcommand '";

/// The parser takes a second word for a command. People who write one mean a prompt, or the filter of the log.
fn stray_word(text: &str, arguments: &[String]) -> Option<Report> {
    let word = text.strip_prefix(STRAY_WORD)?.split('\'').next()?;
    let before = arguments.iter().zip(arguments.iter().skip(1)).find(|(_, next)| *next == word).map(|(flag, _)| flag);
    if let Some(flag) = before.filter(|flag| *flag == "--debug" || *flag == "-d") {
        return Some(
            Report::new(format!("{flag} takes its filter after '=', so '{word}' is one word too many"))
                .hint(format!("Write --debug={word}")),
        );
    }
    Some(
        Report::new(format!("the prompt is one argument, and '{word}' is one word too many"))
            .hint("Put the prompt in quotes: gimlet -p \"what to do\""),
    )
}

/// What is wrong with the arguments, without the usage that the parser adds.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let said: Vec<&str> = lines.map(|line| line.trim_start_matches("error: ").trim_start_matches("tip: ")).collect();
    said.join("; ").replace(":; ", ": ")
}

fn run(cli: Cli) -> Result<ExitCode, Exit> {
    if cli.version {
        say(&format!("{} (gimlet {})", gimlet_proto::COMPAT_VERSION, gimlet_proto::VERSION));
        return Ok(ExitCode::SUCCESS);
    }
    match cli.command {
        Some(Command::Version) => {
            say(&full_version());
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Why(options)) => Ok(why::run(&options, &Surroundings::read()?)?),
        Some(Command::Sessions { command }) => Ok(sessions_cmd::run(&command, &Surroundings::read()?)?),
        Some(Command::Config { command }) => Ok(config_cmd::run(&command, &Surroundings::read()?)?),
        Some(Command::AutoMode { command }) => Ok(auto_mode::run(&command, &Surroundings::read()?)?),
        Some(Command::Trust(args)) => Ok(trust::run(&args, &Surroundings::read()?)?),
        Some(Command::Doctor { json }) => Ok(doctor::run(&Surroundings::read()?, json)),
        Some(Command::Demo) => {
            let env = surroundings::environment();
            gimlet_exec::conceal_credentials(&env);
            Ok(in_runtime(demo::run(&env))?)
        }
        Some(Command::Dev { command: DevCommand::ScriptedModel(options) }) => {
            Ok(in_runtime(dev::scripted_model(&options))?)
        }
        Some(Command::Permissions { command: PermissionsCommand::Check(options) }) => Ok(permissions::check(&options)?),
        Some(Command::Permissions { command: PermissionsCommand::Simulate(options) }) => {
            Ok(permissions::simulate(&options)?)
        }
        Some(Command::Sandbox { command: SandboxCommand::Run(args) }) => {
            Ok(in_runtime(sandbox::run(args, &Surroundings::read()?))?)
        }
        Some(Command::Sandbox { command: SandboxCommand::Explain(args) }) => {
            say(&gimlet_serve::sanitise(&in_runtime(sandbox::explain(&args, &Surroundings::read()?))?));
            Ok(ExitCode::SUCCESS)
        }
        None => session(&cli.run),
    }
}

fn session(run: &RunArgs) -> Result<ExitCode, Exit> {
    if run.print || run.is_driven() {
        return Ok(print_session(run)?);
    }
    if let Some((_, report)) = run.prompt.as_deref().and_then(mistyped_command) {
        return Err(report.into());
    }
    // Whoever gives a prompt and reads along with a program wants the answer.
    if run.prompt.is_some() && !io::stdout().is_terminal() {
        return Ok(print_session(&RunArgs { print: true, ..run.clone() })?);
    }
    without_print(run, &Surroundings::read()?)
}

/// One word that is nearly the name of a command is a slip and no prompt: the command that is meant, and what to say.
fn mistyped_command(word: &str) -> Option<(String, Report)> {
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let is_slip = !names.contains(&word) && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let meant = gimlet_core::tool::nearest(word, names).filter(|_| is_slip)?;
    let report = Report::new(format!("there is no command '{word}'"))
        .hint(format!("Did you mean 'gimlet {meant}'? A prompt needs -p"));
    Some((meant.to_owned(), report))
}

/// Print mode, and sessions that a program drives; a program that reads results gets one even when the session cannot start.
fn print_session(run: &RunArgs) -> Result<ExitCode, Report> {
    let mut listens = false;
    let outcome = Surroundings::read().and_then(|around| {
        // Commands may look at the process that starts them. No thread has been started yet.
        gimlet_exec::conceal_credentials(&around.env);
        // Whoever asks for a copy of the transcript on this command line wants one, whatever the surroundings say.
        let unkept = around.env.flag("CLAUDE_CODE_SKIP_PROMPT_HISTORY") && !run.session_mirror;
        let mut run = RunArgs { no_session_persistence: run.no_session_persistence || unkept, ..run.clone() };
        heed_environment(&mut run, &around.env)?;
        // A program that reads the answer is nobody to ask.
        let may_ask = !run.is_driven() && run.output_format == OutputFormat::Text;
        if may_ask && run.resume.as_deref() == Some("") {
            print::check_prompt(&run, &around)?;
            run.resume = Some(sessions_cmd::pick(&around)?);
        }
        let run = &run;
        if !run.is_driven() {
            return in_runtime(print::run(run, &around));
        }
        sdk::check(run, &around)?;
        listens = true;
        in_runtime(sdk::run(run, &around))
    });
    if let Err(report) = &outcome
        && run.output_format != OutputFormat::Text
    {
        let session = [&run.session_id, &run.resume].into_iter().flatten().find(|id| gimlet_store::is_session_id(id));
        let session = session.cloned().unwrap_or_else(|| gimlet_store::new_session_id().to_string());
        tell_failure(report, &session, run.output_format == OutputFormat::Json && run.verbose);
    }
    if outcome.is_err() && run.is_driven() && !listens {
        sdk::hear_out();
    }
    outcome
}

/// Variables that stand for flags which are not there yet are treated as those would be.
fn heed_environment(run: &mut RunArgs, env: &Env) -> Result<(), Report> {
    for (variable, flag) in args::set_by_environment(env) {
        if !run.is_driven() {
            let text = format!("{variable} stands for {flag}, which is not available in this version of gimlet");
            return Err(Report::new(text).hint(format!("Start it without {variable}")));
        }
        run.without.push(flag.to_owned());
    }
    Ok(())
}

/// What to say when no prompt mode was chosen, until there is a terminal UI.
fn without_print(run: &RunArgs, around: &Surroundings) -> Result<ExitCode, Exit> {
    let session = match (&run.resume, run.continue_session) {
        (Some(name), _) if name.is_empty() => " --resume".to_owned(),
        (Some(name), _) => format!(" --resume '{name}'"),
        (None, true) => " --continue".to_owned(),
        (None, false) => String::new(),
    };
    match welcome::has_credentials(around) {
        Ok(()) => Err(Report::new("the terminal UI is not there yet")
            .hint(format!("Use print mode: gimlet -p \"what to do\"{session}  (gimlet --help shows more)"))
            .into()),
        Err(ConfigError::MissingCredential) => {
            say_on_stderr(&welcome::three_ways());
            Err(Exit::Code(ExitCode::from(1)))
        }
        Err(error) => Err(Report::new(error.to_string()).into()),
    }
}

/// One thread drives everything; what blocks has threads of its own.
fn in_runtime<T>(work: impl Future<Output = Result<T, Report>>) -> Result<T, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Report::new(format!("gimlet cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // A read of standard input cannot be cancelled; do not wait for it.
    runtime.shutdown_background();
    result
}

/// A bug in one line: what and where. The work goes on where it can; a tool that panics fails its one call.
fn panic_line(info: &std::panic::PanicHookInfo<'_>) -> String {
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

fn say(text: &str) {
    heard(writeln!(io::stdout(), "{text}"));
}

/// Why something that was said is lost.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Whether something was written to standard output. Nobody reading is no failure of what was asked; whatever else is lost
/// makes the run one.
fn heard(written: io::Result<()>) -> bool {
    let is_written = written.is_ok();
    if let Some(error) = written.err().filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        // The first reason is enough.
        drop(LOST.set(error));
    }
    is_written
}

fn say_on_stderr(text: &str) {
    // Arguments are shown as they were given, and they may come from anywhere.
    drop(writeln!(io::stderr(), "{}", gimlet_serve::sanitise(text)));
}
