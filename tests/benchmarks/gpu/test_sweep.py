"""`make gpu-sweep`, small and on the CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.sweep import WORKLOADS, Deadline, GpuSweep, Limits, picture
from benchmarks.support.workloads import DATA
from experiments.planning.load import arms, load_fields
from experiments.sweeping.sweep_plan import plan_sweep
from tests.conftest import ROOT
from tests.support.services.following import until
from training.services.local.service import LocalService


def row(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": "s"}


def test_the_picture_shows_every_setting() -> None:
    rows = [
        row("bert-sst2, inductor, batch 8, linear: billable seconds to the target", 40.0),
        row("bert-sst2, inductor, batch 8, linear: samples", 100.0),
        row("bert-sst2, inductor, batch 16, sqrt: billable seconds to the target", 30.0),
        row("bert-sst2, none, batch 16, linear: billable seconds not reached", 90.0),
        row("bert-sst2, none over the recipe: the winner", 0.5),
    ]
    chart = picture(rows)
    assert chart
    assert "3 trials: 2 completed, 1 not reached." in chart.svg
    assert picture(rows[-1:]) is None


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "adapters"])
def test_every_workload_is_a_valid_sweep(name: str, tmp_path: Path) -> None:
    sweep = GpuSweep(name, tmp_path, Limits(precision="fp32"), Deadline(0.0), is_published=False)
    fields = {**sweep.fields(), **sweep.space(), "target": "{metric: eval_loss, value: 0.5}"}
    experiment = fields.pop("experiment")
    points = plan_sweep(load_fields(experiment, fields)).space.points
    # Eight sizes and two rules, which are equal at the published batch size.
    assert len(points) == 16 - (WORKLOADS[name].batch_size in (16, 32))
    best = {"none": {"compiler": "none", "batch_size": 64, "learning_rate_scaling": "sqrt"}}
    recipe, ours = (arm.experiment for arm in arms(load_fields(experiment, {**fields, **sweep.repeats(best)})))
    assert (recipe.batch_size, recipe.padding, ours.batch_size) == (WORKLOADS[name].batch_size, "max_length", 64)
    assert ours.learning_rate == pytest.approx(recipe.learning_rate * (64 / recipe.batch_size) ** 0.5)


def test_adapters_are_compared_with_full_fine_tuning(tmp_path: Path) -> None:
    sweep = GpuSweep("adapters", tmp_path, Limits(), Deadline(0.0), is_published=False)
    fields = {**sweep.fields(), **sweep.adapter_arms()}
    full, *others = arms(load_fields(fields.pop("experiment"), fields))
    assert full.experiment.adapter is None
    assert [each.experiment.adapter and each.experiment.adapter.method for each in others][:3] == ["lora"] * 2 + [
        "frozen"
    ]


def call(state: Path, *options: str) -> Sequence[str]:
    small = ("--on-cpu", "--batch-sizes", "8..16", "--compilers", "none", "--minutes", "20")
    return [sys.executable, "-m", "benchmarks.gpu.sweep", "minilm-emotion", *small, "--state", str(state), *options]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is missing")
def test_a_sweep_whose_machine_is_lost_goes_on(tmp_path: Path) -> None:
    """Everything is killed in the second of four trials. Nothing that ended is trained again."""
    folder = tmp_path / "minilm-emotion"
    first = subprocess.Popen(call(tmp_path), cwd=ROOT, start_new_session=True)
    until(lambda: "InProgress" in statuses(folder, "-none-b") and "Completed" in statuses(folder, "-none-b"), 240)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = {job["TrainingJobName"]: job for job in LocalService(folder / "home").jobs()}
    [lost] = [name for name, job in before.items() if job["TrainingJobStatus"] == "InProgress"]
    os.kill(json.loads((folder / "home" / "jobs" / lost / "state.json").read_text())["SupervisorPid"], signal.SIGKILL)
    output = subprocess.run(call(tmp_path), cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"{lost} was cut off and starts again." in output
    assert output.endswith("Finished.\n")
    after = {job["TrainingJobName"]: job for job in LocalService(folder / "home").jobs()}
    # The recipe, four trials, and two repeats of the recipe and of the cheapest setting.
    assert len(after) == 1 + 4 + 2 * 2
    assert {job["TrainingJobStatus"] for job in after.values()} == {"Completed"}
    assert all(after[name] == job for name, job in before.items() if name != lost)
    rows = [each["name"] for each in json.loads((folder / "rows.json").read_text())["rows"]]
    settings = [f"minilm-emotion, none, batch {size}, {rule}" for size in (8, 16) for rule in ("linear", "sqrt")]
    assert all(any(name.startswith(f"{setting}: billable seconds") for name in rows) for setting in settings)
    assert {"minilm-emotion, none over the recipe: the winner", "minilm-emotion, recipe: repeats"} <= set(rows)


def statuses(folder: Path, part: str) -> list[str]:
    jobs = LocalService(folder / "home").jobs()
    return [str(job["TrainingJobStatus"]) for job in jobs if part in job["TrainingJobName"]]
