//! Nothing outlives what it belongs to, however it tries and whoever is killed.

use std::time::{Duration, Instant};

use gimlet_exec::{
    CommandEnd, CustodianProgram, Exec, ExecConfig, ExecError, ShellCommand, SweepReport, sweep_orphans,
};

use crate::common::{
    PATIENCE, TestSession, VictimProcess, base_env, children_of, exec, find_alive, is_alive, kill_9, plain_spawn,
    shell, unique_sleep_seconds, wait_for_line, wait_until, working_keepers,
};

/// Every way of getting away from a parent, with the sleeper that tries it. Ends with `up`, then stays.
pub(crate) fn escaping_processes_script(sleep: &str) -> String {
    let forms = [
        format!("sleep {sleep} &"),
        format!("setsid sleep {sleep} &"),
        format!("nohup sleep {sleep} >/dev/null 2>&1 &"),
        format!("( ( setsid sleep {sleep} & ) & )"),
        format!("env -i setsid setsid sleep {sleep} &"),
        format!("( env -i setsid sh -c 'sleep {sleep} & sleep {sleep} & exit' & )"),
        format!("(trap '' TERM HUP INT; sleep {sleep}; sleep {sleep}) &"),
        format!("sh -c 'kill -STOP $$; sleep {sleep}' &"),
    ];
    // Only whole command lines count: a subshell that is about to exit carries the text of the script as well.
    format!("{}\nuntil [ $(pgrep -xfc 'sleep {sleep}') -ge 8 ]; do :; done; echo up; sleep {sleep}", forms.join("\n"))
}

async fn start_escaping_processes(session: &TestSession, sleep: &str) -> gimlet_exec::RunningCommand {
    let mut running = session.start(&escaping_processes_script(sleep)).await.running;
    wait_for_line(&mut running, "up").await;
    // The last sleeper and the shell that stops itself may take a moment longer than the line.
    wait_until("the tree stands", || find_alive(sleep).len() >= 10).await;
    running
}

pub(crate) async fn a_killed_command_takes_its_whole_tree_along() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let bystander = unique_sleep_seconds();
    let mut other = session.start(&format!("setsid sleep {bystander} & echo up; sleep {bystander}")).await.running;
    wait_for_line(&mut other, "up").await;
    let mut running = start_escaping_processes(&session, &sleep).await;
    let begun = Instant::now();
    // Some of them ignore SIGTERM, so the grace is waited out; on a loaded machine the others take a while to end.
    let grace = Duration::from_secs(2);
    running.kill(grace).await;
    wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
    assert!(begun.elapsed() < grace + PATIENCE);
    assert_eq!(running.exit().unwrap().signal, Some(15));
    assert!(!find_alive(&bystander).is_empty(), "another command was hit");
}

pub(crate) async fn a_polite_end_gets_its_grace() {
    let session = TestSession::new();
    let text = "trap 'sleep 0.1; echo cleaned up; exit 5' TERM; echo up; while :; do sleep 0.01; done";
    let mut command = session.foreground(text).await;
    let up = async {
        while command.progress(1).last_lines != ["up"] {
            drop(tokio::time::timeout(Duration::from_millis(5), command.finish()).await);
        }
    };
    tokio::time::timeout(PATIENCE, up).await.unwrap();
    let finished = command.kill(PATIENCE).await;
    assert!(finished.output.head.ends_with(b"cleaned up\n"));
    assert!(matches!(finished.end, CommandEnd::Killed(Some(exit)) if exit.code == Some(5)), "{:?}", finished.end);
}

pub(crate) async fn dropping_a_running_command_ends_its_tree() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    drop(start_escaping_processes(&session, &sleep).await);
    wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
}

pub(crate) async fn killing_gimlet_leaves_nothing() {
    let (sleep, runtime) = (unique_sleep_seconds(), tempfile::tempdir().unwrap());
    let mut victim = VictimProcess::start(runtime.path(), &[&escaping_processes_script(&sleep)]);
    victim.kill_9();
    wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
    wait_until("the custodian ends", || !is_alive(victim.custodian)).await;
}

