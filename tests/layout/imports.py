"""The imports of our own files, read from their source: a graph of files and one of rooms."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORDER = ("experiments", "models", "reports", "sweeps", "tracking", "judging", "training", "state")
"""Our packages from top to bottom: each may import those after it, but `judging` and `state` import nothing of ours."""
JOB = "training/job/"
"""The files that run in the container."""

Graph = Mapping[str, frozenset[str]]
"""Node to the nodes that it imports. A node is a path relative to the root."""


@cache
def sources() -> Mapping[str, ast.Module]:
    """Return the syntax tree of every file of our packages."""
    paths = (path for package in ORDER for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of every import, including those within functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def file_graph() -> Graph:
    """Return which files import which."""
    files = {_module(path): path for path in sources()}
    return {path: frozenset(_targets(path, tree, files)) for path, tree in sources().items()}


def room_graph() -> Graph:
    """Return which rooms (folders) import which; a room's `__init__.py` belongs to the room."""
    rooms: dict[str, set[str]] = {}
    for path, targets in file_graph().items():
        rooms.setdefault(room_of(path), set()).update(room_of(target) for target in targets)
    return {room: frozenset(targets - {room}) for room, targets in rooms.items()}


def room_of(path: str) -> str:
    """Return the folder of a file."""
    return path.rpartition("/")[0]


def circle(graph: Graph) -> list[str]:
    """Return nodes that import each other in a circle, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _targets(path: str, tree: ast.AST, files: Mapping[str, str]) -> Iterator[str]:
    for name in imported_names(tree):
        target = files.get(name) or files.get(name.rpartition(".")[0])
        if target and target != path:
            yield target
