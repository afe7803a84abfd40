//! Before trust a project's documents give text alone; what is listed, trusted and used is one reading of each file.

use std::os::unix::fs::symlink;

use gimlet_config::{
    BodyPart, DocumentReader, MemoryOptions, ProjectItemKind, ProjectTrust, SettingSources, SkillFiles, TrustInventory,
    TrustStore,
};

use crate::fixture::{SettingsFixture, write_file_at};

const ACTING_AGENT: &str = "---\nname: a\ndescription: d\ntools: Read\nmodel: opus\npermissionMode: bypassPermissions\n\
    mcpServers:\n- x: {command: ./x}\n---\nText\n";

fn reader(world: &SettingsFixture) -> DocumentReader {
    DocumentReader::new(&world.locations(), SettingSources::default())
}

fn commands<'a>(skills: &'a SkillFiles, name: &str, trust: &ProjectTrust) -> Vec<Option<&'a str>> {
    let parts = skills.find(name).unwrap().body.parts();
    let codes = parts.into_iter().filter_map(|part| match part {
        BodyPart::Command(command) => Some(command.code(trust)),
        BodyPart::Text(_) => None,
    });
    codes.collect()
}

#[test]
fn before_trust_a_document_gives_text_and_no_field_that_acts() {
    let world = SettingsFixture::new();
    world.write_file(".claude/agents/a.md", ACTING_AGENT);
    world.write_file(".claude/agents/plain.md", "---\nname: plain\ndescription: d\nmodel: opus\n---\nText\n");
    world.write_file(
        ".claude/skills/s/SKILL.md",
        "---\nallowed_tools: Bash\neffort: max\n---\nNow !`id` and\n```!\nls\n```\n",
    );
    let reader = reader(&world);
    let loaded = world.load();
    let inventory = TrustInventory::collect_with(&loaded, &reader);
    let (agents, skills) = (reader.agents(&[]), reader.skills(&[]));
    let none = ProjectTrust::none();

    let agent = agents.find("a").unwrap();
    assert_eq!((agent.prompt.as_str(), agent.tools.as_deref()), ("Text", Some(&["Read".to_owned()][..])));
    assert_eq!(agent.actions.get(&none), None);
    assert_eq!(agent.actions.withheld_fields(&none), ["model", "permissionMode", "mcpServers"]);
    assert!(agents.find("plain").unwrap().actions.get(&none).is_none(), "a model waits as well");
    assert_eq!(skills.find("s").unwrap().actions.withheld_fields(&none), ["allowed-tools", "effort"]);
    assert_eq!(commands(&skills, "s", &none), [None, None]);

    let kinds: Vec<ProjectItemKind> = inventory.items.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [ProjectItemKind::Skill, ProjectItemKind::Agent], "the plain one runs and grants nothing");
    assert_eq!(skills.trust_items(), &inventory.items[..1]);
    assert_eq!(agent.actions.trust_item(), Some(&inventory.items[1]));

    let store = TrustStore::new(&world.locations());
    let (trust, stored) = store.accept_folder(&inventory.items);
    stored.unwrap();
    assert_eq!(agent.actions.get(&trust).unwrap().model.as_deref(), Some("opus"));
    assert!(agents.find("plain").unwrap().actions.get(&trust).is_some());
    assert_eq!(skills.find("s").unwrap().actions.get(&trust).unwrap().allowed_tools, ["Bash"]);
    assert_eq!(commands(&skills, "s", &trust), [Some("id"), Some("ls")]);
}

#[test]
fn a_document_that_changes_waits_again_and_a_reader_gives_what_it_read() {
    let world = SettingsFixture::new();
    world.write_file(".claude/skills/s/SKILL.md", "!`one`\n");
    let first = reader(&world);
    let inventory = TrustInventory::collect_with(&world.load(), &first);
    world.write_file(".claude/skills/s/SKILL.md", "!`two`\n");
    let (trust, stored) = TrustStore::new(&world.locations()).accept_folder(&inventory.items);
    stored.unwrap();
    assert_eq!(commands(&first.skills(&[]), "s", &trust), [Some("one")], "what was listed is what is used");
    let second = reader(&world);
    assert_eq!(commands(&second.skills(&[]), "s", &trust), [None], "what came since was not accepted");
    assert_eq!(TrustInventory::collect_with(&world.load(), &second).withheld(&trust).len(), 1);
}

