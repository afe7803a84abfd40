//! Locations of credentials: below the home folder, wherever variables have moved them, and the targets of symlinks
//! in those locations. Blocking.

use std::path::{Path, PathBuf};

use gimlet_proto::Env;

/// Credential stores below the home folder.
const STORES: &[&str] = &[
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cache/git/credential",
    ".cache/huggingface/token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".codex/auth.json",
    ".composer/auth.json",
    ".docker/config.json",
    ".electrum",
    ".ethereum/keystore",
    ".gem/credentials",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".gradle/gradle.properties",
    ".kube",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".oci",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    ".ssh",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".thunderbird",
    ".vault-token",
    ".zsh_history",
    "snap/chromium",
    "snap/firefox",
];
/// Those below the folder in which programs keep configuration.
const STORES_OF_CONFIG: &[&str] = &[
    "BraveSoftware",
    "chromium",
    "composer/auth.json",
    "containers/auth.json",
    "doctl",
    "gcloud",
    "gh",
    "git/credentials",
    "github-copilot",
    "glab-cli",
    "google-chrome",
    "hub",
    "microsoft-edge",
    "op",
    "opera",
    "rclone",
    "sops",
    "vivaldi",
];
/// Locations below the home folder in which browsers that are installed as sandboxed packages keep their profiles.
const PACKAGED: &[&str] = &[
    ".var/app/com.brave.Browser",
    ".var/app/com.google.Chrome",
    ".var/app/com.microsoft.Edge",
    ".var/app/org.chromium.Chromium",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.mozilla.firefox",
];
/// Stores below the folder in which programs keep data for the duration of a login.
const STORES_OF_LOGIN: &[&str] = &["agenix", "containers/auth.json", "keyring", "secrets", "secrets.d"];

/// Variables that name a store, and the closed parts of it; an empty list closes the whole.
const MOVED: &[(&str, &[&str])] = &[
    ("AWS_CONFIG_FILE", &[]),
    ("AWS_SHARED_CREDENTIALS_FILE", &[]),
    ("AZURE_CONFIG_DIR", &[]),
    ("BOTO_CONFIG", &[]),
    ("CARGO_HOME", &["credentials", "credentials.toml"]),
    ("CLOUDSDK_CONFIG", &[]),
    ("COMPOSER_HOME", &["auth.json"]),
    ("DOCKER_CONFIG", &["config.json"]),
    ("GH_CONFIG_DIR", &[]),
    ("GNUPGHOME", &[]),
    ("GOOGLE_APPLICATION_CREDENTIALS", &[]),
    ("GRADLE_USER_HOME", &["gradle.properties"]),
    ("HF_HOME", &["token"]),
    ("HF_TOKEN_PATH", &[]),
    ("KUBECONFIG", &[]),
    ("NETRC", &[]),
    ("NPM_CONFIG_USERCONFIG", &[]),
    ("PASSWORD_STORE_DIR", &[]),
    ("PGPASSFILE", &[]),
    ("REGISTRY_AUTH_FILE", &[]),
    ("SOPS_AGE_KEY_FILE", &[]),
    ("TF_CLI_CONFIG_FILE", &[]),
    ("npm_config_userconfig", &[]),
];