pub(crate) async fn killing_gimlet_many_times_leaves_nothing() {
    let (sleep, runtime) = (unique_sleep_seconds(), tempfile::tempdir().unwrap());
    let text = format!("( env -i setsid sh -c 'sleep {sleep} & exit' & ); setsid sleep {sleep} & echo up; wait");
    for _ in 0..15 {
        let mut victim = VictimProcess::start(runtime.path(), &[&text, &text]);
        victim.kill_9();
        wait_until("the tree ends", || find_alive(&sleep).is_empty()).await;
    }
}

pub(crate) async fn killing_the_custodian_alone_harms_no_command_and_the_next_one_gets_a_new_one() {
    let session = TestSession::new();
    let fifo = session.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let mut running = session.start("echo up; read -r line < fifo; echo $line; exit 3").await.running;
    wait_for_line(&mut running, "up").await;
    let first = session.exec.custodian_pid().unwrap();
    kill_9(first);
    wait_until("the custodian is dead", || !is_alive(first)).await;
    assert_eq!(session.output_of("echo next").await, "next");
    assert_ne!(session.exec.custodian_pid(), Some(first));
    std::fs::write(&fifo, "go on\n").unwrap();
    wait_for_line(&mut running, "go on").await;
    assert_eq!(running.wait().await.unwrap().code, Some(3));
}

pub(crate) async fn killing_a_keeper_ends_what_it_kept() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let mut running = start_escaping_processes(&session, &sleep).await;
    let keepers = working_keepers(session.exec.custodian_pid().unwrap());
    assert_eq!(keepers.len(), 1);
    kill_9(keepers[0]);
    let outcome = tokio::time::timeout(PATIENCE, running.wait()).await.unwrap();
    assert!(matches!(outcome, Err(ExecError::KeeperDied { .. })));
    wait_until("the orphans end", || find_alive(&sleep).is_empty()).await;
    assert_eq!(session.output_of("echo still here").await, "still here");
}

pub(crate) async fn killing_custodian_and_keeper_leaves_nothing() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let mut running = start_escaping_processes(&session, &sleep).await;
    let custodian = session.exec.custodian_pid().unwrap();
    let keepers = working_keepers(custodian);
    kill_9(custodian);
    kill_9(keepers[0]);
    let outcome = tokio::time::timeout(PATIENCE, running.wait()).await.unwrap();
    assert!(matches!(outcome, Err(ExecError::KeeperDied { .. })));
    wait_until("the orphans end", || find_alive(&sleep).is_empty()).await;
    assert_eq!(session.output_of("echo still here").await, "still here");
}

/// Commands that stop those who keep them: the keeper, the custodian too, and both of them again and again.
fn keeper_stopping_scripts(sleep: &str) -> [String; 3] {
    let begin = format!("read -r _ _ _ above _ </proc/$PPID/stat; (setsid sleep {sleep} >/dev/null 2>&1 &)");
    let end = format!("until pgrep -fx 'sleep {sleep}' >/dev/null; do :; done; echo up");
    [
        format!("{begin}; {end}; kill -STOP $PPID; sleep {sleep}"),
        format!("{begin}; {end}; kill -STOP $above $PPID; sleep {sleep}"),
        format!(
            "{begin}; keeper=$PPID; (trap '' TERM; while :; do kill -STOP $above $keeper; done) & {end}; sleep {sleep}"
        ),
    ]
}

pub(crate) async fn a_command_that_stops_its_keepers_is_killed_like_any_other() {
    let sleep = unique_sleep_seconds();
    for text in keeper_stopping_scripts(&sleep) {
        let session = TestSession::new();
        let mut running = session.start(&text).await.running;
        wait_for_line(&mut running, "up").await;
        let begun = Instant::now();
        running.kill(Duration::from_millis(100)).await;
        assert!(begun.elapsed() < PATIENCE, "{text}");
        wait_until(&format!("the end of {text}"), || find_alive(&sleep).is_empty()).await;
        assert_eq!(session.output_of("echo still here").await, "still here");
    }
}

pub(crate) async fn a_command_that_stops_its_keepers_ends_with_the_session() {
    let sleep = unique_sleep_seconds();
    for text in keeper_stopping_scripts(&sleep) {
        let session = TestSession::new();
        let mut running = session.start(&text).await.running;
        wait_for_line(&mut running, "up").await;
        let custodian = session.exec.custodian_pid().unwrap();
        session.exec.shutdown(Duration::from_millis(100)).await;
        assert_eq!(find_alive(&sleep), Vec::<i32>::new(), "{text}");
        assert!(!is_alive(custodian));
    }
}

