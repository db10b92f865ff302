"""Requirements of scripts, and environments with them, on top of trainfare's own packages. Jobs share and keep them.

An environment is named after a hash of all that determines it. It is made under a lock, and complete once it has a
file with its versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from state.digests import key_of
from state.folders import remove
from state.locks import held_lock
from training.contract.errors import InputError
from training.contract.plain_text import without_secrets
from training.scripts.source import ScriptSource, is_package

FOLDER = "environments"
VERSIONS = "versions.json"
FILE = "requirements.txt"


@dataclass(frozen=True, kw_only=True)
class ScriptEnvironment:
    folder: Path
    versions: dict[str, str]
    """Version of each package that was installed, and of each that requirements.txt names."""

    @property
    def key(self) -> str:
        """Hash of what determines the environment."""
        return self.folder.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def script_environment(
    source: ScriptSource, home: Path, echo: Callable[[str], None] = lambda _: None, *, is_planned: bool = False
) -> ScriptEnvironment | None:
    """Return the environment of a script, made at its first use, or None if the script requires nothing.

    With `is_planned`, none is made, and its versions may be unknown. Raises InputError with pip's reason if a package
    cannot be installed.
    """
    if not requirement_lines(source.folder) and not is_package(source.folder):
        return None
    folder = home / FOLDER / _key(source)
    if is_planned:
        return ScriptEnvironment(folder=folder, versions=_recorded_versions(folder) or {})
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Jobs share the lock of an environment that they use, so only a missing one is locked exclusively.
    while (versions := _recorded_versions(folder)) is None:
        with held_lock(folder.with_name(f".{folder.name}.lock")):
            if _recorded_versions(folder) is None:
                packages = ", ".join(requirement_lines(source.folder)) or "setup.py"
                echo(f"Installing the requirements of the script: {packages}")
                _make(source, folder)
    return ScriptEnvironment(folder=folder, versions=versions)


def _recorded_versions(folder: Path) -> dict[str, str] | None:
    """Return the versions in a complete environment, or None if it does not exist."""
    try:
        versions: dict[str, str] = json.loads((folder / VERSIONS).read_text("utf-8"))
    except FileNotFoundError:
        return None
    return versions


def _key(source: ScriptSource) -> str:
    """Return the hash of the requirements, of our own packages and, if it is installed too, of the source."""
    lines = requirement_lines(source.folder)
    own = sorted(f"{each.name}=={each.version}" for each in distributions())
    parts = {"requirements": lines, "packages": own, "python": [sys.version, sys.prefix]}
    refers_to_files = any(line.startswith(("-", ".", "/")) or "file:" in line for line in lines)
    if refers_to_files or is_package(source.folder):
        parts["source"] = [source.identity]
    return key_of(parts)


def _make(source: ScriptSource, folder: Path) -> None:
    """Make the environment in its folder, in place of what a killed process left there."""
    try:
        if os.path.lexists(folder):
            remove(folder)
        venv.create(folder, symlinks=True)
        # The environment imports our packages after its own. `--system-site-packages` would not do so in a venv.
        ours = [each for each in site.getsitepackages() if Path(each).is_dir()]
        lines = [f"import site; site.addsitedir({each!r})\n" for each in ours]
        (_packages(folder) / "trainfare-packages.pth").write_text("".join(lines))
        _install(source, folder)
        unfinished = folder / f".{VERSIONS}"
        unfinished.write_text(json.dumps(_versions(source.folder, folder), indent=1))
        unfinished.replace(folder / VERSIONS)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"script.requirements: {folder} cannot be made: {error}") from error
    finally:
        if not (folder / VERSIONS).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _packages(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(environment), "platbase": str(environment)}))


def _install(source: ScriptSource, environment: Path) -> None:
    """Install with pip, from a copy of the source: a build writes into its folder."""
    with tempfile.TemporaryDirectory(prefix="trainfare-requirements-") as temporary:
        copy = Path(temporary) / "source"
        shutil.copytree(source.folder, copy)
        listed = ["-r", FILE] if requirement_lines(copy) else []
        own = ["."] if is_package(copy) else []
        options = ["--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-script-location"]
        done = subprocess.run(
            [str(environment / "bin" / "python"), "-P", "-m", "pip", "install", *options, *own, *listed],
            cwd=copy,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")},
        )
    if done.returncode != 0:
        errors = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        first = next((line.removeprefix("ERROR: ") for line in errors if line.startswith("ERROR: ")), None)
        reason = without_secrets(first or (errors[-1] if errors else "pip failed"))[:400]
        raise InputError(f"script.requirements: pip cannot install {FILE} of the script: {reason}")


def _versions(source: Path, environment: Path) -> dict[str, str]:
    own = {each.name: each.version for each in distributions(path=[str(_packages(environment))])}
    parsed = filter(None, map(_parsed, requirement_lines(source)))
    required = {re.sub(r"[-_.]+", "-", each.name).lower() for each in parsed}
    ours = {
        each.name: each.version for each in distributions() if re.sub(r"[-_.]+", "-", each.name).lower() in required
    }
    return dict(sorted({**ours, **own}.items()))


def requirement_lines(folder: Path) -> list[str]:
    """Return the lines of the script's requirements.txt without comments, or none without a readable file."""
    try:
        lines = (folder / FILE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [text for line in lines if (text := line.strip()) and not text.startswith("#")]


def unmet_requirements(folder: Path) -> list[str]:
    """Return the lines of the script's requirements.txt that this environment does not meet."""

    def is_met(requirement: Requirement | None) -> bool:
        if requirement is None or (requirement.marker is not None and not requirement.marker.evaluate()):
            return True
        try:
            return requirement.specifier.contains(version(requirement.name), prereleases=True)
        except PackageNotFoundError:
            return False

    return [line for line in requirement_lines(folder) if not is_met(_parsed(line))]


def _parsed(line: str) -> Requirement | None:
    try:
        return Requirement(line.partition(" #")[0].strip())
    except InvalidRequirement:
        return None  # an option, a URL or a path


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
