//! Names of files and folders whose content other programs run or trust. The one shared list: the policy asks before
//! any of them is written, and the sandbox protects those that no ordinary command has to write.

/// One name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedName {
    pub name: &'static str,
    /// True for a folder, whose content is protected as well.
    pub is_folder: bool,
    /// True if the sandbox keeps it read-only at the top of every folder that commands may write. The others belong
    /// to package managers and build tools, which have to write them.
    pub sandbox_read_only: bool,
}

const fn folder(name: &'static str) -> ProtectedName {
    ProtectedName { name, is_folder: true, sandbox_read_only: false }
}

const fn file(name: &'static str) -> ProtectedName {
    ProtectedName { name, is_folder: false, sandbox_read_only: false }
}

const fn read_only_in_sandbox(name: ProtectedName) -> ProtectedName {
    ProtectedName { sandbox_read_only: true, ..name }
}

/// All of them. Of `.git` and `.claude` the sandbox protects certain parts instead of the whole.
pub const PROTECTED_NAMES: &[ProtectedName] = &[
    folder(".git"),
    folder(".claude"),
    read_only_in_sandbox(folder(".vscode")),
    read_only_in_sandbox(folder(".idea")),
    read_only_in_sandbox(folder(".husky")),
    folder(".cargo"),
    read_only_in_sandbox(folder(".devcontainer")),
    folder(".yarn"),
    folder(".mvn"),
    read_only_in_sandbox(folder(".ssh")),
    read_only_in_sandbox(file(".gitconfig")),
    file(".gitmodules"),
    read_only_in_sandbox(file(".bashrc")),
    read_only_in_sandbox(file(".bash_profile")),
    read_only_in_sandbox(file(".bash_login")),
    read_only_in_sandbox(file(".bash_aliases")),
    read_only_in_sandbox(file(".bash_logout")),
    read_only_in_sandbox(file(".zshrc")),
    read_only_in_sandbox(file(".zprofile")),
    read_only_in_sandbox(file(".zshenv")),
    read_only_in_sandbox(file(".zlogin")),
    read_only_in_sandbox(file(".zlogout")),
    read_only_in_sandbox(file(".profile")),
    read_only_in_sandbox(file(".envrc")),
    file(".npmrc"),
    file(".yarnrc"),
    file(".yarnrc.yml"),
    file(".pnp.cjs"),
    file(".pnp.loader.mjs"),
    file(".pnpmfile.cjs"),
    file("bunfig.toml"),
    file(".bunfig.toml"),
    file(".bazelrc"),
    file(".bazelversion"),
    file(".bazeliskrc"),
    file(".pre-commit-config.yaml"),
    file("lefthook.yml"),
    file("lefthook.yaml"),
    file(".lefthook.yml"),
    file(".lefthook.yaml"),
    file("gradle-wrapper.properties"),
    file("maven-wrapper.properties"),
    read_only_in_sandbox(file(".devcontainer.json")),
    read_only_in_sandbox(file(".ripgreprc")),
    file("pyrightconfig.json"),
    read_only_in_sandbox(file(".mcp.json")),
    read_only_in_sandbox(file(".claude.json")),
];