#[test]
fn every_spelling_of_a_field_that_acts_is_an_item() {
    for (front_matter, acts) in [
        ("allowed-tools: Bash", true),
        ("allowed_tools: Bash", true),
        ("AllowedTools: Bash", true),
        ("\"allowed-tools\": Bash", true),
        ("\"allowed\\u002dtools\": Bash", true),
        ("{hooks: {Stop: []}}", true),
        ("? hooks\n: {}", true),
        ("x: &k hooks\n*k : {}", true),
        ("description: d\rhooks: {}", true),
        ("description: d", false),
    ] {
        let world = SettingsFixture::new();
        world.write_file(".claude/skills/s/SKILL.md", format!("---\n{front_matter}\n---\nText\n"));
        let reader = reader(&world);
        let items = TrustInventory::collect_with(&world.load(), &reader).items;
        assert_eq!(items.len(), usize::from(acts), "{front_matter}");
        let skills = reader.skills(&[]);
        let skill = skills.find("s").unwrap();
        assert_eq!(skill.actions.trust_item().is_some(), acts, "{front_matter}");
        // Trust in the folder without its items, as of an earlier version of the file.
        let earlier = ProjectTrust::none().with(&[]);
        assert_eq!(skill.actions.get(&earlier).is_some(), !acts, "{front_matter}");
    }
}

#[test]
fn the_users_documents_act_at_once_unless_the_project_wrote_them() {
    let world = SettingsFixture::new();
    write_file_at(&world.home.join(".claude/agents/a.md"), ACTING_AGENT);
    world.write_file("dotfiles/s/SKILL.md", "!`id`\n");
    std::fs::create_dir_all(world.home.join(".claude/skills")).unwrap();
    symlink(world.project.join("dotfiles/s"), world.home.join(".claude/skills/s")).unwrap();
    let reader = reader(&world);
    let none = ProjectTrust::none();
    assert!(reader.agents(&[]).find("a").unwrap().actions.get(&none).is_some());
    assert_eq!(commands(&reader.skills(&[]), "s", &none), [None]);
    let items = TrustInventory::collect_with(&world.load(), &reader).items;
    assert_eq!(items.len(), 1, "{items:?}");
    assert_eq!(commands(&reader.skills(&[]), "s", &none.with_items(&items)), [Some("id")]);
}

#[test]
fn skills_of_added_folders_wait_for_trust_with_the_scripts_of_both_folders() {
    let world = SettingsFixture::new();
    let added = world.home.join("added");
    write_file_at(&added.join(".claude/skills/s/SKILL.md"), "!`./x.sh`\n");
    let item = || {
        let skills = reader(&world).skills(&[&added]);
        assert_eq!(commands(&skills, "s", &ProjectTrust::none()), [None]);
        skills.trust_items().remove(0)
    };
    let before = item();
    assert!(before.title().contains("added/.claude/skills/s/SKILL.md"), "{}", before.title());
    write_file_at(&added.join("x.sh"), "echo one");
    let with_added = item();
    world.write_file("x.sh", "echo two");
    let with_both = item();
    assert!(before.digest != with_added.digest && with_added.digest != with_both.digest);
}

#[test]
fn links_lead_to_nothing_secret_and_in_no_circle() {
    let world = SettingsFixture::new();
    let secret = write_file_at(&world.home.join(".ssh/id_rsa"), "---\nname: s\ndescription: SECRET\n---\nSECRET\n");
    for folder in ["agents", "commands", "skills/s", "output-styles"] {
        std::fs::create_dir_all(world.project.join(".claude").join(folder)).unwrap();
    }
    for link in ["agents/a.md", "commands/c.md", "skills/s/SKILL.md", "output-styles/o.md"] {
        symlink(&secret, world.project.join(".claude").join(link)).unwrap();
    }
    symlink(secret.parent().unwrap(), world.project.join(".claude/skills/folder")).unwrap();
    symlink(world.home.join("missing"), world.project.join(".claude/agents/dangling.md")).unwrap();
    symlink(world.project.join(".claude"), world.project.join(".claude/agents/circle")).unwrap();
    world.write_file("shared/agents/in.md", "---\nname: in\ndescription: inside\n---\n");
    symlink("../../shared/agents", world.project.join(".claude/agents/shared")).unwrap();
    let reader = reader(&world);
    let (agents, skills, styles) = (reader.agents(&[]), reader.skills(&[]), reader.output_styles());
    let shown = format!("{agents:?} {skills:?} {styles:?}");
    assert!(!shown.contains("SECRET"), "{shown}");
    assert_eq!(agents.agents.len(), 1, "a link inside the project is followed");
    let reasons: Vec<String> = agents.skipped.iter().map(ToString::to_string).collect();
    assert!(
        reasons.iter().any(|reason| reason.contains("a.md: not used: it is a link that leads out of the folder")),
        "{reasons:?}"
    );
    assert!(
        reasons.iter().any(|reason| reason.contains("dangling.md: not used: it is a link that leads nowhere")),
        "{reasons:?}"
    );
    assert_eq!(TrustInventory::collect_with(&world.load(), &reader).items, []);
}

