"""Imports go down the list of packages, without circles of files or rooms; every room says what it is for."""

from __future__ import annotations

import ast

import pytest

from tests.layout.imports import JOB, ORDER, ROOT, circle, file_graph, imported_names, room_graph, room_of, sources

MAY_IMPORT = {package: set(ORDER[position:]) for position, package in enumerate(ORDER)}
MAY_IMPORT["judging"] = {"judging"}
MAY_IMPORT["state"] = {"state"}

AWS_OWNERS = (
    *("training/services/sagemaker/", "models/endpoints/sagemaker/"),
    "training/job/loop/compile_phase.py",
    "training/scripts/trainfare_entry.py",
)
OWNERS = {
    "mlflow": ("tracking/", "models/", "reports/"),
    "boto3": AWS_OWNERS,
    "botocore": AWS_OWNERS,
    "matplotlib": ("reports/charts/",),
    "optuna": ("sweeps/", "experiments/sweeping/"),
}
"""Heavy libraries, and the rooms that own them."""


@pytest.mark.parametrize("package", ORDER)
def test_imports_go_down_the_list_of_packages(package: str) -> None:
    upward = [
        f"{path} imports {target}"
        for path, targets in file_graph().items()
        for target in sorted(targets)
        if path.startswith(f"{package}/") and target.split("/")[0] not in MAY_IMPORT[package]
    ]
    assert upward == []


def test_no_product_file_imports_tests_or_benchmarks() -> None:
    wrong = [
        f"{path} imports {name}"
        for path, tree in sources().items()
        for name in imported_names(tree)
        if name.split(".")[0] in {"tests", "benchmarks"}
    ]
    assert wrong == []


def test_no_files_or_rooms_import_each_other_in_a_circle() -> None:
    assert circle(file_graph()) == []
    assert circle(room_graph()) == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_only_its_owners_import_a_heavy_library(library: str) -> None:
    wrong = [
        path
        for path, tree in sources().items()
        if not path.startswith(OWNERS[library]) and library in {name.split(".")[0] for name in imported_names(tree)}
    ]
    assert wrong == []


def test_only_the_locks_module_imports_fcntl() -> None:
    """All locks of the product are in one module: see docs/decisions/0008."""
    importers = {path for path, tree in sources().items() if "fcntl" in {*imported_names(tree)}}
    assert importers == {"state/locks.py"}


def test_the_job_imports_none_of_our_other_packages() -> None:
    forbidden = {*ORDER, "benchmarks", "tests", "mlflow", "pydantic"}
    wrong = [
        f"{path} imports {name}"
        for path, tree in sources().items()
        if path.startswith((JOB, "training/train.py"))
        for name in imported_names(tree)
        if name.split(".")[0] in forbidden and not name.startswith("training.job.")
    ]
    assert wrong == []


SCRIPTS = ("experiments/scripts", "experiments/published")
"""Folders of scripts that experiments run: they are no rooms."""


def test_every_room_says_what_it_is_for() -> None:
    rooms = {room for room in map(room_of, sources()) if not room.startswith(SCRIPTS)}
    files = {each: sources().get(f"{each}/__init__.py") for each in rooms if not each.endswith("/container")}
    thin = [each for each, tree in files.items() if not tree or len((ast.get_docstring(tree) or "").split()) < 12]
    assert thin == []


def test_no_test_imports_another_test() -> None:
    """Helpers that several tests share belong in `tests/support`."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in imported_names(ast.parse(path.read_text()))
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))
    ]
    assert wrong == []
