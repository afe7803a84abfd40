//! `gimlet sandbox` as a person uses it.

use std::os::unix::fs::PermissionsExt;

use gimlet_testkit::wait_until;
use rustix::process::{Pid, Signal, kill_process};

use crate::world;

/// The two kinds of walls that a person can choose by flag.
const KINDS: [&str; 2] = ["/usr/bin/bwrap", "none"];

#[tokio::test]
async fn a_command_runs_writes_here_and_nowhere_else() {
    for kind in KINDS {
        let world = world();
        let script = "cat; echo done > here; echo no > /var/tmp/gimlet-escaped; echo {} > .mcp.json; exit 3";
        let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--bubblewrap", kind, "--"]);
        let run = run.args(["bash", "-c", script]).stdin("input\n").finish().await;
        run.expect_code(3);
        assert_eq!(run.stdout, "input\n", "{kind}: {}", run.stderr);
        assert_eq!(world.read("here"), "done\n");
        assert!(!std::path::Path::new("/var/tmp/gimlet-escaped").exists());
        assert!(!std::path::Path::new(&world.path(".mcp.json")).exists());
        assert!(run.stderr.contains("sandbox: writing /var/tmp/gimlet-escaped is not allowed"), "{}", run.stderr);
        assert!(run.stderr.contains(".mcp.json is protected"), "{}", run.stderr);
        for folder in ["gimlet", "gimlet/quarantine"] {
            let mode = world.home.join(".claude").join(folder).metadata().expect("a folder").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{kind}: {folder}");
        }
    }
}

#[tokio::test]
async fn a_host_that_is_not_allowed_is_named() {
    for kind in KINDS {
        let world = world();
        let script = "import urllib.request as u; u.urlopen('http://other.example/')";
        let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--bubblewrap", kind]);
        let run =
            run.args(["--allow-domain", "allowed.example", "--", "/usr/bin/python3", "-c", script]).finish().await;
        run.expect_code(1);
        assert!(run.stderr.contains("connecting to other.example:80 is not allowed"), "{kind}: {}", run.stderr);
    }
}

#[tokio::test]
async fn a_credential_in_the_environment_stays_outside() {
    let world = world();
    let run = world.run_at("http://127.0.0.1:9").env("DEPLOY_TOKEN", "secret").env("PLAIN", "plain");
    let run = run.args(["sandbox", "run", "sh", "-c", "echo $DEPLOY_TOKEN/$ANTHROPIC_API_KEY/$PLAIN"]).finish().await;
    assert_eq!(run.stdout, "//plain\n", "{}", run.stderr);
}

#[tokio::test]
async fn the_explanation_says_which_walls_stand() {
    let world = world();
    let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "explain", "--json"]).finish().await;
    let said = run.expect_code(0).json();
    assert_eq!(said["available"], true);
    assert_eq!(said["missingLayers"].as_array().map(Vec::len), Some(0), "{said}");
    let text = world.run_at("http://127.0.0.1:9").args(["sandbox", "explain", "--bubblewrap", "none"]).finish().await;
    assert!(text.stdout.starts_with("Sandbox:   built in (Linux namespaces)\n"), "{}", text.stdout);
    assert!(text.stdout.contains("Network:   off"), "{}", text.stdout);
    for (wanted, expected) in [("bwrap", "bubblewrap ("), ("namespaces", "built in ("), ("", "built in (")] {
        let run = world.run_at("http://127.0.0.1:9").env("GIMLET_SANDBOX", wanted).args(["sandbox", "explain"]);
        let run = run.finish().await;
        assert!(run.stdout.starts_with(&format!("Sandbox:   {expected}")), "{wanted}: {}", run.stdout);
    }
}

