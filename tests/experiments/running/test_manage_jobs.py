"""List, stop and show jobs that really run, here and in a simulated account; their costs are worked out by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import main
from experiments.running import manage_jobs
from experiments.running.manage_jobs import outcome_text, print_jobs, print_log, stop_group, total, usd
from tests.support.answers import checked
from tests.support.aws.account import Account
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running
from tests.support.services.harness import LocalHarness, SageMakerHarness
from training.contract.errors import InputError
from training.contract.price import Price
from training.services.launcher import submit


def test_running_and_ended_jobs_have_their_costs(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness, prices = SageMakerHarness(tmp_path, account), tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 3600.0}}))
    for name in ("old", "new"):
        ended(submit(harness.service, harness.request("import time; time.sleep(1.2)", name=name)))
    running(submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="current")))
    billed = harness.service.describe("new")["BillableTimeInSeconds"]
    assert billed >= 1
    monkeypatch.setattr(manage_jobs, "MAX_DESCRIBED", 1)
    print_jobs("sagemaker", str(prices))
    harness.service.stop("current")
    _, first, second, third, total, note = (line.split() for line in capsys.readouterr().out.splitlines())
    assert (first[0], second[0], third[0]) == ("current", "new", "old")
    assert first.count("far") == 2  # seconds and dollars so far
    # One USD a second: seconds and dollars are equal.
    assert second[4:] == [f"{billed}", f"{billed}.00"]
    assert third[4:] == []
    assert " ".join(total).endswith(f"1 ended, {billed}.00 USD (prices.json, 2026-11-01)")
    assert " ".join(note) == "Times and costs are shown for the newest 1 of 2 ended jobs."


def test_what_jobs_wrote_is_shown_without_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = LocalHarness(tmp_path)
    monkeypatch.setenv("TRAINFARE_HOME", str(harness.root))
    text = "[/b] [b]x :fire: \x1b[31mred \x07 \x9b31m \u202e!"
    script = f"import sys; print('0 %\\r99 %'); print({text!r}, file=sys.stderr); sys.exit(1)"
    ended(submit(harness.service, harness.request(script)))
    shown = "[/b] [b]x :fire: red \\u0007 \\u009b31m \\u202e!"
    print_jobs("local", None)
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith(shown)
    print_log("local", "job")
    assert sorted(capsys.readouterr().out.splitlines()) == ["99 %", shown]
    for verb, count in (("list", 1), ("log", 2), ("stop", 1)):
        assert main(["jobs", verb, *(["job"] if verb != "list" else []), "--format", "json"]) == 0
        answer = checked(f"jobs-{verb}", capsys.readouterr().out)
        assert len(answer["lines" if verb == "log" else "jobs"]) == count


def test_each_job_of_a_group_is_stopped_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harness = LocalHarness(tmp_path)
    ended(submit(harness.service, harness.request("print(1)", name="study-a0r0")))
    running(submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="study-a1r0")))
    assert stop_group(harness.service, "study") == 0
    already, request, outcome = capsys.readouterr().out.splitlines()
    assert already == "study: 1 job had already ended (1 completed)."
    assert request == "Stopping 1 job. Each job has 1 s to end."
    assert outcome.startswith("study-a1r0: stopped after ")
    assert outcome.endswith(" s")
    assert harness.service.describe("study-a1r0")["TrainingJobStatus"] == "Stopped"
    with pytest.raises(InputError, match="this group has no jobs here"):
        stop_group(harness.service, "other")


@pytest.mark.parametrize(
    ("description", "had_ended", "text"),
    [
        ({"TrainingJobStatus": "Stopped"}, False, "stopped before it started"),
        ({"TrainingJobStatus": "Stopped"}, True, "had already been stopped"),
        ({"TrainingJobStatus": "Completed"}, False, "completed before it could be stopped"),
        ({"TrainingJobStatus": "Stopped", "SecondaryStatus": "MaxRuntimeExceeded"}, True, "had already reached its"),
    ],
)
def test_the_outcome_in_words(description: dict[str, Any], had_ended: bool, text: str) -> None:
    whole = {"SecondaryStatus": description["TrainingJobStatus"], **description}
    assert outcome_text(whole, had_ended=had_ended).startswith(text)


NOW = datetime.now(UTC)
PRICES = {"ml.g5.xlarge": Price(usd_per_hour=1.8, source="a table", date="2026-11-01")}


def described_running(seconds: float, **resources: Any) -> dict[str, Any]:
    return {
        "TrainingJobStatus": "InProgress",
        "TrainingStartTime": NOW - timedelta(seconds=seconds),
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, **resources},
    }


def test_a_job_on_two_instances_costs_twice_as_much() -> None:
    # 1,000 s at 0.0005 USD: 0.50 USD for one instance, 1.00 USD for two.
    assert usd(described_running(1000), PRICES, NOW) == pytest.approx(0.50, abs=0.01)
    assert usd(described_running(1000, InstanceCount=2), PRICES, NOW) == pytest.approx(1.00, abs=0.01)
    selected = {"InstanceCount": 4, "SelectedInstanceType": "ml.g5.xlarge", "SelectedInstanceCount": 2}
    assert usd(described_running(1000, **selected), PRICES, NOW) == pytest.approx(1.00, abs=0.01)


def test_instance_groups_cost_their_own_prices_and_training_plans_nothing() -> None:
    groups = [
        {"InstanceGroupName": "train", "InstanceType": "ml.g5.xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "feed", "InstanceType": "ml.c5.xlarge", "InstanceCount": 3},
    ]
    feed = Price(usd_per_hour=0.36, source="a table", date="2026-11-01")
    job = described_ended(1000)
    job["ResourceConfig"] = {"InstanceGroups": groups}
    assert usd(job, {**PRICES, "ml.c5.xlarge": feed}, NOW) == pytest.approx(1.3)  # 2 x 0.50 and 3 x 0.10 USD
    assert usd(job, PRICES, NOW) is None
    assert usd(described_ended(1000, TrainingPlanArn="arn"), PRICES, NOW) == 0


def described_ended(billable: int, status: str = "Completed", **resources: Any) -> dict[str, Any]:
    """Return an ended job, started long ago, so that its billed seconds are not the time since then."""
    return {**described_running(90_000, **resources), "TrainingJobStatus": status, "BillableTimeInSeconds": billable}


def test_an_ended_job_costs_what_was_billed() -> None:
    # On spot capacity fewer seconds are billed than the job ran. A job that never got a machine was not billed.
    assert usd(described_ended(1000, InstanceCount=2), PRICES, NOW) == pytest.approx(1.00)
    assert usd(described_ended(0, status="Stopped"), PRICES, NOW) == 0
    assert usd({"TrainingJobStatus": "Completed"}, PRICES, NOW) is None  # listed, but not described


def test_running_and_ended_jobs_are_summed_apart() -> None:
    jobs = [described_running(1000), described_ended(1000), described_ended(3000, status="Failed")]
    text = "1 running, 0.50 USD so far; 2 ended, 2.00 USD (a table, 2026-11-01)"
    assert total(jobs, PRICES, NOW) == text
    assert total(jobs[1:], PRICES, NOW) == "2 ended, 2.00 USD (a table, 2026-11-01)"
    assert total(jobs, {}, NOW) == ""
    unknown = described_running(1000, InstanceType="ml.unknown")
    assert total([described_running(1000), unknown], PRICES, NOW) == "1 running, 0.50 USD so far (a table, 2026-11-01)"
