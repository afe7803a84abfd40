//! The custodian: a small process between gimlet and every command, gimlet's own binary run a second time.
//!
//! Its only task is to have a spare keeper ready for the next order. The keeper takes the order, starts the command
//! and stays with it, and the custodian forks the next spare. Keepers are subreapers, so processes that a command
//! leaves behind are reparented to its own keeper and are known to be that command's, with no marker and no guess.
//! When a keeper is killed its orphans are reparented to the custodian, which kills them; when the custodian is
//! killed the keepers carry on and are reparented to gimlet. All of them watch the lifeline, and end everything when
//! it closes.
//!
//! A command may stop (SIGSTOP) its keeper or custodian. The custodian continues a stopped keeper; a stopped
//! custodian is continued by gimlet when it needs it, and by the system when gimlet dies.
//!
//! It is single-threaded, holds no session data, ignores terminal signals and never writes to a terminal or a file.

mod keeper;
mod spare_keeper;

pub(crate) use keeper::REPORT_DESCRIPTOR;

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SocketType;
use rustix::process::{DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions};

use crate::{custody_wire, message_socket, procfs, sys};
use spare_keeper::{SpareKeeper, SpareStatus};

/// The first argument that makes the binary a custodian.
pub(crate) const ARGUMENT: &str = "__custodian";
/// Names of custodians and keepers in `ps`, by which gimlet distinguishes them from orphans. Neither name contains
/// that of gimlet, so that after a `pkill gimlet` they remain to end the processes that gimlet started.
pub(crate) const CUSTODIAN_NAME: &CStr = c"cmd-custodian";
pub(crate) const KEEPER_NAME: &CStr = c"cmd-keeper";
/// Program name shown in front of the argument in a process listing.
pub(crate) const ARGV0: &str = "cmd-custodian";

