//! A disk that is full, read-only or broken at any one call, or for a while.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gimlet_proto::{Block, EntryId};
use gimlet_store::*;
use rustix::io::Errno;

use crate::support::*;

#[derive(Clone, Copy, Debug)]
enum DiskFault {
    Error(Errno),
    /// Half of what was given is written.
    Short,
    /// Half is written, then an error is reported.
    Torn,
    /// Only making it durable fails; other calls do not count.
    Sync,
}

/// The real disk, with the calls in `broken` failing.
#[derive(Clone)]
struct FaultyDisk {
    calls: Arc<AtomicUsize>,
    broken: Range<usize>,
    fault: DiskFault,
}

impl FaultyDisk {
    fn next_call_fails(&self) -> bool {
        self.broken.contains(&self.calls.fetch_add(1, Ordering::Relaxed))
    }

    fn fail_if_broken(&self) -> io::Result<()> {
        let errno = match self.fault {
            DiskFault::Error(errno) => errno,
            DiskFault::Short | DiskFault::Torn => Errno::IO,
            DiskFault::Sync => return Ok(()),
        };
        if self.next_call_fails() { Err(errno.into()) } else { Ok(()) }
    }
}

struct FaultyFile(FaultyDisk, Arc<dyn LogFile>);

impl Disk for FaultyDisk {
    fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        self.fail_if_broken()?;
        RealDisk.create_dirs(dir)
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        self.fail_if_broken()?;
        Ok(Arc::new(FaultyFile(self.clone(), RealDisk.open_append(path)?)))
    }

    fn publish_draft(&self, draft: &Path, path: &Path) -> io::Result<bool> {
        self.fail_if_broken()?;
        RealDisk.publish_draft(draft, path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.fail_if_broken()
    }
}

