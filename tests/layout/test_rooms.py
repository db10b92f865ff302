"""Rooms and files are small enough for a newcomer, and every room has a docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.layout.imports import ORDER, ROOT, room_of, sources

MAX_MODULES = 20
MIN_MODULES = 3
MAX_LINES = 300
SMALL_ROOMS = {
    "experiments": "its files are in its rooms; `__main__.py` makes it a command",
    "experiments/scripts": "the two example scripts that the shipped experiments run",
    "models": "its files are in its rooms",
    "models/endpoints": "the protocol and what all services share; the services are rooms",
    "models/endpoints/sagemaker/container": "one file that SageMaker's container loads",
    "models/logged/stored": "one file that MLflow stores with a model",
    "sweeps": "its files are in its rooms",
    "tracking": "its files are in its rooms",
    "training": "its files are in its rooms",
    "training/job": "the entry point and the run; the rest is in its rooms",
    "training/job/weights": "a model has few kinds of file",
    "training/services": "what both services share; the services are rooms",
    "training/staging": "one entry point over its rooms",
}
"""Rooms of fewer than three modules, and why."""
ROOMS = sorted({room_of(path) for path in sources()})


def modules(room: str) -> list[str]:
    """Return the files of a room except `__init__.py`."""
    return [path for path in sources() if room_of(path) == room and not path.endswith("__init__.py")]


def test_no_room_has_more_than_twenty_modules() -> None:
    assert {room: len(modules(room)) for room in ROOMS if len(modules(room)) > MAX_MODULES} == {}


def test_small_rooms_have_a_reason() -> None:
    assert {room for room in ROOMS if len(modules(room)) < MIN_MODULES} == set(SMALL_ROOMS)


def test_benchmarks_are_rooms_of_at_most_twenty_modules() -> None:
    rooms = {path.parent for path in (ROOT / "benchmarks").rglob("*.py")}
    counts = {room.name: sum(path.name != "__init__.py" for path in room.glob("*.py")) for room in rooms}
    assert {room: count for room, count in counts.items() if count > MAX_MODULES} == {}


@pytest.mark.parametrize("room", [room for room in ROOMS if not room.endswith(("/container", "experiments/scripts"))])
def test_a_room_has_a_docstring_about_its_content(room: str) -> None:
    tree = sources().get(f"{room}/__init__.py")
    if tree is None and room == "training/job":
        pytest.skip("the container sees it as its source directory, not as a package")
    assert tree is not None
    assert len((ast.get_docstring(tree) or "").split()) >= 12


def test_files_stay_small() -> None:
    paths = [path for top in (*ORDER, "tests", "benchmarks") for path in (ROOT / top).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): _lines(path) for path in paths}
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def _lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n")
