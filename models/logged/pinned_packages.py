"""Pinned requirements of a logged model: the packages that it needs, and everything that these need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGES = ("mlflow", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy", "pandas")
"""Packages that a logged model imports."""


def pinned(packages: Iterable[str]) -> list[str]:
    """Return `name==version` for these packages and, in alphabetical order, for all that they require.

    The versions are those installed here, without the suffix of a build (`+cpu`). Packages that are not installed are
    left out: nothing that runs here needs them.
    """
    versions: dict[str, str] = {}
    direct = [Requirement(name) for name in packages]
    waiting, seen = list(direct), set()
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            package = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        versions[key[0]] = package.version.partition("+")[0]
        waiting.extend(_required(package.requires or [], requirement.extras))
    first = [canonicalize_name(requirement.name) for requirement in direct]
    others = sorted(versions.keys() - set(first))
    return [f"{name}=={versions[name]}" for name in [*first, *others] if name in versions]


def _required(texts: Iterable[str], extras: set[str]) -> Iterator[Requirement]:
    """Yield the requirements that apply on this machine, with these extras."""
    for requirement in map(Requirement, texts):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in ("", *extras)):
            yield requirement
