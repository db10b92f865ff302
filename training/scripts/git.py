"""Scripts out of git: a URL and a branch, tag or commit become a folder named after the commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from training.contract.errors import InputError, nearest
from training.scripts.folders import renamed_when_whole

COMMIT = r"[0-9a-f]{40}([0-9a-f]{24})?"
SECONDS = 600


def is_git_url(source: str) -> bool:
    """Tell a git URL (`https://...`, `git://...`, `ssh://...`, `file://...`, `user@host:path`) from a folder."""
    return "://" in source or re.match(r"[\w.-]+@[\w.-]+:", source) is not None


def check_url(url: str) -> None:
    """Refuse a URL that carries a password: it would stand in the tracking server and in logs."""
    if urlsplit(url).password is not None or (url.startswith("http") and urlsplit(url).username is not None):
        host = urlsplit(url).hostname
        raise InputError(f"script.source holds a name or password for {host}: let git's credential helper give it")


def checkout(url: str, revision: str | None, folder: Path) -> tuple[Path, str]:
    """Return the files at `revision` (None: the default branch), under `folder`, and the commit.

    A commit that is there already is not fetched again; a branch is asked for at each call.
    """
    commit = revision if revision and re.fullmatch(COMMIT, revision) else _commit_of(url, revision)
    place = folder / commit
    if not place.is_dir():
        with renamed_when_whole(place) as unfinished:
            _git(url, "init", "--quiet", str(unfinished))
            _fetch(url, commit, unfinished)
            _git(url, "-C", str(unfinished), "checkout", "--quiet", "--detach", commit)
            shutil.rmtree(unfinished / ".git")
    return place, commit


def _commit_of(url: str, revision: str | None) -> str:
    """Return the commit that a branch or tag names now; of both, the branch, as `git clone --branch` takes it."""
    found = {name: commit for commit, name in map(str.split, _git(url, "ls-remote", "--", url).splitlines())}
    if revision is None:
        wanted = ["HEAD"]
    else:
        wanted = [f"refs/heads/{revision}", f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}"]
    for name in wanted:
        if name in found:
            return found[name]
    names = sorted({re.sub(r"^refs/(heads|tags)/|\^\{\}$", "", name) for name in found} - {"HEAD"})
    if revision is None or not names:
        raise InputError(f"script.source {url} is an empty repository")
    known = ", ".join(names[:12])
    raise InputError(
        f"script.revision {revision!r} is no branch or tag of {url}, which has {known}; a commit takes all its "
        f"{40} digits.{nearest(revision, names)}"
    )


def _fetch(url: str, commit: str, folder: Path) -> None:
    try:
        _git(url, "-C", str(folder), "fetch", "--quiet", "--depth", "1", "--", url, commit)
    except InputError:
        # Servers may refuse to give a commit that is no branch's or tag's own.
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(url, "-C", str(folder), "fetch", "--quiet", "--update-head-ok", "--", url, *refs)


def _git(url: str, *arguments: str) -> str:
    """Return what git prints. Raises InputError with its own last word, and never asks for a password."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_DIR", "GIT_WORK", "GIT_IN"))
    }
    environment = {**clean, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
        )
    except FileNotFoundError as error:
        raise InputError(f"script.source {url} needs git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"script.source {url} did not answer git within {SECONDS} s") from error
    if done.returncode != 0:
        raise InputError(f"script.source {url} cannot be fetched: {_reason(done.stderr.decode('utf-8', 'replace'))}")
    return done.stdout.decode("utf-8", "replace")


def _reason(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return next(iter(fatal or lines[-1:]), "git failed")[:300]
