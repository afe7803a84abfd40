//! Names of files and folders whose content other programs run or trust. One list for everybody: the policy asks before
//! any of them is written, and the walls of the sandbox hold those that no ordinary command has to write.

/// One name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedName {
    pub name: &'static str,
    /// It is a folder, and what lies in it is protected as well.
    pub is_folder: bool,
    /// The sandbox keeps it as it is at the top of every folder that commands may write. The others belong to package
    /// managers and build tools, which write them at work.
    pub walled: bool,
}

const fn folder(name: &'static str) -> ProtectedName {
    ProtectedName { name, is_folder: true, walled: false }
}

const fn file(name: &'static str) -> ProtectedName {
    ProtectedName { name, is_folder: false, walled: false }
}

const fn walled(name: ProtectedName) -> ProtectedName {
    ProtectedName { walled: true, ..name }
}

/// All of them. Of `.git` and `.claude` the sandbox holds certain parts instead of the whole.
pub const PROTECTED_NAMES: &[ProtectedName] = &[
    folder(".git"),
    folder(".claude"),
    walled(folder(".vscode")),
    walled(folder(".idea")),
    walled(folder(".husky")),
    folder(".cargo"),
    walled(folder(".devcontainer")),
    folder(".yarn"),
    folder(".mvn"),
    walled(folder(".ssh")),
    walled(file(".gitconfig")),
    file(".gitmodules"),
    walled(file(".bashrc")),
    walled(file(".bash_profile")),
    walled(file(".bash_login")),
    walled(file(".bash_aliases")),
    walled(file(".bash_logout")),
    walled(file(".zshrc")),
    walled(file(".zprofile")),
    walled(file(".zshenv")),
    walled(file(".zlogin")),
    walled(file(".zlogout")),
    walled(file(".profile")),
    walled(file(".envrc")),
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
    walled(file(".devcontainer.json")),
    walled(file(".ripgreprc")),
    file("pyrightconfig.json"),
    walled(file(".mcp.json")),
    walled(file(".claude.json")),
];
