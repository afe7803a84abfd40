//! The ways out of a sandbox that are tried. Each works outside of it, or it would prove nothing.

/// Who can do it outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequiredUser {
    Anyone,
    Root,
    /// An ordinary user only: root is above the limit in question.
    User,
}

/// How one sees that it worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EscapeProof {
    /// The attempt says so by its exit code.
    Code,
    /// Something is different afterwards in what must stay as it is.
    Effect,
}

pub(crate) struct EscapeCase {
    pub(crate) name: &'static str,
    pub(crate) by: RequiredUser,
    pub(crate) proof: EscapeProof,
    /// Whether it stays closed with Landlock and the filter alone.
    pub(crate) closed_without_mounts: bool,
    /// Bash. `py` runs Python with `libc`, `call` (a system call by number, -1 for failure) and `e` (the error number).
    pub(crate) attempt: &'static str,
}

const fn effect_case(name: &'static str, attempt: &'static str) -> EscapeCase {
    EscapeCase { name, by: RequiredUser::Anyone, proof: EscapeProof::Effect, closed_without_mounts: true, attempt }
}

const fn code_case(name: &'static str, attempt: &'static str) -> EscapeCase {
    EscapeCase { name, by: RequiredUser::Anyone, proof: EscapeProof::Code, closed_without_mounts: true, attempt }
}

const fn root_case(name: &'static str, attempt: &'static str) -> EscapeCase {
    EscapeCase { by: RequiredUser::Root, ..code_case(name, attempt) }
}

/// Landlock does not know it, and without mounts nothing else does.
const fn with_mounts_required(case: EscapeCase) -> EscapeCase {
    EscapeCase { closed_without_mounts: false, ..case }
}