#[tokio::test]
async fn places_are_closed_however_they_are_spelled() {
    let world = world();
    let user = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(user.parent().expect("a parent")).expect("a folder");
    std::fs::write(world.home.join("diary"), "for nobody\n").expect("a file");
    world.file("here", "for all\n");
    let mut ways = vec![serde_json::json!({"permissions": {"deny": ["Read(~/**)"]}})];
    for home in ["~", "~/", "~/**"] {
        ways.push(serde_json::json!({"sandbox": {"filesystem": {"denyRead": [home]}}}));
        ways.push(serde_json::json!({"sandbox": {"credentials": {"files": [{"path": home, "mode": "deny"}]}}}));
    }
    for way in ways {
        std::fs::write(&user, way.to_string()).expect("settings");
        let script = format!("cat {}/diary; cat here", world.home.display());
        let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--", "sh", "-c", &script]).finish().await;
        assert_eq!(run.stdout, "for all\n", "{way}: {}", run.stderr);
    }
    let lists =
        serde_json::json!({"allowWrite": ["~/"], "denyWrite": ["~/"], "denyRead": ["/"], "allowRead": ["~/**"]});
    std::fs::write(&user, serde_json::json!({"sandbox": {"filesystem": lists}}).to_string()).expect("settings");
    let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "explain", "--json"]).finish().await;
    let spec = run.expect_code(0).json()["spec"].clone();
    for (list, wanted) in
        [("write", &*world.home), ("deny_write", &world.home), ("deny_read", "/".as_ref()), ("allow_read", &world.home)]
    {
        let paths = spec[list].as_array().expect("a list");
        assert!(paths.iter().any(|path| path.as_str().map(std::path::Path::new) == Some(wanted)), "{list}: {spec}");
    }
}

#[tokio::test]
async fn what_others_run_is_protected_in_every_place_that_is_opened() {
    let names = [".bashrc", ".config/autostart/x.desktop", ".local/bin/ls", ".claude/skills/s"];
    let ways = [
        (serde_json::json!({}), &["--allow-write", "HOME"][..]),
        (serde_json::json!({"sandbox": {"filesystem": {"allowWrite": ["~"]}}}), &[]),
        (serde_json::json!({"permissions": {"allow": ["Edit(~/**)"]}}), &[]),
    ];
    for (settings, flags) in ways {
        let world = world();
        let home = world.home.display().to_string();
        std::fs::create_dir_all(world.home.join(".claude")).expect("a folder");
        std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).expect("settings");
        let script = format!(
            "cd {home}; touch made; for name in {}; do mkdir -p $(dirname $name); echo evil > $name; done",
            names.join(" ")
        );
        let flags = flags.iter().map(|flag| if *flag == "HOME" { home.as_str() } else { flag });
        let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run"]).args(flags);
        let run = run.args(["--", "sh", "-c", &script]).finish().await;
        assert!(world.home.join("made").exists(), "{settings}: {}", run.stderr);
        for name in names {
            assert!(!world.home.join(name).exists(), "{settings}: {name}: {}", run.stderr);
        }
        assert!(run.stderr.contains(".bashrc is protected"), "{settings}: {}", run.stderr);
    }
}

#[tokio::test]
async fn settings_in_force_count_and_flags_come_on_top() {
    let world = world();
    let more = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let user = world.home.join(".claude/settings.json");
    std::fs::create_dir_all(user.parent().expect("a parent")).expect("a folder");
    let settings = serde_json::json!({
        "sandbox": {"enabled": true, "filesystem": {"allowWrite": [more.path()], "denyRead": [world.path("closed")]},
                    "network": {"allowedDomains": ["listed.example"], "deniedDomains": ["no.listed.example"]}},
        "permissions": {"deny": ["Edit(./kept)"]},
    });
    std::fs::write(&user, settings.to_string()).expect("settings");
    // What a project says for itself widens nothing.
    world.file(".claude/settings.json", r#"{"sandbox": {"filesystem": {"allowWrite": ["/srv"]}}}"#);
    world.file("closed", "for nobody\n");
    world.file("kept", "as it was\n");
    let script = format!("echo x > {}/made; cat closed; echo y >> kept; touch here", more.path().display());
    let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--", "bash", "-c", &script]).finish().await;
    assert!(more.path().join("made").exists() && world.project.join("here").exists(), "{}", run.stderr);
    assert!(!run.stdout.contains("for nobody"), "{}", run.stdout);
    assert_eq!(world.read("kept"), "as it was\n");

    std::fs::create_dir(world.path("further")).expect("a folder");
    let flags = ["--allow-domain", "other.example", "--allow-write", "further", "--json"];
    let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "explain"]).args(flags).finish().await;
    let said = run.expect_code(0).json();
    assert_eq!(said["enabled"], true);
    let network = said["spec"]["network"].to_string();
    assert!(
        ["listed.example", "no.listed.example", "other.example"].iter().all(|host| network.contains(host)),
        "{network}"
    );
    let write = said["spec"]["write"].to_string();
    assert!(write.contains(&more.path().display().to_string()) && write.contains("further"), "{write}");
    assert!(!write.contains("/srv"), "{write}");
    std::fs::write(&user, "{}").expect("settings");
    let text = world.run_at("http://127.0.0.1:9").args(["sandbox", "explain"]).finish().await;
    assert!(text.stdout.contains("Sessions:  not enabled: sandbox.enabled is not set"), "{}", text.stdout);
}

