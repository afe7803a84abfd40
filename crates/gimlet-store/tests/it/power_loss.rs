//! Power cuts: only what a sync covered is certain, the rest may be there in any length, torn at sector borders.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use gimlet_proto::{Block, EntryId};
use gimlet_store::*;

use crate::support::*;

/// Keeps the bytes of one file and how far they are certain.
#[derive(Default)]
struct RecordingFile {
    state: Mutex<RecordedState>,
}

#[derive(Default, Clone)]
struct RecordedState {
    bytes: Vec<u8>,
    synced: usize,
    name_synced: bool,
}

#[derive(Clone, Default)]
struct RecordingDisk(Arc<RecordingFile>);

impl Disk for RecordingDisk {
    fn create_dirs(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_append(&self, _path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.0.clone())
    }

    fn publish_draft(&self, _draft: &Path, _path: &Path) -> io::Result<bool> {
        Ok(true)
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.0.state.lock().unwrap().name_synced = true;
        Ok(())
    }
}

impl LogFile for RecordingFile {
    fn is_removed(&self) -> io::Result<bool> {
        Ok(false)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.state.lock().unwrap().bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let rest = &state.bytes[offset as usize..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.synced = state.bytes.len();
        Ok(())
    }
}

/// Everything that may be on the disk after a power cut now: the certain part and any number of sectors more, as
/// written or still zero.
fn possible_disk_images(state: &RecordedState) -> Vec<Vec<u8>> {
    const SECTOR: usize = 512;
    let mut ends: Vec<usize> = (state.synced / SECTOR + 1..=state.bytes.len() / SECTOR).map(|n| n * SECTOR).collect();
    ends.extend([state.synced, state.bytes.len()]);
    let mut images = Vec::new();
    for end in ends {
        images.push(state.bytes[..end].to_vec());
        let mut zeroed = state.bytes[..end].to_vec();
        zeroed.resize(state.bytes.len(), 0);
        images.push(zeroed);
    }
    images
}

#[test]
fn every_acknowledged_record_survives_and_the_session_goes_on() {
    let disk = RecordingDisk::default();
    let home = StoreFixture::new();
    let options = TranscriptOptions { disk: Arc::new(disk.clone()), fsync: FsyncMode::Turn };
    let mut transcript = Transcript::create(&home.files, sample_stamp(), options).unwrap();
    let mut certain: Vec<EntryId> = Vec::new();
    let mut written: Vec<EntryId> = Vec::new();
    for turn in 0..6 {
        written.push(append_prompt(&mut transcript, "go"));
        let id = format!("t{turn}");
        written.push(transcript.append_assistant(&reply_head(&format!("m{turn}")), &call_block(&id)));
        // Before effects: the request is certain.
        transcript.sync().wait_blocking().unwrap();
        assert!(disk.0.state.lock().unwrap().name_synced, "the file's name is certain too");
        certain.clone_from(&written);
        written.push(transcript.append_tool_result(&result_block(&id, &"r".repeat(turn * 900)), None));
        written.push(transcript.append_assistant(&reply_head(&format!("n{turn}")), &Block::text("done")));
        transcript.end_turn();
        let state = disk.0.state.lock().unwrap().clone();
        for image in possible_disk_images(&state) {
            let crashed = StoreFixture::new();
            crashed.write_transcript(&image);
            let (loaded, mut resumed) = crashed.resume();
            assert_eq!(history_fault(&loaded.messages), None, "{:?}", loaded.damage);
            let text = String::from_utf8(image).unwrap();
            for id in &certain {
                let lines = text.lines().filter(|line| line.contains(&format!(r#""uuid":"{id}""#)));
                assert!(lines.into_iter().any(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{id}");
            }
            append_prompt(&mut resumed, "after the crash");
            let again = crashed.load();
            assert_eq!(history_fault(&again.messages), None);
            assert_eq!(again.messages.last().unwrap().blocks.last(), Some(&Block::text("after the crash")));
        }
    }
}

#[test]
fn fsync_off_never_waits_and_always_covers_each_record() {
    let disk = RecordingDisk::default();
    let home = StoreFixture::new();
    let options = TranscriptOptions { disk: Arc::new(disk.clone()), fsync: FsyncMode::Off };
    let mut transcript = Transcript::create(&home.files, sample_stamp(), options).unwrap();
    append_prompt(&mut transcript, "x");
    transcript.sync().wait_blocking().unwrap();
    assert_eq!(disk.0.state.lock().unwrap().synced, 0);
    drop(transcript);
    let disk = RecordingDisk::default();
    let options = TranscriptOptions { disk: Arc::new(disk.clone()), fsync: FsyncMode::Always };
    let mut transcript = Transcript::create(&home.files, sample_stamp(), options).unwrap();
    append_prompt(&mut transcript, "x");
    drop(transcript); // joins the sync thread
    let state = disk.0.state.lock().unwrap();
    assert_eq!(state.synced, state.bytes.len());
}
