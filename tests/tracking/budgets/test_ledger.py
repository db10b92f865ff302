"""The budget of a group in a real MLflow store, with real local jobs and real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.entities import Metric

from experiments.running.scheduler import run_jobs
from tests.conftest import ROOT
from tests.support.services.following import ended
from tests.support.tracking.planned_jobs import planned
from tracking.budgets.ledger import (
    BudgetEnd,
    GroupBudget,
    Ledger,
    NoRoom,
    Reservation,
    group_budget,
    read_records,
    set_budget,
    spending_metrics,
)
from tracking.groups.group import Group, open_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import open_run
from tracking.server.store import Store, open_store
from training.contract.errors import BudgetFull
from training.contract.price import InstanceSeconds
from training.contract.request import build
from training.services.budget import Amount, Budget, Spending, worst_case
from training.services.launcher import submit
from training.services.local.service import LocalService


@pytest.fixture
def store(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    return open_store(tracking_uri)


@pytest.fixture
def group(store: Store) -> Group:
    return open_group(store, experiment_name="demo", verb="compare", key="k1")


@pytest.fixture
def ledger(store: Store, group: Group, tmp_path: Path) -> Ledger:
    """Return a ledger with 400 s: one job of 100 s with 150 s for its stop, and 150 s more."""
    set_budget(store, group, GroupBudget(budget=Budget(max_billable_seconds=400), least_seconds=50))
    return Ledger(store, LocalService(tmp_path / "home"), group)


def job(tmp_path: Path, name: str, limit: int = 100) -> PlannedJob:
    one = planned(tmp_path, name, steps=2, pause=1)
    return replace(one, spec=one.spec.model_copy(update={"max_run_seconds": limit}))


def test_a_second_job_waits_until_the_first_has_ended(ledger: Ledger, tmp_path: Path) -> None:
    first, second = job(tmp_path, "first"), job(tmp_path, "second")
    run = ledger.open_run(first)
    assert ledger.limit_seconds(first, run) == 100
    with pytest.raises(BudgetFull, match=r"Budget of 400 s: 0\.0 s spent, 400 s left; a job waits") as full:
        ledger.open_run(second)
    assert (full.value.is_final, full.value.holding) == (False, {"first"})
    assert ledger.spending().committed.seconds == 250
    cost = Metric("cost/billable_instance_seconds", 330.0, 0, 0)
    ledger.store.call(ledger.store.client.log_batch, run.id, metrics=[cost])
    assert ledger.spending().committed.seconds == 250  # more may be billed until the run has ended
    ledger.store.call(ledger.store.client.set_terminated, run.id, "FAILED")
    with pytest.raises(BudgetFull, match="no further job fits for certain") as full:
        ledger.open_run(second)
    assert full.value.is_final


def test_a_reservation_is_found_again_and_may_have_lowered_the_limit(ledger: Ledger, tmp_path: Path) -> None:
    long = job(tmp_path, "long", 1000)
    run = open_run(ledger.store, ledger.group, long)
    assert ledger.limit_seconds(long, run) == 250
    assert ledger.limit_seconds(long, run) == 250
    tags = ledger.store.call(ledger.store.client.get_run, run.id).data.tags
    assert tags["platform.max_run_seconds"] == "250"


def test_a_deleted_run_still_counts(ledger: Ledger, tmp_path: Path) -> None:
    first = job(tmp_path, "first")
    run = open_run(ledger.store, ledger.group, first)
    ledger.limit_seconds(first, run)
    ledger.store.call(ledger.store.client.delete_run, run.id)
    assert isinstance(ledger.room(job(tmp_path, "second")), NoRoom)


def test_a_job_that_started_without_a_budget_counts_until_it_is_known_not_to_exist(
    store: Store, group: Group, tmp_path: Path
) -> None:
    first = job(tmp_path, "first", 9000)
    ledger = Ledger(store, LocalService(tmp_path / "home"), group)
    run = ledger.open_run(first)
    set_budget(store, group, GroupBudget(budget=Budget(max_billable_seconds=400), least_seconds=50))
    assert isinstance(ledger.room(job(tmp_path, "second")), NoRoom)
    answer = ledger.reserve(first, run.id)
    assert isinstance(answer, Reservation)
    assert answer.limit_seconds == 250


def test_a_budget_stays_until_another_one_is_set(store: Store, group: Group, ledger: Ledger) -> None:
    set_budget(store, group, GroupBudget(budget=Budget()))
    assert group_budget(store, group).budget == Budget(max_billable_seconds=400)
    set_budget(store, group, GroupBudget(budget=Budget(max_usd=3)))
    assert group_budget(store, group) == GroupBudget(budget=Budget(max_usd=3))
    ledger.end(2)
    ended = ledger.ended
    assert ended == BudgetEnd(budget=Budget(max_usd=3), spent=ledger.spending().spent, not_started=2)
    set_budget(store, group, GroupBudget(budget=Budget(max_usd=4)))
    assert ledger.ended is None


def test_live_metrics_leave_out_what_is_not_known() -> None:
    spent = Amount(seconds=InstanceSeconds(30.0), usd=None)
    state = Spending(budget=Budget(max_billable_seconds=100), spent=spent, committed=spent + spent)
    assert spending_metrics(state) == {
        "cost/billable_instance_seconds": 30,
        "budget/left_seconds": 70,
        "budget/free_seconds": 40,
    }


def test_jobs_run_one_by_one_if_the_budget_has_room_for_one(ledger: Ledger, tmp_path: Path) -> None:
    """250 s of 400 s are reserved for a job. Two cost a few seconds, so both run, but never at once."""
    budget = Budget(max_billable_seconds=400)
    set_budget(ledger.store, ledger.group, GroupBudget(budget=budget, least_seconds=100))
    lines: list[str] = []
    jobs = [job(tmp_path, name) for name in ("first", "second")]
    outcomes = run_jobs(ledger.store, ledger.service, ledger.group, jobs, parallel=2, echo=lines.append)
    assert [outcome.failure for outcome in outcomes] == [None, None]
    first, second = (ledger.service.describe(each.spec.name) for each in jobs)
    assert first["TrainingEndTime"] <= second["TrainingStartTime"]
    assert any("a job waits until others have ended" in line for line in lines)
    metrics = ledger.store.call(ledger.store.client.get_run, ledger.group.run_id).data.metrics
    billed = first["BillableSecondsExact"] + second["BillableSecondsExact"]
    assert metrics["cost/billable_instance_seconds"] == pytest.approx(billed)
    assert metrics["budget/left_seconds"] == pytest.approx(400 - billed)


@pytest.mark.slow
def test_a_job_that_ignores_its_stop_stays_within_its_worst_case(tmp_path: Path) -> None:
    """10 s, 3 s of grace and 30 s for the upload."""
    one = planned(tmp_path, "stubborn")
    source = Path(one.spec.source_uri.removeprefix("file://"))
    (source / "stubborn.py").write_text(
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "open(os.environ['SM_MODEL_DIR'] + '/weights', 'wb').write(b'x' * 10_000_000)\ntime.sleep(600)\n"
    )
    environment = {"TRAINFARE_CORES": "1", "TRAINFARE_STOP_GRACE_SECONDS": "3"}
    fields = {"program": "stubborn.py", "hyperparameters": {}, "environment": environment, "max_run_seconds": 10}
    spec = one.spec.model_copy(update=fields)
    described, _ = ended(submit(LocalService(tmp_path / "home"), build(spec)))
    assert described["SecondaryStatus"] == "MaxRuntimeExceeded"
    assert 13 <= described["BillableSecondsExact"] <= worst_case(spec, None).seconds == 43


RESERVE = """
import random, sys
from pathlib import Path
from tests.tracking.budgets.test_ledger import job
from tracking.budgets.ledger import Ledger
from tracking.groups.group import find_group
from tracking.recording.recorder import open_run
from tracking.server.store import open_store
from training.services.local.service import LocalService
uri, folder, group_id, seed = sys.argv[1:]
store = open_store(uri)
group = find_group(store, group_id=group_id, experiment_name="")
ledger = Ledger(store, LocalService(Path(folder)), group)
names = [f"job-{at}" for at in range(6)]
random.Random(int(seed)).shuffle(names)
for name in names:
    planned = job(Path(folder), name)
    ledger.reserve(planned, open_run(store, group, planned).id)
"""


@pytest.mark.gate
@pytest.mark.slow
def test_processes_with_two_state_folders_never_reserve_too_much(
    ledger: Ledger, tracking_uri: str, tmp_path: Path
) -> None:
    """Four processes want six jobs of 250 s each; the budget has room for three."""
    set_budget(ledger.store, ledger.group, GroupBudget(budget=Budget(max_billable_seconds=800), least_seconds=100))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RESERVE, tracking_uri, str(tmp_path), ledger.group.id, str(at)],
            cwd=ROOT,
            env={**os.environ, "TRAINFARE_HOME": str(tmp_path / f"home-{at % 2}")},
        )
        for at in range(4)
    ]
    assert [process.wait(timeout=280) for process in processes] == [0] * 4
    granted = [record.granted for record in read_records(ledger.store, ledger.group).values() if record.granted]
    assert 1 <= len(granted) <= 3
    assert ledger.spending().committed.seconds <= 800
    assert json.loads(granted[0].as_text())["is_granted"] is True