/// Limits of the search for symlinks: entries per folder, and depth.
const MOST_ENTRIES: usize = 500;
const MOST_DEPTH: usize = 3;
/// Paths that belong to the system: a symlink does not make a secret of them.
const OF_THE_SYSTEM: &[&str] =
    &["/bin", "/dev", "/gnu", "/lib", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr"];

/// Returns the stores of a user with this home and environment.
pub(super) fn credential_stores(home: Option<&Path>, env: &Env) -> Vec<PathBuf> {
    let below = |folder: &Path, names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let named = |name: &str| env.raw(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mut stores = Vec::new();
    if let Some(home) = home {
        stores.extend(below(home, STORES));
        stores.extend(below(home, PACKAGED));
        stores.extend(below(&home.join(".config"), STORES_OF_CONFIG));
    }
    stores.extend(named("XDG_CONFIG_HOME").iter().flat_map(|config| below(config, STORES_OF_CONFIG)));
    stores.extend(named("XDG_DATA_HOME").iter().flat_map(|data| below(data, &["keyrings", "kwalletd"])));
    let login = PathBuf::from(format!("/run/user/{}", rustix::process::getuid().as_raw()));
    stores.extend(named("XDG_RUNTIME_DIR").iter().chain([&login]).flat_map(|login| below(login, STORES_OF_LOGIN)));
    for (variable, parts) in MOVED {
        // Some name several, as `PATH` does.
        let paths = env.raw(variable).map(|value| std::env::split_paths(value).collect::<Vec<_>>());
        for path in paths.into_iter().flatten().filter(|path| path.is_absolute()) {
            stores.extend(if parts.is_empty() { vec![path] } else { below(&path, parts) });
        }
    }
    // A variable may name a whole home or more, which is not meant as a store.
    stores.retain(|store| store.parent().is_some() && !home.is_some_and(|home| home.starts_with(store)));
    stores.sort_unstable();
    stores.dedup();
    stores
}

/// Returns the targets of symlinks inside closed paths: a user who keeps secrets elsewhere and symlinks to them means
/// those. Excludes targets that contain a folder in which commands work, and those of the system.
pub(super) fn link_targets_in(closed: &[PathBuf], kept_open: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in closed.iter().filter(|place| place.is_dir()) {
        let mut left = MOST_ENTRIES;
        collect_links(place, MOST_DEPTH, &mut left, &mut found);
    }
    let is_systems = |path: &Path| OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder));
    let is_needed = |path: &Path| kept_open.iter().any(|open| open.starts_with(path));
    found.retain(|path| !is_systems(path) && !is_needed(path) && path.parent().is_some());
    found.retain(|path| !closed.iter().any(|closed| path.starts_with(closed)));
    found.sort_unstable();
    found.dedup();
    found
}

fn collect_links(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => found.extend(entry.path().canonicalize()),
            Ok(kind) if kind.is_dir() && depth > 1 => collect_links(&entry.path(), depth - 1, left, found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn stores_are_closed_where_variables_put_them() {
        let env = [
            ("CARGO_HOME", "/x/cargo"),
            ("KUBECONFIG", "/x/one:/x/two"),
            ("XDG_CONFIG_HOME", "/x/config"),
            ("XDG_RUNTIME_DIR", "/x/run"),
            ("GNUPGHOME", "/h"),
            ("NETRC", "relative"),
        ];
        let env = env.into_iter().fold(Env::default(), |env, (name, value)| env.with(name, value));
        let stores = credential_stores(Some(Path::new("/h")), &env);
        for path in [
            "/x/cargo/credentials.toml",
            "/x/one",
            "/x/two",
            "/x/config/gh",
            "/x/run/containers/auth.json",
            "/h/.config/gh",
            "/h/.pgpass",
        ] {
            assert!(stores.contains(&path.into()), "{path}");
        }
        for path in ["/x/cargo", "/h", "relative"] {
            assert!(!stores.contains(&path.into()), "{path}");
        }
    }

    #[test]
    fn what_links_in_a_store_lead_to_is_closed_too() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["store/deep", "elsewhere", "w/here"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("elsewhere/secret"), "").unwrap();
        symlink("../../elsewhere/secret", root.join("store/deep/link")).unwrap();
        symlink("/usr/bin", root.join("store/system")).unwrap();
        symlink(root.join("w"), root.join("store/work")).unwrap();
        symlink("deep", root.join("store/own")).unwrap();
        symlink("nowhere", root.join("store/dangling")).unwrap();
        let found = link_targets_in(&[root.join("store"), root.join("absent")], &[root.join("w/here")]);
        assert_eq!(found, [root.join("elsewhere/secret")]);
    }
}
