//! The filter of system calls that every sandboxed command runs under. Pure: makes instructions, loads nothing.
//!
//! It blocks ways around the other layers: other processes' memory, new namespaces and mounts, kernel facilities with
//! a history of vulnerabilities, and sockets beyond those that the sandbox allows.

mod confined;

use libc::c_long;

use super::sandbox_syscalls::FilterInstruction;
pub(super) use confined::confined_filter;

/// Internet sockets that a command may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InetAccess {
    None,
    /// Streams and datagrams, in a network namespace with nothing in it.
    Any,
}

/// Visibility of processes outside the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessVisibility {
    /// A namespace hides them.
    Hidden,
    Visible,
}

/// The part of the filter that differs between sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketAccess {
    pub(super) inet: InetAccess,
    /// Unix sockets by name. Pairs are always allowed: programs talk to their own children through them.
    pub(super) unix: bool,
}

/// Newer than the library's list; one number on every architecture.
const QUOTACTL_FD: c_long = 443;
const FCHMODAT2: c_long = 452;
const OPEN_TREE_ATTR: c_long = 467;

/// Calls that no command in a sandbox legitimately makes, or that would open it.
const CLOSED: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    OPEN_TREE_ATTR,
    QUOTACTL_FD,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Calls that programs try first and can do without: when the filter reports them as unsupported, programs fall back.
