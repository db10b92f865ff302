"""A script's source, copied from a folder or from git, and its environment with what its requirements.txt lists.

Sources are named after their digest or commit, and environments after a hash of all that determines them. Jobs share
and keep them. An environment is made under a lock, and complete once it has a file with its versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import stat
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from state.digests import digest, file_digest, key_of
from state.folders import is_usable, new_folder, remove
from state.locks import held_lock
from state.permissions import private_mode
from state.regular_files import user_path
from training.contract.errors import InputError, nearest, nearest_sibling
from training.contract.job_spec import ENTRY_FILE, METERING_FOLDER
from training.contract.plain_text import without_secrets
from training.services.supervision.toolkit import PROGRAM_PATTERN

MAX_BYTES = 100 * 2**20
MODULE_PATTERN = r"-m [A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"

ENTRY = Path(__file__).with_name(ENTRY_FILE)
"""Our entry point, which starts scripts under their meter, or in ways that the toolkit alone cannot."""
METERING = [Path(__file__).with_name("metering") / f"{name}.py" for name in ("meter", "reporter", "sitecustomize")]
"""The files of the meter."""
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
    return ScriptSource(folder=copy, identity=digest, description=str(script_folder))


def with_entry(
    source: ScriptSource, folder: Path, echo: Callable[[str], None] = lambda _: None, *, is_metered: bool
) -> ScriptSource:
    """Return the source together with our entry point, as a further copy under `folder`; with the meter if wanted."""
    added = {ENTRY_FILE: ENTRY, **({f"{METERING_FOLDER}/{each.name}": each for each in METERING} if is_metered else {})}
    own = b"\0".join(path.read_bytes() for path in added.values())
    identity = digest(source.identity.encode() + b"\0" + own)
    for name in (ENTRY_FILE, METERING_FOLDER):
        if (source.folder / name).exists():
            raise InputError(f"{source.description} contains {name}, a name that the job needs for its own: rename it")
    copy = folder / identity[:40]
    if not is_usable(copy, echo):
        with new_folder(copy) as unfinished:
            shutil.copytree(source.folder, unfinished, dirs_exist_ok=True)
            for name, path in added.items():
                (unfinished / name).parent.mkdir(exist_ok=True)
                (unfinished / name).write_bytes(path.read_bytes())
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


def _entries(folder: Path, *, all_files: bool) -> Iterator[Path]:
    """Yield the files and folders under a folder in a fixed order, following links. Ignored ones need `all_files`."""
    for path in sorted(folder.iterdir()):
        if all_files or not is_ignored(path.name):
            yield path
            if path.is_dir():
                yield from _entries(path, all_files=all_files)


def files_of(folder: Path, *, all_files: bool) -> Iterator[Path]:
    """Yield the files under a folder in a fixed order, following links. Skip ignored files unless `all_files`."""
    return (path for path in _entries(folder, all_files=all_files) if not path.is_dir())


def check_folder(field: str, folder: Path, root: Path, *, all_files: bool) -> None:
    """Raise InputError for a link out of `root`, a link to a folder that contains it, or a file that is not regular.

    Such a file would copy another user's secrets, never end, or block. `field` names the folder in the message. The
    folder is `root` or within it.
    """
    outermost = root.resolve()
    for path in _entries(folder, all_files=all_files):
        try:
            target, mode = path.resolve(strict=True), path.stat().st_mode
        except (OSError, RuntimeError) as error:  # Python 3.11 and 3.12 report a loop of links as RuntimeError
            raise InputError(f"{field}: {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if not target.is_relative_to(outermost):
            raise InputError(
                f"{field}: {path} is a link to {target}, which is outside {outermost}: replace it by a copy"
            )
        if path.parent.resolve().is_relative_to(target):
            raise InputError(f"{field}: {path} is a link to a folder that contains it: remove it")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError(f"{field}: {path} is a device, a pipe or a socket: only files and folders can be used")


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
        lines = [f"import site; site.addsitedir({each!r})\n" for each in site.getsitepackages() if Path(each).is_dir()]
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
        (packages / "trainfare-packages.pth").write_text("".join(lines))
        _install(source, folder)
        own = {each.name: each.version for each in distributions(path=[str(packages)])}
        parsed = filter(None, map(_parsed, requirement_lines(source.folder)))
        required = {_normal(each.name) for each in parsed}
        ours = {each.name: each.version for each in distributions() if _normal(each.name) in required}
        unfinished = folder / f".{VERSIONS}"
        unfinished.write_text(json.dumps(dict(sorted({**ours, **own}.items())), indent=1))
        unfinished.replace(folder / VERSIONS)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"script.requirements: {folder} cannot be made: {error}") from error
    finally:
        if not (folder / VERSIONS).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


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
