"""The source of a script, ready to be a job's: a copy under its commit or the digest of its content."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from training.contract.errors import InputError, nearest
from training.scripts.folders import LEFT_OUT, digest_of, files_of, renamed_when_whole
from training.scripts.git import check_url, checkout, is_git_url
from training.services.local.request_rules import PROGRAM_PATTERN

MOST_BYTES = 100 * 2**20


@dataclass(frozen=True, kw_only=True)
class ScriptSource:
    """A script that can be run."""

    folder: Path
    """Its files, in a place where nobody changes them."""
    identity: str
    """Commit and folder within, or the digest of the content: a source of another identity is another job."""
    description: str
    """Where it comes from, in words."""


def find_script(
    source: str, entry_point: str, folder: Path, *, revision: str | None = None, directory: str | None = None
) -> ScriptSource:
    """Return the script of a folder or git URL, copied under `folder`; what cannot run is refused here."""
    if is_git_url(source):
        check_url(source)
        root, commit = checkout(source, revision, folder)
        place = _within(root, directory, source)
        _check(place, entry_point, source)
        description = f"{source} at {revision or 'its default branch'} ({commit[:12]})"
        return ScriptSource(folder=place, identity=f"{commit}/{directory or ''}", description=description)
    if revision is not None:
        raise InputError(f"script.revision {revision!r} goes with a git URL; {source!r} is a folder")
    root = Path(source).expanduser().absolute()
    if not root.is_dir():
        raise InputError(f"script.source {source!r} is no folder and no git URL.{_sibling(root)}")
    place = _within(root, directory, source)
    _check(place, entry_point, source)
    _check_size(place)
    digest = digest_of(place, all_files=False)
    return ScriptSource(folder=_copied(place, folder / digest[:40]), identity=digest, description=str(place))


def unmet_requirements(folder: Path) -> list[str]:
    """Return what the script's requirements.txt asks for and this environment has not, as it is written there.

    The SageMaker toolkit installs the file before it starts the script; the local service installs nothing.
    """
    try:
        lines = (folder / "requirements.txt").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [line.strip() for line in lines if not _is_met(line.partition("#")[0].strip())]


def _is_met(line: str) -> bool:
    try:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate():
            return True
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except InvalidRequirement:
        return True  # an empty line, an option, an address
    except PackageNotFoundError:
        return False


def _within(root: Path, directory: str | None, source: str) -> Path:
    place = root / (directory or "")
    if directory is not None and (not place.is_dir() or not place.resolve().is_relative_to(root.resolve())):
        raise InputError(f"script.directory {directory!r} is no folder within {source}.{_sibling(place)}")
    return place


def _check(place: Path, entry_point: str, source: str) -> None:
    file = place / entry_point
    if not re.fullmatch(PROGRAM_PATTERN, entry_point) or ".." in entry_point.split("/"):
        raise InputError(f"script.entry_point {entry_point!r} must be a file within the source, such as train.py")
    if not entry_point.endswith(".py"):
        raise InputError(f"script.entry_point {entry_point!r} must be a Python file, which ends in .py")
    if not file.is_file() or not file.resolve().is_relative_to(place.resolve()):
        raise InputError(f"script.entry_point {entry_point!r} is no file of {source}.{_sibling(file)}")
    if (place / "setup.py").exists():
        raise InputError(
            f"{source} holds a setup.py, for which SageMaker installs the folder as a package instead of running "
            f"{entry_point}: name the folder of the script alone (script.directory)"
        )


def _sibling(path: Path) -> str:
    try:
        return nearest(path.name, (entry.name for entry in path.parent.iterdir()))
    except OSError:
        return ""


def _check_size(place: Path) -> None:
    size = sum(path.stat().st_size for path in files_of(place, all_files=False))
    if size > MOST_BYTES:
        raise InputError(
            f"script.source {place} holds {size / 2**20:.0f} MiB, and a script's folder may hold "
            f"{MOST_BYTES // 2**20}: data go into script.channels"
        )


def _copied(place: Path, copy: Path) -> Path:
    if not copy.is_dir():
        with renamed_when_whole(copy) as unfinished:
            shutil.copytree(place, unfinished, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return copy
