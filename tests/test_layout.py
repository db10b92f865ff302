"""The shape of the house: imports go one way, our packages are the ones imported, the job keeps to Python 3.8."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "experiments": {"serving", "sweeps", "tracking", "training"},
    "serving": {"training"},
    "sweeps": {"tracking", "training"},
    "tracking": {"training"},
    "training": set[str](),
}
"""What each of our packages may import of the others."""
PACKAGES = tuple(MAY_IMPORT)
HEAVY = {"torch", "transformers", "mlflow", "boto3", "datasets", "pandas", "matplotlib", "sagemaker", "optuna"}


def modules(package: str) -> Iterator[Path]:
    yield from sorted((ROOT / package).rglob("*.py"))


def imported(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    above = {*PACKAGES, "tests", "benchmarks"} - MAY_IMPORT[package] - {package}
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] in above
    ]
    assert wrong == []


def test_the_job_stands_alone() -> None:
    job = ROOT / "training" / "job"
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in job.rglob("*.py")
        for name in imported(path)
        if name.split(".")[0] in {*PACKAGES, "benchmarks", "tests", "mlflow", "pydantic"}
        or (name.split(".")[0] == "boto3" and path.name != "hub_token.py")
    ]
    assert wrong == []


def test_job_files_shadow_nothing_they_import() -> None:
    job = ROOT / "training" / "job"
    files = {path.stem for path in job.glob("*.py")} | {path.name for path in job.iterdir() if path.is_dir()}
    third_party = {"torch", "transformers", "accelerate", "tokenizers", "evaluate", "pyarrow", "numpy", "metrics"}
    taken = files & (set(sys.stdlib_module_names) | HEAVY | third_party)
    assert taken == set()


@pytest.mark.parametrize("path", sorted((ROOT / "training" / "job").rglob("*.py")), ids=lambda p: p.name)
def test_the_job_is_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))


YOUNGER_NAMES = {
    *("removeprefix", "removesuffix", "is_relative_to", "readlink", "with_stem", "hardlink_to", "bit_count", "unparse"),
    *("randbytes", "lcm", "nextafter", "ulp", "pairwise", "batched", "cache", "file_digest", "UTC", "ExceptionGroup"),
    *("aiter", "anext", "zoneinfo", "graphlib", "tomllib", "to_thread", "TypeAlias", "ParamSpec", "Self", "Annotated"),
    *("assert_never", "StrEnum", "dataclass_transform", "NotRequired", "process_cpu_count"),
}
"""What the standard library has had since 3.9 or later."""

YOUNGER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}, "rmtree": {"onexc", "dir_fd"}}
YOUNGER_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}


@pytest.mark.parametrize("path", sorted((ROOT / "training" / "job").rglob("*.py")), ids=lambda p: p.name)
def test_the_job_calls_nothing_younger_than_python_3_8(path: Path) -> None:
    assert list(younger(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "'a'.removeprefix('b')",
        "from functools import cache",
        "zip(a, b, strict=True)",
        "merged = {**a} | b",
        "def f(a: list[int]): pass",
        "def f(a: int | None): pass",
        "def f() -> int | None: pass",
        "import tomllib",
    ],
)
def test_what_is_younger_is_seen(line: str) -> None:
    assert list(younger(ast.parse(line))) != []


def younger(tree: ast.AST) -> Iterator[str]:
    """Yield what Python 3.8 compiles and then fails at: later calls, `list[int]`, `int | None`, `{} | {}`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name, ast.alias)):
            names = {getattr(node, field, None) for field in ("attr", "id", "name")}
            yield from map(str, names & YOUNGER_NAMES)
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = {str(keyword.arg) for keyword in node.keywords}
            yield from (f"{called}({name}=)" for name in given & YOUNGER_ARGUMENTS.get(called, set()))
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in YOUNGER_GENERICS:
            yield ast.unparse(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and _is_union(node):
            yield ast.unparse(node)


def _is_union(node: ast.BinOp) -> bool:
    """Tell unions of types and of dictionaries from those of numbers and sets, as far as the text shows it."""
    sides = (node.left, node.right)
    none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
    return none or any(isinstance(side, (ast.Dict, ast.DictComp)) for side in sides)


def test_only_tracking_imports_mlflow_and_only_one_folder_and_one_file_boto3() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in PACKAGES
        for path in modules(package)
        for name in imported(path)
        if (name.split(".")[0] == "mlflow" and package != "tracking")
        or (name.split(".")[0] in {"boto3", "botocore"} and path.parent.name != "aws" and path.name != "hub_token.py")
    ]
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_our_packages_are_the_ones_imported(package: str) -> None:
    found = Path(str(importlib.import_module(package).__file__)).resolve()
    assert found.is_relative_to(ROOT), (
        f"`import {package}` finds {found}, not {ROOT / package}: another installed package has this name and shadows "
        "ours; run from the project's root and uninstall it"
    )


def test_files_stay_small() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for top in (*PACKAGES, "tests", "benchmarks")
        for path in modules(top)
        if (lines := path.read_text().count("\n")) > 300
    }
    assert long == {}


def test_the_command_line_starts_light() -> None:
    """What `python -m experiments --help` imports holds no heavy library at its top level."""
    heavy = imported(ROOT / "experiments" / "__main__.py", top_level_only=True) & HEAVY
    assert heavy == set()
