//! A command text does what it says, in a shell that nothing else has touched, and says where it ended.

use std::time::Duration;

use gimlet_exec::{CommandEnd, ShellCommand, ShellError};

use crate::common::{TestSession, base_env, exec, shell};

/// Texts that all end in `/usr`, with their exit codes.
pub(crate) const FORMS_OF_EXIT: &[(&str, i32)] = &[
    ("cd /usr", 0),
    ("cd /usr; exit 7", 7),
    ("cd /usr; (exit 4)", 4),
    ("set -e; cd /usr; false; cd /", 1),
    ("set -u; cd /usr; echo $undefined_name; cd /", 127),
    ("cd /usr; trap 'echo bye' EXIT", 0),
    ("cd /usr; trap 'true' DEBUG ERR; false", 1),
    ("cd /usr; f() { exit 9; }; f", 9),
    ("cd /usr; f() { set -x; exit 9; }; f 2>/dev/null", 9),
    ("cd /usr; f() { set -e; false; }; f", 1),
    ("cd /usr; . /dev/stdin <<< 'exit 4'", 4),
    ("cd /usr; eval 'exit 4'", 4),
    ("cd /usr; for i in 1; do while :; do exit 4; done; done", 4),
    ("cd /usr; { exit 6; } 4>/dev/null", 6),
    ("exec 3>/dev/null; cd /usr; exit 2", 2),
    ("exec 10>/dev/null; cd /usr; exit 2", 2),
    ("set -o posix; cd /usr; exit 5", 5),
    ("cd /usr; return 3", 2),
    ("pwd() { echo /wrong; }; cd /usr", 0),
    ("cd /usr; set -x", 0),
    ("cd /usr; echo | { cd /tmp; }", 0),
    ("cd /usr && (cd /tmp; exit 8)", 8),
    ("cd /usr; shopt -s extglob; [[ x == @(x|y) ]]", 0),
];

pub(crate) async fn the_directory_is_reported_in_every_form_of_exit() {
    let session = TestSession::new();
    for (text, code) in FORMS_OF_EXIT {
        let finished = session.run(text).await;
        assert!(
            matches!(finished.end, CommandEnd::Exited(exit) if exit.code == Some(*code)),
            "{text}: {:?}",
            finished.end
        );
        assert_eq!(finished.cwd(), Some("/usr".into()), "{text}");
    }
    let odd = session.run("mkdir $'new\\nline'; cd new*").await;
    assert_eq!(odd.cwd(), Some(session.path().join("new\nline")));
    let linked = session.run("cd ..; ln -s /usr/bin link; cd link").await;
    assert_eq!(linked.cwd(), Some("/usr/bin".into()).map(|dir: std::path::PathBuf| dir.canonicalize().unwrap()));
    assert_eq!(session.run("cd /usr; exec true").await.cwd(), Some("/usr".into()));
    let gone = session.run("mkdir gone; cd gone; rmdir ../gone").await;
    assert_eq!(gone.cwd(), None, "a directory that was removed has no name");
    let broken = session.run("echo 'unclosed").await;
    assert!(matches!(broken.end, CommandEnd::Exited(exit) if exit.code == Some(2)));
    assert_eq!(broken.cwd(), Some(session.path()));
}

pub(crate) async fn exit_codes_and_signals_come_through() {
    let session = TestSession::new();
    let CommandEnd::Exited(exit) = session.run("kill -KILL $$").await.end else { panic!("not exited") };
    assert_eq!((exit.code, exit.signal, exit.shell_code()), (None, Some(9), 137));
    let said = session.output_of("trap 'echo bye $?' EXIT; set -x; echo hi; exit 3").await;
    assert_eq!(said.lines().filter(|line| !line.starts_with('+')).collect::<Vec<_>>(), ["hi", "bye 3"]);
    assert!(!said.contains("gimlet") && !said.contains("pwd"), "{said}");
    assert_eq!(session.output_of("trap 'echo bye $? >&2' EXIT; (exit 3)").await, "bye 3");
    assert_eq!(
        session.output_of("echo $undefined; nonexistent-program").await,
        "bash: line 1: nonexistent-program: command not found"
    );
}

pub(crate) async fn programs_see_three_descriptors_and_the_command_may_use_the_fourth() {
    let session = TestSession::new();
    let listing = "sh -c 'ls /proc/$$/fd; :'";
    for form in ["{}", "exec {}", "( {} )", "{} | cat", "echo \"$({})\"", "{} & wait", "timeout 5 {}"] {
        assert_eq!(session.output_of(&form.replace("{}", listing)).await, "0\n1\n2", "{form}");
    }
    assert_eq!(session.output_of("exec 3>file; echo x >&3; cat file").await, "x");
    assert_eq!(session.output_of("readlink /proc/self/fd/0").await, "/dev/null");
    assert_eq!(session.output_of("cat; echo read").await, "read");
}

