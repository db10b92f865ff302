"""The job runs under Python 3.10, and the files that start or meter a script run under Python 3.8."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.layout.imports import JOB, ROOT

SCRIPT_FILES = [
    *(ROOT / "training/scripts/metering").glob("*.py"),
    ROOT / "training/scripts/trainfare_entry.py",
    *(ROOT / "experiments/published").rglob("*.py"),
]
IN_CONTAINERS = {(3, 8): SCRIPT_FILES, (3, 10): [ROOT / "training/train.py", *(ROOT / JOB).rglob("*.py")]}
"""Files by the oldest Python that runs them."""
PUBLISHED = ROOT / "experiments/published/scripts"
"""Scripts that also run in containers of Python 3.6, whose syntax they use."""

SINCE_3_11 = {
    *("file_digest", "UTC", "ExceptionGroup", "tomllib", "Self", "assert_never", "StrEnum", "dataclass_transform"),
    *("NotRequired", "batched", "process_cpu_count"),
}
YOUNGER_NAMES = {
    (3, 8): {
        *("removeprefix", "removesuffix", "is_relative_to", "readlink", "with_stem", "hardlink_to", "bit_count"),
        *("unparse", "randbytes", "lcm", "nextafter", "ulp", "pairwise", "cache", "aiter", "anext", "zoneinfo"),
        *("graphlib", "to_thread", "TypeAlias", "ParamSpec", "Annotated"),
    }
    | SINCE_3_11,
    (3, 10): SINCE_3_11,
}
"""Names that the standard library has had since a later version."""

YOUNGER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}, "rmtree": {"onexc", "dir_fd"}}
"""Arguments that Python 3.8 lacks."""
YOUNGER_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}


@pytest.mark.parametrize("version", IN_CONTAINERS, ids=str)
def test_nothing_is_newer_than_the_oldest_python(version: tuple[int, int]) -> None:
    for path in sorted(IN_CONTAINERS[version]):
        syntax = (3, 6) if path.parent == PUBLISHED else version
        tree = ast.parse(path.read_text(), str(path), feature_version=syntax)
        assert (path, list(younger(tree, version))) == (path, [])


def younger(tree: ast.AST, version: tuple[int, int]) -> Iterator[str]:
    """Yield features that compile but fail at run time: later calls and, under 3.8, `list[int]` and `int | None`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name, ast.alias)):
            names = {getattr(node, field, None) for field in ("attr", "id", "name")}
            yield from map(str, names & YOUNGER_NAMES[version])
        if version >= (3, 9):
            continue
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
