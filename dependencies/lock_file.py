"""Read, combine and write lock files: pip's requirements with the hashes of every file of a release. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


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

    def with_hashes_of(self, *others: Pin) -> Pin:
        """Return the pin of this release in all its builds: with the hashes of those `others` that are builds of it."""
        same = [each.hashes for each in others if (each.name, each.release) == (self.name, self.release)]
        return Pin(self.name, self.release, self.hashes.union(*same))

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