pub(crate) async fn a_command_that_stopped_its_keepers_ends_with_a_killed_gimlet() {
    let (sleep, runtime) = (unique_sleep_seconds(), tempfile::tempdir().unwrap());
    // The last one goes on stopping them, so that they cannot work; that is left to a sweep.
    let [keeper, both, again_and_again] = keeper_stopping_scripts(&sleep);
    for text in [keeper, both] {
        let mut victim = VictimProcess::start(runtime.path(), &[&text]);
        victim.kill_9();
        wait_until(&format!("the end of {text}"), || find_alive(&sleep).is_empty()).await;
        wait_until("the end of the custodian", || !is_alive(victim.custodian)).await;
    }
    sweep_orphans(runtime.path()).unwrap();
    let mut victim = VictimProcess::start(runtime.path(), &[&again_and_again]);
    victim.kill_9();
    sweep_orphans(runtime.path()).unwrap();
    wait_until("the end of all", || find_alive(&sleep).is_empty() && !is_alive(victim.custodian)).await;
}

pub(crate) async fn a_stopped_custodian_is_continued_by_the_next_command() {
    let session = TestSession::new();
    session.run("true").await;
    let custodian = rustix::process::Pid::from_raw(session.exec.custodian_pid().unwrap() as i32).unwrap();
    rustix::process::kill_process(custodian, rustix::process::Signal::STOP).unwrap();
    assert_eq!(session.output_of("echo next").await, "next");
}

pub(crate) async fn killing_everything_is_swept_at_the_next_start() {
    let (sleep, runtime) = (unique_sleep_seconds(), tempfile::tempdir().unwrap());
    let text = format!(
        "setsid sleep {sleep} & ( setsid sleep {sleep} & ); env -i setsid setsid sleep {sleep} &
        until [ $(pgrep -fcx 'sleep {sleep}') -ge 3 ]; do :; done; echo up; wait"
    );
    let mut victim = VictimProcess::start(runtime.path(), &[&text]);
    let record_of_the_living = sweep_orphans(runtime.path()).unwrap();
    assert_eq!(record_of_the_living, SweepReport::default());
    // All three at the same instant as far as they can tell: stopped first, so that none can react.
    let keepers = children_of(victim.custodian);
    let family: Vec<u32> = keepers.into_iter().chain([victim.custodian, victim.process.id()]).collect();
    for pid in &family {
        let pid = rustix::process::Pid::from_raw(*pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
    family.iter().for_each(|pid| kill_9(*pid));
    victim.process.wait().unwrap();
    assert!(find_alive(&sleep).len() >= 3, "nothing survived to be swept");
    let swept = sweep_orphans(runtime.path()).unwrap();
    assert!(swept.dead_runs == 1 && swept.ended_processes >= 3, "{swept:?}");
    wait_until("the survivors end", || find_alive(&sleep).is_empty()).await;
    assert_eq!(sweep_orphans(runtime.path()).unwrap(), SweepReport::default());
}

pub(crate) async fn a_sweep_leaves_a_living_run_in_a_container_alone() {
    let container = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    #[allow(clippy::disallowed_methods, reason = "a question about this machine, outside of custody")]
    let possible = std::process::Command::new(container[0]).args(&container[1..]).arg("true").status();
    // Where the kernel gives this user no namespaces, there is no such run; one of the ordinary kind is left alone, too.
    let possible = possible.is_ok_and(|status| status.success());
    let container = if possible { &container[..] } else { &["env"] };
    let (sleep, runtime) = (unique_sleep_seconds(), tempfile::tempdir().unwrap());
    let text = format!("setsid sleep {sleep} & echo up; sleep {sleep}");
    let mut victim = VictimProcess::start_with_prefix(container, runtime.path(), &[&text]);
    assert_eq!(sweep_orphans(runtime.path()).unwrap(), SweepReport::default());
    assert!(!find_alive(&sleep).is_empty(), "a living run was swept");
    victim.kill_9();
    wait_until("the container ends", || find_alive(&sleep).is_empty()).await;
}

pub(crate) async fn neither_custodian_nor_keeper_is_named_like_gimlet() {
    let runtime = tempfile::tempdir().unwrap();
    let mut victim = VictimProcess::start(runtime.path(), &["echo up; sleep 1000"]);
    let keepers = children_of(victim.custodian);
    for pid in keepers.iter().chain([&victim.custodian]) {
        let read = |name: &str| String::from_utf8(std::fs::read(format!("/proc/{pid}/{name}")).unwrap()).unwrap();
        assert!(read("comm").starts_with("cmd-") && read("cmdline").starts_with("cmd-custodian\0__custodian\0"));
    }
    victim.kill_9();
}

pub(crate) async fn custodian_and_keeper_have_no_environment_and_no_command_can_look_into_them() {
    let session = TestSession::new();
    let mut running = session.start("echo up; sleep 1000").await.running;
    wait_for_line(&mut running, "up").await;
    let custodian = session.exec.custodian_pid().unwrap();
    let uid =
        |pid: u32| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(format!("/proc/{pid}/environ")).unwrap());
    for pid in children_of(custodian).into_iter().chain([custodian]) {
        // Root can look anyway; for others the file does not even open.
        assert_eq!(std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default(), b"");
        assert_eq!(uid(pid), 0, "it belongs to the user, who could read and trace it");
    }
    assert_eq!(uid(running.pid), rustix::process::getuid().as_raw(), "the command itself is an ordinary process");
}

pub(crate) async fn shutdown_ends_what_was_released_and_refuses_more() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let finished = session.run(&format!("(trap '' TERM; sleep {sleep}; sleep {sleep}) & setsid sleep {sleep} &")).await;
    assert!(matches!(finished.end, CommandEnd::Exited(exit) if exit.is_success()));
    wait_until("the survivors stand", || find_alive(&format!("sleep\0{sleep}")).len() == 2).await;
    let custodian = session.exec.custodian_pid().unwrap();
    session.exec.shutdown(Duration::from_millis(100)).await;
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
    assert!(!std::fs::exists(format!("/proc/{custodian}")).unwrap(), "not even a zombie stays");
    assert!(matches!(session.exec.spawn(plain_spawn("true", &[])).await, Err(ExecError::ShutDown)));
}

