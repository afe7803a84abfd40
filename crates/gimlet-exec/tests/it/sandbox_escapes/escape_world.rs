//! A small world for one attempt: a folder to work in, one that must stay as it is, a secret, and a process to harm.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use gimlet_exec::{SandboxPlace, default_sandbox_spec};
use gimlet_proto::SandboxSpec;

/// Things outside that say `hi` to whoever reaches them, for all attempts of a run.
pub(crate) struct OutsideServices {
    dir: tempfile::TempDir,
    tcp: u16,
    udp: u16,
    abstract_name: String,
    terminal: (Child, String),
    shared: tempfile::NamedTempFile,
    segment: String,
}

impl Drop for OutsideServices {
    fn drop(&mut self) {
        // It would outlive every process otherwise.
        run_tool("ipcrm", &["-m", &self.segment]);
        drop(self.terminal.0.kill());
        drop(self.terminal.0.wait());
    }
}

/// Runs a small tool and gives what it says.
fn run_tool(program: &str, args: &[&str]) -> String {
    #[allow(clippy::disallowed_methods, reason = "a tool of the system, outside of every sandbox")]
    let output = Command::new(program).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A terminal that nobody sits at, and the process that holds it.
fn open_terminal() -> (Child, String) {
    let script = "import os, pty, sys; m, s = pty.openpty(); print(os.ttyname(s), flush=True); sys.stdin.read()";
    #[allow(clippy::disallowed_methods, reason = "somebody outside of every sandbox")]
    let mut holder = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut name = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut name).unwrap();
    (holder, name.trim().to_owned())
}

impl OutsideServices {
    pub(crate) fn start() -> Self {
        // Where a sandbox shows it, unlike /tmp.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let tcp = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let abstract_name = format!("gimlet-test-{}", std::process::id());
        let ports = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let named = UnixListener::bind(dir.path().join("socket")).unwrap();
        let passing = UnixListener::bind(dir.path().join("socket.fd")).unwrap();
        let log = UnixDatagram::bind(dir.path().join("socket.log")).unwrap();
        let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        // They live as long as the process; whoever reaches one gets its word and no more.
        std::thread::spawn(move || tcp.incoming().for_each(|client| drop(client.and_then(|mut c| c.write_all(b"hi")))));
        for listener in [named, hidden] {
            std::thread::spawn(move || {
                listener.incoming().for_each(|client| drop(client.and_then(|mut c| c.write_all(b"hi"))));
            });
        }
        std::thread::spawn(move || {
            while let Ok((_, from)) = udp.recv_from(&mut [0; 16]) {
                drop(udp.send_to(b"hi", from));
            }
        });
        std::thread::spawn(move || passing.incoming().for_each(|client| pass_descriptor(client.unwrap())));
        std::thread::spawn(move || while log.recv(&mut [0; 16]).is_ok() {});
        let mut shared = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        shared.write_all(b"precious").unwrap();
        let said = run_tool("ipcmk", &["-M", "4096"]);
        let segment = said.split_whitespace().last().unwrap().to_owned();
        Self { dir, tcp: ports.0, udp: ports.1, abstract_name, terminal: open_terminal(), shared, segment }
    }
}

/// Passes a descriptor that can write to the file that the client names.
fn pass_descriptor(mut client: std::os::unix::net::UnixStream) {
    let mut path = [0; 256];
    let len = client.read(&mut path).unwrap();
    let path = Path::new(std::str::from_utf8(&path[..len]).unwrap());
    let file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let descriptors = [file.as_fd()];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors)));
    let message = [std::io::IoSlice::new(b"x")];
    rustix::net::sendmsg(&client, &message, &mut control, rustix::net::SendFlags::empty()).unwrap();
}

pub(crate) struct EscapeWorld {
    _dir: tempfile::TempDir,
    root: PathBuf,
    victim: Child,
    pub(crate) env: Vec<(String, String)>,
}