pub(crate) async fn nothing_of_the_wrapper_can_be_seen() {
    let text = "set; trap; declare -p; declare -F; alias; shopt; echo \"$# $@\" \"$0\" \"$_\"; jobs; : marker";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "FROM_FILE=1").unwrap();
    for env in [base_env(), base_env().with("CLAUDE_ENV_FILE", file.path().as_os_str())] {
        for session in [TestSession::with_env(env.clone()), TestSession::with_prestart(env)] {
            let said = session.output_of(text).await;
            assert!(!said.contains("__") && !said.contains("marker") && !said.contains("eval"), "{said}");
            assert!(said.contains("\nOPTERR=1\n") && said.contains("\n0  bash "), "{said}");
            // The command that the text is in was a variable's value; it is none while the text runs.
            assert_eq!(
                session.output_of("for name in $(compgen -v); do echo \"${!name}\"; done | grep -c needle").await,
                "0"
            );
            assert_eq!(
                session.output_of("printf x >&10; printf x >&3; cat <&11; echo $?").await.lines().last(),
                Some("1")
            );
        }
    }
}

pub(crate) async fn the_directory_is_not_the_commands_to_report() {
    let session = TestSession::new();
    for text in ["printf '/usr\\n' >&3", "printf '/usr\\n' >&10", "for fd in {3..255}; do printf '/usr\\n' >&$fd; done"]
    {
        let finished = session.run(&format!("{text} 2>/dev/null; true")).await;
        assert_eq!(finished.cwd(), Some(session.path()), "{text}");
    }
    // A process that is left behind has a directory of its own.
    assert_eq!(session.run("(cd /usr; sleep 0) & cd /; wait").await.cwd(), Some("/".into()));
}

pub(crate) async fn zsh_does_the_same_and_shows_nothing_of_the_wrapper() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "FROM_FILE=yes # no newline").unwrap();
    let env = base_env().with("CLAUDE_CODE_SHELL", "/usr/bin/zsh").with("CLAUDE_ENV_FILE", file.path().as_os_str());
    let session = TestSession::with_env(env);
    let said = session.output_of("set; trap; functions; echo \"$# $0 $FROM_FILE\"; ls /proc/self/fd; : marker").await;
    assert!(!said.contains("gimlet_") && !said.contains("marker"), "{said}");
    assert!(said.contains("\n0 zsh yes\n") && said.ends_with("\n0\n1\n2\n3"), "{said}");
    for (text, code) in [("cd /usr", 0), ("cd /usr; exit 7", 7), ("cd /usr; (exit 4)", 4), ("cd /usr; exec true", 0)] {
        let finished = session.run(text).await;
        assert!(matches!(finished.end, CommandEnd::Exited(exit) if exit.code == Some(code)), "{text}");
        assert_eq!(finished.cwd(), Some("/usr".into()), "{text}");
    }
    assert_eq!(session.output_of("echo one # comment\necho 'two'; cat <<E\n$((1 + 2))\nE").await, "one\ntwo\n3");
    assert_eq!(session.output_of("# only a comment").await, "");
}

pub(crate) async fn the_text_is_data_whatever_it_contains() {
    let session = TestSession::new();
    assert_eq!(session.output_of("echo $# $0 \"$@\"").await, "0 bash");
    assert_eq!(session.output_of("--help 2>/dev/null; echo $?").await, "127");
    assert_eq!(session.output_of("echo \"a'b\" 'c\"d' `echo e` $(echo f) \\g").await, "a'b c\"d e f g");
    assert_eq!(session.output_of("cat <<'END'\n$x `y`\nEND\n").await, "$x `y`");
    assert_eq!(session.output_of("# only a comment").await, "");
    assert_eq!(session.output_of("echo one # comment").await, "one");
    assert_eq!(session.output_of("").await, "");
}

pub(crate) async fn a_text_beyond_the_limit_of_the_system_says_what_to_do() {
    let session = TestSession::new();
    let text = format!("echo {}", "x".repeat(200_000));
    let command = ShellCommand { text: &text, cwd: "/".as_ref(), env: Vec::new() };
    let error = session.shell.start(&session.exec, command).await.unwrap_err();
    assert!(matches!(error, ShellError::TooLong { bytes: 200_005, .. }));
    assert!(error.to_string().contains("script file"));
}

pub(crate) async fn a_long_text_travels_outside_the_socket() {
    let session = TestSession::new();
    assert_eq!(session.output_of(&format!("x={}; echo ${{#x}}", "y".repeat(130_000))).await, "130000");
}

pub(crate) async fn an_env_file_that_ends_in_a_comment_does_not_swallow_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("env.sh");
    let session = TestSession::with_env(base_env().with("CLAUDE_ENV_FILE", file.as_os_str()));
    assert_eq!(session.output_of("echo none").await, "none", "the file is not there yet");
    std::fs::write(&file, "export FROM_FILE=\"it's here\" # a comment").unwrap();
    assert_eq!(session.output_of("echo $FROM_FILE; sh -c 'ls /proc/$$/fd; :'").await, "it's here\n0\n1\n2");
}

