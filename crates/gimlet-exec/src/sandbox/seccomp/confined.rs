//! The filter of confined commands. Pure.

use libc::c_long;

use super::super::sandbox_syscalls::FilterInstruction;
use super::{
    ALLOW, CLOSED, FCHMODAT2, InetAccess, ProcessVisibility, REFUSE, SocketAccess, TERMINAL_INPUT, UNKNOWN,
    add_call_rules, argument_at, filter_end, filter_start, jump, load_word, return_verdict, statement,
};

/// Newer than the library's list; one number on every architecture.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const FILE_SETATTR: c_long = 469;

const NO_TERMINAL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOTTY as u32;

/// Calls that change what is known about a file without writing to it, which Landlock does not govern.
const CHANGES_OF_METADATA: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// Requests to a file that is open for reading that change nothing: its flags, version, attributes and extents, the
/// size of its blocks, the label of its file system. The last two write, but only to a file that is open for that.
const READING_REQUESTS: [u32; 8] =
    [0x8008_6601, 0x8008_7601, 0x801C_581F, 0xC020_660B, 0x0000_0002, 0x8100_9431, 0x4004_9409, 0x4020_940D];
/// The kind of request that terminals, pipes and sockets take, and where in a request it is.
const TERMINAL_REQUESTS: u32 = 0x5400;
const REQUEST_KIND: u32 = 0xff00;

/// Returns the filter of commands that are confined because they run without asking the user: no sockets, no other
/// processes, and no changes to the modes, owners, times, attributes and flags of files.
pub(in super::super) fn confined_filter() -> Vec<FilterInstruction> {
    let unknown = [UNKNOWN, &[libc::SYS_openat2]].concat();
    let closed = [CLOSED, CHANGES_OF_METADATA].concat();
    let mut code = filter_start(&closed, &unknown);
    // A lease on a readable file makes its writers wait.
    add_call_rules(
        &mut code,
        libc::SYS_fcntl,
        &[load_word(argument_at(1)), jump(libc::BPF_JEQ, libc::F_SETLEASE as u32, 0, 1), return_verdict(REFUSE)],
    );
    add_call_rules(&mut code, libc::SYS_ioctl, &reading_request_rules());
    filter_end(&mut code, SocketAccess { inet: InetAccess::None, unix: false }, ProcessVisibility::Visible);
    code
}

/// Returns the rules for requests to files, which can set flags, also on a file that is open for reading, and remove
/// whole trees on some file systems: only those that are known to change nothing are allowed.
fn reading_request_rules() -> Vec<FilterInstruction> {
    let mut rules = vec![load_word(argument_at(1))];
    for request in TERMINAL_INPUT {
        rules.extend([jump(libc::BPF_JEQ, request, 0, 1), return_verdict(REFUSE)]);
    }
    for request in READING_REQUESTS {
        rules.extend([jump(libc::BPF_JEQ, request, 0, 1), return_verdict(ALLOW)]);
    }
    let kind = statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, REQUEST_KIND);
    rules.extend([kind, jump(libc::BPF_JEQ, TERMINAL_REQUESTS, 1, 0), return_verdict(NO_TERMINAL)]);
    rules
}

#[cfg(test)]
mod tests {
    use super::super::tests::run_filter;
    use super::super::{ARCHITECTURE, NO_FAMILY};
    use super::*;

    #[test]
    fn a_confined_command_changes_no_metadata_and_makes_no_socket() {
        let code = confined_filter();
        let seen = |call: c_long, args: &[u32]| run_filter(&code, ARCHITECTURE, call as u32, args);
        for call in CHANGES_OF_METADATA {
            assert_eq!(seen(*call, &[0, 0, 0, 0]), REFUSE, "call {call}");
        }
        let stream = libc::SOCK_STREAM as u32;
        for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_VSOCK] {
            assert_eq!(seen(libc::SYS_socket, &[family as u32, stream]), NO_FAMILY, "family {family}");
        }
        assert_eq!(seen(libc::SYS_openat, &[0, 0, 0, 0]), ALLOW);
        assert_eq!(seen(libc::SYS_ptrace, &[0, 0]), REFUSE);
    }

    #[test]
    fn a_confined_command_makes_no_request_that_changes_a_file() {
        let code = confined_filter();
        let seen = |call: c_long, second: u32| run_filter(&code, ARCHITECTURE, call as u32, &[3, second, 0, 0]);
        let (set_flags, set_attributes, set_version, remove_tree) =
            (0x4008_6602, 0x401C_5820, 0x4008_7602, 0x5000_940F);
        for request in [set_flags, set_attributes, set_version, remove_tree] {
            assert_eq!(seen(libc::SYS_ioctl, request), NO_TERMINAL, "request {request:x}");
        }
        for request in READING_REQUESTS.into_iter().chain([0x5401, 0x5413, 0x541B, 0x5451, 0x802C_542A]) {
            assert_eq!(seen(libc::SYS_ioctl, request), ALLOW, "request {request:x}");
        }
        assert_eq!(seen(libc::SYS_ioctl, TERMINAL_INPUT[0]), REFUSE);
        assert_eq!(seen(libc::SYS_fcntl, libc::F_SETLEASE as u32), REFUSE);
        assert_eq!(seen(libc::SYS_fcntl, libc::F_SETLK as u32), ALLOW);
    }
}