#[tokio::test]
async fn a_signal_ends_the_command_and_what_it_planted_is_taken_away() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let world = world();
        let script = "echo {} > .mcp.json; touch planted; sleep 600";
        let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--", "sh", "-c", script]);
        let mut child = run.start();
        wait_until("the command has planted", || world.project.join("planted").exists()).await;
        let pid = Pid::from_raw(child.pid().try_into().expect("a number")).expect("a process");
        kill_process(pid, signal).expect("it runs");
        let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("an end");
        assert_eq!(output.code, code, "{signal:?}: {}", output.stderr);
        assert!(output.stderr.contains(".mcp.json is protected"), "{signal:?}: {}", output.stderr);
        assert!(!world.project.join(".mcp.json").exists(), "{signal:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_told_as_a_shell_tells_it_and_not_blamed_on_the_sandbox() {
    let world = world();
    world.file("plain", "no program");
    for kind in KINDS {
        for (command, code) in [("nosuchprog", 127), ("./absent", 127), ("./plain", 126)] {
            let run = world.run_at("http://127.0.0.1:9").args(["sandbox", "run", "--bubblewrap", kind, "--", command]);
            let run = run.finish().await;
            assert_eq!(run.code, code, "{kind} {command}: {}", run.stderr);
            let name = command.trim_start_matches("./");
            assert!(run.stderr.contains(name) && !run.stderr.contains("not set up"), "{kind}: {}", run.stderr);
        }
    }
}

#[tokio::test]
async fn flags_and_choices_that_nobody_knows_are_refused() {
    let world = world();
    for (args, said) in [
        (&["run", "--allow-wirte", "..", "--", "true"][..], "unexpected argument '--allow-wirte'"),
        (&["run", "--bubblewrap", "/nope", "--", "true"], "--bubblewrap /nope: there is no such program"),
        (&["explain", "--bubblewrap", "/bin/false"], "--bubblewrap /bin/false: "),
        (&["run", "--deny-read", "*.txt", "--", "true"], "--deny-read *.txt: nothing is there"),
        (&["run", "--allow-write", "/nope", "--", "true"], "--allow-write /nope: nothing is there"),
    ] {
        let run = world.run_at("http://127.0.0.1:9").arg("sandbox").args(args.iter().copied()).finish().await;
        assert!(run.expect_code(1).stderr.contains(said), "{args:?}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let run = world.run_at("http://127.0.0.1:9").env("GIMLET_SANDBOX", "foo").args(["sandbox", "run", "true"]);
    let run = run.finish().await;
    assert!(run.expect_code(1).stderr.contains("GIMLET_SANDBOX is 'foo'"), "{}", run.stderr);
}

#[tokio::test]
async fn the_explanation_has_no_escape_sequences_of_folders_in_it() {
    let world = world();
    let odd = world.project.join("a\u{1b}[31mred");
    std::fs::create_dir(&odd).expect("a folder");
    let run = world.run_at("http://127.0.0.1:9").cwd(&odd).args(["sandbox", "explain"]).finish().await;
    assert!(run.expect_code(0).stdout.contains("/ared") && !run.stdout.contains('\u{1b}'), "{:?}", run.stdout);
}
