//! The system calls of the sandbox that no library wraps: Landlock, seccomp, mount attributes, the loopback
//! interface.
//!
//! Each is wrapped so that its callers stay safe code. Nothing here knows the concept of a sandbox.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::net::{AddressFamily, SocketType};

/// One instruction of a seccomp filter.
pub(super) type FilterInstruction = libc::sock_filter;

const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
const LANDLOCK_RULE_PATH_BENEATH: c_int = 1;

/// Access rights that a Landlock rule set governs; the fields and their order are the kernel's.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HandledAccess {
    pub(super) files: u64,
    pub(super) network: u64,
    pub(super) scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// Returns the kernel's version of Landlock; zero without it.
pub(super) fn landlock_abi() -> u32 {
    // SAFETY: with the version flag the call takes no attribute and only answers a number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<HandledAccess>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(answer).unwrap_or(0)
}

/// A set of Landlock rules under construction.
pub(super) struct LandlockRuleset(OwnedFd);

impl LandlockRuleset {
    pub(super) fn new(handled: HandledAccess) -> io::Result<Self> {
        // SAFETY: the attribute is a plain structure of the size that is given; kernels that know fewer fields accept
        // a longer one as long as the rest is zero. The descriptor is new.
        unsafe {
            let fd = check_syscall(libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const handled,
                size_of::<HandledAccess>(),
                0_u32,
            ))?;
            Ok(Self(OwnedFd::from_raw_fd(fd as c_int)))
        }
    }

    /// Allows these accesses to a file, or to everything beneath a directory.
    pub(super) fn allow_beneath(&self, path: impl AsFd, allowed: u64) -> io::Result<()> {
        let rule = PathBeneath { allowed, parent: path.as_fd().as_raw_fd() };
        let set = self.0.as_raw_fd();
        // SAFETY: `rule` is a living structure of the kind that is named.
        let answer = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &raw const rule, 0_u32)
        };
        check_syscall(answer).map(drop)
    }

    /// Restricts this thread, and all it starts, to the rules permanently.
    pub(super) fn enforce(self) -> io::Result<()> {
        enforce_rules(&self.0)
    }

    pub(super) fn into_descriptor(self) -> OwnedFd {
        self.0
    }
}

/// Restricts this thread, and all it starts, to a set of Landlock rules permanently. Fails when the descriptor is not
/// one.
pub(super) fn enforce_rules(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call reads the descriptor and changes only the rights of this thread.
    check_syscall(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0_u32) }).map(drop)
}

/// Restricts this thread, and all it starts, to a filter of system calls permanently.
pub(super) fn enforce_filter(instructions: &mut [FilterInstruction]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: the program points to that many instructions, which live until the call has copied them.
    let answer = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0_u32, &raw const program) };
    check_syscall(answer).map(drop)
}

/// Returns a filter as the bytes that another program loads.
pub(super) fn filter_bytes(instructions: &[FilterInstruction]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(instructions));
    for FilterInstruction { code, jt, jf, k } in instructions {
        bytes.extend(code.to_ne_bytes());
        bytes.extend([*jt, *jf]);
        bytes.extend(k.to_ne_bytes());
    }
    bytes
}

pub(super) const MOUNT_READ_ONLY: u64 = 0x1;
pub(super) const MOUNT_NO_SETUID: u64 = 0x2;
pub(super) const MOUNT_NO_DEVICES: u64 = 0x4;

/// Mounts on which an attribute is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountScope {
    ThisMount,
    AllMounts,
}

/// Sets attributes on a mount that is named by a descriptor.
pub(super) fn set_mount_attributes(mount: BorrowedFd<'_>, set: u64, below: MountScope) -> io::Result<()> {
    #[repr(C)]
    struct MountAttributes {
        set: u64,
        clear: u64,
        propagation: u64,
        user_namespace: u64,
    }
    let attributes = MountAttributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    let recursive = if below == MountScope::AllMounts { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty string and the structure is of the size that is given.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    check_syscall(answer).map(drop)
}

/// Switches the loopback interface of this network namespace on.
pub(super) fn bring_up_loopback() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: an interface request of zeroes is a valid one; its name is a terminated string that fits, and the kernel
    // reads and writes nothing but the structure.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
            *to = *from as c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
        check_syscall(c_long::from(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request))).map(drop)
    }
}

/// Executes another program. Returns only on failure.
pub(super) fn exec_program(program: &CStr, args: &[CString], env: &[CString]) -> io::Error {
    let pointers = |words: &[CString]| -> Vec<*const c_char> {
        words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: all three are terminated and live until the call returns. A Rust program ignores SIGPIPE, and ignored
    // signals stay ignored: without the reset, a program that writes into a pipe without a reader never ends.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execve(program.as_ptr(), args.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

/// Disposition of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalDisposition {
    Default,
    Ignore,
}

/// Sets the disposition of signals that ask a command to end. A process that only waits for the command must not
/// react to them.
pub(super) fn set_termination_disposition(disposition: SignalDisposition) {
    let handler = match disposition {
        SignalDisposition::Default => libc::SIG_DFL,
        SignalDisposition::Ignore => libc::SIG_IGN,
    };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: neither disposition runs code of ours.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Ends this process by the signal that ended another.
pub(super) fn die_by_signal(signal: i32) {
    // SAFETY: these calls change only this process's own signal set-up and limits, and it is about to end.
    unsafe {
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn check_syscall(answer: c_long) -> io::Result<c_long> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Moves this single-threaded process into new namespaces.
pub(super) fn enter_namespaces(flags: c_int) -> io::Result<()> {
    // SAFETY: namespaces are not memory; the flags given here never unshare the descriptor table.
    check_syscall(c_long::from(unsafe { libc::unshare(flags) })).map(drop)
}

/// Closes every descriptor from this number on, or fails where the kernel cannot.
pub(super) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: the caller is about to become another program and uses no descriptor but the standard ones.
    check_syscall(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0_u32) }).map(drop)
}

/// Takes a descriptor that another program left open for this one. Must be called once for a number.
pub(super) fn take_descriptor(number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call fails unless the number is open; the program that left it open passed it only to this one, and
    // close-on-exec keeps it from going further.
    unsafe {
        check_syscall(c_long::from(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC)))?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}