pub(crate) async fn who_comes_to_a_shutdown_that_was_given_up_waits_for_its_end() {
    let session = TestSession::new();
    let sleep = unique_sleep_seconds();
    let text = format!("trap '' TERM; echo up; while :; do sleep {sleep}; done");
    let mut running = session.start(&text).await.running;
    wait_for_line(&mut running, "up").await;
    let grace = Duration::from_millis(500);
    let given_up = tokio::time::timeout(Duration::from_millis(50), session.exec.shutdown(grace)).await;
    assert!(given_up.is_err() && is_alive(running.pid), "the command has its grace");
    session.exec.shutdown(grace).await;
    assert!(!is_alive(running.pid));
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
}

pub(crate) async fn a_finished_command_leaves_no_keeper_behind() {
    let session = TestSession::new();
    for _ in 0..5 {
        session.run("sleep 0.001 | cat").await;
    }
    let custodian = session.exec.custodian_pid().unwrap();
    wait_until("all but the spare keeper end", || children_of(custodian).len() == 1).await;
}

/// Waits until the custodian has one child, which is its spare keeper, and returns it.
async fn spare_keeper(custodian: u32) -> u32 {
    let mut spare = None;
    wait_until("there is a spare", || {
        if let [only] = children_of(custodian)[..] {
            spare = Some(only);
        }
        spare.is_some()
    })
    .await;
    spare.unwrap()
}

pub(crate) async fn a_killed_spare_keeper_is_replaced() {
    let session = TestSession::new();
    session.run("true").await;
    let custodian = session.exec.custodian_pid().unwrap();
    for _ in 0..5 {
        kill_9(spare_keeper(custodian).await);
        assert_eq!(session.output_of("echo still here").await, "still here");
    }
    assert_eq!(session.exec.custodian_pid(), Some(custodian));
}

