"""Demo data without network or licence question: docstrings of installed packages, labelled by package.

Read from the sources with `ast`, never imported, and the same for the same installed versions.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

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
"""Distribution, and the names for itself that are masked in its own docstrings."""

MODULES = {"scikit-learn": "sklearn"}

TEXTS_A_PACKAGE = 210
TEXTS_A_FILE = 6
SHORTEST_CHARACTERS = 40
LONGEST_CHARACTERS = 400
MASK = "PACKAGE"


def docstring_file(folder: Path) -> Path:
    """Return the JSON lines file {text, label} under `folder`, written on first use for the installed versions."""
    versions = {name: importlib.metadata.version(name) for name in _installed()}
    settings = [VERSION, TEXTS_A_PACKAGE, TEXTS_A_FILE, SHORTEST_CHARACTERS, LONGEST_CHARACTERS, versions]
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    path = folder / f"docstrings-{key}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{path.name}.{os.getpid()}"
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in docstring_rows(list(versions))), "utf-8")
        unfinished.replace(path)
    return path


def _installed() -> list[str]:
    found = [name for name in PACKAGES if importlib.util.find_spec(MODULES.get(name, name)) is not None]
    if len(found) < 2:
        raise InputError(f"data.builtin docstrings needs two of the packages {', '.join(PACKAGES)} installed")
    return found


def docstring_rows(packages: Sequence[str]) -> list[dict[str, str]]:
    """Return as many texts of each package, in turn, so that the first so many rows are balanced as well."""
    texts = {package: list(islice(_package_texts(package), TEXTS_A_PACKAGE)) for package in packages}
    owners: dict[str, set[str]] = {}
    for package, text in chain.from_iterable(((p, t) for t in found) for p, found in texts.items()):
        owners.setdefault(text, set()).add(package)
    own = {package: [text for text in found if len(owners[text]) == 1] for package, found in texts.items()}
    fewest = min(len(found) for found in own.values())
    return [{"text": own[package][at], "label": package} for at in range(fewest) for package in packages]


def _package_texts(package: str) -> Iterator[str]:
    """Yield different masked docstrings of a package, its files in an order that mixes its parts."""
    spelt = "|".join(re.escape(name) for name in PACKAGES[package])
    own_name = re.compile(rf"(?<![A-Za-z])({spelt})(?![A-Za-z])", re.IGNORECASE)
    seen: set[str] = set()
    for path in _sources(MODULES.get(package, package)):
        for text in islice(_file_texts(path), TEXTS_A_FILE):
            masked = own_name.sub(MASK, text)
            if masked not in seen:
                seen.add(masked)
                yield masked


def _sources(module: str) -> list[Path]:
    """Return a package's source files, tests left out, ordered by a hash of their path within the package."""
    found = importlib.util.find_spec(module)
    assert found is not None, "only installed packages are asked for"
    assert found.submodule_search_locations, "a package, not a module of one file"
    root = Path(found.submodule_search_locations[0])
    paths = [path for path in root.rglob("*.py") if not _is_test(path.relative_to(root))]
    return sorted(paths, key=lambda path: hashlib.sha256(path.relative_to(root).as_posix().encode()).digest())


def _is_test(path: Path) -> bool:
    return any(part in {"tests", "test", "testing", "_vendor", "externals"} for part in path.parts)


def _file_texts(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return  # a template or a file for another Python: there are others
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            text = _shortened(ast.get_docstring(node) or "")
            if len(text) >= SHORTEST_CHARACTERS:
                yield text


def _shortened(docstring: str) -> str:
    """Return the beginning of a docstring on one line, cut between words."""
    text = " ".join(docstring[: 4 * LONGEST_CHARACTERS].split())
    return text if len(text) <= LONGEST_CHARACTERS else text[:LONGEST_CHARACTERS].rsplit(" ", 1)[0]
