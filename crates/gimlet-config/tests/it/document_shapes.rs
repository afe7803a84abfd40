//! Documents in the shapes that people publish them in: all load, and what is lost is named with its line.

use gimlet_config::{AgentFiles, DocumentReader, ProjectTrust, SettingSources, SkillFile, SkillFiles};

use crate::fixture::{SettingsFixture, write_file_at};

fn reader(world: &SettingsFixture) -> DocumentReader {
    DocumentReader::new(&world.locations(), SettingSources::default())
}

fn read_agent(text: &str) -> (AgentFiles, String) {
    let world = SettingsFixture::new();
    let file = write_file_at(&world.home.join(".claude/agents/helper.md"), text);
    let agents = reader(&world).agents(&[]);
    let skipped = agents.skipped.iter().map(ToString::to_string);
    let lost: Vec<String> = agents.problems.iter().map(ToString::to_string).chain(skipped).collect();
    let lost = lost.join("\n").replace(&file.display().to_string(), "FILE");
    (agents, lost)
}

fn read_skill(text: &str) -> (SkillFiles, String) {
    let world = SettingsFixture::new();
    let file = write_file_at(&world.home.join(".claude/skills/helper/SKILL.md"), text);
    let skills = reader(&world).skills(&[]);
    let skipped = skills.skipped.iter().map(ToString::to_string);
    let lost: Vec<String> = skills.problems.iter().map(ToString::to_string).chain(skipped).collect();
    let lost = lost.join("\n").replace(&file.display().to_string(), "FILE");
    (skills, lost)
}

/// Front matter of an agent, its description, its tools, and the beginnings of what is reported.
type AgentShape = (&'static str, &'static str, Option<&'static [&'static str]>, &'static [&'static str]);

