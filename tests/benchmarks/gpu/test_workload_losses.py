"""The comparison of losses over several seeds, on numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gpu.expectations import Reported
from benchmarks.gpu.jobs import NO_TIME, Deadline
from benchmarks.gpu.workload_gains import SEEDS, Trainings, loss_rows, trainings_at_a_time
from benchmarks.gpu.workload_sides import FIRST_SEED, GPU_WORKLOADS
from training.contract.events import Event

WORKLOAD = next(each for each in GPU_WORKLOADS if each.quality == "eval_loss")
THEIRS = dict(zip(SEEDS, (1.0, 1.1, 0.9, 1.2, 0.8), strict=True))


def ours(*differences: float) -> dict[int, float]:
    return {seed: THEIRS[seed] + each for seed, each in zip(SEEDS, differences, strict=False)}


def reported(memory_gib: float | None, peak_gib: float) -> Reported:
    device = {"kind": "cpu"} if memory_gib is None else {"kind": "cuda", "memory_gib": memory_gib}
    metrics = {"eval_loss": 1.0, **({} if memory_gib is None else {"memory/peak_reserved_gib": peak_gib})}
    events = [Event("start", 0, 0.0, {"device": device}), Event("result", 1, 0.0, {"metrics": metrics})]
    return Reported(failure=None, events=events)


def test_only_differences_of_one_sign_show_a_higher_loss() -> None:
    # Mean 0.04 and standard deviation 0.1140; t(4) is 2.776, so the interval is 0.04 ± 0.1416.
    [row] = loss_rows("reviews", {"ours uncompiled": ours(0.2, 0.1, 0.0, -0.1, 0.0), "recipe": THEIRS})
    assert (row.value, row.n, row.met) == (pytest.approx(0.04), 5, True)
    assert row.target == "not shown to be higher: the 95 % interval starts at or below 0"
    assert row.spread == pytest.approx(0.1416, abs=1e-4)
    [row] = loss_rows("reviews", {"ours uncompiled": ours(0.1, 0.12, 0.09, 0.11, 0.08), "recipe": THEIRS})
    assert (row.value, row.met) == (pytest.approx(0.1), False)


def test_seeds_without_both_losses_are_missed() -> None:
    mean, seeds = loss_rows("reviews", {"ours uncompiled": ours(0.1, -0.1), "recipe": THEIRS})
    assert (mean.n, mean.met) == (2, True)
    assert (seeds.value, seeds.target, seeds.met) == (2, "at least 5 seeds", False)
    [only] = loss_rows("reviews", {"ours uncompiled": {}, "recipe": THEIRS})
    assert (only.value, only.met) == (0, False)


def trainings(folder: Path, seconds: float) -> Trainings:
    return Trainings(has_rows=True, folder=folder, deadline=Deadline(seconds), echo=print, parallel=8)


def test_trainings_without_time_are_named(tmp_path: Path) -> None:
    first = {"ours uncompiled": reported(80, 4), "recipe": reported(80, 4)}
    notes: list[str] = []
    losses = trainings(tmp_path, 30).losses(WORKLOAD, first, notes)
    assert notes[0] == f"{WORKLOAD.name}, ours uncompiled, seed {FIRST_SEED + 1}: not run, {NO_TIME}."
    assert len(notes) == 8
    assert [set(each) for each in losses.values()] == [{FIRST_SEED}] * 2


@pytest.mark.parametrize(
    ("memory_gib", "peak_gib", "expected"),
    [(80.0, 7.5, 8), (79.0, 10.0, 6), (16.0, 6.0, 2), (16.0, 15.0, 1), (None, 0.0, 8)],
)
def test_as_many_trainings_run_as_fit_in_memory(memory_gib: float | None, peak_gib: float, expected: int) -> None:
    assert trainings_at_a_time([reported(80.0, 1.0), reported(memory_gib, peak_gib)], 8) == expected
