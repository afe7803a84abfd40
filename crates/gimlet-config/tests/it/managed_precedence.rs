//! Managed settings from more than one place, and what they keep to themselves.

use gimlet_config::{PolicyHelperOutput, ProjectTrust, SettingsLoadOptions, TrustInventory, load_settings};

use crate::fixture::SettingsFixture;

#[test]
fn what_the_administrators_program_prints_goes_before_their_files() {
    let world = SettingsFixture::new();
    world.write_managed(
        r#"{"model":"of-the-file","permissions":{"deny":["Read(a)"]},"env":{"A":"file","B":"file"},
            "attribution":{"commit":""},"policyHelper":{"path":"/opt/policy"}}"#,
    );
    let helper = world.load().policy_helper().unwrap();
    assert_eq!(helper.path, "/opt/policy");
    let printed = |text: &str| {
        let policy = Some(PolicyHelperOutput { source: "/opt/policy".into(), text: text.into() });
        let options = SettingsLoadOptions { policy, ..world.options.clone() };
        let loaded = load_settings(&world.locations(), &options);
        loaded.effective_settings(&TrustInventory::collect(&loaded), &ProjectTrust::none())
    };
    let effective = printed(r#"{"permissions":{"deny":["Read(b)"]},"env":{"A":"printed"}}"#);
    assert_eq!(effective.settings.model, None, "the file is not the one that counts");
    assert_eq!(effective.rules.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>(), ["Read(b)"]);
    let env: Vec<_> = effective.env.iter().map(|line| (line.name.as_str(), line.value.as_str())).collect();
    assert_eq!(env, [("A", "printed"), ("B", "file")], "variables count from every place");
    assert_eq!(effective.settings.attribution.commit.as_deref(), Some(""));
    assert_eq!(printed("{}").settings.model.as_deref(), Some("of-the-file"), "one that prints nothing leaves the file");
}

#[test]
fn settings_of_an_embedding_program_count_alone_and_can_only_forbid_beside_an_administrators() {
    const PARENT: &str = r#"{"permissions":{"allow":["Bash(a)"],"deny":["Bash(b)"]},"model":"parents",
        "sandbox":{"enabled":true,"allowUnsandboxedCommands":true,"filesystem":{"allowWrite":["/"],"denyRead":["/x"]}}}"#;
    let rules = |admin: Option<&str>| {
        let world = SettingsFixture::new();
        if let Some(admin) = admin {
            world.write_managed(admin);
        }
        let loaded = load_settings(
            &world.locations(),
            &SettingsLoadOptions { parent: Some(PARENT.into()), ..world.options.clone() },
        );
        let effective = loaded.effective_settings(&TrustInventory::collect(&loaded), &ProjectTrust::none());
        let sandbox = &effective.settings.sandbox;
        let rules: Vec<String> = effective.rules.iter().map(|rule| rule.text.clone()).collect();
        let opened = sandbox.allow_unsandboxed_commands.is_some() || sandbox.filesystem.allow_write.is_some();
        (rules.join(" "), effective.settings.model.clone(), sandbox.enabled == Some(true), opened)
    };
    assert_eq!(rules(None), ("Bash(b) Bash(a)".into(), Some("parents".into()), true, true));
    assert_eq!(rules(Some(r#"{"verbose":true}"#)), (String::new(), None, false, false));
    let merging = r#"{"verbose":true,"parentSettingsBehavior":"merge"}"#;
    assert_eq!(rules(Some(merging)), ("Bash(b)".into(), None, true, false));
}

#[test]
fn an_administrator_can_keep_what_is_open_in_the_sandbox_to_themselves() {
    let world = SettingsFixture::new();
    world.write_user(
        r#"{"sandbox":{"network":{"allowedDomains":["mine.org"]},"filesystem":{"allowRead":["/mine"]}},
            "permissions":{"allow":["WebFetch(domain:mine.org)","Read(x)"]}}"#,
    );
    world.write_managed(
        r#"{"sandbox":{"network":{"allowedDomains":["ours.org"],"allowManagedDomainsOnly":true},
                       "filesystem":{"allowManagedReadPathsOnly":true}}}"#,
    );
    let effective = world.untrusted_settings();
    let sandbox = &effective.settings.sandbox;
    assert_eq!(sandbox.network.allowed_domains.as_deref(), Some(&["ours.org".to_owned()][..]));
    assert_eq!(sandbox.filesystem.allow_read, None);
    assert_eq!(effective.rules.iter().map(|rule| rule.text.as_str()).collect::<Vec<_>>(), ["Read(x)"]);
}
