//! Small projects as real tools make them, below a home with a git configuration of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = r##"
set -e
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
umask 022
mkdir -p home trees
cd home
cat > .gitconfig <<'END'
[include]
    path = ~/.gitconfig-more
[core]
    excludesFile = ~/.ignored-everywhere
    attributesFile = ~/.attributes-everywhere
[alias]
    st = status --short
    last = log -1 --format=%s
[color]
    ui = auto
[diff]
    renames = true
[init]
    defaultBranch = main
END
printf '[user]\n\tname = Ada\n\temail = ada@example.org\n' > .gitconfig-more
printf '*.swp\n.DS_Store\n' > .ignored-everywhere
printf '*.rs diff=rust\n' > .attributes-everywhere

# A repository that becomes a submodule.
git init -q module; cd module
printf 'inner\n' > inner.txt; git add .; git commit -qm 'Add the inner file'
printf 'more\n' >> inner.txt; git commit -qam 'Extend the inner file'
cd ..

git init -q repo; cd repo
mkdir -p src docs target
printf 'fn main() {\n    println!("hello");\n}\n' > src/main.rs
printf 'pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n' > src/lib.rs
printf '# Title\n\nSome text. TODO: more.\n' > docs/guide.md
printf 'target/\n*.log\n' > .gitignore
printf '# Read me\n' > README.md
git add .; git commit -qm 'Start the project'
export GIT_COMMITTER_DATE='2001-01-02T00:00:00Z' GIT_AUTHOR_DATE='2001-01-02T00:00:00Z'
git mv docs/guide.md docs/manual.md
printf 'pub fn sub(a: u32, b: u32) -> u32 {\n    a - b\n}\n' >> src/lib.rs
git commit -qam 'Rename the guide and add subtraction'
git tag v0.1.0; git tag -a v0.2.0 -m 'The second version'
git checkout -qb feature
printf '// feature\n' >> src/main.rs; git commit -qam 'Work on the feature' --author='Grace <grace@example.org>'
git checkout -q main
printf 'Another line.\n' >> README.md; git commit -qam 'Describe more'
git merge -q --no-ff -m 'Merge the feature' feature
git -c protocol.file.allow=always submodule --quiet add ../module vendor/module 2>/dev/null
git commit -qm 'Add a submodule'
git remote add origin https://example.org/ada/repo.git
git update-ref refs/remotes/origin/main HEAD~1
git branch -q --set-upstream-to=origin/main main
git worktree add -q ../../trees/linked -b linked
printf 'stashed\n' >> README.md; git stash -q
git notes add -m 'a note' HEAD
printf 'staged\n' > staged.txt; git add staged.txt
printf '// dirty\n' >> src/main.rs
printf 'untracked\n' > 'new file.txt'
printf 'built\n' > target/out; printf 'log\n' > x.log; printf 'swap\n' > a.swp
cd ..
printf '// changed in the linked tree\n' >> ../trees/linked/src/lib.rs

mkdir -p data/deep/er 'data/with space'; cd data
seq 1 200 > numbers.txt
printf 'name,age,city\nAda,36,London\nGrace,85,New York\nAlan,41,London\n' > people.csv
printf '{"name": "x", "list": [1, 2, {"deep": true}], "text": "a\\nb"}\n' > data.json
for i in 1 2 3 4 5 6 7 8 9; do printf '2024-01-0%d 12:00:00 INFO request %d took %dms\n' $i $i $((i * 37 % 11)); done > app.log
printf '2024-01-09 13:00:00 ERROR it failed: timeout\n' >> app.log
printf 'b 2\na 1\nc 3\n' > left.txt; printf 'a x\nb y\nd z\n' > right.txt
printf 'one\ntwo\nthree\n' > old.txt; printf 'one\n2\nthree\nfour\n' > new.txt
printf 'tab\there\r\nand there\n' > mixed.txt; printf '\000\001\002binary\377' > bytes.bin
printf 'x\n' > deep/er/file.txt; printf 'y\n' > 'with space/a b.txt'; ln -s deep/er/file.txt link; ln -s gone dangling
printf '#!/bin/sh\necho hi\n' > script.sh; chmod 755 script.sh
gzip -nc numbers.txt > numbers.gz; tar --mtime=@0 --owner=0 --group=0 -cf files.tar old.txt new.txt
touch -d @1000000000 -- * deep/er/file.txt deep/er deep 'with space/a b.txt' 'with space' 2>/dev/null || true
cd ..

mkdir -p crate/src; cd crate
printf '[package]\nname = "small"\nversion = "0.3.1"\nedition = "2021"\n\n[dependencies]\n' > Cargo.toml
printf 'version = 3\n\n[[package]]\nname = "small"\nversion = "0.3.1"\n' > Cargo.lock
printf 'fn main() { println!("small"); }\n' > src/main.rs
cd ..

mkdir -p package/node_modules/left-pad package/node_modules/.bin package/src; cd package
printf '{\n  "name": "thing",\n  "version": "1.2.3",\n  "scripts": {"test": "true", "build": "echo built"},\n  "dependencies": {"left-pad": "^1.3.0"}\n}\n' > package.json
printf '{"name": "left-pad", "version": "1.3.0", "main": "index.js"}\n' > node_modules/left-pad/package.json
printf 'module.exports = 1;\n' > node_modules/left-pad/index.js
printf 'const pad = require("left-pad");\n' > src/index.js
cd ..

mkdir -p python/app python/tests; cd python
printf '[project]\nname = "app"\nversion = "0.1"\n' > pyproject.toml
printf 'def add(a, b):\n    return a + b\n' > app/__init__.py
printf 'from app import add\n\ndef test_add():\n    assert add(1, 2) == 3\n' > tests/test_add.py
printf 'requests==2.31.0\n' > requirements.txt
cd ..

mkdir made; cd made
printf '.PHONY: all test\nall: one\none:\n\t@echo one\ntest: all\n\techo test\n' > Makefile
"##;

pub(super) struct SampleProjects {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl SampleProjects {
    pub(super) fn build() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        #[allow(clippy::disallowed_methods, reason = "no command of gimlet's")]
        let output = Command::new("bash")
            .args(["-c", SCRIPT])
            .current_dir(&root)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", root.join("home"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { _dir: dir, root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}