impl LogFile for FaultyFile {
    fn is_removed(&self) -> io::Result<bool> {
        self.1.is_removed()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.fault {
            DiskFault::Sync => self.1.append(bytes),
            _ if !self.0.next_call_fails() => self.1.append(bytes),
            DiskFault::Error(errno) => Err(errno.into()),
            DiskFault::Short => self.1.append(&bytes[..bytes.len() / 2]),
            DiskFault::Torn => {
                self.1.append(&bytes[..bytes.len() / 2])?;
                Err(Errno::IO.into())
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        self.0.fail_if_broken()?;
        self.1.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.fail_if_broken()?;
        self.1.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if matches!(self.0.fault, DiskFault::Sync) && self.0.next_call_fails() {
            return Err(Errno::IO.into());
        }
        self.0.fail_if_broken()?;
        self.1.sync_data()
    }
}

/// Runs a short session and returns what it was told and the entries it made.
fn run_session(home: &StoreFixture, disk: FaultyDisk, fsync: FsyncMode) -> (Vec<TranscriptError>, Vec<EntryId>) {
    run_session_with(home, disk, fsync, |_| {})
}

/// The same, with something else that happens before each turn.
fn run_session_with(
    home: &StoreFixture,
    disk: FaultyDisk,
    fsync: FsyncMode,
    meanwhile: impl Fn(usize),
) -> (Vec<TranscriptError>, Vec<EntryId>) {
    let options = TranscriptOptions { disk: Arc::new(disk), fsync };
    let mut transcript = Transcript::create(&home.files, sample_stamp(), options).unwrap();
    let mut told = Vec::new();
    let mut ids = Vec::new();
    for turn in 0..3 {
        meanwhile(turn);
        ids.push(append_prompt(&mut transcript, "go"));
        ids.push(transcript.append_assistant(&reply_head(&format!("m{turn}")), &call_block(&format!("t{turn}"))));
        told.extend(transcript.sync().wait_blocking().err());
        ids.push(transcript.append_tool_result(&result_block(&format!("t{turn}"), "é\u{1f600}"), None));
        ids.push(transcript.append_assistant(&reply_head(&format!("n{turn}")), &Block::text("done")));
        transcript.end_turn();
        told.extend(transcript.take_error());
    }
    told.extend(transcript.close().wait_blocking().err());
    told.extend(transcript.sync().wait_blocking().err());
    assert!(transcript.is_complete());
    (told, ids)
}

/// Every entry is in the file once and whole, in order; other lines are torn copies of them.
fn assert_nothing_lost(home: &StoreFixture, ids: &[EntryId], context: &str) {
    let text = std::fs::read(home.path()).unwrap();
    let text = String::from_utf8_lossy(&text);
    let whole = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let stored: Vec<String> = whole.filter_map(|entry| entry["uuid"].as_str().map(str::to_owned)).collect();
    assert_eq!(stored, ids.iter().map(ToString::to_string).collect::<Vec<_>>(), "{context}\n{text}");
    let loaded = home.load();
    assert_eq!(history_fault(&loaded.messages), None, "{context}");
    assert_eq!(loaded.messages.len(), 12, "{context}");
}

#[test]
fn a_transcript_that_was_removed_comes_back_whole_whichever_calls_fail_meanwhile() {
    for fault in [DiskFault::Short, DiskFault::Torn, DiskFault::Error(Errno::NOSPC)] {
        for first in 0.. {
            let home = StoreFixture::new();
            let calls = Arc::new(AtomicUsize::new(0));
            let disk = FaultyDisk { calls: calls.clone(), broken: first..first + 2, fault };
            let (told, ids) = run_session_with(&home, disk, FsyncMode::Turn, |turn| {
                if turn == 1 && home.path().exists() {
                    std::fs::remove_file(home.path()).unwrap();
                }
            });
            let context = format!("{fault:?} at call {first}: {told:?}");
            assert_nothing_lost(&home, &ids, &context);
            let beside = std::fs::read_dir(home.path().parent().unwrap()).unwrap();
            let names: Vec<_> = beside.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            assert!(!names.iter().any(|name| name.ends_with(".draft")), "{context}: {names:?}");
            if calls.load(Ordering::Relaxed) <= first {
                assert!(matches!(told[..], [TranscriptError::Removed { .. }]), "{context}");
                break;
            }
        }
    }
}

#[test]
fn no_record_is_lost_whichever_call_fails() {
    let errors = [Errno::NOSPC, Errno::IO, Errno::DQUOT, Errno::ROFS, Errno::MFILE];
    for kind in [DiskFault::Short, DiskFault::Torn, DiskFault::Error(Errno::IO)] {
        for first in 0.. {
            let fault =
                if let DiskFault::Error(_) = kind { DiskFault::Error(errors[first % errors.len()]) } else { kind };
            let home = StoreFixture::new();
            let calls = Arc::new(AtomicUsize::new(0));
            let disk = FaultyDisk { calls: calls.clone(), broken: first..first + 1, fault };
            let (told, ids) = run_session(&home, disk, FsyncMode::Turn);
            let context = format!("{fault:?} at call {first}: {told:?}");
            assert_nothing_lost(&home, &ids, &context);
            if calls.load(Ordering::Relaxed) <= first {
                assert!(told.is_empty(), "{context}");
                assert!(first > 20, "the faults covered the whole session");
                break;
            }
            assert!(told.len() <= 1, "told once: {context}");
        }
    }
}

#[test]
fn a_failure_that_nobody_waited_for_is_told_to_the_next_who_does() {
    for first in 0.. {
        let home = StoreFixture::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let disk = FaultyDisk { calls: calls.clone(), broken: first..first + 1, fault: DiskFault::Sync };
        let (told, _) = run_session(&home, disk, FsyncMode::Always);
        if calls.load(Ordering::Relaxed) <= first {
            break;
        }
        assert_eq!(told.len(), 1, "call {first}: {told:?}");
    }
}

#[test]
fn a_full_disk_is_told_once_and_everything_is_stored_when_there_is_room_again() {
    for length in [3, 9, 17] {
        for first in 0..20 {
            let home = StoreFixture::new();
            let disk = FaultyDisk {
                calls: Arc::default(),
                broken: first..first + length,
                fault: DiskFault::Error(Errno::NOSPC),
            };
            let options = TranscriptOptions { disk: Arc::new(disk), fsync: FsyncMode::Off };
            let mut transcript = Transcript::create(&home.files, sample_stamp(), options).unwrap();
            let mut told = Vec::new();
            let mut ids = Vec::new();
            for turn in 0..30 {
                ids.push(append_prompt(&mut transcript, &format!("prompt {turn}")));
                told.extend(transcript.take_error());
            }
            transcript.sync().wait_blocking().unwrap();
            assert_eq!(told.len(), 1, "{first}+{length}: {told:?}");
            assert_eq!(told[0].io_kind(), Some(io::ErrorKind::StorageFull));
            let stored: Vec<_> = home.transcript_lines().iter().map(|line| parse_line(line)["uuid"].clone()).collect();
            assert_eq!(stored, ids.iter().map(EntryId::as_str).collect::<Vec<_>>(), "{first}+{length}");
        }
    }
}

#[test]
fn a_torn_tail_left_by_others_is_never_written_onto() {
    let torn: [&[u8]; 4] = [b"{\"parentUuid\":nu", b"{\"x\":\"\xc3", b"\0\0\0\0", b"garbage"];
    for tail in torn {
        let home = StoreFixture::new();
        let mut transcript = home.create();
        append_prompt(&mut transcript, "one");
        drop(transcript);
        let (_, mut transcript) = home.resume();
        // Both before the first write of a resumed session and between two of its writes.
        for text in ["two", "three"] {
            io::Write::write_all(&mut File::options().append(true).open(home.path()).unwrap(), tail).unwrap();
            append_prompt(&mut transcript, text);
        }
        let loaded = home.load();
        let blocks = loaded.messages.iter().flat_map(|message| &message.blocks);
        let texts: Vec<String> = blocks.map(|block| block.as_text().unwrap().into()).collect();
        assert_eq!(texts, ["one", "two", "three"]);
        assert_eq!(loaded.damage.total, 2, "{:?}", loaded.damage);
    }
}
