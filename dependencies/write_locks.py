"""`python -m dependencies.write_locks [--upgrade]`: resolve pyproject.toml, and write the lock files.

    requirements.lock         what trainfare needs; torch with the hashes of its builds for CPUs and for GPUs
    requirements-cpu.lock     torch's build for CPUs
    requirements-gpu.lock     what torch's build for GPUs needs on Linux
    requirements-dev.lock     what the checks and tests need as well
    requirements-oldest.lock  the oldest transformers that must run a job, beside requirements.lock; chosen by people
    requirements.txt          requirements.lock without hashes, for the environments that MLflow creates
    python_env.yaml           the version of pip in these environments

Versions that still meet pyproject.toml are kept, unless `--upgrade` is given. This runs on Linux, with a pip whose
settings offer torch's build for CPUs. Without these settings, pip takes the build for GPUs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME, CPU, GPU, DEV, OLDEST = (
    ROOT / f"requirements{suffix}.lock" for suffix in ("", "-cpu", "-gpu", "-dev", "-oldest")
)
UNHASHED = ROOT / "requirements.txt"
ENVIRONMENT = ROOT / "python_env.yaml"
OPTIONS = (
    *("--quiet", "--generate-hashes", "--no-reuse-hashes", "--allow-unsafe", "--strip-extras", "--no-annotate"),
    *("--no-header", "--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"),
)


@dataclass(frozen=True)
class Pin:
    """A package with its version and the hashes of its files."""

    name: str
    """Normalised name (PEP 503)."""
    version: str
    """Version, with the suffix of a build such as `+cpu` if it has one."""
    hashes: frozenset[str]
    """Hashes such as `sha256:0f1a...`."""

    @property
    def release(self) -> str:
        """Version without the suffix of a build."""
        return self.version.partition("+")[0]

    def lines(self) -> str:
        """Return the pin as pip reads it."""
        return " \\\n    ".join([f"{self.name}=={self.version}", *(f"--hash={each}" for each in sorted(self.hashes))])


Lock = Mapping[str, Pin]
"""Pins by name."""


def parse(text: str) -> Lock:
    """Return the pins of a lock file. Raises ValueError for a line that is not a pin."""
    pins = {}
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *options = line.split() or [""]
        if not requirement or requirement.startswith("#"):
            continue
        name, separator, version = requirement.partition("==")
        if not separator:
            raise ValueError(f"'{line.strip()}' does not pin a version")
        hashes = frozenset(option.removeprefix("--hash=") for option in options)
        pins[normalised(name)] = Pin(normalised(name), version, hashes)
    return pins


def normalised(name: str) -> str:
    """Return the name of a package as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def without(lock: Lock, others: Iterable[str]) -> Lock:
    """Return the pins whose names are not in `others`."""
    excluded = set(others)
    return {name: pin for name, pin in lock.items() if name not in excluded}


def text_of(lock: Lock) -> str:
    """Return the content of a lock file, in alphabetical order."""
    return "".join(lock[name].lines() + "\n" for name in sorted(lock))


def main(*options: str) -> None:
    """Write all lock files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    declared = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    runtime = dict(resolved(declared, (RUNTIME,), options))
    cpu = runtime["torch"]
    if not cpu.version.endswith("+cpu"):
        sys.exit("error: pip does not offer torch's build for CPUs: set PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL.")
    gpu = resolved([f"torch=={cpu.release}"], (RUNTIME, GPU), options, without_settings())
    runtime["torch"] = Pin("torch", cpu.release, cpu.hashes | gpu["torch"].hashes)
    dev = resolved([*declared, *project["dependency-groups"]["dev"]], (RUNTIME, DEV), options)
    kept = parse(OLDEST.read_text())
    oldest = resolved([f"{pin.name}=={pin.version}" for pin in kept.values()])
    RUNTIME.write_text(text_of(runtime))
    CPU.write_text(text_of({"torch": cpu}))
    GPU.write_text(text_of(without(gpu, runtime)))
    DEV.write_text(text_of(without(dev, runtime)))
    OLDEST.write_text(text_of({name: oldest[name] for name in kept}))
    ENVIRONMENT.write_text(re.sub(r"pip==\S+", f"pip=={dev['pip'].version}", ENVIRONMENT.read_text("utf-8")))
    UNHASHED.write_text("".join(f"{name}=={runtime[name].version}\n" for name in sorted(runtime)))


def resolved(
    requirements: Iterable[str],
    kept: Iterable[Path] = (),
    options: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Lock:
    """Return the pins of the requirements and of everything that they need. The versions in `kept` are preferred."""
    with tempfile.TemporaryDirectory() as name:
        source, output = Path(name) / "requirements.in", Path(name) / "requirements.lock"
        source.write_text("\n".join(requirements))
        # pip-compile keeps the versions of an existing output.
        output.write_text("".join(path.read_text() for path in kept if path.exists()))
        command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *options, "-o", str(output), str(source)]
        subprocess.run(command, check=True, env=environment)
        return parse(output.read_text())


def without_settings() -> dict[str, str]:
    """Return this process's variables without pip's further sources of packages, which offer torch's CPU build."""
    further = {"PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"}
    return {name: value for name, value in os.environ.items() if name not in further} | {"PIP_CONFIG_FILE": os.devnull}


if __name__ == "__main__":
    main(*sys.argv[1:])
