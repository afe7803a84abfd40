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