const AGENTS: &[AgentShape] = &[
    ("---\nname: a\ndescription: Reviews code\n---\nYou review.\n", "Reviews code", None, &[]),
    (
        "---\r\nname: a\r\ndescription: Windows lines\r\ntools: Read\r\n---\r\nYou review.\r\n",
        "Windows lines",
        Some(&["Read"]),
        &[],
    ),
    ("\u{feff}---\nname: a\ndescription: With a mark\n---\nx", "With a mark", None, &[]),
    ("---  \nname: a\ndescription: Spaces behind the border\n--- \nx", "Spaces behind the border", None, &[]),
    (
        "---\nname: a\ndescription: Use this agent when: the build fails, e.g. 'it broke'\ntools: Read, Grep\n---\nx",
        "Use this agent when: the build fails, e.g. 'it broke'",
        Some(&["Read", "Grep"]),
        &["FILE:3: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: Finds bugs. Examples:\\n\\n<example>\\nuser: \"why?\"\\nassistant: \"see\"\\n</example>\nmodel: opus\n---\nx",
        "Finds bugs. Examples:\\n\\n<example>\\nuser: \"why?\"\\nassistant: \"see\"\\n</example>",
        None,
        &["FILE:3: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: Finds bugs. Examples:\n<example>\nContext: a crash\nuser: \"why?\"\n</example>\ntools: Read\n---\nx",
        "Finds bugs. Examples:\n<example>\nContext: a crash\nuser: \"why?\"\n</example>",
        Some(&["Read"]),
        &["FILE:3: description: it is not valid YAML"],
    ),
    ("---\nname: a\ndescription: |\n  Two lines: one\n  and two\n---\nx", "Two lines: one\nand two", None, &[]),
    ("---\nname: a\ndescription: >\n  folded\n  text\n---\nx", "folded text", None, &[]),
    ("---\nname: a\ndescription: plain text\n  on two lines\n---\nx", "plain text on two lines", None, &[]),
    ("---\nname: a\ndescription: \"Quoted: with colon\"\n---\nx", "Quoted: with colon", None, &[]),
    ("---\nname: 'a'\ndescription: 'It''s fine'\n---\nx", "It's fine", None, &[]),
    (
        "---\nname: a\ndescription: 'It's broken quoting'\n---\nx",
        "'It's broken quoting'",
        None,
        &["FILE:3: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: @mentions and `ticks`\n---\nx",
        "@mentions and `ticks`",
        None,
        &["FILE:3: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: *bold* words\n---\nx",
        "*bold* words",
        None,
        &["FILE:3: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: fixes #12 and more #13\n---\nx",
        "fixes",
        None,
        &["FILE:3: description: text from ` #`"],
    ),
    (
        "---\nname: a\n# a comment\ndescription: d # why\ntools: [Read, 'Bash']\n---\nx",
        "d",
        Some(&["Read", "Bash"]),
        &["FILE:4: description: text from"],
    ),
    (
        "---\nname: a\ndescription: d\ntools:\n  - Read\n  - Bash(git log:*)\n---\nx",
        "d",
        Some(&["Read", "Bash(git log:*)"]),
        &[],
    ),
    ("---\nname: a\ndescription: d\ntools:\n- Read, Grep\n- Glob\n---\nx", "d", Some(&["Read", "Grep", "Glob"]), &[]),
    ("---\nname: a\ndescription: d\ntools: Read Grep  Glob\n---\nx", "d", Some(&["Read", "Grep", "Glob"]), &[]),
    (
        "---\nname: a\ndescription: d\ntools: Agent(b, c), Bash(git diff *), Read,\n---\nx",
        "d",
        Some(&["Agent(b, c)", "Bash(git diff *)", "Read"]),
        &[],
    ),
    ("---\nname: a\ndescription: d\ntools: mcp__db, mcp__db__*\n---\nx", "d", Some(&["mcp__db", "mcp__db__*"]), &[]),
    ("---\nname: a\ndescription: d\ntools: *\n---\nx", "d", Some(&["*"]), &["FILE:4: tools: it is not valid YAML"]),
    ("---\nname: a\ndescription: d\ntools: \"\"\n---\nx", "d", Some(&[]), &[]),
    ("---\nname: a\ndescription: d\ntools:\n---\nx", "d", None, &[]),
    (
        "---\nname: a\ndescription: d\ntools: {Read: true}\n---\nx",
        "d",
        None,
        &["FILE:4: tools: ignored: it should be a list"],
    ),
    (
        "---\nname: a\ndescription: d\nallowed-tools: Read\n---\nx",
        "d",
        Some(&["Read"]),
        &["FILE:4: allowed-tools: read as `tools`"],
    ),
    (
        "---\nname: a\ndescription: d\ndisallowed-tools: Bash\n---\nx",
        "d",
        None,
        &["FILE:4: disallowed-tools: read as `disallowedTools`"],
    ),
    (
        "---\nName: a\nDescription: d\n---\nx",
        "d",
        None,
        &["FILE:2: Name: read as `name`", "FILE:3: Description: read as `description`"],
    ),
    ("---\nname: a\ndescription: d\nversion: 1.2\nauthor: {name: me}\ntags: [x]\n---\nx", "d", None, &[]),
    ("---\nname: a\ndescription: d\nproactive: true\n---\nx", "d", None, &["FILE:4: proactive: unknown field"]),
    (
        "---\nname: a\ndescription: d\ndescription: e\n---\nx",
        "e",
        None,
        &["FILE:4: description: given again; the value of line 3"],
    ),
    (
        "---\nname: a\ndescription: d\ntools:\tRead\n---\nx",
        "d",
        Some(&["Read"]),
        &["FILE:4: tools: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: d\ntools:\n\t- Read\n---\nx",
        "d",
        Some(&["Read"]),
        &["FILE:5: tools: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: d\nmaxTurns: many\nbackground: maybe\ncolor: red\n---\nx",
        "d",
        None,
        &[
            "FILE:4: maxTurns: ignored: it should be a whole number above 0",
            "FILE:5: background: ignored: it should be true or false",
        ],
    ),
    (
        "---\nname: a\ndescription: d\neffort: extreme\npermissionMode: root\n---\nx",
        "d",
        None,
        &["FILE:4: effort: ignored: it should be one of low", "FILE:5: permissionMode: ignored: it should be a mode"],
    ),
    ("---\n\nname: a\n\n\ndescription: d\n\n---\n\n\nx", "d", None, &[]),
    (
        "---\nstray words\nname: a\ndescription: d: e\n---\nx",
        "d: e",
        None,
        &["FILE:2: ignored: this line belongs to no field", "FILE:4: description: it is not valid YAML"],
    ),
    (
        "---\nname: a\ndescription: d: e\nhooks:\n  Stop: [\n---\nx",
        "d: e",
        None,
        &["FILE:3: description: it is not valid YAML", "FILE:5: hooks: ignored: it is not valid YAML"],
    ),
];

/// Returns the difference of what was reported and what should have been; `None` if there is none.
fn report_difference(lost: &str, reports: &[&str]) -> Option<String> {
    let mut named: Vec<&str> = lost.lines().filter(|line| line.starts_with("FILE")).collect();
    named.sort_unstable();
    let fits =
        named.len() == reports.len() && named.iter().zip(reports).all(|(named, report)| named.starts_with(report));
    (!fits).then(|| format!("reported {named:#?}, not {reports:#?}"))
}

#[test]
fn published_agents_load() {
    let mut failures = Vec::new();
    for (text, description, tools, reports) in AGENTS {
        let (agents, lost) = read_agent(text);
        let Some(agent) = agents.find("a") else {
            failures.push(format!("{text}\n{lost}"));
            continue;
        };
        let found: Option<Vec<&str>> = agent.tools.as_ref().map(|tools| tools.iter().map(String::as_str).collect());
        if agent.description != *description
            || found.as_deref() != *tools
            || !["x", "You review."].contains(&agent.prompt.as_str())
        {
            failures.push(format!("{text}\nread as {agent:#?}"));
        }
        failures.extend(report_difference(&lost, reports).map(|difference| format!("{text}\n{difference}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn an_agent_that_cannot_be_used_is_named_with_line_and_reason() {
    for (text, reason) in [
        ("You review.\n", "FILE:1: not used: an agent begins with front matter"),
        ("", "FILE:1: not used: an agent begins with front matter"),
        ("---\nname: a\ndescription: d\nx", "FILE:1: not used: the front matter has no closing `---`"),
        ("---\ndescription: d\n---\nx", "FILE:1: not used: it has no `name`"),
        ("---\nname: a\n---\nx", "FILE:1: not used: it has no `description`"),
        ("---\n---\nx", "FILE:1: not used: it has no `name`"),
        ("---\ndescription: d\nname: a:b\n---\nx", "FILE:3: not used: the name `a:b` begins with `-` or contains `:`"),
        ("---\n[one, two\n---\nx", "FILE:"),
        (
            "---\njust words\n---\nx",
            "FILE:2: not used: the front matter cannot be read: the front matter has no fields",
        ),
        ("---\nname: a\0\n---\n", "FILE: not used: it is not text"),
    ] {
        let (agents, lost) = read_agent(text);
        assert!(agents.agents.is_empty() && lost.starts_with(reason), "{text}: {lost}");
        assert_eq!(lost.lines().count(), 1, "{lost}");
    }
}

/// Text of a skill, a look at it, and the beginnings of what is reported.
type SkillShape = (&'static str, fn(&SkillFile) -> String, &'static str, &'static [&'static str]);

fn description(skill: &SkillFile) -> String {
    skill.listing.description.clone().unwrap_or_default()
}

fn hint(skill: &SkillFile) -> String {
    skill.listing.argument_hint.clone().unwrap_or_default()
}

fn granted(skill: &SkillFile) -> String {
    skill.actions.get(&ProjectTrust::none()).unwrap().allowed_tools.join(" | ")
}

fn paths(skill: &SkillFile) -> String {
    skill.invocation.paths.as_ref().map(|paths| paths.patterns().join(" | ")).unwrap_or_default()
}

fn callers(skill: &SkillFile) -> String {
    format!("{} {}", skill.invocation.by_model, skill.invocation.by_user)
}

const SKILLS: &[SkillShape] = &[
    ("---\nname: helper\ndescription: Does it\n---\nBody\n", description, "Does it", &[]),
    ("# Title\n\nFirst words\nof it.\n\nMore\n", description, "First words of it.", &[]),
    ("# Title alone\n", description, "Title alone", &[]),
    ("", description, "", &[]),
    (
        "---\ndescription: Extract: text, tables\n---\nx",
        description,
        "Extract: text, tables",
        &["FILE:2: description: it is not valid YAML"],
    ),
    ("---\nargument-hint: [a] [b]\n---\nx", hint, "[a] [b]", &["FILE:2: argument-hint: it is not valid YAML"]),
    ("---\nargument-hint: [pr-number]\n---\nx", hint, "[pr-number]", &[]),
    ("---\nargument-hint: <file> [--fix]\n---\nx", hint, "<file> [--fix]", &[]),
    ("---\nargument-hint: \"[a | b]\"\n---\nx", hint, "[a | b]", &[]),
    ("---\nargument_hint: {name}\n---\nx", hint, "{name}", &["FILE:2: argument_hint: read as `argument-hint`"]),
    (
        "---\nallowed-tools: Bash(git add:*), Bash(git status:*), Read\n---\nx",
        granted,
        "Bash(git add:*) | Bash(git status:*) | Read",
        &[],
    ),
    ("---\nallowed-tools: [\"Bash(npm run:*)\", Edit]\n---\nx", granted, "Bash(npm run:*) | Edit", &[]),
    ("---\nallowed-tools:\n  - Read\n  - Bash(gh pr view *)\n---\nx", granted, "Read | Bash(gh pr view *)", &[]),
    (
        "---\nallowedTools: Read Grep\n---\nx",
        granted,
        "Read | Grep",
        &["FILE:2: allowedTools: read as `allowed-tools`"],
    ),
    (
        "---\nallowed-tools: Bash(git diff:*), Bash(x: y)\n---\nx",
        granted,
        "Bash(git diff:*) | Bash(x: y)",
        &["FILE:2: allowed-tools: it is not valid YAML"],
    ),
    ("---\npaths: src/**/*.{ts,tsx}, docs/*.md\n---\nx", paths, "src/**/*.{ts,tsx} | docs/*.md", &[]),
    ("---\npaths: [\"**/*.py\"]\n---\nx", paths, "**/*.py", &[]),
    (
        "---\nglobs: *.rs\n---\nx",
        paths,
        "*.rs",
        &["FILE:2: globs: it is not valid YAML", "FILE:2: globs: read as `paths`"],
    ),
    ("---\ndisable-model-invocation: Yes\nuser-invocable: off\n---\nx", callers, "false false", &[]),
    ("---\ndisable_model_invocation: 1\n---\nx", callers, "false true", &["FILE:2: disable_model_invocation: read as"]),
    (
        "---\nuser-invocable: perhaps\n---\nx",
        callers,
        "true true",
        &["FILE:2: user-invocable: ignored: it should be true or false"],
    ),
    (
        "---\nwhen-to-use: now\n---\nx",
        |skill| skill.listing.when_to_use.clone().unwrap_or_default(),
        "now",
        &["FILE:2: when-to-use: read as `when_to_use`"],
    ),
    ("---\narguments: from to\n---\nx", |skill| skill.invocation.arguments.join(" | "), "from | to", &[]),
    ("---\narguments: [from, to]\n---\nx", |skill| skill.invocation.arguments.join(" | "), "from | to", &[]),
    (
        "---\ncontext: fork\nagent: Explore\nbackground: false\nshell: bash\n---\nx",
        |skill| format!("{:?}", skill.execution),
        "SkillExecution { disallowed_tools: [], in_fork: true, agent: Some(\"Explore\"), background: false, shell: Some(Bash) }",
        &[],
    ),
    (
        "---\nlicense: MIT\nmetadata:\n  author: me\n  version: \"1\"\ncompatibility: any\n---\nText",
        description,
        "Text",
        &[],
    ),
    ("---\ndescription: d\nextra: 1\n---\nx", description, "d", &["FILE:3: extra: unknown field, ignored"]),
    ("---\n{{{\n---\nText", description, "Text", &["FILE:"]),
    (
        "---\ndescription: d\nText",
        description,
        "--- description: d Text",
        &["FILE:1: the front matter has no closing `---`"],
    ),
    (
        "---\nmodel: opus\nhooks:\n  Stop:\n  - hooks:\n    - type: command\n      command: ./x.sh\n  Nothing: 1\n---\nx",
        |skill| {
            let actions = skill.actions.get(&ProjectTrust::none()).unwrap();
            let lines: Vec<usize> = actions.hooks.iter().map(|hook| hook.origin.line).collect();
            format!("{:?} {} {lines:?}", actions.model, actions.hooks[0].event)
        },
        "Some(\"opus\") Stop [4]",
        &["FILE:8: hooks: Nothing is ignored"],
    ),
];

#[test]
fn published_skills_load() {
    let mut failures = Vec::new();
    for (text, look, expected, reports) in SKILLS {
        let (skills, lost) = read_skill(text);
        let Some(skill) = skills.find("helper") else {
            failures.push(format!("{text}\n{lost}"));
            continue;
        };
        let seen = look(skill);
        if seen != *expected {
            failures.push(format!("{text}\nread as {seen}, not {expected}"));
        }
        failures.extend(report_difference(&lost, reports).map(|difference| format!("{text}\n{difference}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
