//! Hostile repositories: the project's own, whose configuration runs programs wherever git has a place for one, and
//! folders in it that pretend to be parts of other repositories.

use std::path::Path;
use std::process::Command;

/// Every program prints a secret and leaves a file behind.
const SCRIPT: &str = r#"
set -e
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='2001-01-01T00:00:00Z' GIT_COMMITTER_DATE='2001-01-01T00:00:00Z'
umask 022
git config --global user.name Ada
git config --global user.email ada@example.org
git config --global init.defaultBranch main
git config --global safe.directory '*'
new() { git init -q --template= "$1"; }

# A second project with a secret in its history.
new other
git -C other add file.txt
git -C other commit -qm 'the file'

# A submodule's repository, and a hostile project.
new project/module
echo inner > project/module/inner.txt
git -C project/module add . && git -C project/module commit -qm inner
new project
cd project
printf '*.txt diff=hostile filter=hostile\n' > .gitattributes
git add a.txt .gitattributes empty module 2>/dev/null
git commit -qm 'first'
echo third >> a.txt
git commit -qam 'second'
git tag -a v1 -m 'a tag'
echo dirty >> a.txt
printf '[submodule "module"]\n\tpath = module\n\turl = ext::sh -c cat%% $H/notes.txt\n' > .gitmodules
mkdir evil
printf '#!/bin/sh\ncat "$H/notes.txt" >&2\ntouch "$H/pwned"\ncat "$@" 2>/dev/null\n' > evil/run
chmod +x evil/run
mkdir evil/hooks
for hook in post-index-change pre-commit post-checkout reference-transaction fsmonitor-watchman pre-auto-gc; do
    cp evil/run evil/hooks/$hook
done
run='$P/evil/run'
for key in core.fsmonitor core.editor core.pager core.sshCommand core.askPass core.gitProxy core.alternateRefsCommand \
    sequence.editor diff.external diff.hostile.command diff.hostile.textconv filter.hostile.clean filter.hostile.smudge \
    merge.hostile.driver gpg.program gpg.ssh.program gpg.x509.program interactive.diffFilter credential.helper \
    pager.log pager.status pager.diff pager.show pager.branch difftool.x.cmd mergetool.x.cmd browser.x.cmd man.x.cmd \
    uploadpack.packObjectsHook trailer.x.command submodule.module.update; do
    git config $key "$run"
done
git config core.hooksPath evil/hooks
git config filter.hostile.required true
git config alias.steal '!cat $H/notes.txt'
git config log.showSignature true
git config diff.submodule log
git config status.submoduleSummary true
git config submodule.recurse true
git config protocol.ext.allow always
git config protocol.file.allow always
git config remote.origin.url 'ext::sh -c cat% $H/notes.txt% >&2'
git config remote.near.url "../other"
git config core.excludesFile ../notes.txt
git config core.attributesFile ../notes.txt
git config mailmap.file ../notes.txt
git config blame.ignoreRevsFile ../notes.txt
git config core.untrackedCache false

# Folders that lead to the second project.
mkdir pointer symlinked borrowed
echo 'gitdir: ../../other/.git' > pointer/.git
ln -s ../../other/.git symlinked/.git
new borrowed
mkdir -p borrowed/.git/objects/info
echo '../../../../other/.git/objects' > borrowed/.git/objects/info/alternates
new shared
echo '../../../other/.git' > shared/.git/commondir
new elsewhere
git -C elsewhere config core.worktree ../../..
# A bare repository among the files.
git init -q --bare --template= bare
git -C bare config core.fsmonitor "$run"
git -C bare config core.bare false
git -C bare config core.worktree ../..
"#;

/// Makes all repositories of a home.
pub(super) fn build(home: &Path) {
    #[allow(clippy::disallowed_methods, reason = "no command of gimlet's")]
    let output = Command::new("bash")
        .args(["-c", SCRIPT])
        .current_dir(home)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
