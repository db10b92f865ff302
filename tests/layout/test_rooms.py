"""Every room has a docstring."""

from __future__ import annotations

import ast

import pytest

from tests.layout.imports import room_of, sources

ROOMS = sorted({room_of(path) for path in sources()})


@pytest.mark.parametrize("room", [room for room in ROOMS if not room.endswith(("/container", "experiments/scripts"))])
def test_a_room_has_a_docstring_about_its_content(room: str) -> None:
    tree = sources().get(f"{room}/__init__.py")
    if tree is None and room == "training/job":
        pytest.skip("the container sees it as its source directory, not as a package")
    assert tree is not None
    assert len((ast.get_docstring(tree) or "").split()) >= 12
