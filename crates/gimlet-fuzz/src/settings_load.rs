//! Fuzz target for settings files as users, programs and projects write them.
//!
//! Reading never fails. Project settings never remove a prohibition, and without trust they add nothing that runs or
//! allows. Changing one value leaves every other byte of the file unchanged.

use std::fmt;
use std::path::Path;

use gimlet_config::{
    EffectiveSettings, JsonEdit, LoadedSettings, LocationContext, ProjectTrust, RuleBehavior, Scope,
    SettingsLoadOptions, SettingsLocations, TrustInventory, load_settings, save_setting,
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_fields};
use crate::scratch_folder::ScratchFolder;

/// Fields: the user's file, the project's, the local one, the managed one, `.mcp.json`, a key, what to do with it, a
/// value.
pub const TARGET: FuzzTarget = FuzzTarget { name: "settings_load", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "{\"permissions\":{",
    "\"allow\":[",
    "\"ask\":[",
    "\"deny\":[",
    "\"Bash(ls:*)\"",
    "\"defaultMode\":\"plan\"",
    "\"additionalDirectories\":[\"/x\"]",
    "\"hooks\":{\"PreToolUse\":[{\"matcher\":\"*\",\"hooks\":[",
    "{\"type\":\"command\",\"command\":\"x\"}",
    "\"env\":{\"A\":\"b\"}",
    "\"model\":\"x\"",
    "\"mcpServers\":{",
    "\"sandbox\":{",
    "\"disableAllHooks\":true",
    "\"allowManagedHooksOnly\":true",
    "\"fallbackModel\":[",
    "\u{feff}",
    "\\ud800",
    "\r\n",
    "  ",
    "\t",
    "null",
    "true",
    "1e999",
    "-0",
    "{}",
    "[]",
    "permissions.allow",
    "permissions",
    "env.A",
    "\"apiKeyHelper\":\"x\"",
    "\"statusLine\":{\"type\":\"command\",\"command\":\"x\"}",
    "set",
    "append",
    "take",
    "remove",
];

fn run(data: &[u8]) {
    let fields = split_fields(data);
    let field = |at: usize| fields.get(at).copied().unwrap_or_default();
    ScratchFolder::with(|folder| {
        let locations = locations(folder);
        let mcp = locations.cwd.join(".mcp.json");
        let places =
            [locations.user_file(), locations.project_file(), locations.local_file(), locations.managed_file(), mcp];
        for (at, path) in places.iter().enumerate() {
            if field(at).is_empty() { ScratchFolder::clear(path) } else { ScratchFolder::write(path, field(at)) }
        }
        let loaded = load_settings(&locations, &SettingsLoadOptions::default());
        check_problem_locations(&loaded);
        let trusted = effective_settings(&loaded, &ProjectTrust::all());
        let untrusted = effective_settings(&loaded, &ProjectTrust::none());
        check_untrusted(&untrusted);
        for behavior in [RuleBehavior::Deny, RuleBehavior::Ask] {
            assert_eq!(rules(&trusted, behavior), rules(&untrusted, behavior), "what forbids does not depend on trust");
        }
        edit_setting(&locations, [field(0), field(5), field(6), field(7)]);
    });
}

fn locations(folder: &Path) -> SettingsLocations {
    let project = folder.join("project");
    ScratchFolder::write(&project.join(".git/HEAD"), b"ref: refs/heads/main\n");
    SettingsLocations::resolve(LocationContext {
        home: Some(folder.join("home")),
        config_dir: folder.join("home/.claude"),
        config_dir_named: false,
        cwd: project,
        managed_dir: folder.join("managed"),
        xdg_config_home: None,
        also_owner: None,
    })
}

fn effective_settings(loaded: &LoadedSettings, trust: &ProjectTrust) -> EffectiveSettings {
    loaded.effective_settings(&TrustInventory::collect(loaded), trust)
}

/// Asserts that every problem is in a file that exists, on a line that it has.
fn check_problem_locations(loaded: &LoadedSettings) {
    for problem in &loaded.problems {
        let Some(line) = problem.line else { continue };
        let bytes = std::fs::read(&problem.file).unwrap_or_default();
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!((1..=lines).contains(&line), "{problem} is beyond the file's {lines} lines");
    }
}

fn check_untrusted(effective: &EffectiveSettings) {
    let allows = effective.rules.iter().filter(|rule| rule.from_project && rule.behavior == RuleBehavior::Allow);
    assert_eq!(allows.count(), 0, "a project allows nothing before it is trusted");
    let hooks = effective.hooks.iter().filter(|hook| hook.origin.scope == Scope::Project);
    assert_eq!(hooks.count(), 0, "a project runs nothing before it is trusted");
    let env = effective.env.iter().filter(|line| line.origin.scope == Scope::Project);
    assert_eq!(env.count(), 0, "a project sets no variable before it is trusted");
    let directories = effective.directories.iter().filter(|line| line.origin.scope == Scope::Project);
    assert_eq!(directories.count(), 0, "a project opens no folder before it is trusted");
}

