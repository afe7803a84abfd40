//! Where agents, skills, commands and output styles are found, and which one of a name is used.

use std::os::unix::fs::symlink;
use std::path::Path;

use gimlet_config::{
    AgentMcpServer, AgentMemoryScope, BodyPart, DocumentReader, DocumentScope, ProjectTrust, SettingSources,
    SkillFiles, SkillKind,
};
use gimlet_proto::PermissionMode;
use serde_json::json;

use crate::fixture::{SettingsFixture, write_file_at};

fn reader(world: &SettingsFixture) -> DocumentReader {
    DocumentReader::new(&world.locations(), SettingSources::default())
}

fn agent_text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nYou are {name}.\n")
}

fn names(skills: &SkillFiles) -> Vec<&str> {
    skills.skills.iter().map(|skill| skill.name.as_str()).collect()
}

#[test]
fn the_closest_agent_of_a_name_is_used_and_scopes_have_an_order() {
    let mut world = SettingsFixture::new();
    world.cwd = world.project.join("apps/web");
    std::fs::create_dir_all(&world.cwd).unwrap();
    for (place, description) in [
        (world.managed.join(".claude/agents/m.md"), "managed"),
        (world.cwd.join(".claude/agents/deep/er/c.md"), "close"),
        (world.project.join(".claude/agents/p.md"), "far"),
        (world.home.join(".claude/agents/u.md"), "user"),
    ] {
        write_file_at(&place, agent_text("one", description));
    }
    write_file_at(&world.project.join(".claude/agents/two.md"), agent_text("two", "project"));
    write_file_at(&world.project.join(".claude/agents/z/two.md"), agent_text("two", "again"));
    let agents = reader(&world).agents(&[]);
    let found: Vec<(DocumentScope, &str)> =
        agents.agents.iter().map(|agent| (agent.origin.scope, agent.description.as_str())).collect();
    let expected = [
        (DocumentScope::Managed, "managed"),
        (DocumentScope::Project, "close"),
        (DocumentScope::Project, "project"),
        (DocumentScope::User, "user"),
    ];
    assert_eq!(found, expected);
    assert_eq!(agents.find("one").unwrap().description, "managed");
    assert_eq!(agents.skipped.len(), 1, "two files of one folder: {:?}", agents.skipped);
    assert!(agents.skipped[0].to_string().contains("z/two.md: not used: "), "{}", agents.skipped[0]);

    let only_user = SettingSources { user: true, project: false, local: false };
    let agents = DocumentReader::new(&world.locations(), only_user).agents(&[]);
    assert_eq!(agents.agents.len(), 2, "the administrator's and the user's");
}

#[test]
fn all_fields_of_an_agent_are_read() {
    let world = SettingsFixture::new();
    let text = "---\nname: full\ndescription: d\ntools: Read, Grep\ndisallowedTools: Bash\nmodel: haiku\npermissionMode: plan\n\
        maxTurns: 3\nskills: one, two\nmcpServers:\n- db\n- own:\n    command: x\nhooks:\n  Stop:\n  - hooks:\n    - type: command\n      \
        command: echo\nmemory: project\nbackground: true\neffort: high\nisolation: worktree\ncolor: red\ninitialPrompt: go\n---\n\nBody\n";
    write_file_at(&world.home.join(".claude/agents/full.md"), text);
    let agents = reader(&world).agents(&[]);
    assert_eq!((agents.problems.as_slice(), agents.skipped.as_slice()), (&[][..], &[][..]));
    let agent = agents.find("full").unwrap();
    assert_eq!(agent.tools.as_deref(), Some(&["Read".to_owned(), "Grep".to_owned()][..]));
    assert_eq!((agent.disallowed_tools.as_slice(), agent.max_turns), (&["Bash".to_owned()][..], Some(3)));
    assert_eq!((agent.skills.len(), agent.background, agent.color.as_deref()), (2, Some(true), Some("red")));
    assert_eq!((agent.initial_prompt.as_deref(), agent.prompt.as_str()), (Some("go"), "Body"));
    let actions = agent.actions.get(&ProjectTrust::none()).unwrap();
    assert_eq!((actions.model.as_deref(), actions.effort.as_deref()), (Some("haiku"), Some("high")));
    assert_eq!(actions.permission_mode, Some(PermissionMode::Plan));
    let servers = [
        AgentMcpServer { name: "db".to_owned(), definition: None },
        AgentMcpServer { name: "own".to_owned(), definition: Some(json!({"command": "x"})) },
    ];
    assert_eq!(actions.mcp_servers, servers);
    assert_eq!((actions.hooks[0].event.as_str(), actions.hooks[0].handler.command.as_deref()), ("Stop", Some("echo")));
    assert_eq!((actions.memory, actions.worktree), (Some(AgentMemoryScope::Project), true));
}

