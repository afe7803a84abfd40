//! The end of gimlet's proxy inside the sandbox: a loopback port whose connections go on through a Unix socket.
//!
//! It runs beside the command, outside of its filter, and copies bytes; it understands and decides nothing.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The most connections at one time. A command that opens more waits.
const MAX_CONNECTIONS: usize = 256;

/// Opens a handle of a socket in the file system: its path may be hidden later.
pub(super) fn open_socket_handle(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens the listener and returns it with the port that is passed to the command.
pub(super) fn listen() -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Copies until the process is ended.
pub(super) fn run_relay(listener: &TcpListener, proxy: &OwnedFd) -> ! {
    let socket = PathBuf::from(format!("/proc/self/fd/{}", proxy.as_raw_fd()));
    let mut connections: Vec<std::thread::JoinHandle<()>> = Vec::new();
    loop {
        let Ok((near, _)) = listener.accept() else { continue };
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= MAX_CONNECTIONS {
            connections.drain(..1).for_each(|oldest| drop(oldest.join()));
        }
        // A connection that fails ends; the command sees it closed.
        let Ok(far) = UnixStream::connect(&socket) else { continue };
        connections.push(std::thread::spawn(move || drop(copy_both_ways(&near, &far))));
    }
}

fn copy_both_ways(near: &TcpStream, far: &UnixStream) -> io::Result<()> {
    let (near_again, far_again) = (near.try_clone()?, far.try_clone()?);
    let back = std::thread::spawn(move || {
        let copied = io::copy(&mut &far_again, &mut &near_again);
        // Half a connection may go on; one that failed may not.
        drop(near_again.shutdown(if copied.is_ok() { Shutdown::Write } else { Shutdown::Both }));
    });
    let copied = io::copy(&mut &*near, &mut &*far);
    drop(far.shutdown(if copied.is_ok() { Shutdown::Write } else { Shutdown::Both }));
    // A copying thread does not panic; if it did, its connection would be over anyway.
    drop(back.join());
    copied.map(drop)
}