fn rules(effective: &EffectiveSettings, behavior: RuleBehavior) -> Vec<&str> {
    let rules = effective.rules.iter().filter(|rule| rule.behavior == behavior);
    rules.map(|rule| rule.text.as_str()).collect()
}

/// Changes one value of the user's file.
fn edit_setting(locations: &SettingsLocations, [before, key, what, value]: [&[u8]; 4]) {
    let Ok(key) = std::str::from_utf8(key) else { return };
    let value = serde_json::from_slice::<Value>(value).unwrap_or(Value::Bool(true));
    let edit = match what {
        b"append" => JsonEdit::Append(value),
        b"take" => JsonEdit::RemoveEntry(value),
        b"remove" => JsonEdit::RemoveKey,
        _ => JsonEdit::Set(value),
    };
    let path = locations.user_file();
    let saved = save_setting(locations, Scope::User, key, &edit);
    let after = std::fs::read(&path).unwrap_or_default();
    if saved.is_err() {
        assert_eq!(after, before, "what cannot be changed is left alone");
        return;
    }
    // Texts that only gimlet's own reader takes (half a surrogate pair) are not compared.
    let (Ok(before), Ok(after)) = (parse_members(before), parse_members(&after)) else { return };
    let top = key.split('.').next().unwrap_or(key);
    let others = |members: &[(String, Box<RawValue>)]| -> Vec<(String, String)> {
        let others = members.iter().filter(|(name, _)| name != top);
        others.map(|(name, value)| (name.clone(), value.get().to_owned())).collect()
    };
    assert_eq!(others(&before), others(&after), "foreign values keep their bytes and their order");
    check_edited_value(locations, key, &edit);
}

/// Asserts that the file has the requested value after the edit.
fn check_edited_value(locations: &SettingsLocations, key: &str, edit: &JsonEdit) {
    let again = save_setting(locations, Scope::User, key, edit);
    assert!(again.is_ok(), "a change can be made twice: {again:?}");
    let once = std::fs::read(locations.user_file()).unwrap_or_default();
    let thrice = save_setting(locations, Scope::User, key, edit).map(|path| std::fs::read(path).unwrap_or_default());
    let settled = matches!(edit, JsonEdit::RemoveEntry(_)) || thrice.is_ok_and(|thrice| thrice == once);
    assert!(settled, "making a change again changes nothing");
}

struct RawMembers(Vec<(String, Box<RawValue>)>);

fn parse_members(text: &[u8]) -> Result<Vec<(String, Box<RawValue>)>, serde_json::Error> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_slice::<RawMembers>(text).map(|members| members.0)
}

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawMembersVisitor;
        impl<'de> Visitor<'de> for RawMembersVisitor {
            type Value = RawMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(RawMembersVisitor)
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let full = br#"{
  "permissions": { "allow": ["Bash(npm run:*)"], "deny": ["Read(.env)"], "ask": [], "defaultMode": "acceptEdits" },
  "env": { "A": "b" }, "model": "opus", "foreign": { "kept": [1, 2.50, "\u00e9"] },
  "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [{ "type": "command", "command": "./check" }] }] }
}
"#;
    let managed = br#"{"allowManagedPermissionRulesOnly": true, "permissions": {"deny": ["WebFetch"]}}"#;
    let mcp = br#"{"mcpServers":{"git":{"command":"git-mcp","args":["--stdio"],"env":{"T":"x"}}}}"#;
    vec![
        join_fields(&[full, b"{}", b"", b"", b"", b"permissions.allow", b"append", b"\"Edit\""]),
        join_fields(&[b"{\"a\":1}", full, b"", b"", mcp, b"env.B", b"set", b"\"c\""]),
        join_fields(&[b"", full, full, managed, b"", b"model", b"set", b"\"haiku\""]),
        join_fields(&[full, b"", b"", managed, b"", b"permissions.deny", b"take", b"\"Read(.env)\""]),
        join_fields(&[full, full, b"", b"", mcp, b"hooks", b"remove", b""]),
        join_fields(&[
            b"\xEF\xBB\xBF{\r\n\t\"model\" : \"a\" ,\r\n\t\"z\":{}\r\n}",
            b"",
            b"",
            b"",
            b"",
            b"model",
            b"remove",
            b"",
        ]),
    ]
}
