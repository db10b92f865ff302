"""Demo data that needs no network and no licence: docstrings of installed packages, labelled by package.

They are read from the packages' source files with `ast`, without importing them. The same installed versions always
give the same rows.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from state.digests import digest
from state.folders import is_usable, record
from training.contract.errors import InputError

VERSION = 1

PACKAGES: dict[str, tuple[str, ...]] = {
    "matplotlib": ("matplotlib", "pyplot", "mpl"),
    "networkx": ("networkx", "nx"),
    "numpy": ("numpy", "np"),
    "pandas": ("pandas", "pd"),
    "scikit-learn": ("scikit-learn", "sklearn"),
    "scipy": ("scipy",),
    "sqlalchemy": ("sqlalchemy", "sa"),
    "sympy": ("sympy",),
    "torch": ("pytorch", "torch"),
    "transformers": ("transformers", "hugging face", "huggingface"),
}
"""Distributions, each with its names, which are masked in its docstrings."""

MODULES = {"scikit-learn": "sklearn"}

TEXTS_PER_PACKAGE = 210
TEXTS_PER_FILE = 6
SHORTEST_CHARACTERS = 40
LONGEST_CHARACTERS = 400
MASK = "PACKAGE"
NO_DATA = frozenset({"tests", "test", "testing", "_vendor", "externals"})


def docstring_file(folder: Path) -> Path:
    """Return the JSON Lines file of {text, label} under `folder`. It is written once for the installed versions."""
    installed = [name for name in PACKAGES if importlib.util.find_spec(MODULES.get(name, name)) is not None]
    if len(installed) < 2:
        raise InputError(f"data.builtin docstrings requires at least two of these packages: {', '.join(PACKAGES)}")
    versions = {name: importlib.metadata.version(name) for name in installed}
    settings = [VERSION, TEXTS_PER_PACKAGE, TEXTS_PER_FILE, SHORTEST_CHARACTERS, LONGEST_CHARACTERS, versions]
    key = digest(json.dumps(settings), 16)
    path = folder / f"docstrings-{key}.jsonl"
    if not is_usable(path):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{path.name}.{os.getpid()}"
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in docstring_rows(list(versions))), "utf-8")
        unfinished.replace(path)
        record(path)
    return path


def docstring_rows(packages: Sequence[str]) -> list[dict[str, str]]:
    """Return equally many texts of each package. The packages alternate, so any first n rows are balanced too.

    Texts that occur in several packages are left out.
    """
    texts = {package: list(islice(_package_texts(package), TEXTS_PER_PACKAGE)) for package in packages}
    owners: dict[str, set[str]] = {}
    for package, package_texts in texts.items():
        for text in package_texts:
            owners.setdefault(text, set()).add(package)
    unique = {
        package: [text for text in package_texts if len(owners[text]) == 1] for package, package_texts in texts.items()
    }
    fewest = min(map(len, unique.values()))
    return [{"text": unique[package][at], "label": package} for at in range(fewest) for package in packages]


def _package_texts(package: str) -> Iterator[str]:
    """Yield the distinct masked docstrings of a package. The order of its files mixes its modules."""
    names = "|".join(re.escape(name) for name in PACKAGES[package])
    own_name = re.compile(rf"(?<![A-Za-z])({names})(?![A-Za-z])", re.IGNORECASE)
    yielded: set[str] = set()
    for path in _sources(MODULES.get(package, package)):
        for text in islice(_file_texts(path), TEXTS_PER_FILE):
            masked = own_name.sub(MASK, text)
            if masked not in yielded:
                yielded.add(masked)
                yield masked


def _sources(module: str) -> list[Path]:
    """Return a package's source files without its tests, ordered by a hash of their path within the package."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, "the package is installed"
    assert spec.submodule_search_locations, "a package, not a module of one file"
    root = Path(spec.submodule_search_locations[0])
    paths = [path for path in root.rglob("*.py") if NO_DATA.isdisjoint(path.relative_to(root).parts)]
    return sorted(paths, key=lambda path: digest(path.relative_to(root).as_posix()))


def _file_texts(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return  # A template, or a file for a different version of Python.
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            text = " ".join((ast.get_docstring(node) or "")[: 4 * LONGEST_CHARACTERS].split())
            if len(text) > LONGEST_CHARACTERS:  # cut between words
                text = text[:LONGEST_CHARACTERS].rsplit(" ", 1)[0]
            if len(text) >= SHORTEST_CHARACTERS:
                yield text
