"""A plan in a terminal fits into 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.dry_runs.command_plan import CommandPlan, JobEntry, blocks, cost_definitions, print_plan, summary
from experiments.dry_runs.dry_run import ScratchState, plan_jobs, scratch_state, search_plan
from experiments.planning.costs import ExpectedCost
from experiments.planning.load import Arm, load
from experiments.planning.plan import job
from experiments.sweeping.sweep_plan import plan_sweep
from reports.model.report import Definitions
from tests.support.requests.building import staged


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
    assert "4 rounds of one job of each arm, in a changing order, with seeds 42 to 45" in " ".join(text.split())
    assert "Check     inductor, first, in 5 steps: 1 job of at most 450 s" in text
    assert "At most   90.0 min of billed time (9 jobs)" in text
    assert "70.0 min of billed time up to the first look, after 3 repeats" in text
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


SMALL_SWEEP = {"sweep.worse_by": "0.1", "sweep.batch_sizes": "8..32", "batch_size": "8"}


@pytest.mark.parametrize(
    ("verb", "fields", "label"),
    [
        ("compare", {"compare.arms": "{small: {batch_size: 8}, large: {batch_size: 32}}"}, "“large”"),
        ("sweep", SMALL_SWEEP, "batch 32"),
        ("compare", {"compare.arms": "{small: {batch_size: 8}, large: {batch_size: 16}}"}, None),
        ("compare", {"compare.arms": "[{batch_size: 8}, {batch_size: 32}]", "learning_rate_scaling": "sqrt"}, None),
    ],
)
def test_batches_that_grow_with_the_linear_rule_are_noted(
    verb: str, fields: dict[str, str], label: str | None, scratch: ScratchState, tmp_path: Path
) -> None:
    plan = plan_jobs(verb, {"data.train": str(tmp_path / "rows.jsonl"), "machine.cores": "1", **fields}, scratch)
    assert plan.jobs
    notes = [each.text for block in blocks(plan) if isinstance(block, Definitions) for each in block.definitions]
    found = [note.partition(": ")[0] for note in notes if "(learning_rate_scaling: linear)" in note]
    assert found == ([label] if label else [])


@pytest.mark.parametrize(
    ("verb", "fields", "count"),
    [
        ("compare", {"compare.arms": "{a: {}, b: {compiler: inductor, compile_mode: max-autotune}}"}, 1),
        ("compare", {"compare.arms": "{a: {}, b: {compiler: inductor, compile_mode: reduce-overhead}}"}, 0),
        ("sweep", {**SMALL_SWEEP, "sweep.compilers": "[none, inductor compile_mode=max-autotune]"}, 1),
    ],
)
def test_autotuning_is_noted(
    verb: str, fields: dict[str, str], count: int, scratch: ScratchState, tmp_path: Path
) -> None:
    plan = plan_jobs(verb, {"data.train": str(tmp_path / "rows.jsonl"), "machine.cores": "1", **fields}, scratch)
    assert plan.jobs
    assert sum(note.startswith("compile_mode max-autotune tunes kernels") for note in plan.notes) == count


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
    assert (plan.refusals, plan.jobs) == ({}, ())
    assert "Plan of sweep demo, on this machine: at most 4 jobs." in shown(plan, capsys)


@pytest.fixture
def entry(tmp_path: Path) -> JobEntry:
    """A job with a time limit of 100 s, expected to take 60 s."""
    arm = Arm(label="none", experiment=load("demo", {"machine.max_run_seconds": "100"}), is_baseline=True)
    planned = job("demo-a0r0", "demo", arm, 0, staged(tmp_path, "rows", has_model=False), tmp_path)
    return JobEntry(
        planned=planned,
        experiment=arm.experiment,
        size=None,
        expected=ExpectedCost(seconds=60.0, usd=None, source="2 earlier jobs of this setting"),
        request={},
    )


def with_role(entry: JobEntry, role: str, seconds: float | None) -> JobEntry:
    cost = None if seconds is None else ExpectedCost(seconds=seconds, usd=seconds / 60, source="2 probes")
    planned = replace(entry.planned, tags={**entry.planned.tags, "platform.role": role})
    return replace(entry, planned=planned, expected=cost)


def texts(plan: CommandPlan) -> dict[str, str]:
    return {each.term: each.text for each in cost_definitions(plan)}


def test_a_job_that_nearly_reaches_its_limit_is_a_warning(entry: JobEntry) -> None:
    assert "Warning" not in texts(CommandPlan(verb="train", name="demo", jobs=(entry,)))
    assert entry.expected is not None
    slow = replace(entry, expected=replace(entry.expected, seconds=90.0))
    assert texts(CommandPlan(verb="train", name="demo", jobs=(entry, slow, slow)))["Warning"] == (
        "none: the expected time is close to machine.max_run_seconds (100 s) or above it, and a job that reaches it "
        "is stopped"
    )


def test_a_limit_is_that_of_each_instance(entry: JobEntry) -> None:
    """120 instance seconds on two instances are 60 s."""
    assert entry.expected is not None
    planned = replace(entry.planned, spec=entry.planned.spec.model_copy(update={"instance_count": 2}))
    double = replace(entry, planned=planned, expected=replace(entry.expected, seconds=120.0))
    assert "Warning" not in texts(CommandPlan(verb="train", name="demo", jobs=(double,)))


def test_a_sweep_costs_as_much_as_its_first_trainings(entry: JobEntry) -> None:
    """Trainings of 60 s and 120 s: 90 s and 1.50 USD each."""
    search = search_plan(plan_sweep(load("demo", {"sweep.batch_sizes": "8..32", "sweep.worse_by": "0.1"})))
    jobs = (with_role(entry, "calibration", None), with_role(entry, "trial", 60.0), with_role(entry, "trial", 120.0))
    plan = CommandPlan(verb="sweep", name="demo", jobs=jobs, search=search)
    trainings = search["max_jobs"] - 1
    lines = texts(plan)["Expected"].splitlines()
    assert lines[0].endswith(f" for all {trainings} training runs, if none is skipped")
    assert f"{trainings * 1.5:.2f} USD" in lines[0]
    assert lines[1:] == [
        "and each takes as long as the first one with the same compiler setting",
        "1 calibration not included",
        "from 2 probes",
    ]
    assert summary(plan)["expected"]["at_most"]["seconds"] == trainings * 90.0
    unknown = replace(plan, jobs=(*jobs, with_role(entry, "trial", None)))
    assert texts(unknown)["Expected"].startswith("unknown: ")
