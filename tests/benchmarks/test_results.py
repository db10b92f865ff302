"""docs/benchmarks.md and the files that it is generated from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from benchmarks.support.results import FOLDER, PAGE, SECTIONS, Result, is_same_kind, merged, page, recorded


def test_the_page_is_that_of_the_result_files() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_shows_every_figure_that_has_a_target(name: str) -> None:
    names = [row["name"] for result in recorded(name) for row in result["rows"] if row["target"]]
    patterns = [figure.rows for figure in SECTIONS[name].figures]
    assert [each for each in names if not any(re.fullmatch(pattern, each) for pattern in patterns)] == []


def test_a_file_has_one_figure_of_a_name_and_kind_of_machine() -> None:
    for file in FOLDER.glob("*.json"):
        rows = [(each["machine"], row["name"]) for each in json.loads(file.read_text()) for row in each["rows"]]
        for number, (machine, name) in enumerate(rows):
            assert not any(name == other and is_same_kind(machine, at) for at, other in rows[:number]), (file, name)


def result(commit: str, *names: str, notes: Sequence[str] = (), gpu: str = "H100") -> Result:
    rows = [{"name": name, "value": 1} for name in names]
    machine = {"processor": "Xeon", "gpu": gpu}
    return {"machine": machine, "commit": commit, "dirty": False, "notes": [*notes], "rows": rows}


def test_a_part_that_is_measured_again_replaces_its_own_figures_alone() -> None:
    other = result("old", "fp32: loss", gpu="H200")
    earlier = [result("new", "fp16: loss", "fp32: loss", notes=["fp32: not run.", "One GPU."]), other]
    again = result("new", "fp32: loss", "fp32: speed", notes=["One GPU."])
    names = ("fp16: loss", "fp32: loss", "fp32: speed")
    assert merged(earlier, again) == [result("new", *names, notes=["One GPU."]), other]
    # What another commit measured is replaced as a whole by a command that measures everything.
    later = result("later", "fp16: loss")
    assert merged(earlier, later) == [later, other]
    kept = result("new", "fp32: loss", notes=["fp32: not run.", "One GPU."])
    assert merged(earlier, later, appends=True) == [later, kept, other]
    assert merged([kept], result("later", "fp32: loss"), appends=True) == [result("later", "fp32: loss")]


def test_machines_are_of_one_kind_if_processor_instructions_and_gpu_are_equal() -> None:
    machine = {"processor": "Xeon", "instructions": "AMX", "gpu": None, "memory_gib": 23.5}
    # Older results do not record the instructions.
    for same in ({}, {"memory_gib": 64.0}, {"instructions": None}):
        assert is_same_kind(machine, machine | same)
    for other in ({"instructions": "AVX-512"}, {"processor": "AMD EPYC"}, {"gpu": "NVIDIA H100"}):
        assert not is_same_kind(machine, machine | other)
