"""A script's source: copied from a folder or from git, into a folder named after its digest or its commit."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from state.digests import digest, file_digest
from state.folders import is_usable, new_folder
from state.permissions import private_mode
from state.regular_files import user_path
from training.contract.errors import InputError, nearest, nearest_sibling
from training.contract.job_spec import ENTRY_FILE
from training.contract.plain_text import without_secrets
from training.services.local.toolkit import PROGRAM_PATTERN

MAX_BYTES = 100 * 2**20
MODULE_PATTERN = r"-m [A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

ENTRY = Path(__file__).with_name(ENTRY_FILE)
"""Our entry point, which starts scripts that the toolkit alone cannot start."""
IGNORED_PATTERNS = (".*", "__pycache__", "mlruns", "mlartifacts", "mlflow.db*")
"""Patterns of files that are never part of a script: hidden files, which may be secrets, and MLflow's files."""
COMMIT_PATTERN = r"[0-9a-f]{40}([0-9a-f]{24})?"
TIMEOUT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class ScriptSource:
    """A script that has been checked and copied."""

    folder: Path
    """Folder with a copy of the files, which never changes."""
    identity: str
    """Commit and directory, or the digest of the content. Sources with different identities make different jobs."""
    description: str
    """Origin of the script, for messages."""


def find_script(
    source: str,
    entry_point: str,
    folder: Path,
    *,
    revision: str | None = None,
    directory: str | None = None,
    echo: Callable[[str], None] = lambda _: None,
) -> ScriptSource:
    """Return the script of a folder or git URL, copied under `folder`. Raises InputError if it cannot run.

    `echo` reports an earlier copy that is damaged, and so is made again.
    """
    if is_git_url(source):
        check_url(source)
        root, commit = checkout(source, revision, folder, echo)
        script_folder = _within(root, directory, source)
        _check(script_folder, entry_point, source)
        check_folder("script.source", script_folder, root, all_files=False)
        description = f"{source} at {revision or 'its default branch'} ({commit[:12]})"
        return ScriptSource(folder=script_folder, identity=f"{commit}/{directory or ''}", description=description)
    if revision is not None:
        raise InputError(f"script.revision {revision!r} applies only to git URLs; script.source {source!r} is a folder")
    root = user_path(source, "script.source").absolute()
    if not root.is_dir():
        raise InputError(f"script.source {source!r} is neither a folder nor a git URL.{nearest_sibling(root)}")
    script_folder = _within(root, directory, source)
    _check(script_folder, entry_point, source)
    check_folder("script.source", script_folder, script_folder, all_files=False)
    size = sum(path.stat().st_size for path in files_of(script_folder, all_files=False))
    if size > MAX_BYTES:
        raise InputError(
            f"script.source {script_folder} is {size / 2**20:.0f} MiB; the limit is {MAX_BYTES // 2**20} MiB: "
            "put data into script.channels"
        )
    digest = digest_folder(script_folder, all_files=False)
    copy = folder / digest[:40]
    if not is_usable(copy, echo):
        with new_folder(copy) as unfinished:
            ignored = shutil.ignore_patterns(*IGNORED_PATTERNS)
            shutil.copytree(script_folder, unfinished, dirs_exist_ok=True, ignore=ignored)
            for path in (unfinished, *unfinished.rglob("*")):
                path.chmod(private_mode(path.stat().st_mode))
            if digest_folder(unfinished, all_files=False) != digest:
                raise InputError(
                    f"script.source {script_folder} changed while it was copied: run the same command again"
                )
    if copy.stat().st_uid == os.getuid():  # An earlier version gave the copy the mode of its source.
        copy.chmod(private_mode(copy.stat().st_mode))
    return ScriptSource(folder=copy, identity=digest, description=str(script_folder))


def with_entry(source: ScriptSource, folder: Path, echo: Callable[[str], None] = lambda _: None) -> ScriptSource:
    """Return the source together with our entry point, as a further copy under `folder`."""
    own = ENTRY.read_bytes()
    identity = digest(source.identity.encode() + b"\0" + own)
    if (source.folder / ENTRY_FILE).exists():
        raise InputError(
            f"{source.description} contains {ENTRY_FILE}, a name that the job needs for its own file: rename it"
        )
    copy = folder / identity[:40]
    if not is_usable(copy, echo):
        with new_folder(copy) as unfinished:
            shutil.copytree(source.folder, unfinished, dirs_exist_ok=True)
            (unfinished / ENTRY_FILE).write_bytes(own)
    return replace(source, folder=copy, identity=identity)


def is_package(folder: Path) -> bool:
    """Return whether SageMaker installs the source as a package, and runs a Python file in it as a module."""
    return (folder / "setup.py").exists()


