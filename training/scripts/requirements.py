"""The requirements.txt of a script, compared with the packages that are installed here."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

FILE = "requirements.txt"


def requirement_lines(folder: Path) -> list[str]:
    """Return the lines of the script's requirements.txt without comments, or none without a readable file."""
    try:
        lines = (folder / FILE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [text for line in lines if (text := line.strip()) and not text.startswith("#")]


def unmet_requirements(folder: Path) -> list[str]:
    """Return the lines of the script's requirements.txt that this environment does not meet."""
    return [line for line in requirement_lines(folder) if not _is_met(line.partition(" #")[0].strip())]


def required_names(folder: Path) -> list[str]:
    """Return the names of the packages in the script's requirements.txt."""
    return [requirement.name for line in requirement_lines(folder) if (requirement := _parsed(line))]


def _parsed(line: str) -> Requirement | None:
    try:
        return Requirement(line.partition(" #")[0].strip())
    except InvalidRequirement:
        return None  # an option, a URL or a path


def _is_met(line: str) -> bool:
    requirement = _parsed(line)
    if requirement is None or (requirement.marker is not None and not requirement.marker.evaluate()):
        return True
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


def requirement_notes(folder: Path, *, local: bool, python: Path | None) -> Iterator[str]:
    """Yield notes on the packages of a script: what is missing here, or which interpreter has them."""
    if python is not None:
        yield f"the script runs with {python}, which has the packages of its requirements.txt"
    elif local and (unmet := unmet_requirements(folder)):
        yield (
            f"requirements.txt of the script lists packages that are missing: {', '.join(unmet)}; "
            "script.requirements: install installs them into an environment of their own"
        )
    if local and python is None and (folder / "setup.py").exists():
        yield (
            "SageMaker installs the script's source as a package, because it has a setup.py; on this machine only "
            "script.requirements: install does so"
        )