pub(crate) async fn a_spare_keeper_leaves_with_its_custodian() {
    let session = TestSession::new();
    session.run("true").await;
    let custodian = session.exec.custodian_pid().unwrap();
    let spare = spare_keeper(custodian).await;
    kill_9(custodian);
    wait_until("the spare leaves", || !is_alive(spare)).await;
    assert_eq!(session.output_of("echo still here").await, "still here");
    assert_ne!(session.exec.custodian_pid(), Some(custodian));
}

pub(crate) async fn the_custodian_is_small() {
    let session = TestSession::new();
    session.run("true").await;
    let custodian = session.exec.custodian_pid().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{custodian}/status")).unwrap();
    // Its own memory; pages of the program are everybody's, and those of one with debug information are many.
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let kilobytes: u64 = own.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 1_000, "{kilobytes} kB");
    // Only root can look at the descriptors of a custodian. Those of an order are open until it is carried out.
    wait_until("no descriptor but its own is open", || unexpected_descriptors(custodian).is_empty()).await;
}

/// Returns what the descriptors of a custodian lead to, besides its own sockets.
fn unexpected_descriptors(custodian: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{custodian}/fd")).into_iter().flatten().flatten();
    // A descriptor may be closed while the list is read.
    let targets = entries.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()));
    let is_own =
        |target: &String| target == "/dev/null" || target.starts_with("socket:") || target.contains("signalfd");
    targets.filter(|target| !is_own(target)).collect()
}

/// One that never had an order leaves like any other, and its spare keeper with it.
pub(crate) async fn a_custodian_that_was_made_ready_serves_the_first_command_and_leaves_without_one() {
    for runs_a_command in [true, false] {
        let exec = exec(None);
        exec.prestart_custodian();
        wait_until("the custodian is there", || exec.custodian_pid().is_some()).await;
        let custodian = exec.custodian_pid().unwrap();
        exec.prestart_custodian();
        wait_until("it has its spare", || !children_of(custodian).is_empty()).await;
        let spares = children_of(custodian);
        if runs_a_command {
            let mut running = exec.spawn(plain_spawn("true", &[])).await.unwrap();
            running.wait().await.unwrap();
        }
        assert_eq!(exec.custodian_pid(), Some(custodian));
        exec.shutdown(Duration::ZERO).await;
        assert!(!is_alive(custodian));
        wait_until("the spare ends", || spares.iter().all(|spare| !is_alive(*spare))).await;
    }
    let exec = exec(None);
    exec.shutdown(Duration::ZERO).await;
    exec.prestart_custodian();
    assert!(matches!(exec.spawn(plain_spawn("true", &[])).await, Err(ExecError::ShutDown)));
    assert_eq!(exec.custodian_pid(), None);
}

pub(crate) async fn a_forked_custodian_keeps_as_well() {
    let config = ExecConfig { custodian: CustodianProgram::Fork, session_marker: "forked".into(), runtime_dir: None };
    let (exec, shell, sleep) = (Exec::new(config), shell(base_env(), None), unique_sleep_seconds());
    let text = escaping_processes_script(&sleep);
    let command = ShellCommand { text: &text, cwd: "/".as_ref(), env: Vec::new() };
    let mut running = shell.start(&exec, command).await.unwrap().running;
    wait_for_line(&mut running, "up").await;
    running.kill(Duration::ZERO).await;
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
    exec.shutdown(Duration::ZERO).await;
}

pub(crate) async fn a_fork_storm_is_ended() {
    let exec = exec(None);
    let sleep = unique_sleep_seconds();
    let shell = shell(base_env(), None);
    // Generations that die at once and fork on, each in a session of its own: no group and no parent to hold on to.
    let text = format!(
        "export N={sleep}; f() {{ (setsid bash -c 'sleep 0.0$N; f' $N >/dev/null 2>&1 &); }}; export -f f; f; f; f; f; echo up; sleep {sleep}"
    );
    let mut running =
        shell.start(&exec, ShellCommand { text: &text, cwd: "/".as_ref(), env: Vec::new() }).await.unwrap().running;
    wait_for_line(&mut running, "up").await;
    running.kill(Duration::ZERO).await;
    assert_eq!(find_alive(&sleep), Vec::<i32>::new());
}