/// Around each attempt: `$OUT` is a folder outside with `file` in it, `$SECRET` one that cannot be read, `$VICTIM` a
/// process outside whose folder is `$OUT`, `$TCP`, `$UDP`, `$SOCKET` and `$ABSTRACT` are services outside that say `hi`,
/// `$TERMINAL`, `$SHARED` and `$SEGMENT` a terminal, a file in `/dev/shm` and a piece of memory of somebody else.
pub(crate) const PRELUDE: &str = r#"
py() { /usr/bin/python3 -S -c "
import ctypes, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    return libc.syscall(*[x if isinstance(x, (bytes, ctypes.Array, ctypes.Structure)) or x is None else ctypes.c_long(x) for x in a])
def e(): return ctypes.get_errno()
$1" 2>/dev/null; }
"#;

pub(crate) const CASES: &[EscapeCase] = &[
    // Writing outside.
    effect_case("write a new file", "echo x > $OUT/new"),
    effect_case("append to a file", "echo x >> $OUT/file"),
    effect_case("truncate by opening", ": > $OUT/file"),
    effect_case("truncate by path", "truncate -s 1 $OUT/file"),
    effect_case("write through a link to a folder", "ln -s $OUT link; echo x > link/new"),
    effect_case("write through a link to a file", "ln -s $OUT/file link; echo x > link"),
    effect_case("write through a hard link", "ln $OUT/file hard && echo x > hard"),
    effect_case("move a file out", "echo x > a; mv a $OUT/new"),
    effect_case("move a file in", "mv $OUT/file stolen"),
    effect_case(
        "exchange two files",
        r#"echo x > a; py "sys.exit(call(316, -100, b'a', -100, b'$OUT/file', 2) != 0)""#,
    ),
    effect_case("write below /proc/self/root", "echo x > /proc/self/root$OUT/new"),
    effect_case("write below the parent of /proc/self/cwd", "echo x > /proc/self/cwd/../out/new"),
    effect_case("write below another's root", "echo x > /proc/$VICTIM/root$OUT/new"),
    effect_case("write below another's folder", "echo x > /proc/$VICTIM/cwd/new"),
    effect_case("make a folder", "mkdir $OUT/dir"),
    effect_case("remove a file", "rm -f $OUT/file"),
    effect_case("make a pipe", "mkfifo $OUT/pipe"),
    effect_case("make a link", "ln -s /etc $OUT/etc"),
    effect_case(
        "write by descriptor of a folder",
        r#"py "
d = os.open('$OUT', os.O_RDONLY)
os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=d)""#,
    ),
    effect_case(
        "write by a descriptor that somebody passes",
        r#"py "
s = socket.socket(socket.AF_UNIX)
s.connect('$SOCKET.fd')
s.send(b'$OUT/passed')
m, fds, f, a = socket.recv_fds(s, 9, 1)
os.write(fds[0], b'x')""#,
    ),
    with_mounts_required(effect_case("change a mode", "chmod 777 $OUT/file")),
    with_mounts_required(effect_case("change times", "touch -c -d 2000-01-01 $OUT/file")),
    with_mounts_required(effect_case("set an attribute", r#"py "os.setxattr('$OUT/file', 'user.x', b'y')""#)),
    effect_case("rename the folder of work away", "mv $W $W.gone"),
    effect_case("run through the dynamic loader", "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch $OUT/new"),
    effect_case("run a copy under another name", "cp /usr/bin/touch innocent; ./innocent $OUT/new"),
    effect_case("run a script of an interpreter", r#"py "open('$OUT/new', 'w')""#),
    effect_case(
        "run a program from memory",
        r#"py "
f = os.memfd_create('m')
os.write(f, open('/usr/bin/touch', 'rb').read())
os.execve(f, ['touch', '$OUT/new'], {})""#,
    ),
    effect_case("write from a process that left the session", "setsid -f -w sh -c 'echo x > $OUT/new'"),
    // Configuration that is not there yet.
    effect_case("make .mcp.json", "echo {} > .mcp.json"),
    effect_case("make settings", "mkdir -p .claude; echo {} > .claude/settings.json"),
    effect_case("make local settings by moving", "mkdir -p .claude; echo {} > x; mv x .claude/settings.local.json"),
    effect_case("make a skill", "mkdir -p .claude/skills/a; echo x > .claude/skills/a/SKILL.md"),
    effect_case("make settings behind a link", "mkdir a; echo {} > a/settings.json; ln -s a .claude"),
    effect_case("make editor tasks", "mkdir .vscode; echo {} > .vscode/tasks.json"),
    effect_case("make .envrc", "echo x > .envrc"),
    effect_case("make .bashrc", "echo x > .bashrc"),
    effect_case("make .gitconfig", "echo x > .gitconfig"),
    effect_case("make the folder a bare repository", "mkdir objects refs; echo 'ref: refs/heads/x' > HEAD"),
    // Repositories.
    effect_case("write a hook", "echo x > .git/hooks/pre-commit"),
    effect_case("write the configuration", "echo x >> .git/config"),
    effect_case("write the configuration as git does", "echo x > .git/config.lock; mv .git/config.lock .git/config"),
    effect_case(
        "rebuild the repository without its guard",
        "mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    ),
    effect_case("replace the hooks", "rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit"),
    effect_case(
        "replace the hooks by a link",
        "mkdir evil; echo x > evil/pre-commit; rm -rf .git/hooks; ln -s ../evil .git/hooks",
    ),
    effect_case("write the configuration by a hard link", "ln .git/config c && echo x >> c"),
    effect_case("write a hook of a nested repository", "echo x > sub/.git/hooks/pre-commit"),
    effect_case(
        "lead the repository elsewhere",
        "mkdir -p evil; echo '[alias]' > evil/config; echo ../evil > .git/commondir",
    ),
    effect_case(
        "make a nested repository with a hook",
        "mkdir -p .new; cp -r sub/.git .new/.git; echo x > .new/.git/hooks/pre-commit",
    ),
    effect_case(
        "make a repository with a hook far below",
        "mkdir -p 1/2/3/4/5/6/7; cp -r sub/.git 1/2/3/4/5/6/7/; echo x > 1/2/3/4/5/6/7/.git/hooks/pre-commit",
    ),
    effect_case(
        "make a bare repository that runs something far below",
        "mkdir -p 1/2/3/4/5/6; cp -r sub/.git 1/2/3/4/5/6/7; echo '[core] fsmonitor=x' > 1/2/3/4/5/6/7/config",
    ),
    effect_case(
        "hide a setting in the name of a section",
        "mkdir -p 1/2/3/4/5/6; cp -r sub/.git 1/2/3/4/5/6/7; \
         echo '[branch \"x\"][core]fsmonitor=x; #]' > 1/2/3/4/5/6/7/config",
    ),
    effect_case(
        "keep others from taking configuration away",
        "mkdir .vscode .claude; echo x > .vscode/tasks.json; echo {} > .claude/settings.json; chmod 555 .vscode .claude",
    ),
    effect_case("close configuration to everybody", "mkdir .vscode; echo {} > .vscode/tasks.json; chmod 0 .vscode"),
    effect_case(
        "keep others from taking a new hook away",
        "mkdir -p 1/2/3/4/5/6/7; cp -r sub/.git 1/2/3/4/5/6/7/; echo x > 1/2/3/4/5/6/7/.git/hooks/pre-commit; \
         chmod 555 1/2/3/4/5/6/7/.git/hooks 1/2/3/4/5/6/7/.git",
    ),
    effect_case(
        "make a repository that cannot be listed",
        "mkdir -p 1/2/3/4/5/6; cp -r sub/.git 1/2/3/4/5/6/7; echo '[core] fsmonitor=x' > 1/2/3/4/5/6/7/config; \
         chmod 311 1/2/3/4/5/6/7 1/2/3",
    ),
    effect_case(
        "have a worktree lead to configuration",
        "mkdir -p 1/2/3/4/5/6/7/objects 1/2/3/4/5/6/7/refs 1/2/3/4/5/6/7/worktrees/n; cd 1/2/3/4/5/6/7; \
         echo 'ref: refs/heads/x' > worktrees/n/HEAD; echo ../.. > worktrees/n/commondir; echo '[alias]' > config",
    ),
    effect_case(
        "hide a repository within one that looks harmless",
        "mkdir -p 1/2/3/4/5/6/objects 1/2/3/4/5/6/refs; cp sub/.git/HEAD 1/2/3/4/5/6/; cp -r sub/.git 1/2/3/4/5/6/7; \
         echo '[core] fsmonitor=x' > 1/2/3/4/5/6/7/config",
    ),
    effect_case(
        "exchange the hooks for others",
        r#"mkdir evil; echo x > evil/pre-commit; py "sys.exit(call(316, -100, b'.git/hooks', -100, b'evil', 2) != 0)""#,
    ),
    effect_case(
        "put a link in place of the repository",
        "cp -r .git evil; echo x > evil/hooks/pre-commit; mv .git away; ln -s evil .git",
    ),
    effect_case("write a hook that the configuration names elsewhere", "echo x > tools/hooks/pre-commit"),
    effect_case("write configuration that the configuration includes", "echo '[core] fsmonitor=x' > tools/shared"),
    effect_case("make configuration that the configuration includes", "echo '[core] fsmonitor=x' > tools/absent"),
    effect_case("write what a hook is a link to", "echo x > tools/hook"),
    effect_case("turn a link on the way to a hook", "echo x > evil; ln -sfn evil tools/turns"),
    effect_case("write a hook of husky's", "mkdir -p .husky/_; echo x > .husky/_/pre-commit"),
    effect_case("write what a protected link leads to", "echo x > tools/profile"),
    effect_case("write a file in a held folder by its second name", "echo x > tools/second"),
    effect_case("turn the link that a gitdir goes through", "cp -r tools/real evil; ln -sfn ../evil tools/gits"),
    effect_case(
        "lead a gitdir through a link",
        "mkdir -p 1/2/3/4/5/6/7 evil; cp -r sub/.git evil/g; ln -s $W/evil 1/e; \
         echo 'gitdir: ../../../../../../e/g' > 1/2/3/4/5/6/7/.git",
    ),
    effect_case(
        "lead a gitdir to a name that ends in a blank",
        "mkdir -p 1/2/3/4/5/6/7; cp -r sub/.git g; ln -s sub/.git 'g '; \
         printf 'gitdir: %s \\n' $W/g > 1/2/3/4/5/6/7/.git",
    ),
    effect_case("make a repository that is a pipe", "mkdir -p 1/2/3/4/5/6/7; mkfifo 1/2/3/4/5/6/7/.git"),
    effect_case("make a repository that never ends", "mkdir -p 1/2/3/4/5/6/7; ln -s /dev/zero 1/2/3/4/5/6/7/.git"),
    effect_case("make a repository that is too large", "mkdir -p 1/2/3/4/5/6/7; truncate -s 1T 1/2/3/4/5/6/7/.git"),
    effect_case("uncover what a mount covers", "umount .git/hooks; echo x > .git/hooks/pre-commit"),
    // Reading.
    code_case("read a secret", "cat $SECRET/key"),
    code_case("read a secret file", "grep -q . $SECRET_FILE"),
    code_case("read a secret through a link", "ln -s $SECRET s; cat s/key"),
    code_case("read a secret through a hard link", "ln $SECRET/key k && cat k"),
    code_case("read a secret below /proc/self/root", "cat /proc/self/root$SECRET/key"),
    code_case("read a secret after renaming its folder", "mv $SECRET $SECRET.2 && cat $SECRET.2/key"),
    with_mounts_required(code_case("read a secret within the folder", "cat around/hidden/key")),
    with_mounts_required(effect_case("move what is around a secret, for the next command", "mv around elsewhere")),
    code_case("copy a secret", "cp -r $SECRET copy && cat copy/key"),
    code_case("read another's environment", "grep -qz . /proc/$VICTIM/environ"),
    code_case("read another's memory", r#"py "open('/proc/$VICTIM/mem', 'rb')""#),
    code_case("find a token in the environment", r#"[ -n "$CANARY_TOKEN" ]"#),
    code_case("find an agent in the environment", r#"[ -n "$SSH_AUTH_SOCK" ]"#),
    root_case("read the password file", "grep -q root /etc/shadow"),
    // The network.
    code_case(
        "connect by TCP",
        r#"py "
s = socket.create_connection(('127.0.0.1', $TCP), 2)
assert s.recv(2) == b'hi'""#,
    ),
    code_case(
        "connect by TCP to a mapped address",
        r#"py "
s = socket.socket(socket.AF_INET6)
s.settimeout(2)
s.connect(('::ffff:127.0.0.1', $TCP))
assert s.recv(2) == b'hi'""#,
    ),
    code_case(
        "listen by TCP",
        r#"py "
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()""#,
    ),
    code_case(
        "ask by UDP, as a resolver does",
        r#"py "
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(b'?', ('127.0.0.1', $UDP))
assert s.recv(2) == b'hi'""#,
    ),
    code_case("open a netlink socket", r#"py "socket.socket(16, socket.SOCK_RAW, 0)""#),
    code_case("open a vsock socket", r#"py "socket.socket(40, socket.SOCK_STREAM)""#),
    root_case("open a raw socket", r#"py "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)""#),
    root_case("open a packet socket", r#"py "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)""#),
    code_case(
        "reach a Unix socket, as of a container engine",
        r#"py "
s = socket.socket(socket.AF_UNIX)
s.connect('$SOCKET')
assert s.recv(2) == b'hi'""#,
    ),
    code_case(
        "reach an abstract Unix socket",
        r#"py "
s = socket.socket(socket.AF_UNIX)
s.connect('\\0$ABSTRACT')
assert s.recv(2) == b'hi'""#,
    ),
    code_case(
        "reach a Unix socket by datagram",
        r#"py "
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect('$SOCKET.log')
s.send(b'x')""#,
    ),
    code_case(
        "reach a Unix socket by one half of a pair",
        r#"py "
s, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect('$SOCKET.log')
s.send(b'x')""#,
    ),
    code_case(
        "send to a Unix socket by one half of a pair",
        r#"py "
s, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'x', '$SOCKET.log')""#,
    ),
    // Other processes.
    code_case("write into somebody's terminal", "[ -c $TERMINAL ] && echo x > $TERMINAL"),
    code_case("read somebody's terminal", "[ -c $TERMINAL ] && exec 3< $TERMINAL"),
    with_mounts_required(code_case("write into the shared memory of others", "[ -s $SHARED ] && echo x >> $SHARED")),
    code_case("attach to the shared memory of others", r#"py "sys.exit(call(30, $SEGMENT, 0, 0o10000) == -1)""#),
    code_case(
        "change another's limits",
        r#"py "
r = (ctypes.c_uint64 * 2)()
assert call(302, $VICTIM, 7, None, r) == 0
sys.exit(call(302, $VICTIM, 7, r, None) != 0)""#,
    ),
    code_case("make another slow", r#"py "sys.exit(call(141, 0, $VICTIM, 19) != 0)""#),
    code_case("pin another to a processor", r#"py "sys.exit(call(203, $VICTIM, 8, (ctypes.c_uint64 * 1)(1)) != 0)""#),
    code_case("offer another to the killer", "echo 900 > /proc/$VICTIM/oom_score_adj"),
    code_case("look at another's descriptors", "readlink /proc/$VICTIM/fd/0"),
    effect_case(
        "stop a process outside by its descriptor",
        r#"py "
import time
if call(424, os.pidfd_open($VICTIM), 19, None, 0) != 0: sys.exit(1)
while 'State:\tT' not in open('/proc/$VICTIM/status').read(): time.sleep(0.01)""#,
    ),
    effect_case(
        "stop a process outside by making it the owner of a pipe",
        r#"py "
import fcntl, time
r, w = os.pipe()
fcntl.fcntl(r, 8, $VICTIM)
fcntl.fcntl(r, 10, 19)
fcntl.fcntl(r, 4, os.O_ASYNC | os.O_NONBLOCK)
os.write(w, b'x')
for n in range(100):
    if 'State:\tT' in open('/proc/$VICTIM/status').read(): break
    time.sleep(0.01)""#,
    ),
    effect_case(
        "kill a process outside",
        "kill $VICTIM || exit; until grep -q State:.Z /proc/$VICTIM/status; do :; done",
    ),
    effect_case(
        "stop a process outside",
        "kill -STOP $VICTIM || exit; until grep -q State:.T /proc/$VICTIM/status; do :; done",
    ),
    with_mounts_required(code_case("see a process outside", "grep -q victim /proc/$VICTIM/cmdline")),
    code_case("trace", r#"py "sys.exit(call(101, 0, 0, 0, 0) != 0)""#),
    code_case(
        "read memory across processes",
        r#"py "
b = ctypes.create_string_buffer(8)
class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('l', ctypes.c_size_t)]
v = V(ctypes.addressof(b), 8)
a = ctypes.addressof(v)
sys.exit(call(310, os.getpid(), a, 1, a, 1, 0) != 8)""#,
    ),
    code_case(
        "take another's descriptor",
        r#"py "
p = os.pidfd_open(os.getpid())
sys.exit(call(438, p, 0, 0) < 0)""#,
    ),
    code_case(
        "type into a terminal",
        r#"py "
import fcntl, pty
if os.fork() == 0:
    os.setsid()
    m, s = pty.openpty()
    fcntl.ioctl(s, 0x540E, 0)
    fcntl.ioctl(s, 0x5412, b'x')
    os._exit(0)
sys.exit(os.wait()[1] != 0)""#,
    ),
    code_case(
        "type into a terminal with a crooked number",
        r#"py "
import pty
if os.fork() == 0:
    os.setsid()
    m, s = pty.openpty()
    call(16, s, 0x540E, 0)
    os._exit(call(16, s, 0x5412 | 1 << 40, b'x') != 0)
sys.exit(os.wait()[1] != 0)""#,
    ),
    // The kernel.
    code_case("set up io_uring", r#"py "sys.exit(call(425, 1, ctypes.create_string_buffer(120)) < 0)""#),
    code_case("make a user namespace", r#"py "sys.exit(call(272, 0x10000000) != 0)""#),
    code_case(
        "clone into a user namespace",
        r#"py "
r = call(56, 0x10000000 | 17, 0, 0, 0, 0)
if r == 0: os._exit(0)
sys.exit(r < 0)""#,
    ),
    code_case(
        "clone into a user namespace by clone3",
        r#"py "
a = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17)
r = call(435, a, 64)
if r == 0: os._exit(0)
sys.exit(r < 0)""#,
    ),
    code_case("use a key ring", r#"py "sys.exit(call(248, b'user', b'k', b'v', 1, -3) < 0)""#),
    code_case("ask for a key", r#"py "sys.exit(call(250, 0, -3, 1) < 0)""#),
    code_case("handle page faults", r#"py "sys.exit(call(323, 1) < 0)""#),
    code_case(
        "call by the convention of another architecture",
        r#"py "
import mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')
f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
sys.exit(f() != os.getpid())""#,
    ),
    root_case("join a namespace", r#"py "sys.exit(call(308, os.open('/proc/self/ns/uts', 0), 0) != 0)""#),
    root_case("mount", "mkdir m; mount -t tmpfs none m; r=$?; umount m; exit $r"),
    root_case(
        "open by handle",
        r#"py "
h = ctypes.create_string_buffer(struct.pack('II', 64, 0), 72)
m = ctypes.c_int()
assert call(303, -100, b'$W', h, ctypes.addressof(m), 0) == 0
sys.exit(call(304, os.open('$W', 0), h, 0) < 0)""#,
    ),
    root_case("change the root", "chroot / true"),
    root_case(
        "load a program into the kernel",
        r#"py "
a = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
sys.exit(call(321, 0, a, 128) < 0)""#,
    ),
    root_case(
        "count events of the kernel",
        r#"py "
a = ctypes.create_string_buffer(struct.pack('IIQ', 1, 112, 0), 112)
sys.exit(call(298, a, 0, -1, -1, 0) < 0)""#,
    ),
    root_case(
        "load a module",
        r#"py "
r = call(175, b'x', 1, b'')
sys.exit(e() == 1)""#,
    ),
    root_case("read the log of the kernel", r#"py "sys.exit(call(103, 3, ctypes.create_string_buffer(64), 64) < 0)""#),
    root_case(
        "set the clock",
        r#"py "
import time
t = (ctypes.c_long * 2)(int(time.time()), int(time.time() % 1 * 1e9))
sys.exit(call(227, 0, t) != 0)""#,
    ),
    root_case("rename the host", r#"py "socket.sethostname(socket.gethostname())""#),
    root_case(
        "write a setting of the kernel",
        "v=$(cat /proc/sys/kernel/core_pattern); echo \"$v\" > /proc/sys/kernel/core_pattern",
    ),
    root_case("leave the control group", "echo $$ > $(find /sys/fs/cgroup -name cgroup.procs | head -1)"),
    root_case("make a device", "mknod d c 1 5 && head -c1 d"),
    root_case("write the log of the kernel", "echo sandbox > /dev/kmsg"),
    code_case("leave a program that makes others the user", "cp /bin/true suid && chmod u+s suid && [ -u suid ]"),
    code_case(
        "make one that does so from the start",
        r#"py "
fd = call(257, -100, b'born-suid', os.O_CREAT | os.O_WRONLY, 0o4755)
sys.exit(not os.stat('born-suid').st_mode & 0o4000)""#,
    ),
    EscapeCase { by: RequiredUser::User, ..code_case("become root by a set-uid program", "[ $($SUID -u) = 0 ]") },
    EscapeCase {
        by: RequiredUser::User,
        closed_without_mounts: false,
        ..code_case(
            "start more processes than the limit",
            r#"py "
import time
for n in range(300):
    if os.fork() == 0:
        os.close(1)
        time.sleep(20)""#,
        )
    },
];
