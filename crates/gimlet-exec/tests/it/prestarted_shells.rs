//! A shell that was started before its command is known does with it what any other does.

use std::time::{Duration, Instant};

use gimlet_exec::{CommandEnd, FinishedCommand, ForegroundCommand, ShellCommand, render_for_model};

use crate::common::{PATIENCE, TestSession, base_env, find_alive, is_alive, kill_9, wait_until};
use crate::shell_commands::FORMS_OF_EXIT;

/// What only a shell that waited has on its command line.
const WAITED: &str = ". /dev/stdin;";

/// Sees to it that a shell waits; gives its number.
async fn start_waiting_shell(session: &TestSession) -> u32 {
    session.shell.prestart_shell(&session.exec);
    let by = Instant::now() + PATIENCE;
    loop {
        // It is known here a moment after it is there.
        let custodian = session.exec.custodian_pid();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if let Some([waiting]) = custodian.map(waiting_shells_below).as_deref() {
            return u32::try_from(*waiting).unwrap();
        }
        assert!(Instant::now() < by, "no shell waits");
    }
}

/// Runs a command in a shell that waits for it.
async fn run_in_waiting_shell(session: &TestSession, text: &str) -> FinishedCommand {
    let waiting = start_waiting_shell(session).await;
    let mut command = session.foreground(text).await;
    assert_eq!(command.pid(), waiting, "the shell that waited takes the command");
    tokio::time::timeout(PATIENCE, command.finish()).await.unwrap()
}

/// Shells that wait below a custodian.
fn waiting_shells_below(custodian: u32) -> Vec<i32> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let below = |pid: &i32| parent(*pid).and_then(parent) == Some(custodian as i32);
    find_alive(WAITED).into_iter().filter(below).collect()
}

pub(crate) async fn a_shell_that_waited_is_like_any_other() {
    // What differs between any two shells is left out.
    let volatile = "BASHPID|PPID|RANDOM|SRANDOM|EPOCH|BASH_EXECUTION_STRING|BASH_ARG|__gimlet|GIMLET_CUSTODY|_=|DIRSTACK|HISTCMD|SECONDS";
    let state = format!("declare -p | grep -Ev '{volatile}'; set +o; shopt -p; env | grep -Ev '^_=|CUSTODY' | sort");
    let texts = [
        state.as_str(),
        "echo $# \"[$0]\" $- $LINENO $SECONDS $SHLVL; umask; ulimit -a | grep -v locks; trap; jobs; hash; alias; declare -F",
        "echo \"[$PWD]\" \"[${OLDPWD-none}]\"; pwd; cd /usr; echo \"$OLDPWD\"; env | grep PWD; cd -",
        "readlink /proc/self/fd/0; cat; for fd in /proc/self/fd/*; do echo ${fd##*/}; done",
        "echo one\necho two >&2\nnothing-of-this-name\necho $LINENO; exit 5",
        "echo 'a '\\''quoted'\\'' word' \"$(printf '%s' '\\')\" `echo x` \"ünï\t\"",
        "set -- a b; echo $1 $#; f() { echo $FUNCNAME ${BASH_SOURCE[0]-none}; }; f; caller; kill -l | head -1",
        "read -r x; echo $? \"[$x]\"; exec 3>/dev/null; echo hi >&3; ps -o args= -p $$ | grep -c bash",
        "case x in x) echo ok;; esac <<E\nhere\nE\nif then",
    ];
    let olds = [base_env(), base_env().with("OLDPWD", "/usr/bin"), base_env().with("BASH_ENV", "/etc/profile")];
    for env in olds {
        for text in texts {
            let (plain, waited) = (TestSession::with_env(env.clone()), TestSession::with_prestart(env.clone()));
            let seen = |finished: &FinishedCommand, session: &TestSession| {
                let said = render_for_model(&finished.output.head).replace(&*session.path().to_string_lossy(), "HERE");
                (
                    said,
                    matches!(finished.end, CommandEnd::Exited(exit) if exit.code.is_some()),
                    finished.cwd().is_some(),
                )
            };
            let (one, other) = (plain.run(text).await, run_in_waiting_shell(&waited, text).await);
            assert_eq!(seen(&one, &plain), seen(&other, &waited), "{text}");
        }
    }
}