#[test]
fn documents_that_others_could_have_written_are_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let world = SettingsFixture::new();
    write_file_at(&world.home.join(".claude/agents/good.md"), "---\nname: good\ndescription: d\n---\n");
    let foreign = write_file_at(&world.home.join(".claude/agents/bad.md"), "---\nname: bad\ndescription: d\n---\n");
    std::os::unix::fs::chown(foreign, Some(4711), None).unwrap();
    let agents = reader(&world).agents(&[]);
    assert!(agents.find("good").is_some() && agents.find("bad").is_none());
    assert_eq!(agents.skipped.len(), 1);
    assert!(agents.skipped[0].to_string().contains("belongs to another user (4711)"), "{}", agents.skipped[0]);
    std::os::unix::fs::chown(world.home.join(".claude/agents"), Some(4711), None).unwrap();
    assert_eq!(reader(&world).agents(&[]).agents.len(), 0);
}

#[test]
fn memory_that_leads_out_of_the_project_is_an_item_and_waits() {
    let world = SettingsFixture::new();
    let notes = write_file_at(&world.home.join("notes.md"), "My notes, see @more.md\n");
    write_file_at(&world.home.join("more.md"), "More\n");
    write_file_at(&world.home.join("rules/r.md"), "Shared rule\n");
    let file = world.write_file("CLAUDE.md", format!("See @{}\n", notes.display()));
    std::fs::create_dir_all(world.project.join(".claude/rules")).unwrap();
    symlink(world.home.join("rules"), world.project.join(".claude/rules/shared")).unwrap();
    symlink(&notes, world.project.join("CLAUDE.local.md")).unwrap();
    let reader = reader(&world);
    let inventory = TrustInventory::collect_with(&world.load(), &reader);
    let titles: Vec<String> = inventory.items.iter().map(gimlet_config::ProjectItem::title).collect();
    let expected = [
        format!("memory import {} of CLAUDE.md", notes.display()),
        format!("memory import {} of .claude/rules/shared", world.home.join("rules").display()),
        format!("memory import {} of CLAUDE.local.md", notes.display()),
    ];
    assert_eq!(titles, expected);

    let read = |trust: &ProjectTrust, may_read: &dyn Fn(&std::path::Path) -> bool| {
        let options = MemoryOptions { trust, may_read, managed_text: None, excludes: &[], added_folders: &[] };
        reader.memory(&options)
    };
    let before = read(&ProjectTrust::none(), &|_| true);
    assert_eq!(before.files.iter().map(|memory| &memory.path).collect::<Vec<_>>(), [&file]);
    assert_eq!((before.waiting.len(), before.skipped.len()), (3, 3));
    assert!(before.skipped[0].to_string().contains("waits for trust"), "{}", before.skipped[0]);

    let trust = ProjectTrust::none().with_items(&inventory.items);
    let after: Vec<String> = read(&trust, &|_| true).files.into_iter().map(|memory| memory.text).collect();
    assert_eq!(after[1..], ["My notes, see @more.md", "More", "Shared rule"], "the notes once, by their first name");
    let denied = read(&trust, &|path| !path.ends_with("notes.md"));
    assert!(denied.files.iter().all(|memory| !memory.text.contains("My notes")));
    assert!(denied.skipped.iter().any(|skipped| skipped.reason == "a rule forbids reading it"), "{:?}", denied.skipped);
}
