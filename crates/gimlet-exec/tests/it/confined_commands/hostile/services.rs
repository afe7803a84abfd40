//! What hostile commands could reach outside their confinement: listeners, and another process of the same user.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use super::SECRET;
use crate::common::unique_sleep_seconds;

pub(super) struct DecoyServices {
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_socket: UnixListener,
    named_socket: UnixListener,
    /// Holds the socket that has a name.
    folder: tempfile::TempDir,
    /// A part of every name that exists only if a command got through.
    pub(super) mark: String,
    /// A file that the victim has open.
    _opened: tempfile::NamedTempFile,
    victim: Child,
    /// What the kernel says about the victim while nobody interferes.
    victim_state: Vec<String>,
}

impl DecoyServices {
    pub(super) fn start() -> Self {
        let mark = format!("gimlet-hostile-{}", std::process::id());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        tcp.set_nonblocking(true).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&mark).unwrap()).unwrap();
        abstract_socket.set_nonblocking(true).unwrap();
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let named_socket = UnixListener::bind(folder.path().join("socket")).unwrap();
        named_socket.set_nonblocking(true).unwrap();
        let opened = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        std::fs::write(opened.path(), format!("{SECRET} opened\n")).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a process that is not gimlet's")]
        let victim = Command::new("sleep")
            .arg(unique_sleep_seconds())
            .env("NOTE", format!("{SECRET} in the environment"))
            .current_dir("/var/tmp")
            .stdin(Stdio::from(std::fs::File::open(opened.path()).unwrap()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut services = Self {
            tcp,
            udp,
            abstract_socket,
            named_socket,
            folder,
            mark,
            _opened: opened,
            victim,
            victim_state: Vec::new(),
        };
        services.victim_state = services.state_of_victim();
        services
    }

    /// The variables that tell commands about all this.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("MARK", self.mark.clone()),
            ("TCP", self.tcp.local_addr().unwrap().port().to_string()),
            ("UDP", self.udp.local_addr().unwrap().port().to_string()),
            ("SOCK", self.folder.path().join("socket").display().to_string()),
            ("ABSTRACT", self.mark.clone()),
            ("VICTIM", self.victim.id().to_string()),
            ("TEST", std::process::id().to_string()),
        ]
    }

    /// Everything that reached a listener or the other process since the last look.
    pub(super) fn effects(&self) -> Vec<String> {
        let mut effects = Vec::new();
        let mut buffer = [0; 64];
        while self.tcp.accept().is_ok() {
            effects.push("a TCP connection".to_owned());
        }
        while self.udp.recv(&mut buffer).is_ok() {
            effects.push("a datagram".to_owned());
        }
        while self.abstract_socket.accept().is_ok() {
            effects.push("a connection to the abstract socket".to_owned());
        }
        while self.named_socket.accept().is_ok() {
            effects.push("a connection to the Unix socket".to_owned());
        }
        let state = self.state_of_victim();
        if state != self.victim_state {
            effects.push(format!("the other process is {state:?}"));
        }
        effects
    }

    /// Whether it lives, and its limits, priorities and processors. Whoever reads of it that it is running reads that it
    /// sleeps, too: both is normal.
    fn state_of_victim(&self) -> Vec<String> {
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.victim.id())).unwrap_or_default();
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        let is_alive = fields.first().is_some_and(|state| ["R", "S", "D"].contains(state));
        let priorities = [15, 16, 37, 38].map(|index| fields.get(index).copied().unwrap_or_default()).join(" ");
        let allowed: Vec<String> =
            read("status").lines().filter(|line| line.starts_with("Cpus_allowed")).map(ToOwned::to_owned).collect();
        [is_alive.to_string(), priorities, read("limits"), read("oom_score_adj")].into_iter().chain(allowed).collect()
    }
}

impl Drop for DecoyServices {
    fn drop(&mut self) {
        drop(self.victim.kill());
        drop(self.victim.wait());
    }
}