pub(crate) async fn it_reports_its_directory_in_every_form_of_exit() {
    let session = TestSession::with_prestart(base_env());
    for (text, code) in FORMS_OF_EXIT {
        let finished = run_in_waiting_shell(&session, text).await;
        assert!(
            matches!(finished.end, CommandEnd::Exited(exit) if exit.code == Some(*code)),
            "{text}: {:?}",
            finished.end
        );
        assert_eq!(finished.cwd(), Some("/usr".into()), "{text}");
    }
}

pub(crate) async fn it_is_used_once_and_the_next_one_follows() {
    let session = TestSession::with_prestart(base_env());
    let mut shells = Vec::new();
    for _ in 0..4 {
        shells.push(render_for_model(&run_in_waiting_shell(&session, "echo $$ ${left-}; left=1").await.output.head));
    }
    shells.dedup();
    assert_eq!(shells.len(), 4, "{shells:?}");
}

/// A model that answers at once names its command before the shell is there.
pub(crate) async fn it_takes_a_command_that_comes_while_it_starts() {
    for _ in 0..5 {
        let session = TestSession::with_prestart(base_env());
        session.shell.prestart_shell(&session.exec);
        // It says itself what it is: from outside, a process that is just starting has no words yet.
        let mut command = session.foreground("tr '\\0' ' ' < /proc/$$/cmdline").await;
        let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
        let line = render_for_model(&finished.output.head);
        assert!(line.contains(WAITED), "{line}");
    }
}

pub(crate) async fn one_that_is_gone_or_has_an_old_environment_is_not_used() {
    let session = TestSession::with_prestart(base_env());
    start_waiting_shell(&session).await;
    session.shell.set_environment(&base_env().with("NEW", "yes"));
    assert_eq!(session.output_of("echo $NEW").await, "yes");

    let session = TestSession::with_prestart(base_env());
    for _ in 0..3 {
        let shell = start_waiting_shell(&session).await;
        kill_9(shell);
        wait_until("it is gone", || !is_alive(shell)).await;
        assert_eq!(session.output_of("echo still here").await, "still here");
    }
}

pub(crate) async fn it_keeps_nothing_busy_and_ends_with_the_session() {
    let session = TestSession::with_prestart(base_env());
    session.run("true").await;
    let waiting = start_waiting_shell(&session).await;
    assert_eq!(std::fs::read_link(format!("/proc/{waiting}/cwd")).unwrap(), std::path::Path::new("/"));
    let begun = Instant::now();
    session.exec.shutdown(Duration::from_secs(60)).await;
    assert!(begun.elapsed() < Duration::from_secs(30), "it does not use up the grace");
    assert!(!is_alive(waiting));
}

pub(crate) async fn a_long_command_and_an_odd_directory_are_no_trouble() {
    let session = TestSession::with_prestart(base_env());
    let first = start_waiting_shell(&session).await;
    let long = format!("echo start; : {}; echo end", "x".repeat(100_000));
    assert_eq!(session.output_of(&long).await, "start\nend");
    // The shell waits on, for one that fits.
    assert_eq!(start_waiting_shell(&session).await, first);

    let odd = session.path().join("it's \"a\" $dir\n-");
    std::fs::create_dir(&odd).unwrap();
    let command = ShellCommand { text: "pwd", cwd: &odd, env: Vec::new() };
    let run = session.shell.start(&session.exec, command).await.unwrap();
    assert_eq!(run.running.pid, first);
    let mut command = ForegroundCommand::new(run.running, session.limits());
    let finished = tokio::time::timeout(PATIENCE, command.finish()).await.unwrap();
    assert_eq!(finished.cwd(), Some(odd));
}

pub(crate) async fn where_something_stands_before_the_shell_none_waits() {
    let session = TestSession::with_prestart(base_env().with("CLAUDE_CODE_SHELL_PREFIX", "/usr/bin/env"));
    session.shell.prestart_shell(&session.exec);
    assert_eq!(session.exec.custodian_pid(), None, "nothing was started");
    session.run("true").await;
    let custodian = session.exec.custodian_pid().unwrap();
    assert!(waiting_shells_below(custodian).is_empty(), "none waits beside a command either");
}