/// Grace period for a process tree before force, when gimlet died or released it.
const SILENT_END_GRACE: Duration = Duration::from_millis(300);
/// Additional time for keepers at the end, after which they and their commands are killed.
const KEEPER_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for killing processes that do not die (another user's process, an uninterruptible wait).
const FORCE_LIMIT: Duration = Duration::from_secs(10);

/// Turns the process into a custodian if it was started as one; otherwise returns at once.
///
/// Must be the first thing `main` does: before threads, before argument parsing, before anything is printed. Orders
/// arrive on standard input and the lifeline is standard output, both set up by gimlet; a user who types the argument
/// has no such socket there and gets the normal program.
///
/// The sandbox helper is this binary too, and is also started here.
pub fn run_custodian_if_asked() {
    crate::sandbox::run_sandbox_helper_if_asked();
    if std::env::args_os().nth(1).is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let Some(mark) = std::env::args_os().nth(2).and_then(|mark| mark.to_str()?.parse().ok()) else { return };
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    if rustix::net::sockopt::socket_type(&stdin) != Ok(SocketType::SEQPACKET) {
        return;
    }
    become_custodian(stdin.as_fd(), stdout.as_fd(), mark)
}

/// Runs the custodian in this process, which must be fresh from exec or fork, and never returns.
///
/// It, the keepers and all commands carry `mark` as their limit of file locks; see [`crate::sweep_orphans`].
pub(crate) fn become_custodian(orders: impl AsFd, lifeline: impl AsFd, mark: u64) -> ! {
    let Ok([orders, lifeline]) = sys::keep_only_descriptors([orders.as_fd(), lifeline.as_fd()]) else {
        sys::exit_now(1)
    };
    // Each of these is a precaution whose failure (an old kernel) leaves a working, slightly weaker custodian.
    // The name comes first: gimlet takes a child in another session without it for an orphan.
    let _ = rustix::thread::set_name(CUSTODIAN_NAME);
    // Keepers inherit this; programs that they run start without it.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = rustix::process::setsid();
    let limit = Rlimit { current: Some(mark), ..rustix::process::getrlimit(Resource::Locks) };
    let _ = rustix::process::setrlimit(Resource::Locks, limit);
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    continue_when_parent_dies();
    // The directory gimlet was started in must stay removable and unmountable.
    let _ = rustix::process::chdir("/");
    sys::ignore_terminal_signals();
    let Ok(signals) = sys::child_signals() else { sys::exit_now(1) };
    Custodian {
        orders: Some(orders),
        spare: None,
        lifeline,
        signals,
        keepers: Vec::new(),
        orphans: false,
        ending: None,
    }
    .run();
    sys::exit_now(0)
}

struct Custodian {
    /// `None` once gimlet closed it: nothing more will be started.
    orders: Option<OwnedFd>,
    lifeline: OwnedFd,
    signals: OwnedFd,
    /// Keeper that waits for the next order. Without one (the system lacks resources) orders are refused here.
    spare: Option<SpareKeeper>,
    /// All keepers, the spare one among them.
    keepers: Vec<i32>,
    /// True if a keeper died and left children that may still be alive.
    orphans: bool,
    /// Time at which remaining keepers are killed, once the shutdown has begun.
    ending: Option<Instant>,
}

impl Custodian {
    fn run(&mut self) {
        loop {
            self.ensure_spare();
            let (word, end, child) = self.wait_for_events();
            if child {
                drain_readable(&self.signals);
                self.reap();
            }
            if end && self.ending.is_none() {
                // The orders socket stays open: its end signals to gimlet that all processes have ended.
                self.ending = Some(Instant::now() + self.grace() + KEEPER_LIMIT);
                self.signal_keepers(Signal::CONT);
            }
            if self.ending.is_some_and(|force_at| Instant::now() > force_at) {
                self.signal_keepers(Signal::KILL);
                // Also what a keeper gave up on.
                self.orphans = true;
                self.reap();
            }
            if word && self.ending.is_none() {
                self.check_spare();
            }
            let childless = self.keepers.is_empty() && !self.orphans;
            if self.ending.is_some_and(|force_at| childless || Instant::now() > force_at + FORCE_LIMIT)
                || (self.orders.is_none() && childless)
            {
                return;
            }
        }
    }

    /// Forks the next spare if there is none. On failure a waiting order, if any, is refused with the error.
    fn ensure_spare(&mut self) {
        if self.spare.is_some() || self.orders.is_none() || self.ending.is_some() {
            return;
        }
        match SpareKeeper::fork(&mut self.orders, &self.lifeline) {
            Ok((spare, pid)) => {
                self.spare = Some(spare);
                self.keepers.push(pid);
            }
            Err(error) => self.refuse_order(&error),
        }
    }

    fn check_spare(&mut self) {
        let Some(fate) = self.spare.as_ref().and_then(SpareKeeper::status) else { return };
        self.spare = None;
        if fate == SpareStatus::NoMoreOrders {
            self.orders = None;
        }
    }

    fn wait_for_events(&self) -> (bool, bool, bool) {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if self.ending.is_none() {
            polled.push(PollFd::new(&self.lifeline, PollFlags::IN));
            let orders = self.spare.as_ref().map(SpareKeeper::leash).or(self.orders.as_ref());
            polled.extend(orders.map(|orders| PollFd::new(orders, PollFlags::IN)));
        }
        let timeout = (self.orphans || self.ending.is_some()).then_some(Duration::from_millis(50));
        poll(&mut polled, timeout);
        let ready = |index: usize| polled.get(index).is_some_and(|fd| !fd.revents().is_empty());
        // Check the children also after a timeout: a kill that failed once is retried.
        (ready(2), ready(1), ready(0) || timeout.is_some())
    }

    /// Takes one order and reports that it cannot be carried out.
    fn refuse_order(&mut self, error: &std::io::Error) {
        let Some(orders) = &self.orders else { return };
        let mut buffer = vec![0; custody_wire::INLINE_ORDER_BYTES + 1024];
        match message_socket::receive(orders, &mut buffer) {
            Ok(received) if received.len > 0 => {
                if let Some(status) = received.descriptors.first() {
                    keeper::report_failure(status, custody_wire::StartStage::Keeper, error);
                }
            }
            Err(Errno::AGAIN) => {}
            Ok(_) | Err(_) => self.orders = None,
        }
    }

    /// Returns the grace period for commands: the one in gimlet's last message, if there was one.
    fn grace(&self) -> Duration {
        let mut grace = [0; 4];
        let len = message_socket::peek(&self.lifeline, &mut grace).unwrap_or_default();
        custody_wire::decode_grace(grace.get(..len).unwrap_or_default()).unwrap_or(SILENT_END_GRACE)
    }

    /// Signals all keepers. Those in the list are not reaped yet, so their process ids are still theirs.
    fn signal_keepers(&self, signal: Signal) {
        for keeper in self.keepers.iter().filter_map(|keeper| Pid::from_raw(*keeper)) {
            let _ = rustix::process::kill_process(keeper, signal);
        }
    }

    /// Reaps dead children. Living children that are not keepers were left behind by a killed keeper, so they are
    /// killed.
    fn reap(&mut self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((process, status))) = rustix::process::wait(options) {
            let pid = process.as_raw_nonzero().get();
            if status.stopped() {
                if self.keepers.contains(&pid) {
                    let _ = rustix::process::kill_process(process, Signal::CONT);
                }
            } else if let Some(index) = self.keepers.iter().position(|keeper| *keeper == pid) {
                self.keepers.swap_remove(index);
                self.orphans |= status.signaled();
            }
        }
        if self.orphans {
            self.orphans = kill_orphans(&self.keepers);
        }
    }
}

/// Makes the system continue a stopped process when its parent dies. The system also sends this signal when the
/// thread that started the process ends, which is harmless: a running process ignores it.
fn continue_when_parent_dies() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
}

/// Kills every child of this process that is not in `kept`, with all its descendants; returns true if there were any.
fn kill_orphans(kept: &[i32]) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let processes = procfs::list_processes();
    let orphans: Vec<i32> = processes
        .iter()
        .filter(|process| process.parent == own && !kept.contains(&process.pid))
        .map(|process| process.pid)
        .collect();
    for process in processes.iter().filter(|process| orphans.contains(&process.pid)) {
        let _ = process.signal(Signal::KILL);
    }
    for process in procfs::living_descendants(&processes, &orphans) {
        let _ = process.signal(Signal::KILL);
    }
    !orphans.is_empty()
}

/// Waits until one of the descriptors is ready, or for that long; for ever without a time.
fn poll(descriptors: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let timeout = timeout.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    });
    // The loops treat an interruption like a timeout: they check everything and poll again.
    let _ = rustix::event::poll(descriptors, timeout.as_ref());
}

/// Reads and discards all available data; returns false once the other end is closed.
fn drain_readable(descriptor: &OwnedFd) -> bool {
    let mut buffer = [0; 16 * 1024];
    loop {
        match rustix::io::read(descriptor, &mut buffer) {
            Ok(0) => return false,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return error == Errno::AGAIN,
        }
    }
}
