use super::*;
use crate::Surroundings;

struct Scene {
    _folder: tempfile::TempDir,
    locations: Locations,
    file: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let project = base.join("project");
        std::fs::create_dir_all(project.join(".claude")).unwrap();
        let locations = Locations::find(Surroundings {
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

    fn begin(&self) -> Vouching {
        Vouching::begin(&self.locations, [self.file.clone()])
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
    }

    fn read(&self) -> Option<Vec<u8>> {
        std::fs::read(&self.file).ok()
    }

    fn records(&self) -> usize {
        ids(&folder_in(&self.locations.config_dir)).len()
    }
}

#[test]
fn a_record_goes_only_when_somebody_looked() {
    let scene = Scene::new();
    let vouching = scene.begin();
    scene.write("planted");
    drop(vouching);
    assert_eq!(scene.records(), 1);
    let standing = Standing::read(&scene.locations);
    assert!(standing.was_abandoned(&scene.file, scene.read().as_deref()), "{standing:?}");
    // The next command does not take it for settled, nor away.
    scene.begin().settled();
    assert_eq!(scene.records(), 1);
    std::fs::remove_file(&scene.file).unwrap();
    scene.begin().settled();
    assert_eq!(scene.records(), 0, "nothing of it is left");
}

#[test]
fn a_command_that_begins_or_ends_while_a_file_is_read_is_not_missed() {
    let scene = Scene::new();
    scene.write("before");
    let mut kept = None;
    let (around, read) = Around::read(&scene.locations, || {
        kept = Some(scene.begin());
        scene.write("planted");
        scene.read()
    });
    let known = around.doubts(&scene.file, read.as_deref()).and_then(|vouched| vouched.text.as_deref());
    assert_eq!(known, Some("before"));
    let (around, read) = Around::read(&scene.locations, || {
        let read = scene.read();
        scene.write("before");
        kept.take().unwrap().settled();
        read
    });
    assert!(around.doubts(&scene.file, read.as_deref()).is_some());
    let (around, read) = Around::read(&scene.locations, || scene.read());
    assert!(around.doubts(&scene.file, read.as_deref()).is_none());
}

#[test]
fn what_gimlet_writes_while_a_file_is_read_is_known() {
    let scene = Scene::new();
    scene.write("before");
    let vouching = scene.begin();
    let (around, read) = Around::read(&scene.locations, || {
        let read = scene.read();
        rewritten(&scene.locations, &scene.file, Some("before"), "after");
        read
    });
    assert!(around.doubts(&scene.file, read.as_deref()).is_none());
    assert!(around.doubts(&scene.file, Some(b"after")).is_none());
    assert!(around.doubts(&scene.file, Some(b"planted")).is_some());
    vouching.settled();
}
