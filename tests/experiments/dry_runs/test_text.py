"""A plan in a terminal fits into 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.dry_runs.plan_jobs import plan_jobs
from experiments.dry_runs.scratch_state import ScratchState, scratch_state
from experiments.dry_runs.text import print_plan
from experiments.planning.command_plan import CommandPlan


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScratchState]:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    rows = "\n".join(f'{{"text": "text number {number}", "label": "{number % 2}"}}' for number in range(80))
    (tmp_path / "rows.jsonl").write_text(rows)
    with scratch_state(tmp_path / "home") as state:
        yield state


def shown(plan: CommandPlan, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_plan(plan)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    return lines


def test_a_comparison(scratch: ScratchState, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"data.train": str(tmp_path / "rows.jsonl"), "machine.max_run_seconds": "450", "compare.repeats": "4"}
    lines = shown(plan_jobs("compare", fields, scratch), capsys)
    assert lines[0] == "Plan of compare demo, on this machine: at most 8 jobs of 2 arms."
    # 64 rows make two steps of 32. A job is killed 150 s after its limit at the latest.
    assert lines[4].split()[:6] == ["none", "32", "3e-4", "2", "64", "320"]
    text = "\n".join(lines)
    assert "repeat 2, seed 43: inductor, none" in text
    assert "At most   80.0 min of billed time (8 jobs)" in text
    assert "60.0 min of billed time up to the first look, after 3 repeats" in text
    assert "It would start. `trainfare compare` with the same options runs it." in lines
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "mlflow.db").exists()


def test_a_sweep(scratch: ScratchState, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"data.train": str(tmp_path / "rows.jsonl"), "sweep.worse_by": "0.1", "sweep.batch_sizes": "8..32"}
    lines = shown(plan_jobs("sweep", fields, scratch), capsys)
    text = "\n".join(lines)
    # Three trials and three second trainings for each compiler, and nine repeats of five settings.
    assert lines[0] == "Plan of sweep demo, on this machine: at most 57 jobs."
    assert "Space      batch 8, 16, 32: 3 points for each of none and inductor" in text
    assert "at most 3 trials of each compiler, first batch 32; sampler tpe" in text
    assert not (tmp_path / "home").exists()


def test_refusals_are_numbered(scratch: ScratchState, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_jobs("train", {"epochs": "0", "max_length": "1"}, scratch)
    lines = shown(plan, capsys)
    assert plan.exit_code == 2
    assert "It would not start: 2 errors." in lines
    assert any(line.startswith("1.  max_length must be") for line in lines)
    assert any(line.startswith("2.  epochs must be") for line in lines)


def test_a_sweep_without_a_known_first_job_has_a_plan(
    scratch: ScratchState, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The experiment's own batch size, 32, is not searched, and a front has no baseline."""
    fields = {"data.train": str(tmp_path / "rows.jsonl"), "sweep.batch_sizes": "8..16"}
    plan = plan_jobs("sweep", {**fields, "sweep.objective": "billable_seconds,eval_accuracy"}, scratch)
    assert (plan.refusals, plan.jobs) == ((), ())
    assert "Plan of sweep demo, on this machine: at most 4 jobs." in shown(plan, capsys)
