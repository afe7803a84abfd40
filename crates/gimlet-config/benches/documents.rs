//! Time to find the documents of a session: 300 skills, 100 agents and 200 rules of a project, and the items for trust.
#![allow(clippy::unwrap_used, reason = "a benchmark without its files has failed")]

use std::path::Path;

use gimlet_config::{
    DocumentReader, LocationContext, MemoryOptions, ProjectTrust, SettingSources, SettingsLoadOptions,
    SettingsLocations, TrustInventory, load_settings,
};
use tempfile::TempDir;

fn main() {
    divan::main();
}

fn write_file(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn make_project() -> (TempDir, SettingsLocations) {
    let temp = tempfile::tempdir().unwrap();
    let base = temp.path().canonicalize().unwrap();
    let claude_dir = base.join("project/.claude");
    let body = "Words of a body, one line of many.\n".repeat(120);
    for at in 0..300 {
        let text = format!(
            "---\nname: s{at}\ndescription: Skill {at} for this and that\nallowed-tools: Read, Grep\n---\n{body}"
        );
        write_file(&claude_dir.join(format!("skills/s{at}/SKILL.md")), &text);
    }
    for at in 0..100 {
        let text = format!(
            "---\nname: a{at}\ndescription: Agent {at}. Use it when: it fits\ntools: Read, Grep\nmodel: haiku\n---\n{body}"
        );
        write_file(&claude_dir.join(format!("agents/a{at}.md")), &text);
    }
    for at in 0..200 {
        let text = format!("---\npaths: src/m{at}/**/*.{{ts,tsx}}\n---\n{body}");
        write_file(&claude_dir.join(format!("rules/r{at}.md")), &text);
    }
    let locations = SettingsLocations::resolve(LocationContext {
        home: Some(base.join("home")),
        config_dir: base.join("home/.claude"),
        config_dir_named: false,
        cwd: base.join("project"),
        managed_dir: base.join("managed"),
        xdg_config_home: None,
        also_owner: None,
    });
    (temp, locations)
}

#[divan::bench]
fn find_documents(bencher: divan::Bencher<'_, '_>) {
    let (_temp, locations) = make_project();
    bencher.bench_local(|| {
        let reader = DocumentReader::new(&locations, SettingSources::default());
        let trust = ProjectTrust::none();
        let options =
            MemoryOptions { trust: &trust, may_read: &|_| true, managed_text: None, excludes: &[], added_folders: &[] };
        let found = (reader.skills(&[]), reader.agents(&[]), reader.memory(&options));
        assert_eq!((found.0.skills.len(), found.1.agents.len(), found.2.conditional.len()), (300, 100, 200));
        found
    });
}

#[divan::bench]
fn collect_trust_items(bencher: divan::Bencher<'_, '_>) {
    let (_temp, locations) = make_project();
    let loaded = load_settings(&locations, &SettingsLoadOptions::default());
    bencher.bench_local(|| {
        let inventory = TrustInventory::collect(&loaded);
        assert_eq!(inventory.items.len(), 300);
        inventory
    });
}
