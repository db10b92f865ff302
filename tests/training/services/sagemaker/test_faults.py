"""Jobs on SageMaker when responses are late, wrong or missing, or when it has no capacity."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.support.aws.account import Account
from tests.support.aws.api import EXPIRED
from tests.support.services.following import RUNS_UNTIL_STOPPED, ended, of_job, running
from tests.support.services.harness import SageMakerHarness
from training.contract.errors import AccessError
from training.services.launcher import Job, submit


@pytest.fixture
def harness(account: Account, tmp_path: Path) -> SageMakerHarness:
    return SageMakerHarness(tmp_path, account)


def test_a_lost_response_does_not_start_a_second_job(harness: SageMakerHarness, account: Account) -> None:
    """The job was created, but the response was lost: the next submission attaches to it."""
    request = harness.request("print('once')")
    harness.service.create(request)
    description, lines = ended(submit(harness.service, request))
    assert (description["TrainingJobStatus"], lines) == ("Completed", ["once"])
    assert account.jobs.names() == ["job"]
    # With a start time of 0, CloudWatch searches the logs of all jobs of the account. An hour covers wrong clocks.
    created_ms = 1000 * description["CreationTime"].timestamp()
    assert account.logs.starts_ms
    assert all(created_ms - 2 * 3_600_000 < start for start in account.logs.starts_ms)


def test_a_job_whose_launcher_lost_its_credentials_is_listed_and_stopped_by_its_group(
    harness: SageMakerHarness, account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = submit(harness.service, harness.request(RUNS_UNTIL_STOPPED, name="study-1-a0r0"))
    running(job)
    account.api.faults.add("DescribeTrainingJob", EXPIRED)
    with pytest.raises(AccessError, match="AWS credentials have expired: renew them"):
        job.describe()
    assert job.describe()["TrainingJobStatus"] == "InProgress"
    table = tmp_path / "prices.json"
    table.write_text('{"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 3600}}')
    assert main(["jobs", "--service", "sagemaker", "list", "--prices", str(table)]) == 0
    output = capsys.readouterr().out
    match = re.search(r"study-1-a0r0 +Training .* ([0-9]+) so far +([0-9.]+) so far", output)
    assert match
    # The price is a dollar per second.
    assert float(match[2]) == pytest.approx(float(match[1]), abs=1)
    assert "1 running" in output
    assert "so far (prices.json, 2026-11-01)" in output
    assert main(["jobs", "--service", "sagemaker", "stop", "--group", "study-1"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "Stopping 1 job. Each job has 120 s to end."
    assert re.fullmatch(r"study-1-a0r0: stopped after [0-9]+ s", last)
    ended(job)
    assert main(["jobs", "--service", "sagemaker", "stop", "--group", "study-1"]) == 0
    assert capsys.readouterr().out == "study-1: 1 job had already ended (1 stopped).\n"
    assert main(["jobs", "--service", "sagemaker", "stop", "--group", "study-2"]) == 2
    assert "this group has no jobs here" in capsys.readouterr().err


def test_a_line_that_is_stored_after_the_end_is_read(harness: SageMakerHarness, account: Account) -> None:
    """The line is older than the part of the log that each page rereads, so the whole log is reread at the end."""
    job = submit(harness.service, harness.request("print('first'); print('last')"))
    description, lines = ended(job)
    assert lines == ["first", "last"]
    logs, group = account.clients["logs"], "/aws/sagemaker/TrainingJobs"
    stream = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
    at_ms = int(1000 * (description["CreationTime"].timestamp() - 1800))

    def late(seconds: float) -> None:
        nonlocal is_stored
        if not is_stored:
            is_stored = True
            event = {"timestamp": at_ms, "message": "half an hour ago"}
            logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[event])

    is_stored = False
    updates = list(Job(harness.service, "job").follow(sleep=late))
    assert of_job(updates[0].lines) == ["first", "last"]
    assert (updates[-1].is_whole, of_job(updates[-1].lines)) == (True, ["half an hour ago", "first", "last"])
