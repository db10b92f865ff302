"""Requirements of scripts, and environments with them, on top of trainfare's own packages. Jobs share and keep them.

An environment is named after a hash of all that determines it. It is made beside its place, under a lock, and renamed
once it is complete.
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
import uuid
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from state.digests import key_of
from state.folders import UNFINISHED_PREFIX, remove
from state.locks import held_lock
from training.contract.errors import InputError
from training.contract.plain_text import without_secrets
from training.scripts.source import ScriptSource, is_package

FOLDER = "environments"
VERSIONS = "versions.json"
FILE = "requirements.txt"


@dataclass(frozen=True, kw_only=True)
class ScriptEnvironment:
    """An environment with the packages of a script."""

    folder: Path
    versions: dict[str, str]
    """Version of each package that was installed, and of each that requirements.txt names."""

    @property
    def key(self) -> str:
        """Hash of what determines the environment."""
        return self.folder.name

    @property
    def python(self) -> Path:
        """Interpreter of the environment."""
        return self.folder / "bin" / "python"


def script_environment(
    source: ScriptSource, home: Path, echo: Callable[[str], None] = lambda _: None
) -> ScriptEnvironment | None:
    """Return the environment of a script, made at its first use, or None if the script requires nothing.

    Raises InputError with pip's reason if a package cannot be installed.
    """
    if not requirement_lines(source.folder) and not is_package(source.folder):
        return None
    folder = home / FOLDER / _key(source)
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


def planned_environment(
    source: ScriptSource, home: Path, _: Callable[[str], None] = lambda _: None
) -> ScriptEnvironment | None:
    """Return the environment that `script_environment` returns, and make none. Its versions may be unknown."""
    if not requirement_lines(source.folder) and not is_package(source.folder):
        return None
    folder = home / FOLDER / _key(source)
    known = (folder / VERSIONS).exists()
    return ScriptEnvironment(
        folder=folder, versions=json.loads((folder / VERSIONS).read_text("utf-8")) if known else {}
    )


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
    unfinished = folder.with_name(f"{UNFINISHED_PREFIX}{uuid.uuid4().hex}")
    try:
        venv.create(unfinished, symlinks=True)
        _see_own_packages(unfinished)
        _install(source, unfinished)
        (unfinished / VERSIONS).write_text(json.dumps(_versions(source.folder, unfinished), indent=1))
        _name_in_scripts(unfinished, folder)
        if os.path.lexists(folder):
            remove(folder)
        unfinished.rename(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"script.requirements: {folder} cannot be made: {error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _packages(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(environment), "platbase": str(environment)}))


def _see_own_packages(environment: Path) -> None:
    """Let the environment import our packages after its own. Unlike `--system-site-packages`, this works in a venv."""
    folders = [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    lines = [f"import site; site.addsitedir({folder!r})" for folder in folders]
    (_packages(environment) / "trainfare-packages.pth").write_text("\n".join(lines) + "\n")


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
        raise InputError(f"script.requirements: pip cannot install {FILE} of the script: {_reason(done.stderr)}")


def _reason(errors: str) -> str:
    """Return pip's first error, without addresses' secrets."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    first = next((line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")), None)
    return without_secrets(first or (lines[-1] if lines else "pip failed"))[:400]


def _versions(source: Path, environment: Path) -> dict[str, str]:
    own = {each.name: each.version for each in distributions(path=[str(_packages(environment))])}
    required = {re.sub(r"[-_.]+", "-", name).lower() for name in required_names(source)}
    ours = {
        each.name: each.version for each in distributions() if re.sub(r"[-_.]+", "-", each.name).lower() in required
    }
    return dict(sorted({**ours, **own}.items()))


def _name_in_scripts(unfinished: Path, folder: Path) -> None:
    """Write the final path of the environment into its commands, which name their interpreter."""
    old, new = os.fsencode(unfinished), os.fsencode(folder)
    for path in (*(unfinished / "bin").iterdir(), unfinished / "pyvenv.cfg"):
        if path.is_file() and not path.is_symlink() and old in (content := path.read_bytes()):
            path.write_bytes(content.replace(old, new))


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
