use super::*;
use crate::LocationContext;

struct LeaseFixture {
    _folder: tempfile::TempDir,
    locations: SettingsLocations,
    file: PathBuf,
}

impl LeaseFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let project = base.join("project");
        std::fs::create_dir_all(project.join(".claude")).unwrap();
        let locations = SettingsLocations::resolve(LocationContext {
            home: Some(base.clone()),
            config_dir: base.join(".claude"),
            config_dir_named: false,
            cwd: project,
            managed_dir: base.join("managed"),
            xdg_config_home: None,
            also_owner: None,
        });
        let file = locations.local_file();
        Self { _folder: folder, locations, file }
    }

    fn begin_lease(&self) -> SettingsLease {
        SettingsLease::begin(&self.locations, [self.file.clone()])
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
    }

    fn read(&self) -> Option<Vec<u8>> {
        std::fs::read(&self.file).ok()
    }

    fn count_records(&self) -> usize {
        list_record_ids(&lease_folder(&self.locations.config_dir)).len()
    }
}

#[test]
fn lease_record_stays_until_released() {
    let scene = LeaseFixture::new();
    let vouching = scene.begin_lease();
    scene.write("planted");
    drop(vouching);
    assert_eq!(scene.count_records(), 1);
    let standing = ActiveLeases::read(&scene.locations);
    assert!(standing.is_abandoned_change(&scene.file, scene.read().as_deref()), "{standing:?}");
    // The next command neither treats it as settled nor removes it.
    scene.begin_lease().release();
    assert_eq!(scene.count_records(), 1);
    std::fs::remove_file(&scene.file).unwrap();
    scene.begin_lease().release();
    assert_eq!(scene.count_records(), 0, "nothing of it is left");
}

#[test]
fn a_command_that_begins_or_ends_while_a_file_is_read_is_not_missed() {
    let scene = LeaseFixture::new();
    scene.write("before");
    let mut kept = None;
    let (around, read) = LeaseWindow::read_with_leases(&scene.locations, || {
        kept = Some(scene.begin_lease());
        scene.write("planted");
        scene.read()
    });
    let known = around.suspect_content(&scene.file, read.as_deref()).and_then(|vouched| vouched.text.as_deref());
    assert_eq!(known, Some("before"));
    let (around, read) = LeaseWindow::read_with_leases(&scene.locations, || {
        let read = scene.read();
        scene.write("before");
        kept.take().unwrap().release();
        read
    });
    assert!(around.suspect_content(&scene.file, read.as_deref()).is_some());
    let (around, read) = LeaseWindow::read_with_leases(&scene.locations, || scene.read());
    assert!(around.suspect_content(&scene.file, read.as_deref()).is_none());
}

#[test]
fn what_gimlet_writes_while_a_file_is_read_is_known() {
    let scene = LeaseFixture::new();
    scene.write("before");
    let vouching = scene.begin_lease();
    let (around, read) = LeaseWindow::read_with_leases(&scene.locations, || {
        let read = scene.read();
        record_rewrite(&scene.locations, &scene.file, Some("before"), "after");
        read
    });
    assert!(around.suspect_content(&scene.file, read.as_deref()).is_none());
    assert!(around.suspect_content(&scene.file, Some(b"after")).is_none());
    assert!(around.suspect_content(&scene.file, Some(b"planted")).is_some());
    vouching.release();
}
