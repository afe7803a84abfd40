//! The custodian: a small process between gimlet and every command, gimlet's own binary run a second time.
//!
//! It does one thing: it has a spare keeper ready for the next order. The keeper takes the order, starts the command and
//! stays with it, and the custodian forks the next spare. Keepers are
//! subreapers, so whatever a command leaves behind falls to its own keeper and is known to be that command's, with no
//! marker and no guess. When a keeper is killed its orphans fall to the custodian, which ends them; when the custodian is
//! killed the keepers carry on and fall to gimlet. All of them watch the lifeline, and end everything when it ends.
//!
//! A command may stop what keeps it. The custodian continues a keeper that was stopped; a stopped custodian is continued
//! by gimlet when it needs it, and by the system when gimlet dies.
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
/// How custodians and keepers are called in `ps`, and how gimlet tells them from orphans. Neither name contains that of
/// gimlet, so that a `pkill gimlet` leaves somebody to end what gimlet started.
pub(crate) const CUSTODIAN_NAME: &CStr = c"cmd-custodian";
pub(crate) const KEEPER_NAME: &CStr = c"cmd-keeper";
/// What stands in front of the argument in a listing with arguments.
pub(crate) const ARGV0: &str = "cmd-custodian";

/// How long a tree may take to end when gimlet died or let go of it, before force.
const SILENT_END_GRACE: Duration = Duration::from_millis(300);
/// How much longer than the grace keepers may take at the end before they are killed and their commands with them.
const KEEPER_LIMIT: Duration = Duration::from_secs(1);
/// How long to go on forcing what does not die (another user's process, an uninterruptible wait) before leaving it.
const FORCE_LIMIT: Duration = Duration::from_secs(10);

/// Turns the process into a custodian when it was started as one; otherwise returns at once.
///
/// Must be the first thing `main` does: before threads, before argument parsing, before anything is printed. The orders
/// come on standard input and the lifeline is standard output, both put there by gimlet; a person who types the argument
/// has no such socket there and gets the normal program.
///
/// The helper that puts commands into a sandbox is the same binary too, and becomes one here.
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
    /// Waits for the next order. Without one (the system has no room for it) orders are refused here.
    spare: Option<SpareKeeper>,
    /// All keepers, the spare one among them.
    keepers: Vec<i32>,
    /// Whether a keeper died and left children that may still be alive.
    orphans: bool,
    /// Once the end has begun: when keepers that are still there are killed.
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
                // The orders socket stays open: its end tells gimlet that all is over.
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

    /// Forks the next spare if there is none. When that fails the waiting order, if any, is told so.
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
        // A look at the children also after a timeout: a kill that failed once is tried again.
        (ready(2), ready(1), ready(0) || timeout.is_some())
    }

    /// Takes one order and says that it cannot be carried out.
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

    /// How long commands may take to end: what gimlet said with its last word, if it had one.
    fn grace(&self) -> Duration {
        let mut grace = [0; 4];
        let len = message_socket::peek(&self.lifeline, &mut grace).unwrap_or_default();
        custody_wire::decode_grace(grace.get(..len).unwrap_or_default()).unwrap_or(SILENT_END_GRACE)
    }

    /// Keepers in the list are not buried yet, so their numbers are still theirs.
    fn signal_keepers(&self, signal: Signal) {
        for keeper in self.keepers.iter().filter_map(|keeper| Pid::from_raw(*keeper)) {
            let _ = rustix::process::kill_process(keeper, signal);
        }
    }

    /// Buries dead children. The living that are no keepers were left behind by a keeper that was killed, so they go.
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

/// Lets a process that somebody stopped wake up to its orphanhood. The system sends this when the thread that started the
/// process ends, too, which does no harm: to a process that runs it means nothing.
fn continue_when_parent_dies() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::CONT));
}

/// Kills every child of this process that is not in `kept`, with all its descendants; says whether there were any.
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
    // An interruption is no different from a time-out to the loops here: they look at everything and come back.
    let _ = rustix::event::poll(descriptors, timeout.as_ref());
}

/// Reads whatever is there and throws it away; false once the other end is closed.
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
