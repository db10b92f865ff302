"""The checks of `make accept-gpu`, run on this machine's CPU where it has what they need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
import torch

from benchmarks.gpu.paths import PATHS, Cards, Deadline, GpuPath, try_paths
from benchmarks.gpu.workloads import GPU_WORKLOADS, RATE, SIDES, WITHDRAWN, runnable, side_fields, workload_rows
from benchmarks.support.command import Reported
from benchmarks.support.results import Row
from experiments.planning.load import load_fields
from tests.conftest import ROOT
from training.contract.events import Event

CPU = Cards(kind="cpu", name="this CPU", count=1, capability=(9, 0), packages=frozenset())
RUN_HERE = ("fp32", "sdpa", "padding-free", "accumulation")


@pytest.mark.slow
def test_paths_are_tried_and_compared(tmp_path: Path) -> None:
    too_early = GpuPath(name="early", title="ends early", fields={"max_steps": "2"})
    as_early = GpuPath(name="as-early", title="ends as early", fields={"max_steps": "2"}, reference="early")
    missing = GpuPath(name="missing", title="needs a package", package="flash_attn")
    paths = [*(path for path in PATHS if path.name in RUN_HERE), too_early, as_early, missing]
    rows: list[Row] = []
    notes: list[str] = []
    recorded: list[int] = []

    def record(new_rows: Sequence[Row], new_notes: Sequence[str]) -> None:
        rows.extend(new_rows)
        notes.extend(new_notes)
        recorded.append(len(list(tmp_path.glob("*/home"))))

    assert not try_paths(paths, CPU, tmp_path, Deadline(1_200), record)
    outcomes = {row.name.partition(":")[0]: row.met for row in rows if row.target}
    assert outcomes == {**dict.fromkeys(RUN_HERE, True), "early": False, "as-early": True}, notes
    assert any("early: the evaluation loss is" in note for note in notes)
    assert "missing: not run, because it needs the package flash_attn, which is not installed." in notes
    assert "fp32: steady samples" in {row.name for row in rows}
    # The first path was recorded long before the last one ran.
    assert recorded[1] < recorded[-1] == len(paths) - 1


def reported(**metrics: float) -> Reported:
    return Reported(failure=None, events=[Event("result", 0, 0.0, {"metrics": metrics})])


def test_gains_are_compared_with_the_recipe() -> None:
    recipe = reported(**{RATE: 100.0, "eval_loss": 1.0})
    ours = reported(**{RATE: 150.0, "eval_loss": 1.2})
    # In the second round, something disturbed the recipe, and inductor was not run.
    second = {"recipe": reported(**{RATE: 50.0}), "ours uncompiled": ours}
    rounds = [{"recipe": recipe, "ours uncompiled": ours, "ours with inductor": ours}, second]
    rows = {row.name: row for row in workload_rows("squad-albert", rounds)}
    gain, loss = (
        rows[f"squad-albert, ours uncompiled: {name}"]
        for name in ("gain in real tokens", "eval_loss minus the recipe's")
    )
    assert (gain.value, gain.n, gain.target, gain.met) == ((1.5 + 3) / 2, 2, "at least 1 x", True)
    assert (loss.value, loss.target) == (pytest.approx(0.2), None)
    # 1.5 is less than the published gain of this workload.
    inductor = rows["squad-albert, ours with inductor: gain in real tokens"]
    assert (inductor.value, inductor.n, inductor.met) == (1.5, 1, False)
    assert rows["squad-albert, recipe: steady real tokens"].value == 75


def split(fields: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name of the experiment and the fields that replace its own."""
    return fields["experiment"], {name: value for name, value in fields.items() if name != "experiment"}


def test_every_path_and_side_is_a_valid_experiment() -> None:
    for path in PATHS:
        load_fields(*split(path.job_fields()))
    left_out = [each.name for each in GPU_WORKLOADS if each not in runnable(GPU_WORKLOADS, has_rows=False)]
    assert left_out == ["reviews-distilbert"]
    for workload, side, has_rows in product(GPU_WORKLOADS, SIDES, (True, False)):
        if has_rows or workload.name not in WITHDRAWN:
            load_fields(*split(side_fields(workload, side, has_rows)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_what_it_would_do() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "This machine has no GPU that PyTorch can use. On a machine with one, this command would run" in done.stdout
    assert f"{PATHS[0].name}: {PATHS[0].title}" in done.stdout
    assert done.stdout.endswith("Nothing was run.\n")