impl EscapeWorld {
    pub(crate) fn new(services: &OutsideServices) -> Self {
        // Not below /tmp, which a sandbox hides altogether: these folders are to be seen and closed.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["w/.git/hooks", "w/.git/objects", "w/.git/refs", "w/sub/.git/hooks", "w/sub/.git/objects"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for folder in ["w/tools/hooks", "w/tools/real/g/objects", "w/tools/real/g/refs", "w/led", "w/.idea"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for folder in ["w/sub/.git/refs", "w/around/hidden", "out", "secret", "temp", "home"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for (file, text) in [
            ("w/.git/HEAD", "ref: refs/heads/main\n"),
            (
                "w/.git/config",
                "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../tools/shared\n\tpath = ../tools/absent\n",
            ),
            ("w/tools/shared", "[user]\n"),
            ("w/tools/hook", "x"),
            ("w/tools/profile", "x"),
            ("w/tools/real/g/HEAD", "ref: refs/heads/main\n"),
            ("w/led/.git", "gitdir: ../tools/gits/g\n"),
            ("w/.idea/tasks.json", "{}"),
            ("w/.git/hooks/pre-commit.sample", "x"),
            ("w/sub/.git/HEAD", "ref: refs/heads/main\n"),
            ("w/sub/.git/config", "[core]\n"),
            ("out/file", "precious"),
            ("secret/key", "secret"),
            ("w/around/hidden/key", "secret"),
            ("secret-file", "secret"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        for (link, target) in [
            ("w/.git/hooks/pre-push", "../../tools/turns"),
            ("w/tools/turns", "hook"),
            ("w/tools/gits", "real"),
            ("w/.profile", "tools/profile"),
        ] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        fs::hard_link(root.join("w/.idea/tasks.json"), root.join("w/tools/second")).unwrap();
        #[allow(clippy::disallowed_methods, reason = "the victim must be outside of custody")]
        let mut victim = Command::new("/bin/sh")
            .args(["-c", "echo ready; read x", "victim"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .current_dir(root.join("out"))
            .env("VICTIM_TOKEN", "x")
            .spawn()
            .unwrap();
        victim.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let env = [
            ("W", text(root.join("w"))),
            ("OUT", text(root.join("out"))),
            ("SECRET", text(root.join("secret"))),
            ("SECRET_FILE", text(root.join("secret-file"))),
            ("VICTIM", victim.id().to_string()),
            ("TCP", services.tcp.to_string()),
            ("UDP", services.udp.to_string()),
            ("SOCKET", text(services.dir.path().join("socket"))),
            ("ABSTRACT", services.abstract_name.clone()),
            ("TERMINAL", services.terminal.1.clone()),
            ("SHARED", text(services.shared.path().to_owned())),
            ("SEGMENT", services.segment.clone()),
            ("CANARY_TOKEN", "x".to_owned()),
            ("SSH_AUTH_SOCK", "/x".to_owned()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned()),
            ("HOME", text(root.join("home"))),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Self { root, victim, env, _dir: dir }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("w")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn spec(&self) -> SandboxSpec {
        let (work, home, temp) = (self.work(), self.root.join("home"), self.root.join("temp"));
        let mut spec = default_sandbox_spec(SandboxPlace {
            cwd: &work,
            write: &[],
            opened: &[],
            home: Some(&home),
            config_home: &home.join(".claude"),
            temp_dir: &temp,
            env: &gimlet_proto::Env::default(),
        });
        spec.deny_read.extend(["secret", "secret-file", "w/around/hidden"].map(|name| self.root.join(name)));
        spec.max_processes = Some(100);
        spec
    }

    /// Everything that must stay as it is, in words that differ when it does not.
    pub(crate) fn outside_state(&self) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        for kept in ["out", "secret"] {
            describe_path(&self.root.join(kept), &mut state);
        }
        let changed_at = fs::metadata(self.root.join("out/file")).map(|metadata| metadata.mtime());
        state.insert("changed at".into(), format!("{changed_at:?}"));
        let work = self.work();
        for name in ["hooks", "shared", "absent", "hook", "turns", "profile"] {
            describe_path(&work.join("tools").join(name), &mut state);
        }
        // A link that leads elsewhere by now may only be gone.
        let leads = work.join("led/.git").exists().then(|| work.join("tools/gits").canonicalize().ok()).flatten();
        let leads_elsewhere = leads.is_some_and(|led| led != work.join("tools/real"));
        state.insert("leads elsewhere".into(), leads_elsewhere.to_string());
        // A repository far below may be there, but not something that leads to one.
        let link = work.join("1/2/3/4/5/6/7/.git");
        if link.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()) {
            state.insert(link, "no folder".to_owned());
        }
        for name in [
            ".mcp.json",
            ".claude",
            ".husky",
            ".idea",
            ".vscode",
            ".envrc",
            ".bashrc",
            ".gitconfig",
            ".git/hooks",
            ".git/config",
        ] {
            describe_path(&work.join(name), &mut state);
        }
        let deep = ["1/2/3/4/5/6/7/.git/hooks", "1/2/3/4/5/6/7/config"];
        for name in ["sub/.git", ".git/commondir", ".new/.git/hooks"].into_iter().chain(deep) {
            describe_path(&work.join(name), &mut state);
        }
        // Emptied folders of configuration are no configuration.
        state.retain(|path, what| !(what.starts_with("folder") && path.starts_with(work.join(".claude"))));
        let bare = ["HEAD", "objects", "refs"].iter().all(|mark| work.join(mark).exists());
        state.insert("bare".into(), bare.to_string());
        state.insert("work".into(), work.exists().to_string());
        state.insert("around".into(), work.join("around/hidden/key").exists().to_string());
        let status = fs::read_to_string(format!("/proc/{}/stat", self.victim.id())).unwrap_or_default();
        let alive = status.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("Z").to_owned();
        state.insert("victim".into(), if matches!(alive.as_str(), "Z" | "T") { alive } else { "alive".to_owned() });
        state
    }
}

impl Drop for EscapeWorld {
    fn drop(&mut self) {
        drop(self.victim.kill());
        drop(self.victim.wait());
    }
}

fn describe_path(path: &Path, state: &mut BTreeMap<PathBuf, String>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let kind = if metadata.is_dir() {
        format!("folder {:o}", metadata.mode())
    } else if metadata.is_symlink() {
        format!("link {:?}", fs::read_link(path))
    } else if metadata.is_file() {
        let attribute = rustix::fs::lgetxattr(path, "user.x", &mut [0_u8; 0][..]).is_ok();
        format!("{:?} {:o} {attribute}", fs::read(path).ok(), metadata.mode())
    } else {
        "something else".to_owned()
    };
    state.insert(path.to_owned(), kind);
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            describe_path(&entry.path(), state);
        }
    }
}

/// A copy of a program that everybody may run and that makes them root, for tests of root.
pub(crate) fn set_uid_program(dir: &Path) -> PathBuf {
    let program = dir.join("suid-id");
    fs::copy("/usr/bin/id", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    program
}