/// The flags of `clone3` lie in memory, where a filter cannot see them.
const UNKNOWN: &[c_long] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Calls that set a file's mode, and the index of the mode argument.
const MODES: &[(c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_mknodat, 2),
    (FCHMODAT2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];
/// Calls that do so only when they create a file, which the argument before the mode determines.
const MAKERS: &[(c_long, u32)] = &[
    (libc::SYS_openat, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
];
/// Running such a file gives its owner's rights: the user's, outside any sandbox.
const SET_USER: u32 = libc::S_ISUID;
/// One bit of each flag that creates a file.
const MAKES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// Memory, messages and locks that all processes of a user share. Closed where the command has no IPC namespace of
/// its own.
const SHARED: &[c_long] = &[
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];
/// Calls that change the process that their first argument names. Zero is the caller.
const ON_PROCESS: &[c_long] = &[
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];
/// Such calls with a kind before the number; the value is the kind that means a process.
const ON_KIND: [(c_long, u32); 2] = [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Typing into a terminal, and the console's own way to do so.
const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541C];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
/// Call numbers from here on belong to another calling convention of the processor.
#[cfg(target_arch = "x86_64")]
const FOREIGN_CALLS: Option<u32> = Some(0x4000_0000);
#[cfg(target_arch = "aarch64")]
const FOREIGN_CALLS: Option<u32> = None;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const NOT_THERE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const NO_FAMILY: u32 = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;

/// Offsets into the data that a filter reads.
const CALL_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
/// Returns the offset of an argument's lower half, on the little-endian machines that gimlet runs on. The kernel
/// treats all arguments that are checked here as 32-bit numbers.
const fn argument_at(index: u32) -> u32 {
    16 + 8 * index
}

/// Returns the whole filter.
pub(super) fn build_filter(sockets: SocketAccess, neighbours: ProcessVisibility) -> Vec<FilterInstruction> {
    // As with `clone3`, the arguments lie in memory: a filter cannot see the mode that the call sets.
    build_filter_without(&[UNKNOWN, &[libc::SYS_openat2]].concat(), sockets, neighbours)
}

/// Returns the filter for a helper that still has to set up the sandbox before the command gets the full filter.
pub(super) fn build_early_filter(sockets: SocketAccess) -> Vec<FilterInstruction> {
    build_filter_without(UNKNOWN, sockets, ProcessVisibility::Hidden)
}

fn build_filter_without(
    unknown: &[c_long],
    sockets: SocketAccess,
    neighbours: ProcessVisibility,
) -> Vec<FilterInstruction> {
    build_filter_closing(CLOSED, unknown, sockets, neighbours)
}

fn build_filter_closing(
    closed: &[c_long],
    unknown: &[c_long],
    sockets: SocketAccess,
    neighbours: ProcessVisibility,
) -> Vec<FilterInstruction> {
    let mut code = filter_start(closed, unknown);
    filter_end(&mut code, sockets, neighbours);
    code
}

/// Returns the part of a filter that reads only the number of a call.
fn filter_start(closed: &[c_long], unknown: &[c_long]) -> Vec<FilterInstruction> {
    let mut code = vec![
        load_word(ARCHITECTURE_AT),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        return_verdict(KILL),
        load_word(CALL_AT),
    ];
    if let Some(first) = FOREIGN_CALLS {
        code.extend([jump(libc::BPF_JGE, first, 0, 1), return_verdict(KILL)]);
    }
    for call in closed {
        code.extend([jump(libc::BPF_JEQ, *call as u32, 0, 1), return_verdict(REFUSE)]);
    }
    for call in unknown {
        code.extend([jump(libc::BPF_JEQ, *call as u32, 0, 1), return_verdict(NOT_THERE)]);
    }
    code
}

/// Adds the part that reads arguments. Decisions of an earlier part take precedence.
fn filter_end(code: &mut Vec<FilterInstruction>, sockets: SocketAccess, neighbours: ProcessVisibility) {
    if neighbours == ProcessVisibility::Visible {
        block_other_processes(code);
    }
    add_call_rules(
        code,
        libc::SYS_clone,
        &[load_word(argument_at(0)), jump(libc::BPF_JSET, NEW_NAMESPACES, 0, 1), return_verdict(REFUSE)],
    );
    let [first, second] = TERMINAL_INPUT;
    add_call_rules(
        code,
        libc::SYS_ioctl,
        &[
            load_word(argument_at(1)),
            jump(libc::BPF_JEQ, first, 1, 0),
            jump(libc::BPF_JEQ, second, 0, 1),
            return_verdict(REFUSE),
        ],
    );
    for (call, mode) in MODES {
        add_call_rules(code, *call, &mode_rules(*mode));
    }
    for (call, mode) in MAKERS {
        let makes = [load_word(argument_at(mode - 1)), jump(libc::BPF_JSET, MAKES, 1, 0), return_verdict(ALLOW)];
        add_call_rules(code, *call, &[makes, mode_rules(*mode)].concat());
    }
    add_call_rules(code, libc::SYS_socketpair, &socketpair_rules(sockets));
    add_call_rules(code, libc::SYS_socket, &socket_rules(sockets));
    code.push(return_verdict(ALLOW));
}

fn block_other_processes(code: &mut Vec<FilterInstruction>) {
    for call in SHARED {
        code.extend([jump(libc::BPF_JEQ, *call as u32, 0, 1), return_verdict(NOT_THERE)]);
    }
    for call in ON_PROCESS {
        add_call_rules(code, *call, &[load_word(argument_at(0)), jump(libc::BPF_JEQ, 0, 1, 0), return_verdict(REFUSE)]);
    }
    for (call, process) in ON_KIND {
        let kind = [load_word(argument_at(0)), jump(libc::BPF_JEQ, process, 1, 0), return_verdict(REFUSE)];
        let number = [load_word(argument_at(1)), jump(libc::BPF_JEQ, 0, 1, 0), return_verdict(REFUSE)];
        add_call_rules(code, call, &[kind, number].concat());
    }
}

/// Adds rules for one call only, which end in allowing it.
fn add_call_rules(code: &mut Vec<FilterInstruction>, call: c_long, rules: &[FilterInstruction]) {
    // The longest of these is a dozen instructions.
    code.push(jump(libc::BPF_JEQ, call as u32, 0, rules.len() as u8 + 1));
    code.extend(rules);
    code.push(return_verdict(ALLOW));
}

fn mode_rules(argument: u32) -> [FilterInstruction; 3] {
    [load_word(argument_at(argument)), jump(libc::BPF_JSET, SET_USER, 0, 1), return_verdict(REFUSE)]
}

/// Returns the rules for socket pairs. Half of a pair of datagram sockets can send or connect anywhere, for which
/// `socket` is closed.
fn socketpair_rules(sockets: SocketAccess) -> Vec<FilterInstruction> {
    let mut rules =
        vec![load_word(argument_at(0)), jump(libc::BPF_JEQ, libc::AF_UNIX as u32, 1, 0), return_verdict(NO_FAMILY)];
    if !sockets.unix {
        // The upper bits of the type are flags.
        rules.extend([load_word(argument_at(1)), statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf)]);
        let (stream, packets) = (libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32);
        rules.extend([
            jump(libc::BPF_JEQ, stream, 2, 0),
            jump(libc::BPF_JEQ, packets, 1, 0),
            return_verdict(NO_FAMILY),
        ]);
    }
    rules
}

fn socket_rules(sockets: SocketAccess) -> Vec<FilterInstruction> {
    let mut rules = vec![load_word(argument_at(0))];
    if sockets.unix {
        rules.extend([jump(libc::BPF_JEQ, libc::AF_UNIX as u32, 0, 1), return_verdict(ALLOW)]);
    }
    let kinds: &[i32] = match sockets.inet {
        InetAccess::None => &[],
        InetAccess::Any => &[libc::SOCK_STREAM, libc::SOCK_DGRAM],
    };
    if !kinds.is_empty() {
        let (v4, v6) = (libc::AF_INET as u32, libc::AF_INET6 as u32);
        rules.extend([jump(libc::BPF_JEQ, v4, 2, 0), jump(libc::BPF_JEQ, v6, 1, 0), return_verdict(NO_FAMILY)]);
        // The upper bits of the type are flags.
        rules.extend([load_word(argument_at(1)), statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf)]);
        for kind in kinds {
            rules.extend([jump(libc::BPF_JEQ, *kind as u32, 0, 1), return_verdict(ALLOW)]);
        }
    }
    rules.push(return_verdict(NO_FAMILY));
    rules
}

