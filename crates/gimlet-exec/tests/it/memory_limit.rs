//! All commands of a session share one limit of memory, where the system has control groups that can be used.

use std::time::Duration;

use gimlet_exec::{DirectoryReporter, MemoryGroup, SpawnRequest, StdinMode, StreamMode};

use crate::common;
use crate::sandbox_escapes::wait_for_output;

fn python(script: &str) -> SpawnRequest {
    let args = ["-S", "-c", script].map(Into::into).to_vec();
    let (program, cwd, env) = ("/usr/bin/python3".into(), "/".into(), Vec::new());
    SpawnRequest {
        program,
        args,
        cwd,
        env,
        stdin: StdinMode::Null,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Disabled,
        confinement: None,
    }
}

/// Either the limit holds, or it is said why there is none: as an ordinary user of a system that gives them no groups.
pub(crate) async fn a_command_that_outgrows_the_group_is_ended_and_others_go_on() {
    let group = match MemoryGroup::create(200 << 20) {
        Ok(group) => group,
        Err(error) => {
            assert!(!rustix::process::getuid().is_root(), "{error:?}");
            let exec = common::exec(None);
            let running = exec.spawn(python("x = b'x' * (300 << 20); print(len(x))")).await.unwrap();
            let (exit, said) = wait_for_output(running).await;
            assert!(
                exit.is_success() && said.contains("314572800"),
                "without a group there is no limit: {exit:?} {said}"
            );
            return;
        }
    };
    let folder = format!("{group:?}");
    let exec = common::exec(None);
    exec.use_memory_group(group);
    let (exit, said) = wait_for_output(exec.spawn(python("x = b'x' * (20 << 20); print(len(x))")).await.unwrap()).await;
    assert!(exit.is_success() && said.contains("20971520"), "{exit:?} {said}");
    let (exit, said) =
        wait_for_output(exec.spawn(python("x = b'x' * (600 << 20); print(len(x))")).await.unwrap()).await;
    assert_eq!(exit.signal, Some(9), "{said}");
    let (exit, _) = wait_for_output(exec.spawn(python("print(1)")).await.unwrap()).await;
    assert!(exit.is_success());
    exec.shutdown(Duration::ZERO).await;
    let folder = folder.split('"').nth(1).unwrap();
    assert!(!std::path::Path::new(folder).exists(), "{folder} is left");
}
