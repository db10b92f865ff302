"""The profile of a training step: a small run on a CPU, and its sums on events made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.profile_step import SIDES, picture, profile_sides, rows, traced
from benchmarks.support.results import Row
from tests.support.job.tiny import TINY


@pytest.mark.slow
def test_each_side_is_profiled_on_a_cpu() -> None:
    recorded: list[Row] = []

    def record(new_rows: Sequence[Row], notes: Sequence[str]) -> None:
        assert not notes
        recorded.extend(new_rows)

    fields = {"experiment": "demo", **TINY, "data.train_rows": "64", "data.validation_rows": "16", "compiler": "none"}
    sides = {name: SIDES[name] for name in ("ours", "tuned Trainer", "recipe")}
    measured = profile_sides("tiny", {**fields, "batch_size": "8"}, sides, 600, 2, record)
    assert "ours: " in picture("tiny", measured).svg
    values = {row.name.removeprefix("tiny, "): row.value for row in recorded}
    assert values["ours: reads of device values"] == 0 < values["tuned Trainer: reads of device values"]
    for side in sides:
        phases = (values[f"{side}: {name}"] for name in ("fetch", "forward", "backward", "clip", "optimizer", "loop"))
        assert all(milliseconds > 0 for milliseconds in phases)
        assert 0 < values[f"{side}: optimizer and loop"] < 1
        assert values[f"{side}: samples"] > 0
    assert {"ours: gain over tuned Trainer", "ours: gain over recipe"} <= values.keys()
    # Only a GPU has these.
    assert not any(part in name for name in values for part in ("synchronisations", "kernel", "copy"))


def event(name: str, microseconds: float, device: str = "CPU") -> Any:
    time_range = SimpleNamespace(elapsed_us=lambda: microseconds)
    return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device), time_range=time_range)


def test_events_are_summed_by_kind() -> None:
    events = [
        event("aten::mm", 50),
        event("cudaLaunchKernel", 6),
        event("cudaGraphLaunch", 10),
        event("cudaStreamSynchronize", 300),
        event("gemm", 200, "CUDA"),
        event("softmax", 100, "CUDA"),
        event("Memcpy HtoD (Pinned -> Device)", 4, "CUDA"),
    ]
    sums = {
        "launch count": 1, "launch time": 0.008, "wait count": 0.5, "wait time": 0.15,
        "kernel count": 1, "kernel time": 0.15, "copy count": 0.5, "copy time": 0.002,
    }  # fmt: skip
    assert traced(events, 2) == pytest.approx(sums)


def test_rows_have_the_targets_of_our_sides() -> None:
    measured = {
        "recipe": {"real tokens": 100.0, "samples": 130.0},
        "ours": {"real tokens": 170.0, "samples": 110.0, "synchronisations": 1.0, "optimizer and loop": 0.15},
    }
    prefix = "bert-large-squad-dp, "
    missed = {row.name.removeprefix(prefix): row.met for row in rows("bert-large-squad-dp", measured, "ours")}
    # 110 is less than 120 samples/s, and 1.7 less than 1.8.
    assert missed == {
        "ours: real tokens": None, "ours: samples": False, "ours: synchronisations": False,
        "ours: optimizer and loop": True, "ours: gain over recipe": False,
    }  # fmt: skip
    assert [row.met for row in rows("emotion-bert", {"recipe": measured["recipe"]}, "recipe")] == [None, None]