fn load_word(offset: u32) -> FilterInstruction {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn return_verdict(verdict: u32) -> FilterInstruction {
    statement(libc::BPF_RET | libc::BPF_K, verdict)
}

fn statement(code: u32, k: u32) -> FilterInstruction {
    FilterInstruction { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(test: u32, k: u32, if_true: u8, if_false: u8) -> FilterInstruction {
    FilterInstruction { code: (libc::BPF_JMP | test | libc::BPF_K) as u16, jt: if_true, jf: if_false, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    pub(super) fn run_filter(code: &[FilterInstruction], architecture: u32, call: u32, args: &[u32]) -> u32 {
        let mut accumulator = 0;
        let mut at = 0;
        loop {
            let FilterInstruction { code: operation, jt, jf, k } = code[at];
            at += 1;
            let hop = |taken: bool| usize::from(if taken { jt } else { jf });
            match u32::from(operation) {
                op if op == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match k {
                        CALL_AT => call,
                        ARCHITECTURE_AT => architecture,
                        argument => args[(argument as usize - 16) / 8],
                    }
                }
                op if op == libc::BPF_RET | libc::BPF_K => return k,
                op if op == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => accumulator &= k,
                op if op == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += hop(accumulator == k),
                op if op == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += hop(accumulator >= k),
                op if op == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => at += hop(accumulator & k != 0),
                other => panic!("operation {other:x}"),
            }
        }
    }

    #[test]
    fn each_call_gets_its_verdict() {
        let closed = SocketAccess { inet: InetAccess::None, unix: false };
        let local = SocketAccess { inet: InetAccess::Any, unix: false };
        let any = SocketAccess { inet: InetAccess::Any, unix: true };
        let (socket, pair) = (libc::SYS_socket, libc::SYS_socketpair);
        let (unix, v4, v6) = (libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32);
        let stream = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u32;
        let (datagram, raw) = (libc::SOCK_DGRAM as u32, libc::SOCK_RAW as u32);
        for (sockets, call, args, expected) in [
            (closed, libc::SYS_read, [0, 0], ALLOW),
            (closed, libc::SYS_ptrace, [0, 0], REFUSE),
            (closed, libc::SYS_clone3, [0, 0], NOT_THERE),
            (closed, libc::SYS_clone, [libc::SIGCHLD as u32, 0], ALLOW),
            (closed, libc::SYS_clone, [libc::CLONE_NEWUSER as u32 | 17, 0], REFUSE),
            (closed, libc::SYS_ioctl, [0, 0x5412], REFUSE),
            (closed, libc::SYS_ioctl, [0, 0x541C], REFUSE),
            (closed, libc::SYS_ioctl, [0, 0x5413], ALLOW),
            (closed, pair, [unix, stream], ALLOW),
            (closed, pair, [v4, stream], NO_FAMILY),
            (closed, pair, [unix, datagram], NO_FAMILY),
            (closed, pair, [unix, datagram | libc::SOCK_NONBLOCK as u32], NO_FAMILY),
            (closed, pair, [unix, raw], NO_FAMILY),
            (closed, pair, [unix, libc::SOCK_SEQPACKET as u32], ALLOW),
            (any, pair, [unix, datagram], ALLOW),
            (closed, socket, [unix, stream], NO_FAMILY),
            (closed, socket, [v4, stream], NO_FAMILY),
            (local, socket, [v4, stream], ALLOW),
            (local, socket, [v6, stream], ALLOW),
            (local, socket, [unix, stream], NO_FAMILY),
            (any, socket, [unix, stream], ALLOW),
            (any, socket, [v4, datagram], ALLOW),
            (any, socket, [v4, raw], NO_FAMILY),
            (any, socket, [libc::AF_NETLINK as u32, raw], NO_FAMILY),
            (any, socket, [libc::AF_VSOCK as u32, stream], NO_FAMILY),
            (any, socket, [libc::AF_PACKET as u32, datagram], NO_FAMILY),
        ] {
            let seen = run_filter(&build_filter(sockets, ProcessVisibility::Hidden), ARCHITECTURE, call as u32, &args);
            assert_eq!(seen, expected, "call {call} with {args:?} under {sockets:?}");
        }
    }

    #[test]
    fn neighbours_that_are_in_sight_are_out_of_reach() {
        let closed = SocketAccess { inet: InetAccess::None, unix: false };
        for (call, args, alone, in_sight) in [
            (libc::SYS_shmget, [0, 0], ALLOW, NOT_THERE),
            (libc::SYS_prlimit64, [0, 7], ALLOW, ALLOW),
            (libc::SYS_prlimit64, [4711, 7], ALLOW, REFUSE),
            (libc::SYS_setpriority, [0, 0], ALLOW, ALLOW),
            (libc::SYS_setpriority, [0, 4711], ALLOW, REFUSE),
            (libc::SYS_setpriority, [2, 0], ALLOW, REFUSE),
            (libc::SYS_ioprio_set, [1, 0], ALLOW, ALLOW),
            (libc::SYS_ioprio_set, [3, 0], ALLOW, REFUSE),
            (libc::SYS_read, [4711, 0], ALLOW, ALLOW),
        ] {
            for (neighbours, expected) in [(ProcessVisibility::Hidden, alone), (ProcessVisibility::Visible, in_sight)] {
                let seen = run_filter(&build_filter(closed, neighbours), ARCHITECTURE, call as u32, &args);
                assert_eq!(seen, expected, "call {call} with {args:?}, {neighbours:?}");
            }
        }
    }

    #[test]
    fn setuid_modes_are_refused() {
        let code = build_filter(SocketAccess { inet: InetAccess::Any, unix: true }, ProcessVisibility::Hidden);
        let (made, new) = (libc::O_CREAT as u32 | 1, libc::O_TMPFILE as u32 | 1);
        for (call, args, expected) in [
            (libc::SYS_fchmod, [3, 0o4755, 0, 0], REFUSE),
            (libc::SYS_fchmod, [3, 0o2755, 0, 0], ALLOW),
            (libc::SYS_fchmodat, [0, 0, 0o4755, 0], REFUSE),
            (FCHMODAT2, [0, 0, 0o6755, 0], REFUSE),
            (libc::SYS_mknodat, [0, 0, libc::S_IFREG | 0o4755, 0], REFUSE),
            (libc::SYS_openat, [0, 0, made, 0o4755], REFUSE),
            (libc::SYS_openat, [0, 0, new, 0o4755], REFUSE),
            (libc::SYS_openat, [0, 0, made, 0o666], ALLOW),
            // The mode is not used then.
            (libc::SYS_openat, [0, 0, libc::O_DIRECTORY as u32, 0o4755], ALLOW),
            (libc::SYS_openat2, [0, 0, 0, 0], NOT_THERE),
        ] {
            assert_eq!(run_filter(&code, ARCHITECTURE, call as u32, &args), expected, "call {call} with {args:?}");
        }
    }

    #[test]
    fn a_foreign_calling_convention_kills_the_process() {
        let code = build_filter(SocketAccess { inet: InetAccess::Any, unix: true }, ProcessVisibility::Hidden);
        assert_eq!(run_filter(&code, 0x4000_0003, 1, &[0, 0]), KILL);
        if let Some(first) = FOREIGN_CALLS {
            assert_eq!(run_filter(&code, ARCHITECTURE, first + 101, &[0, 0]), KILL);
        }
    }
}
