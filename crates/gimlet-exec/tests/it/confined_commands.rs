//! A confined command reads what it needs, and nothing else happens whatever it tries.

pub(crate) mod hostile;
mod ordinary;

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

use gimlet_exec::{
    CaptureLimits, Confinement, ConfinementSpec, FinishedCommand, ForegroundCommand, Shell, ShellCommand, ShellConfig,
    render_for_model,
};
use gimlet_proto::Env;

use crate::common::{PATIENCE, TestSession, base_env};
pub(crate) use hostile::{no_hostile_command_has_an_effect, no_hostile_command_of_an_ordinary_user_has_an_effect};
pub(crate) use ordinary::ordinary_commands_do_the_same_confined;

/// A home with secrets and a project, and a session that confines its commands to the project.
struct ConfinedWorld {
    session: TestSession,
    root: PathBuf,
    confinement: Arc<Confinement>,
}

impl ConfinedWorld {
    fn new(work_in: &str, ahead: bool) -> Self {
        // Not below /tmp, which the confinement has no rule for anyway.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (file, text) in [
            ("home/.ssh/id_rsa", "SECRET"),
            ("home/.aws/credentials", "SECRET"),
            ("home/.claude/.credentials.json", "SECRET"),
            ("home/notes.txt", "SECRET"),
            ("home/.gitconfig", "[user]\n\tname = Ada\n"),
            ("home/project/a.txt", "plain\n"),
        ] {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let env = base_env().with("HOME", root.join("home").as_os_str()).with("MY_API_KEY", "SECRET-KEY");
        let spec = ConfinementSpec {
            roots: vec![root.join(work_in)],
            readable: Vec::new(),
            closed: Vec::new(),
            home: Some(root.join("home")),
            config_home: root.join("home/.claude"),
            temp_dir: root.join("temp"),
            env: env.clone(),
        };
        let confinement = Arc::new(Confinement::build(&spec).unwrap());
        assert!(confinement.is_enforced(), "this kernel has no Landlock");
        let session = if ahead { TestSession::with_prestart(env) } else { with_home(env) };
        Self { session: TestSession { dir, ..session }, root, confinement }
    }

    async fn run(&self, text: &str) -> FinishedCommand {
        let cwd = self.root.join("home/project");
        let command = ShellCommand { text, cwd: &cwd, env: Vec::new() };
        let run = self.session.shell.start_confined(&self.session.exec, command, &self.confinement).await.unwrap();
        let limits = CaptureLimits::for_foreground(30_000, self.root.join("output"));
        let mut command = ForegroundCommand::new(run.running, limits);
        tokio::time::timeout(PATIENCE, command.finish()).await.unwrap()
    }

    async fn output_of(&self, text: &str) -> String {
        render_for_model(&self.run(text).await.output.head)
    }
}

fn with_home(env: Env) -> TestSession {
    let config =
        ShellConfig { env, session_id: "session-1".into(), effort: None, snapshot_file: None, prestart: false };
    TestSession { shell: Shell::find(config).unwrap(), ..TestSession::new() }
}

pub(crate) async fn a_confined_command_reads_its_folder_and_the_system() {
    let world = ConfinedWorld::new("home/project", false);
    assert_eq!(world.output_of("cat a.txt; ls; wc -l < a.txt").await, "plain\na.txt\n1");
    assert_eq!(
        world.output_of("git config user.name; echo x > /dev/null; sort --version | head -1").await.lines().next(),
        Some("Ada")
    );
    assert_eq!(
        world.output_of("echo made > $TMPDIR/x; cat $TMPDIR/x; seq 3 | sort -r | paste -sd ' '").await,
        "made\n3 2 1"
    );
    let finished = world.run("cd /usr; (exit 3)").await;
    assert_eq!(finished.cwd(), Some("/usr".into()));
    assert_eq!(
        world
            .output_of("python3 -c 'print(1 + 1)'; awk 'BEGIN { print 7 }'; grep -c . /etc/passwd >/dev/null; echo $?")
            .await,
        "2\n7\n0"
    );
}

