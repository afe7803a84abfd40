//! The few calls that Rust cannot check: `fork`, `posix_spawn`, `execve`, `_exit`, signal set-up, closing of all
//! descriptors, and the strings that the process was started with.
//!
//! Each is wrapped so that its callers stay safe code. Nothing here knows the concepts of command, keeper or message.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Side of a `fork` on which the caller continues.
pub(crate) enum ForkSide {
    Parent(i32),
    Child,
}

/// Forks the process.
///
/// The child has only the calling thread. It may use the allocator (the C library makes that safe after a fork) but
/// must not touch a lock that another thread could have held, and must exit through [`exit_now`].
pub(crate) fn fork() -> io::Result<ForkSide> {
    // SAFETY: the callers are the single-threaded custodian and the fork form of its start; both children run only the
    // loops of this crate, which take no lock of the parent, and end with `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Child),
        pid => Ok(ForkSide::Parent(pid)),
    }
}

/// Forks into two processes that share their working directory, their root and their file mode mask: when one of them
/// changes its directory, the other's changes too, also after the new program was started.
///
/// The requirements of [`fork`] apply; besides, the process must have a single thread, because the C library does not
/// know of this fork.
pub(crate) fn fork_sharing_directory() -> io::Result<ForkSide> {
    let none = 0_usize;
    // SAFETY: without CLONE_VM and with no stack of its own the call behaves like `fork`: the child runs on a copy of
    // this memory. The callers are single-threaded, so no lock of the C library can be held by another thread.
    let answer = unsafe {
        let flags = libc::CLONE_FS as usize | libc::SIGCHLD as usize;
        libc::syscall(libc::SYS_clone, flags, none, none, none, none)
    };
    match i32::try_from(answer) {
        Ok(0) => Ok(ForkSide::Child),
        Ok(pid) if pid > 0 => Ok(ForkSide::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Stops sharing working directory, root and file mode mask with any other process.
pub(crate) fn stop_sharing_directory() -> io::Result<()> {
    // SAFETY: only the directories of this process are concerned, no memory and no descriptor.
    match unsafe { libc::unshare(libc::CLONE_FS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process at once, without destructors or exit handlers that belong to the program it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` only ends the process.
    unsafe { libc::_exit(code) }
}

/// Parameters of a new program: its path, its arguments, its environment and its descriptors.
pub(crate) struct ProgramImage<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) args: &'a [&'a CStr],
    pub(crate) env: &'a [&'a CStr],
    /// Pairs of (descriptor here, number there). Numbers there must not be descriptors here.
    pub(crate) descriptors: &'a [(BorrowedFd<'a>, RawFd)],
}

/// Starts a program in a session and process group of its own, with an empty signal mask and default dispositions.
///
/// The child shares memory with its parent until it runs the new program, so nothing is copied, and a failure to run
/// it is returned here as the error.
pub(crate) fn spawn_image(image: &ProgramImage<'_>) -> io::Result<i32> {
    let args = null_terminated(image.args);
    let env = null_terminated(image.env);
    let mut pid = 0;
    // SAFETY: the attribute and action objects are initialised before use and destroyed after it; every pointer handed
    // over (program, arrays, strings) outlives the call; signal sets are initialised by sigfillset and sigemptyset.
    unsafe {
        let mut actions = MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
        check_errno(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
        let mut attributes = MaybeUninit::<libc::posix_spawnattr_t>::uninit();
        check_errno(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
        for (from, to) in image.descriptors {
            check_errno(libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), from.as_raw_fd(), *to))?;
        }
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(signals.as_mut_ptr());
        check_errno(libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), signals.as_ptr()))?;
        libc::sigemptyset(signals.as_mut_ptr());
        check_errno(libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), signals.as_ptr()))?;
        let signals = libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = libc::POSIX_SPAWN_SETSID | signals as libc::c_short;
        check_errno(libc::posix_spawnattr_setflags(attributes.as_mut_ptr(), flags))?;
        let outcome = libc::posix_spawn(
            &raw mut pid,
            image.program.as_ptr(),
            actions.as_ptr(),
            attributes.as_ptr(),
            args.as_ptr().cast::<*mut c_char>(),
            env.as_ptr().cast::<*mut c_char>(),
        );
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        check_errno(outcome)?;
    }
    Ok(pid)
}

/// Becomes a new program with an empty signal mask, default dispositions and exactly the given descriptors besides
/// those that close by themselves. Returns only when that failed.
pub(crate) fn exec_image(image: &ProgramImage<'_>) -> io::Error {
    let args = null_terminated(image.args);
    let env = null_terminated(image.env);
    // SAFETY: as in `spawn_image`: every pointer outlives the call and the set is initialised before use. The
    // descriptors are open, and their numbers in the new program are none of theirs here.
    unsafe {
        for (from, to) in image.descriptors {
            if libc::dup2(from.as_raw_fd(), *to) == -1 {
                return io::Error::last_os_error();
            }
        }
        for signal in 1..libc::SIGRTMAX() {
            // Fails for those whose disposition is fixed.
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(image.program.as_ptr(), args.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

fn null_terminated(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Converts a result of the `posix_spawn` family, which returns the error number instead of setting `errno`.
fn check_errno(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

/// Signals that must not end a process whose job is to outlive what they were meant for.
const IGNORED: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGUSR1,
];

/// Ignores signals that should not reach a custodian and clears the signal mask that it may have inherited.
pub(crate) fn ignore_terminal_signals() {
    // SAFETY: SIG_IGN is a valid disposition and the numbers are valid signals; the set is initialised before use.
    unsafe {
        for signal in IGNORED {
            libc::signal(signal, libc::SIG_IGN);
        }
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Returns a descriptor that becomes readable when a child changed state. `SIGCHLD` stays blocked from here on.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use; the descriptor returned by signalfd is new and has no other owner.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
        match libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// The lowest descriptor number that a custodian uses for itself; those below are `/dev/null` or a command's.
pub(crate) const FIRST_OWN_DESCRIPTOR: RawFd = 10;

/// Keeps exactly the given descriptors, moved to numbers from [`FIRST_OWN_DESCRIPTOR`] on, and fills the numbers
/// below with `/dev/null` so that no later descriptor can get a number that a command will use.
///
/// Every other descriptor of the process is closed without its owner's knowledge, so only a process that runs nothing
/// but this crate's loops (fresh from exec or fork) may call this.
pub(crate) fn keep_only_descriptors<const N: usize>(kept: [BorrowedFd<'_>; N]) -> io::Result<[OwnedFd; N]> {
    // First up and out of the way, then down into one block, so that the two moves cannot overwrite each other.
    let staged: Vec<OwnedFd> = kept.iter().map(|fd| duplicate_from(fd.as_raw_fd(), 64)).collect::<io::Result<_>>()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let first_free = FIRST_OWN_DESCRIPTOR + N as RawFd;
    // SAFETY: dup3 and close_range only change this process's descriptor table, and the caller guarantees that no
    // code here relies on the closed descriptors. The numbers in the block were just made and are owned once.
    unsafe {
        for number in 0..FIRST_OWN_DESCRIPTOR {
            if number != null.as_raw_fd() && libc::dup3(null.as_raw_fd(), number, libc::O_CLOEXEC) == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        for (index, fd) in staged.iter().enumerate() {
            if libc::dup3(fd.as_raw_fd(), FIRST_OWN_DESCRIPTOR + index as RawFd, libc::O_CLOEXEC) == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        // These may now name a kept number; letting them close would take it away.
        std::mem::forget(null);
        staged.into_iter().for_each(std::mem::forget);
        if libc::syscall(libc::SYS_close_range, first_free, u32::MAX, 0) == -1 {
            close_one_by_one(first_free);
        }
        Ok(std::array::from_fn(|index| OwnedFd::from_raw_fd(FIRST_OWN_DESCRIPTOR + index as RawFd)))
    }
}

fn duplicate_from(fd: RawFd, lowest: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC returns a new descriptor that has no other owner.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

/// Lets the runtime wait until a descriptor can be read. Must be called within a runtime.
pub(crate) fn watch_readable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, stays open while it is owned, and its number never changes.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

unsafe extern "C" {
    /// The environment that the C library uses: until it is changed, the strings the process was started with.
    static environ: *const *mut c_char;
}

/// Overwrites the values of variables in place, which is where `/proc/PID/environ` shows them from.
///
/// Must only be called while this process has one thread, and when those variables will not be read again.
pub(crate) fn blank_environment(is_secret: impl Fn(&[u8]) -> bool) {
    // SAFETY: the array ends with a null pointer and each string with a null byte; both are this process's own
    // writable memory. Only bytes between `=` and that null byte are written, so all of it stays well-formed. With
    // one thread there is no concurrent reader.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let length = text.len();
            if let Some(end) = memchr::memchr(b'=', text).filter(|end| is_secret(&text[..*end])) {
                ptr::write_bytes((*entry).add(end + 1), 0, length - end - 1);
            }
            entry = entry.add(1);
        }
    }
}

/// Closes descriptors one by one, for kernels without `close_range`.
fn close_one_by_one(first: RawFd) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok())).collect();
    for fd in open.into_iter().filter(|fd| *fd >= first) {
        // SAFETY: as in `keep_only_descriptors`: no code relies on these any more; closing a closed number only
        // fails.
        unsafe { libc::close(fd) };
    }
}
