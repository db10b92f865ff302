"""Copy a script's source into a folder named after its commit or the digest of its content."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from training.contract.errors import InputError, nearest
from training.contract.job_spec import ENTRY_FILE
from training.scripts.folders import IGNORED_PATTERNS, check_folder, digest_folder, files_of
from training.scripts.git import check_url, checkout, is_git_url
from training.services.local.request_rules import PROGRAM_PATTERN
from training.state.folders import is_usable, new_folder
from training.state.permissions import private_mode
from training.state.regular_files import user_path

MAX_BYTES = 100 * 2**20
MODULE_PATTERN = r"-m [A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

ENTRY = Path(__file__).with_name(ENTRY_FILE)
"""Our entry point, which starts scripts that the toolkit alone cannot start."""


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
        raise InputError(f"script.source {source!r} is neither a folder nor a git URL.{_sibling(root)}")
    script_folder = _within(root, directory, source)
    _check(script_folder, entry_point, source)
    check_folder("script.source", script_folder, script_folder, all_files=False)
    _check_size(script_folder)
    digest = digest_folder(script_folder, all_files=False)
    copy = _copied(script_folder, digest, folder / digest[:40], echo)
    return ScriptSource(folder=copy, identity=digest, description=str(script_folder))


def with_entry(source: ScriptSource, folder: Path, echo: Callable[[str], None] = lambda _: None) -> ScriptSource:
    """Return the source with our entry point beside its files, as a further copy under `folder`."""
    own = ENTRY.read_bytes()
    identity = hashlib.sha256(source.identity.encode() + b"\0" + own).hexdigest()
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
    """Return the file of a program. That of `-m package` is its `__main__.py`."""
    if not program.startswith("-m "):
        return folder / program
    path = folder.joinpath(*program[3:].strip().split("."))
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def _within(root: Path, directory: str | None, source: str) -> Path:
    folder = root / (directory or "")
    if directory is not None and (not folder.is_dir() or not folder.resolve().is_relative_to(root.resolve())):
        raise InputError(f"script.directory {directory!r} is not a folder within {source}.{_sibling(folder)}")
    return folder


def _check(folder: Path, entry_point: str, source: str) -> None:
    if entry_point.startswith("-m "):
        _check_module(folder, entry_point, source)
        return
    file = folder / entry_point
    if not re.fullmatch(PROGRAM_PATTERN, entry_point) or ".." in entry_point.split("/"):
        raise InputError(
            f"script.entry_point {entry_point!r} must be a file within the source, such as train.py, or a module, such "
            "as '-m package.train'"
        )
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"script.entry_point {entry_point!r} is not a file in {source}.{_sibling(file)}")
    if not entry_point.endswith((".py", ".sh")) and file.read_bytes()[:2] not in (b"#!", b"\x7fE"):
        raise InputError(
            f"script.entry_point {entry_point!r} must be a Python file (.py), a shell script (.sh) or a file that "
            "starts with #! and the path of its interpreter"
        )


def _check_module(folder: Path, entry_point: str, source: str) -> None:
    if not re.fullmatch(MODULE_PATTERN, entry_point):
        raise InputError(f"script.entry_point {entry_point!r} is not a module; an example is '-m package.train'")
    file = program_file(folder, entry_point)
    if not file.is_file() or not file.resolve().is_relative_to(folder.resolve()):
        relative = file.relative_to(folder)
        raise InputError(
            f"script.entry_point {entry_point!r} needs {relative}, which is not in {source}.{_sibling(file)}"
        )


def _sibling(path: Path) -> str:
    try:
        return nearest(path.name, (entry.name for entry in path.parent.iterdir()))
    except OSError:
        return ""


def _check_size(folder: Path) -> None:
    size = sum(path.stat().st_size for path in files_of(folder, all_files=False))
    if size > MAX_BYTES:
        raise InputError(
            f"script.source {folder} is {size / 2**20:.0f} MiB; the limit is {MAX_BYTES // 2**20} MiB: "
            "put data into script.channels"
        )


def _copied(folder: Path, digest: str, copy: Path, echo: Callable[[str], None]) -> Path:
    if not is_usable(copy, echo):
        with new_folder(copy) as unfinished:
            shutil.copytree(folder, unfinished, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*IGNORED_PATTERNS))
            for path in (unfinished, *unfinished.rglob("*")):
                path.chmod(private_mode(path.stat().st_mode))
            if digest_folder(unfinished, all_files=False) != digest:
                raise InputError(f"script.source {folder} changed while it was copied: run the same command again")
    if copy.stat().st_uid == os.getuid():  # An earlier version gave the copy the mode of its source.
        copy.chmod(private_mode(copy.stat().st_mode))
    return copy
