"""The verb `plan`: nothing changes, and the requests are those that the command then sends."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import CommandLine
from tests.support.aws.account import BUCKET, Account
from tests.support.services.following import until_unsupervised

ON_SAGEMAKER = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": "trainer"}
READS = re.compile(r"(GET|HEAD) .*|Get.*|Head.*|List.*|Describe.*|POST /")
"""Calls that change nothing. STS, IAM and the price list are called by POST."""


def tree(folder: Path) -> dict[str, str]:
    """Return the digest of every file in a folder, and the folders themselves."""
    paths = sorted(folder.rglob("*"))
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in paths
    }


def planned(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1, 2), done.stderr
    return dict(json.loads(done.stdout))


def without_group(request: Mapping[str, Any]) -> Any:
    """Return a request with the id of its group, which contains the time of its start, replaced."""
    return json.loads(re.sub(r"demo-\d{6}-\d{6}-[0-9a-f]{4}", "GROUP", json.dumps(request)))


@pytest.mark.slow
def test_a_plan_changes_nothing_and_shows_the_requests_that_are_sent(
    command_line: CommandLine, reviews: dict[str, object]
) -> None:
    arms = {"compare.arms": "[{batch_size: 8}, {batch_size: 16}]", "compare.baseline": "batch 8", "compare.repeats": 2}
    fields = {**reviews, **arms, "log_model": "none"}
    del fields["bucket_lengths"]  # the lengths are chosen from the data
    before = tree(command_line.folder)
    plan = planned(command_line("plan", {**fields, "format": "json"}))
    assert tree(command_line.folder) == before
    assert (plan["exit_code"], plan["would_start"], plan["refusals"]) == (0, True, [])
    assert [(job["arm"], job["seed"]) for job in plan["jobs"]] == [
        ("batch 8", 42),
        ("batch 16", 42),
        ("batch 16", 43),
        ("batch 8", 43),
    ]
    assert [job["size"]["steps"] for job in plan["jobs"]] == [8, 4, 4, 8]
    assert [job["learning_rate"] for job in plan["jobs"][:2]] == [1e-4 / 4, 1e-4 / 2]
    assert plan["expected"] == {"at_least": None, "at_most": None}
    [inputs] = plan["inputs"]
    assert (inputs["is_staged"], inputs["rows"]) == (False, {"train": 64, "validation": 16})

    done = command_line("compare", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    sent = [json.loads(path.read_text()) for path in (command_line.folder / "home").glob("jobs/*/request.json")]
    assert len(sent) == 4
    by_name = {each["TrainingJobName"]: each for each in map(without_group, sent)}
    assert {job["TrainingJobName"]: job for job in (without_group(each["request"]) for each in plan["jobs"])} == by_name

    until_unsupervised(command_line.folder / "home")
    before = tree(command_line.folder)
    again = planned(command_line("plan", {**fields, "format": "json"}))
    assert tree(command_line.folder) == before
    assert again["inputs"][0]["is_staged"]
    assert {job["expected"]["source"] for job in again["jobs"]} == {"2 earlier jobs of this setting"}
    runs = command_line.runs()
    assert again["jobs"][0]["size"]["samples"] == runs[0].data.metrics["samples"]
    billed = [run.data.metrics["cost/billable_seconds"] for run in runs]
    assert min(billed) <= again["jobs"][0]["expected"]["seconds"] <= max(billed)


@pytest.mark.slow
def test_a_plan_on_sagemaker_only_reads_and_shows_the_request_that_is_sent(
    command_line: CommandLine, reviews: dict[str, object], account: Account, tmp_path: Path
) -> None:
    account.make_role()
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"date": "2026-11-01", "usd_per_hour": {"ml.g5.xlarge": 3600.0}}))
    fields = {**reviews, **ON_SAGEMAKER, "aws.prices": prices, "machine.max_run_seconds": 600}
    before = tree(command_line.folder)
    plan = planned(command_line("plan", {"verb": "train", **fields, "format": "json"}))
    assert tree(command_line.folder) == before
    assert [call for _, call in account.calls if not READS.fullmatch(call)] == []
    assert account.clients["s3"].list_buckets()["Buckets"] == []
    assert (plan["exit_code"], plan["new_bucket"]) == (0, BUCKET)
    assert len(plan["uploads"]) == 4  # the source, both channels, and the configuration of the model
    [job] = plan["jobs"]
    assert job["price"] == {"usd_per_hour": 3600.0, "source": "prices.json", "date": "2026-11-01"}
    # At a dollar a second: the limit, 120 s of grace and 30 s to upload.
    assert job["worst_case"] == {"billable_instance_seconds": 750.0, "usd": 750.0}

    done = command_line("train", fields)
    assert done.returncode == 0, done.stdout + done.stderr
    [name] = account.jobs.names()
    assert without_group(job["request"]) == without_group(account.jobs.request(name))


def test_all_independent_errors_are_listed_with_the_exit_code_of_the_command(
    command_line: CommandLine, reviews: dict[str, object]
) -> None:
    before = tree(command_line.folder)
    wrong = {"data.columns.text": "Text", "precision": "fp16"}
    plan = planned(done := command_line("plan", {**reviews, **wrong, "format": "json"}))
    first, *others = (refusal["message"] for refusal in plan["refusals"])
    assert "precision 'fp16' needs a GPU" in first
    assert ["no column 'Text'" in other for other in others] == [True, True], "one for each file"
    real = command_line("compare", {**reviews, **wrong})
    assert done.returncode == plan["exit_code"] == real.returncode == 2
    assert real.stderr == f"error: {first}\n"
    assert tree(command_line.folder) == before
