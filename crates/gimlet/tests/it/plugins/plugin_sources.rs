//! Plugins in archives, in folders of skills, and installed ones.

use std::path::{Path, PathBuf};

use gimlet_testkit::TestWorld;
use serde_json::{Value, json};

use super::{log_hook, names, run_with, write, write_json, write_manifest, write_user_settings, write_whole_plugin};
use crate::world;

/// Packs the files of a folder, with these names for some of them.
#[allow(clippy::disallowed_methods, reason = "the archive is made by another program than the one that reads it")]
fn pack(folder: &Path, archive: &Path, renamed: &str) {
    let script = "import os,sys,zipfile\nsrc,dst,renamed=sys.argv[1:4]\nz=zipfile.ZipFile(dst,'w',zipfile.ZIP_DEFLATED)\n\
                  for d,_,fs in os.walk(src):\n  for f in fs:\n    p=os.path.join(d,f)\n    z.write(p,os.path.relpath(p,src))\n\
                  if renamed: z.writestr(renamed,'x')\nz.close()\n";
    let mut python = std::process::Command::new("python3");
    let status = python.args(["-c", script]).arg(folder).arg(archive).arg(renamed).status().unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn a_plugin_in_an_archive_is_used_like_one_in_a_folder() {
    let world = world();
    let (folder, archive) = (world.home.join("src"), world.home.join("packed.zip"));
    write_whole_plugin(&folder, "packed");
    pack(&folder, &archive, "");
    std::fs::remove_dir_all(&folder).unwrap();
    for _ in 0..2 {
        let (_, run) = run_with(&world, &["--plugin-dir", archive.to_str().unwrap()]).await;
        assert_eq!(run.stderr, "");
        let init = &run.lines()[0];
        assert_eq!(names(&init["plugins"]), ["packed"]);
        let root = PathBuf::from(init["plugins"][0]["path"].as_str().unwrap());
        assert!(root.starts_with(world.home.join(".claude/plugins/cache/inline")), "{}", root.display());
        assert!(world.home.join("exec.sh.log").exists(), "scripts are executable");
    }
    pack(&world.home.join(".claude/plugins/cache"), &archive, "../../escaped");
    let (_, run) = run_with(&world, &["--plugin-dir", archive.to_str().unwrap()]).await;
    assert!(run.stderr.contains("../../escaped: this path leads out of the plugin"), "{}", run.stderr);
    write(archive.clone(), "no archive");
    let (_, run) = run_with(&world, &["--plugin-dir", archive.to_str().unwrap()]).await;
    assert!(run.stderr.contains("packed.zip: it is no zip file"), "{}", run.stderr);
    assert_eq!(run.lines()[0]["plugin_errors"][0]["type"], "invalid-archive");
}

#[tokio::test]
async fn a_folder_of_skills_with_a_manifest_is_a_plugin() {
    let world = world();
    let root = world.home.join(".claude/skills/folder");
    write_manifest(&root, &json!({"name": "mine"}));
    write_json(root.join("hooks/hooks.json"), &json!({"hooks": {"Stop": [{"hooks": [log_hook("stop.log")]}]}}));
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!((names(&run.lines()[0]["plugins"]), run.stderr.as_str()), (vec!["mine".to_owned()], ""));
    assert!(world.home.join("stop.log").exists());
    std::fs::remove_file(world.home.join("stop.log")).unwrap();
    for args in [&["--bare"][..], &["--safe-mode"], &["--setting-sources", "local"]] {
        let (_, run) = run_with(&world, args).await;
        assert_eq!(names(&run.lines()[0]["plugins"]), Vec::<String>::new(), "{args:?}");
    }
    write_user_settings(&world, &json!({"enabledPlugins": {"mine@skills-dir": false}}));
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), Vec::<String>::new());
    assert!(!world.home.join("stop.log").exists());
}

/// Writes the record of installed plugins.
fn write_record(world: &TestWorld, plugins: &Value) {
    let record = json!({"version": 2, "plugins": plugins});
    write_json(world.home.join(".claude/plugins/installed_plugins.json"), &record);
}

#[tokio::test]
async fn installed_plugins_are_found_by_their_record_and_settings_turn_them_on_and_off() {
    let world = world();
    let cache = world.home.join(".claude/plugins/cache/market");
    let install = |name: &str, version: &str| {
        let root = cache.join(name).join(version);
        write_manifest(&root, &json!({"name": name, "version": version}));
        root
    };
    let (old, new, other) = (install("tool", "1.0.0"), install("tool", "2.0.0"), install("other", "1.0.0"));
    let elsewhere = install("elsewhere", "1.0.0");
    write_record(
        &world,
        &json!({
            "tool@market": [{"scope": "user", "installPath": old, "version": "1.0.0"},
                {"scope": "project", "projectPath": world.project, "installPath": new, "version": "2.0.0"}],
            "other@market": [{"scope": "user", "installPath": other, "version": "1.0.0"}],
            "elsewhere@market": [{"scope": "project", "projectPath": "/elsewhere", "installPath": elsewhere, "version": "1.0.0"}],
            "lost@market": [{"scope": "user", "installPath": cache.join("lost"), "version": "1.0.0"}],
            "../bad": [],
        }),
    );
    write_user_settings(
        &world,
        &json!({"enabledPlugins": {"tool@market": true, "other@market": false, "absent@market": true}}),
    );
    let (_, run) = run_with(&world, &[]).await;
    let init = &run.lines()[0];
    assert_eq!(init["plugins"], json!([{"name": "tool", "path": new, "version": "2.0.0"}]), "the project's own counts");
    assert_eq!(
        (&init["plugin_errors"][0]["plugin"], &init["plugin_errors"][0]["type"]),
        (&json!("lost@market"), &json!("path-not-found"))
    );
    write_json(world.project.join(".claude/settings.local.json"), &json!({"enabledPlugins": {"other@market": true}}));
    let (_, run) = run_with(&world, &["--trust"]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), ["tool", "other"], "{}", run.stderr);
    // A plugin of a flag takes the place of an installed one.
    let flag = world.home.join("flag");
    write_manifest(&flag, &json!({"name": "tool", "version": "3.0.0"}));
    let (_, run) = run_with(&world, &["--plugin-dir", flag.to_str().unwrap()]).await;
    assert_eq!(run.lines()[0]["plugins"], json!([{"name": "tool", "path": flag, "version": "3.0.0"}]));
    write(world.home.join(".claude/plugins/installed_plugins.json"), "{\n\n oops");
    let (_, run) = run_with(&world, &[]).await;
    assert_eq!(names(&run.lines()[0]["plugins"]), Vec::<String>::new());
    assert!(run.stderr.contains("installed_plugins.json:3: no installed plugin is used"), "{}", run.stderr);
}
