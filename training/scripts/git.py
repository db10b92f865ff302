"""Check out a script from git, at a branch, tag or commit, into a folder named after the commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from training.contract.errors import InputError, nearest
from training.contract.plain_text import without_secrets
from training.state.folders import is_usable, new_folder

COMMIT_PATTERN = r"[0-9a-f]{40}([0-9a-f]{24})?"
TIMEOUT_SECONDS = 600


def is_git_url(source: str) -> bool:
    """Return whether the source is a git URL: `https://`, `git://`, `ssh://`, `file://` or `user@host:path`."""
    return "://" in source or re.match(r"[\w.-]+@[\w.-]+:", source) is not None


def check_url(url: str) -> None:
    """Raise InputError for a URL that may have credentials, which would be written to the tracking server and to logs.

    A user name is allowed only for SSH. A query, a fragment and a blank have no use in a URL of git, but in a folder's.
    """
    masked = without_secrets(url, url)
    has_only_user = re.fullmatch(r"ssh://[^/@:?#\s]+@[^@?#\s]*", url)
    if not has_only_user and masked != url:
        raise InputError(
            f"script.source contains a user name, password or token for {masked}; remove it and use git's credential "
            "helper"
        )
    if not url.startswith("file:///") and re.search(r"[?#\s]", url):
        raise InputError(
            f"script.source {masked.split()[0]} contains ?, # or a blank, which a URL of git cannot have; remove it"
        )


def checkout(
    url: str, revision: str | None, folder: Path, echo: Callable[[str], None] = lambda _: None
) -> tuple[Path, str]:
    """Return (subfolder of `folder` with the files at `revision`, commit). None is the default branch.

    An existing commit is not fetched again, unless its files are damaged, which `echo` reports. The commit of a branch
    or tag is looked up at each call.
    """
    commit = revision if revision and re.fullmatch(COMMIT_PATTERN, revision) else _commit_of(url, revision)
    files = folder / commit
    if not is_usable(files, echo):
        with new_folder(files) as unfinished:
            _git(url, "init", "--quiet", str(unfinished))
            _fetch(url, commit, unfinished)
            _git(url, "-C", str(unfinished), "checkout", "--quiet", "--detach", commit)
            shutil.rmtree(unfinished / ".git")
    return files, commit


def _commit_of(url: str, revision: str | None) -> str:
    """Return the commit of a branch or tag. A branch precedes a tag of the same name, as in `git clone --branch`."""
    refs = {name: commit for commit, name in map(str.split, _git(url, "ls-remote", "--", url).splitlines())}
    if revision is None:
        candidates = ["HEAD"]
    else:
        candidates = [f"refs/heads/{revision}", f"refs/tags/{revision}^{{}}", f"refs/tags/{revision}"]
    for name in candidates:
        if name in refs:
            return refs[name]
    names = sorted({re.sub(r"^refs/(heads|tags)/|\^\{\}$", "", name) for name in refs} - {"HEAD"})
    if revision is None or not names:
        raise InputError(f"script.source {url} is an empty repository")
    known = ", ".join(names[:12])
    raise InputError(
        f"script.revision {revision!r} is not a branch or tag of {url}, which has {known}; a commit must have all "
        f"40 digits.{nearest(revision, names)}"
    )


def _fetch(url: str, commit: str, folder: Path) -> None:
    try:
        _git(url, "-C", str(folder), "fetch", "--quiet", "--depth", "1", "--", url, commit)
    except InputError:
        # A server may refuse to send a commit that no branch or tag points to.
        refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(url, "-C", str(folder), "fetch", "--quiet", "--update-head-ok", "--", url, *refs)


def _git(url: str, *arguments: str) -> str:
    """Run git without password prompts, and return its output. Raises InputError with git's error message."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_DIR", "GIT_WORK", "GIT_IN"))
    }
    environment = {**clean, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    try:
        process = subprocess.run(
            ["git", *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS
        )
    except FileNotFoundError as error:
        raise InputError(f"script.source {url} requires git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"script.source {url} did not answer git within {TIMEOUT_SECONDS} s") from error
    if process.returncode != 0:
        raise InputError(
            f"script.source {url} cannot be fetched: {_reason(process.stderr.decode('utf-8', 'replace'), url)}"
        )
    return process.stdout.decode("utf-8", "replace")


def _reason(errors: str, url: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
    return without_secrets(next(iter(fatal or lines[-1:]), "git failed"), url)[:300]
