"""docs/benchmarks.md and the files that it is generated from."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.support.results import FOLDER, PAGE, SECTIONS, is_same_kind, page


def test_the_page_is_that_of_the_result_files() -> None:
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_shows_every_figure_that_has_a_target(name: str) -> None:
    results = json.loads((FOLDER / f"{name}.json").read_text())
    names = [row["name"] for result in results for row in result["rows"] if row["target"]]
    patterns = [figure.rows for figure in SECTIONS[name].figures]
    assert [each for each in names if not any(re.fullmatch(pattern, each) for pattern in patterns)] == []


def test_a_file_has_one_result_of_each_kind_of_machine() -> None:
    for file in FOLDER.glob("*.json"):
        results = [(result.get("part"), result["machine"]) for result in json.loads(file.read_text())]
        for number, (part, machine) in enumerate(results):
            same = [part == other and is_same_kind(machine, each) for other, each in results[:number]]
            assert not any(same), file


def test_machines_are_of_one_kind_if_processor_instructions_and_gpu_are_equal() -> None:
    machine = {"processor": "Xeon", "instructions": "AMX", "gpu": None, "memory_gib": 23.5}
    # Older results do not record the instructions.
    for same in ({}, {"memory_gib": 64.0}, {"instructions": None}):
        assert is_same_kind(machine, machine | same)
    for other in ({"instructions": "AVX-512"}, {"processor": "AMD EPYC"}, {"gpu": "NVIDIA H100"}):
        assert not is_same_kind(machine, machine | other)