pub(crate) async fn a_confined_command_reads_no_secret_changes_nothing_and_sends_nothing() {
    let world = ConfinedWorld::new("home/project", false);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = UnixListener::bind(world.root.join("home/project/socket")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let before = describe_tree(&world.root.join("home"));
    let home = world.root.join("home");
    let home = home.display();
    for text in [
        format!("cat {home}/.ssh/id_rsa {home}/.aws/credentials {home}/notes.txt"),
        "cat ../.ssh/id_rsa; cd ..; cat .ssh/id_rsa; ls .ssh; cat < notes.txt".to_owned(),
        format!("exec 9< {home}/notes.txt; cat <&9; find {home} -name id_rsa -exec cat {{}} +; grep -r SECRET {home}"),
        "env; echo $MY_API_KEY; cat /proc/$PPID/environ /proc/1/environ; cat /etc/shadow".to_owned(),
        format!("ln -s {home}/.ssh here; cat here/id_rsa; cp {home}/notes.txt .; python3 -c 'print(open(\"../notes.txt\").read())'"),
        format!("echo x > new; echo x >> a.txt; rm a.txt; mv a.txt b; mkdir d; touch a.txt; chmod 777 a.txt; truncate -s 0 a.txt; ln a.txt hard; echo x > {home}/.bashrc; : > a.txt"),
        "chown 1 a.txt; setfattr -n user.x -v y a.txt; python3 -c 'import os; os.utime(\"a.txt\", (0, 0))'; git init; sed -i s/plain/x/ a.txt; echo x > /tmp/gimlet-confined-test".to_owned(),
        format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo hi >&3; echo hi > /dev/udp/127.0.0.1/{port}; python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"),
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"socket\")'; unshare -r true && echo SECRET".to_owned(),
    ] {
        let said = world.output_of(&text).await;
        assert!(!said.contains("SECRET"), "{text}: {said}");
    }
    assert_eq!(describe_tree(&world.root.join("home")), before);
    assert!(!Path::new("/tmp/gimlet-confined-test").exists());
    assert!(listener.accept().is_err() && socket.accept().is_err(), "nobody connects");
}

pub(crate) async fn a_confined_shell_that_waited_is_confined_too() {
    let world = ConfinedWorld::new("home/project", true);
    // From the second command on, a shell was started before its command was known.
    for _ in 0..3 {
        world.session.shell.prestart_shell(&world.session.exec);
        assert_eq!(
            world.output_of("cat a.txt; cat ../notes.txt 2>/dev/null; echo ${MY_API_KEY-none}").await,
            "plain\nnone"
        );
        assert_eq!(world.session.output_of("echo $MY_API_KEY; cat \"$HOME/notes.txt\"").await, "SECRET-KEY\nSECRET");
    }
}

pub(crate) async fn credentials_stay_closed_where_the_home_is_the_working_directory() {
    let world = ConfinedWorld::new("home", false);
    assert!(world.confinement.is_current());
    assert_eq!(
        world
            .output_of("cat ../notes.txt a.txt; cat ../.ssh/id_rsa ../.aws/credentials ../.claude/.credentials.json")
            .await
            .lines()
            .next(),
        Some("SECRETplain")
    );
    for closed in [".ssh/id_rsa", ".aws/credentials", ".claude/.credentials.json"] {
        assert!(!world.output_of(&format!("cat ../{closed}")).await.contains("SECRET"), "{closed}");
    }
    std::fs::write(world.root.join("home/new.txt"), "").unwrap();
    assert!(!world.confinement.is_current(), "what is new in the folder is not in the rules");
}

pub(crate) async fn a_variable_that_leads_to_the_home_by_another_name_does_not_open_it() {
    let world = ConfinedWorld::new("home/project", false);
    let home = world.root.join("home");
    std::os::unix::fs::symlink(&home, world.root.join("tools")).unwrap();
    let path = format!("/usr/bin:/bin:{}/project/..", home.display());
    let env = base_env().with("PATH", path).with("VIRTUAL_ENV", world.root.join("tools").as_os_str());
    let spec = ConfinementSpec {
        roots: vec![home.join("project")],
        readable: Vec::new(),
        closed: Vec::new(),
        config_home: home.join(".claude"),
        home: Some(home),
        temp_dir: world.root.join("temp"),
        env,
    };
    let world = ConfinedWorld { confinement: Arc::new(Confinement::build(&spec).unwrap()), ..world };
    assert_eq!(world.output_of("cat a.txt; cat ../notes.txt 2>/dev/null").await, "plain");
}

/// Waits for several futures on one thread; what they wait for are processes.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// Every file below a folder with its content, mode, times and links.
fn describe_tree(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.path().symlink_metadata().unwrap();
        let (mode, links, at) = (metadata.mode(), metadata.nlink(), metadata.mtime_nsec());
        let text = if metadata.is_file() { std::fs::read_to_string(entry.path()).unwrap() } else { String::new() };
        found.push(format!("{} {mode:o} {links} {at} {text}", entry.path().display()));
        if metadata.is_dir() {
            found.extend(describe_tree(&entry.path()));
        }
    }
    found.sort();
    found
}
