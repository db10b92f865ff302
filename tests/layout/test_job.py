"""The job is compatible with Python 3.8."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.layout.imports import JOB, ROOT

IN_CONTAINERS = [
    *sorted((ROOT / JOB).rglob("*.py")),
    *sorted((ROOT / "training/scripts/metering").glob("*.py")),
    ROOT / "training/scripts/trainfare_entry.py",
    *sorted((ROOT / "experiments/published").rglob("*.py")),
]
"""Files that run in containers of Python 3.8."""
PUBLISHED = ROOT / "experiments/published/scripts"
"""Scripts that run in containers of Python 3.6."""


YOUNGER_NAMES = {
    *("removeprefix", "removesuffix", "is_relative_to", "readlink", "with_stem", "hardlink_to", "bit_count", "unparse"),
    *("randbytes", "lcm", "nextafter", "ulp", "pairwise", "batched", "cache", "file_digest", "UTC", "ExceptionGroup"),
    *("aiter", "anext", "zoneinfo", "graphlib", "tomllib", "to_thread", "TypeAlias", "ParamSpec", "Self", "Annotated"),
    *("assert_never", "StrEnum", "dataclass_transform", "NotRequired", "process_cpu_count"),
}
"""Names that the standard library has had since 3.9 or later."""

YOUNGER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}, "rmtree": {"onexc", "dir_fd"}}
YOUNGER_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}


def test_the_job_uses_nothing_newer_than_python_3_8() -> None:
    for path in IN_CONTAINERS:
        version = (3, 6) if path.parent == PUBLISHED else (3, 8)
        assert (path, list(younger(ast.parse(path.read_text(), str(path), feature_version=version)))) == (path, [])


def younger(tree: ast.AST) -> Iterator[str]:
    """Yield features that compile under Python 3.8 but fail at run time: later calls, `list[int]`, `int | None`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name, ast.alias)):
            names = {getattr(node, field, None) for field in ("attr", "id", "name")}
            yield from map(str, names & YOUNGER_NAMES)
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            keywords = {str(keyword.arg) for keyword in node.keywords}
            yield from (f"{called}({name}=)" for name in keywords & YOUNGER_ARGUMENTS.get(called, set()))
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in YOUNGER_GENERICS:
            yield ast.unparse(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_union(node):
            yield ast.unparse(node)


def _is_union(node: ast.BinOp) -> bool:
    """Return True for unions of types or dictionaries, as opposed to those of numbers or sets."""
    sides = (node.left, node.right)
    none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
    return none or any(isinstance(side, (ast.Dict, ast.DictComp)) for side in sides)