#[test]
fn skills_have_precedence_over_each_other_and_over_commands() {
    let mut world = SettingsFixture::new();
    world.cwd = world.project.join("sub");
    std::fs::create_dir_all(&world.cwd).unwrap();
    let skill = |base: &Path, name: &str, text: &str| {
        write_file_at(&base.join(format!(".claude/skills/{name}/SKILL.md")), text)
    };
    let command =
        |base: &Path, name: &str, text: &str| write_file_at(&base.join(format!(".claude/commands/{name}.md")), text);
    skill(&world.home, "both", "user");
    skill(&world.project, "both", "project");
    skill(&world.managed, "ruled", "managed");
    skill(&world.home, "ruled", "user");
    skill(&world.cwd, "near", "near");
    skill(&world.project, "near", "far");
    skill(&world.home, "synced", "x");
    skill(&world.home, "plugged", "x");
    write_file_at(&world.home.join(".claude/skills/plugged/.claude-plugin/plugin.json"), "{}");
    write_file_at(&world.home.join(".claude/skills/loose.md"), "x");
    symlink(world.home.join(".claude/skills/both"), world.home.join(".claude/skills/twin")).unwrap();
    command(&world.project, "near", "command");
    command(&world.project, "frontend/build", "---\nname: other\ndescription: Builds\n---\n");
    command(&world.project, "backend/build", "b");
    let added = world.home.join("added");
    skill(&added, "extra", "added");
    skill(&added, "near", "added");
    command(&added, "more", "m");

    let skills = reader(&world).skills(&[&added]);
    assert_eq!(names(&skills), ["ruled", "both", "near", "extra", "build", "build", "more"]);
    let text = |name: &str| skills.find(name).unwrap().listing.description.clone().unwrap();
    assert_eq!((text("both"), text("ruled"), text("near")), ("user".into(), "managed".into(), "near".into()));
    let builds: Vec<Option<&str>> = skills
        .skills
        .iter()
        .filter(|skill| skill.name == "build")
        .map(|skill| skill.listing.namespace.as_deref())
        .collect();
    assert_eq!(builds, [Some("backend"), Some("frontend")]);
    let command = skills.skills.iter().find(|skill| skill.listing.namespace.as_deref() == Some("frontend")).unwrap();
    assert_eq!((command.kind, command.listing.label.as_deref()), (SkillKind::Command, Some("other")));
    assert_eq!(skills.find("extra").unwrap().origin.scope, DocumentScope::AddedFolder);
    assert_eq!(skills.find("near").unwrap().folder, world.cwd.join(".claude/skills/near"));
    let said: Vec<String> = skills.skipped.iter().map(ToString::to_string).collect();
    let said = said.join("\n");
    for part in ["loose.md: not used: a skill is a folder", "`synced` is reserved", "has the same name `near`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn nested_skills_are_found_on_the_way_to_a_file() {
    let world = SettingsFixture::new();
    for (place, text) in [("", "top"), ("apps/web/", "web"), ("apps/", "apps")] {
        world.write_file(&format!("{place}.claude/skills/deploy/SKILL.md"), text);
    }
    world.write_file("apps/web/.claude/skills/own/SKILL.md", "own");
    let reader = reader(&world);
    let known = reader.skills(&[]);
    assert_eq!(names(&known), ["deploy"]);
    let file = world.project.join("apps/web/src/a.ts");
    let nested = reader.nested_skills(&file, &known);
    assert_eq!(names(&nested), ["apps:deploy", "apps/web:deploy", "own"]);
    assert_eq!(names(&reader.nested_skills(&file, &nested)), [] as [&str; 0], "each is found once");
    assert_eq!(names(&reader.nested_skills(&world.project.join("../x"), &known)), [] as [&str; 0]);
    assert_eq!(names(&reader.nested_skills(&world.project.join("a.ts"), &known)), [] as [&str; 0]);
}

#[test]
fn bodies_tell_commands_and_old_arguments() {
    let world = SettingsFixture::new();
    write_file_at(&world.home.join(".claude/commands/c.md"), "---\ndescription: d\n---\nFix $1: !`git diff $1`\n");
    write_file_at(&world.home.join(".claude/commands/d.md"), "Fix $0 and $1\n");
    let skills = reader(&world).skills(&[]);
    let command = skills.find("c").unwrap();
    assert!(command.body.has_one_based_arguments());
    assert!(!skills.find("d").unwrap().body.has_one_based_arguments());
    let parts = command.body.parts();
    assert!(matches!(&parts[0], BodyPart::Text("Fix $1: ")), "{parts:?}");
    let BodyPart::Command(inline) = &parts[1] else { panic!("{parts:?}") };
    assert_eq!(inline.code(&ProjectTrust::none()), Some("git diff $1"), "the user's own");
    assert!(!format!("{:?}", command.body).contains("git diff"), "{:?}", command.body);
}

#[test]
fn the_closest_output_style_of_a_name_is_used() {
    let mut world = SettingsFixture::new();
    world.cwd = world.project.join("sub");
    let style =
        |base: &Path, file: &str, text: &str| write_file_at(&base.join(".claude/output-styles").join(file), text);
    style(&world.cwd, "terse.md", "close");
    style(&world.project, "terse.md", "far");
    style(&world.home, "terse.md", "user");
    style(
        &world.home,
        "x.md",
        "---\nname: Long\ndescription: Much: text\nkeep-coding-instructions: true\nforce-for-plugin: true\n---\n\n  Body\n",
    );
    style(&world.home, "bad.md", "---\nname: x\n");
    style(&world.managed, "ruled.md", "managed");
    let styles = reader(&world).output_styles();
    let (nobody, everything) = (ProjectTrust::none(), ProjectTrust::all());
    let found = |name: &str, trust: &ProjectTrust| {
        styles.find(name, trust).map(|(_, text)| text.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((found("ruled", &nobody), found("Long", &nobody)), (vec!["managed".into()], vec!["  Body".into()]));
    assert_eq!(found("terse", &everything), ["close", "far", "user"]);
    assert_eq!(found("terse", &nobody), ["user"], "the project's wait for trust");
    let (long, _) = styles.find("Long", &nobody).next().unwrap();
    assert_eq!((long.keeps_coding_instructions, long.description.as_deref()), (true, Some("Much: text")));
    assert_eq!(styles.skipped.len(), 1);
    assert_eq!(styles.problems.len(), 2, "the description and the field of plugins: {:?}", styles.problems);
}
