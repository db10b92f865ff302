"""Test the list of jobs with jobs that really run in a simulated account."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.running import manage_jobs
from experiments.running.manage_jobs import print_jobs, print_log
from tests.support.aws.account import Account
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, running
from tests.support.services.harness import LocalHarness, SageMakerHarness
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