def program_file(folder: Path, program: str) -> Path:
    """Return the file of a program. For `-m package`, it is the package's `__main__.py`."""
    if not program.startswith("-m "):
        return folder / program
    path = folder.joinpath(*program[3:].strip().split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def _within(root: Path, directory: str | None, source: str) -> Path:
    folder = root / (directory or "")
    if directory is not None and (not folder.is_dir() or not folder.resolve().is_relative_to(root.resolve())):
        raise InputError(f"script.directory {directory!r} is not a folder within {source}.{nearest_sibling(folder)}")
    return folder


def _check(folder: Path, entry_point: str, source: str) -> None:
    """Raise InputError unless the entry point is a program within the source."""
    is_module, field = entry_point.startswith("-m "), f"script.entry_point {entry_point!r}"
    if is_module and not re.fullmatch(MODULE_PATTERN, entry_point):
        raise InputError(f"{field} is not a module; an example is '-m package.train'")
    if not is_module and (not re.fullmatch(PROGRAM_PATTERN, entry_point) or ".." in entry_point.split("/")):
        raise InputError(
            f"{field} must be a file within the source, such as train.py, or a module, such as '-m package.train'"
        )
    file = program_file(folder, entry_point)
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        missing = f"needs {file.relative_to(folder)}, which is not in" if is_module else "is not a file in"
        raise InputError(f"{field} {missing} {source}.{nearest_sibling(file)}")
    if not is_module and not entry_point.endswith((".py", ".sh")) and file.read_bytes()[:2] not in (b"#!", b"\x7fE"):
        raise InputError(
            f"{field} must be a Python file (.py), a shell script (.sh) or a file that starts with #! and the path of "
            "its interpreter"
        )


def is_ignored(name: str) -> bool:
    """Return whether a file or folder of this name is never part of a script."""
    return any(fnmatch(name, pattern) for pattern in IGNORED_PATTERNS)


def files_of(folder: Path, *, all_files: bool) -> Iterator[Path]:
    """Yield the files under a folder in a fixed order, following links. Skip ignored files unless `all_files`."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if all_files or not is_ignored(name))
        yield from (Path(parent) / name for name in sorted(names) if all_files or not is_ignored(name))


def check_folder(field: str, folder: Path, root: Path, *, all_files: bool) -> None:
    """Raise InputError for a link out of `root`, a link to a folder that contains it, or a file that is not regular.

    Such a file would copy another user's secrets, never end, or block. `field` names the folder in the message. The
    folder is `root` or within it.
    """
    outermost, pending = root.resolve(), [folder]
    while pending:
        parent = pending.pop()
        for entry in sorted(os.scandir(parent), key=lambda entry: entry.name):
            if not all_files and is_ignored(entry.name):
                continue
            path = Path(entry.path)
            try:
                target = path.resolve(strict=True)
                mode = path.stat().st_mode
            except OSError as error:
                raise InputError(f"{field}: {path} cannot be read: {error.strerror or error}") from error
            except RuntimeError as error:  # Python 3.11 and 3.12 report a loop of links in this way
                raise InputError(f"{field}: {path} is a link that leads to itself") from error
            if path.is_symlink():
                if not target.is_relative_to(outermost):
                    raise InputError(
                        f"{field}: {path} is a link to {target}, which is outside {outermost}: replace it by a copy"
                    )
                if path.parent.resolve().is_relative_to(target):
                    raise InputError(f"{field}: {path} is a link to a folder that contains it: remove it")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise InputError(f"{field}: {path} is a device, a pipe or a socket: only files and folders can be used")
            if entry.is_dir():
                pending.append(path)


def digest_folder(folder: Path, *, all_files: bool) -> str:
    """Return the SHA-256 of the names and contents of a folder's files. Raises InputError if one cannot be read."""
    listing = b""
    for path in files_of(folder, all_files=all_files):
        try:
            listing += os.fsencode(path.relative_to(folder)) + b"\0" + bytes.fromhex(file_digest(path))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    return digest(listing)


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
            into = ("-C", str(unfinished), "fetch", "--quiet")
            try:
                _git(url, *into, "--depth", "1", "--", url, commit)
            except InputError:  # A server may refuse to send a commit that no branch or tag points to.
                refs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
                _git(url, *into, "--update-head-ok", "--", url, *refs)
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
        lines = [line.strip() for line in process.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        fatal = [line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")]
        reason = without_secrets(next(iter(fatal or lines[-1:]), "git failed"), url)[:300]
        raise InputError(f"script.source {url} cannot be fetched: {reason}")
    return process.stdout.decode("utf-8", "replace")