pub(crate) async fn start_up_variables_of_bash_have_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let trap = dir.path().join("trap.sh");
    std::fs::write(&trap, "echo injected").unwrap();
    let env = base_env()
        .with("BASH_ENV", trap.as_os_str())
        .with("ENV", trap.as_os_str())
        .with("SHELLOPTS", "noexec")
        .with("BASH_FUNC_ls%%", "() { echo injected; }")
        .with("CDPATH", "/")
        .with("OTEL_EXPORTER_OTLP_HEADERS", "secret")
        .with("TERM", "xterm-256color")
        .with("EDITOR", "vim");
    let session = TestSession::with_env(env);
    assert_eq!(session.output_of("ls -d /; mkdir usr; cd usr; sh -c 'ls -d /'").await, "/\n/");
    let said = session
        .output_of(
            "echo $CLAUDECODE $GIMLET $CLAUDE_CODE_SESSION_ID $TERM $EDITOR $GIT_EDITOR [$OTEL_EXPORTER_OTLP_HEADERS]",
        )
        .await;
    assert_eq!(said, "1 1 session-1 dumb vim true []");
}

pub(crate) async fn a_vanished_directory_falls_back_to_its_parent() {
    let session = TestSession::new();
    let gone = session.path().join("a/b");
    let command = ShellCommand { text: "pwd", cwd: &gone, env: Vec::new() };
    let mut run = session.shell.start(&session.exec, command).await.unwrap();
    assert_eq!((run.cwd, run.vanished_cwd), (session.path(), Some(gone)));
    assert!(run.running.wait().await.unwrap().is_success());
}

pub(crate) async fn a_prefix_wraps_the_whole_invocation() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let wrapper = dir.path().join("wrap me.sh");
    let script = format!("#!/bin/bash\necho $# >> '{}'\neval \"exec $1\"\n", log.display());
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let session = TestSession::with_env(base_env().with("CLAUDE_CODE_SHELL_PREFIX", wrapper.as_os_str()));
    let finished = session.run("cd /usr; echo \"it's\" '$HOME'; exit 3").await;
    assert_eq!(finished.output.head, b"it's $HOME\n");
    assert_eq!(finished.cwd(), Some("/usr".into()));
    assert!(matches!(finished.end, CommandEnd::Exited(exit) if exit.code == Some(3)));
    assert_eq!(std::fs::read_to_string(log).unwrap(), "1\n");
}

pub(crate) async fn the_snapshot_carries_functions_and_leaves_plain_commands_plain() {
    let home = tempfile::tempdir().unwrap();
    let start_up = "case $- in *i*) ;; *) return;; esac\n\
        echo noise; echo x >> \"$HOME/times\"\n\
        greet() { echo \"hello $1\"; }\nalias hi='greet you'\nalias ls='echo not ls'\ngit() { echo not git; }\n\
        shopt -s globstar dotglob nocaseglob nullglob; set -o noclobber\nexport PATH=\"$HOME/bin dir:$PATH\"\n";
    std::fs::write(home.path().join(".bashrc"), start_up).unwrap();
    let env = base_env().with("HOME", home.path().as_os_str());
    let session = TestSession {
        shell: shell(env, Some(home.path().join("state/snapshot.sh"))),
        exec: exec(None),
        dir: tempfile::tempdir().unwrap(),
    };
    assert_eq!(session.output_of("greet me; hi").await, "hello me\nhello you");
    assert_eq!(
        session.output_of("ls -d /; type -t git; shopt globstar; [[ -o noclobber ]] && echo $-").await.lines().next(),
        Some("/")
    );
    assert_eq!(session.output_of("type -t git").await, "file");
    assert!(session.output_of("echo $PATH").await.starts_with(&format!("{}/bin dir:", home.path().display())));
    assert_eq!(
        session.output_of("shopt -q globstar && [[ -o noclobber ]] && echo both; [[ -o monitor ]] || echo plain").await,
        "both\nplain"
    );
    assert_eq!(
        session
            .output_of(
                "shopt -q dotglob || shopt -q nocaseglob || shopt -q nullglob || echo patterns mean what they say"
            )
            .await,
        "patterns mean what they say"
    );
    assert_eq!(std::fs::read_to_string(home.path().join("times")).unwrap(), "x\n", "taken once a session");
    let state = home.path().join("state");
    let count = || std::fs::read_dir(&state).unwrap().count();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&state).unwrap().permissions());
    assert_eq!((mode & 0o777, count()), (0o700, 1));
    session.exec.shutdown(Duration::ZERO).await;
    assert_eq!(count(), 0, "nothing stays when the session ends");
}

pub(crate) async fn a_start_up_file_that_leaves_gives_a_plain_shell() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".bashrc"), "half() { :; }\nexec cat /dev/null\n").unwrap();
    let env = base_env().with("HOME", home.path().as_os_str());
    let session = TestSession {
        shell: shell(env, Some(home.path().join("snapshot.sh"))),
        exec: exec(None),
        dir: tempfile::tempdir().unwrap(),
    };
    assert_eq!(session.shell.take_snapshot_error(), None);
    assert_eq!(session.output_of("type -t half; echo plain").await, "plain");
    let why = session.shell.take_snapshot_error().unwrap();
    assert!(why.contains(".bashrc was not taken over") && why.contains("ended before"), "{why}");
    assert_eq!(session.shell.take_snapshot_error(), None, "once");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "only the start-up file is there");
}
