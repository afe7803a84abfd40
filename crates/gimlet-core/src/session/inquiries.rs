//! What the driving program wants beside the conversation: looks at files, tasks, rules and hooks, and a folder more to
//! work in. Every look at a file goes by the gate's rules; nothing here asks anybody or tells the model anything.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{FilePart, Inquiry, Standing, TaskTail};
use rustix::fs::{AtFlags, FileType, OFlags};

use crate::dials::{Choice, Dials};
use crate::files::Place;
use crate::gate::Gate;
use crate::services::Services;

/// How much of the end of a task's output is given at once.
const TAIL: u64 = 8 * 1024;
/// The kinds of tasks whose output file holds what a command printed.
const PRINTING: [&str; 2] = ["local_bash", "monitor"];

/// Answers, on the side where that takes the disk.
pub(super) fn answer(inquiry: Inquiry, services: &Arc<Services>, gate: &Arc<Gate>, dials: &Dials) {
    match inquiry {
        Inquiry::TaskOutput { task, reply } => {
            let task = services.tasks.find(&task).ok_or_else(|| format!("there is no background task {task}"));
            match task {
                Ok(task) if PRINTING.contains(&task.kind) => {
                    let asked = services.clone();
                    services.spawn(async move {
                        let read = tokio::task::spawn_blocking(move || tail(&task.output_file, &asked)).await;
                        reply.send(read.unwrap_or_else(|error| Err(error.to_string())));
                    });
                }
                Ok(task) => reply.send(Err(format!("the task {} is no command: it prints nothing", task.id))),
                Err(problem) => reply.send(Err(problem)),
            }
        }
        Inquiry::ReadFile { path, most, reply } => {
            let (asked, gate) = (services.clone(), gate.clone());
            services.spawn(async move {
                let read = tokio::task::spawn_blocking(move || read_file(&gate, &asked, &path, most)).await;
                reply.send(read.unwrap_or_else(|error| Err(error.to_string())));
            });
        }
        Inquiry::Readable { paths, reply } => {
            let (asked, gate) = (services.clone(), gate.clone());
            services.spawn(async move {
                let may = move |path: &PathBuf| gate.may_read(&asked, path).is_ok();
                let read = tokio::task::spawn_blocking(move || paths.into_iter().filter(may).collect()).await;
                reply.send(read.map_err(|error| error.to_string()));
            });
        }
        Inquiry::Permissions { reply } => reply.send(Ok(gate.view(services))),
        Inquiry::Hooks { reply } => reply.send(Ok(services.hooks().list())),
        Inquiry::AddDirectory { directory, reply } => reply.send(gate.add_directory(services, &directory)),
        Inquiry::Standing { reply } => {
            let (changes, before_plan) = gate.standing();
            let Choice { thinking, display, .. } = dials.now();
            reply.send(Ok(Standing { changes, before_plan, thinking, display }));
        }
        Inquiry::Adopt(standing) => {
            gate.adopt(services, &standing);
            dials.set_thinking(Some(standing.thinking));
            dials.set_display(standing.display);
        }
        Inquiry::MayCall { tool, input, reply } => reply.send(gate.may_call(services, &tool, &input)),
    }
}

/// The beginning of a file that may be read without a question.
fn read_file(gate: &Gate, services: &Services, path: &Path, most: usize) -> Result<FilePart, String> {
    let (path, spelled) = (gate.may_read(services, path)?, path);
    let trouble = |error: rustix::io::Errno| format!("{} cannot be read: {error}", spelled.display());
    let place = Place::of(&path).map_err(trouble)?;
    // Looking first keeps devices from being opened at all; looking again at the open file closes the gap between.
    let seen = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).map_err(trouble)?;
    let odd = || format!("{} is no regular file", spelled.display());
    if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
        return Err(odd());
    }
    let file = place.open(OFlags::RDONLY).map_err(trouble)?;
    let io = |error: std::io::Error| format!("{} cannot be read: {error}", spelled.display());
    if !file.metadata().map_err(io)?.is_file() {
        return Err(odd());
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    let truncated = bytes.len() > most;
    bytes.truncate(most);
    Ok(FilePart { path, bytes, truncated })
}

/// The end of what a command has printed, without gimlet's own credentials.
fn tail(file: &Path, services: &Services) -> Result<TaskTail, String> {
    let trouble = |error: std::io::Error| format!("the output {} cannot be read: {error}", file.display());
    let mut output = match std::fs::File::open(file) {
        Ok(output) => output,
        // One that has printed nothing yet, or whose output was cleared away.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(TaskTail { output: String::new(), total_bytes: 0, truncated: false });
        }
        Err(error) => return Err(trouble(error)),
    };
    let total_bytes = output.seek(SeekFrom::End(0)).map_err(trouble)?;
    let start = total_bytes.saturating_sub(TAIL);
    output.seek(SeekFrom::Start(start)).map_err(trouble)?;
    let mut bytes = Vec::new();
    output.take(TAIL).read_to_end(&mut bytes).map_err(trouble)?;
    // A cut inside a character leaves the rest of it behind.
    let whole = bytes.iter().position(|byte| byte & 0xC0 != 0x80).filter(|_| start > 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[whole..]).into_owned();
    Ok(TaskTail { output: services.redactor.mask(&text).into_owned(), total_bytes, truncated: start > 0 })
}
