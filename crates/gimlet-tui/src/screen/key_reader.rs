//! Reads keys on a thread of its own, which sleeps until there are some and can be paused while another program has the
//! terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

/// Input from the terminal.
#[derive(Clone, Debug, PartialEq)]
pub enum TerminalInput {
    Key(KeyEvent),
    Paste(String),
    /// The terminal's window came to the front or left it.
    Focus(bool),
    /// Lines that the mouse wheel moved, down positive.
    Wheel(i32),
    /// The terminal is gone.
    Closed,
}

/// The thread that reads. Dropping this ends it.
#[derive(Debug)]
pub struct KeyReader {
    wake: OwnedFd,
    commands: std_mpsc::Sender<ReaderCommand>,
}

#[derive(Debug)]
enum ReaderCommand {
    /// Stop reading until the receiver is disconnected; says when that is so.
    Pause { paused: std_mpsc::Sender<()>, until: std_mpsc::Receiver<()> },
}

/// While this lives, no key is read.
#[derive(Debug)]
pub struct PausedReading {
    _until: std_mpsc::Sender<()>,
}

impl KeyReader {
    /// Starts reading; keys arrive at the receiver.
    pub fn start() -> io::Result<(Self, mpsc::UnboundedReceiver<TerminalInput>)> {
        let (woken, wake) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let (commands, received) = std_mpsc::channel();
        let (inputs, receiver) = mpsc::unbounded_channel();
        let read = move || read_keys(&woken, &received, &inputs);
        std::thread::Builder::new().name("keys".to_owned()).spawn(read)?;
        Ok((Self { wake, commands }, receiver))
    }

    /// Stops reading and returns once no read is under way.
    pub fn pause(&self) -> PausedReading {
        let (paused, is_paused) = std_mpsc::channel();
        let (resume, until) = std_mpsc::channel();
        if self.commands.send(ReaderCommand::Pause { paused, until }).is_ok() {
            // A full pipe wakes it as well.
            let _ = rustix::io::write(&self.wake, b"p");
            // The thread is gone if nothing comes.
            let _: Result<(), _> = is_paused.recv();
        }
        PausedReading { _until: resume }
    }
}

fn read_keys(
    woken: &OwnedFd,
    commands: &std_mpsc::Receiver<ReaderCommand>,
    inputs: &mpsc::UnboundedSender<TerminalInput>,
) {
    let stdin = io::stdin();
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return drop(inputs.send(TerminalInput::Closed)),
            Ok(_) => {}
        }
        let [keys, wake] = fds.map(|fd| fd.revents());
        if !wake.is_empty() {
            let mut bytes = [0; 64];
            let _ = rustix::io::read(woken, &mut bytes);
            loop {
                match commands.try_recv() {
                    Ok(ReaderCommand::Pause { paused, until }) => {
                        drop(paused);
                        // Nothing is ever sent; the sender goes when reading is to go on.
                        let _: Result<(), _> = until.recv();
                    }
                    Err(std_mpsc::TryRecvError::Empty) => break,
                    Err(std_mpsc::TryRecvError::Disconnected) => return,
                }
            }
            continue;
        }
        if keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) && !keys.contains(PollFlags::IN) {
            return drop(inputs.send(TerminalInput::Closed));
        }
        // A part of a sequence gives no event yet; the rest makes the descriptor readable again.
        while let Ok(true) = event::poll(Duration::ZERO) {
            let sent = match event::read() {
                Ok(event) => translate(event).map_or(Ok(()), |input| inputs.send(input)),
                Err(_) => return drop(inputs.send(TerminalInput::Closed)),
            };
            if sent.is_err() {
                return;
            }
        }
        if keys.contains(PollFlags::HUP) {
            return drop(inputs.send(TerminalInput::Closed));
        }
    }
}

fn translate(event: Event) -> Option<TerminalInput> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(TerminalInput::Key(key)),
        Event::Paste(text) => Some(TerminalInput::Paste(text)),
        Event::FocusGained => Some(TerminalInput::Focus(true)),
        Event::FocusLost => Some(TerminalInput::Focus(false)),
        Event::Mouse(mouse) => match mouse.kind {
            event::MouseEventKind::ScrollUp => Some(TerminalInput::Wheel(-3)),
            event::MouseEventKind::ScrollDown => Some(TerminalInput::Wheel(3)),
            _ => None,
        },
        // Sizes come by signal.
        Event::Resize(..) | Event::Key(_) => None,
    }
}
