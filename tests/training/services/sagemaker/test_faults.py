"""SageMaker when it answers late, wrongly or not at all, and when it has no machine to give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.__main__ import main
from tests.support.aws.account import BUCKET, Account
from tests.support.aws.api import BROKEN, EXPIRED, THROTTLED, Dropped
from tests.support.services.following import RUNS_ON, SAYS_EVENTS, ended, heard, running
from tests.support.services.places import SageMakerPlace
from training.contract.errors import AccessError, InputError, QuotaError
from training.services.launcher import Job, failure_of, submit


@pytest.fixture
def place(account: Account, tmp_path: Path) -> SageMakerPlace:
    return SageMakerPlace(tmp_path, account)


@pytest.mark.slow
@pytest.mark.parametrize(
    "errors", [[THROTTLED] * 3, [BROKEN] * 2, [Dropped()] * 2], ids=["throttled", "500", "dropped"]
)
def test_what_passes_is_waited_for(place: SageMakerPlace, account: Account, errors: list[Exception]) -> None:
    for operation in ("CreateTrainingJob", "DescribeTrainingJob"):
        account.api.faults.add(operation, *errors)
    job = submit(place.service, place.request(SAYS_EVENTS))
    assert heard(job) == list(range(20))
    assert account.jobs.names() == ["job"]


def test_an_answer_that_is_lost_starts_nothing_twice(place: SageMakerPlace, account: Account) -> None:
    """The job was created, but whoever asked never heard of it: asked again, it is attached to."""
    request = place.request("print('once')")
    place.service.create(request)
    description, lines = ended(submit(place.service, request))
    assert (description["TrainingJobStatus"], lines) == ("Completed", ["once"])
    assert account.jobs.names() == ["job"]


def test_credentials_that_expire_leave_the_job_running(place: SageMakerPlace, account: Account) -> None:
    job = submit(place.service, place.request(RUNS_ON))
    running(job)
    account.api.faults.add("DescribeTrainingJob", EXPIRED)
    with pytest.raises(AccessError, match="AWS credentials have expired: renew them"):
        job.describe()
    assert job.describe()["TrainingJobStatus"] == "InProgress"
    assert [each["TrainingJobName"] for each in place.service.jobs(running_only=True)] == ["job"]
    job.stop()
    assert ended(job)[0]["TrainingJobStatus"] == "Stopped"


def test_jobs_are_listed_and_stopped_by_group(
    place: SageMakerPlace, account: Account, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    job = submit(place.service, place.request(RUNS_ON, name="study-1-a0r0"))
    running(job)
    table = tmp_path / "prices.json"
    table.write_text('{"date": "2026-11-01", "usd_per_hour": {"ml.g4dn.xlarge": 3600}}')
    assert main(["jobs", "--service", "sagemaker", "list", "--prices", str(table)]) == 0
    said = capsys.readouterr().out
    found = re.search(r"study-1-a0r0 +Training .* ([0-9]+) so far +([0-9.]+) so far", said)
    assert found
    # At a dollar a second.
    assert float(found[2]) == pytest.approx(float(found[1]), abs=1)
    assert "1 running" in said
    assert "so far (prices.json, 2026-11-01)" in said
    assert main(["jobs", "--service", "sagemaker", "stop", "--group", "study-1"]) == 0
    assert re.fullmatch(r"study-1-a0r0: Stopp(ing|ed)\n", capsys.readouterr().out)
    ended(job)
    assert main(["jobs", "--service", "sagemaker", "stop", "--group", "study-1"]) == 2
    assert "no job of this group runs" in capsys.readouterr().err


def test_no_quota(place: SageMakerPlace, account: Account) -> None:
    account.jobs.quotas["ml.g4dn.xlarge"] = 0
    with pytest.raises(
        QuotaError, match=r"quota 'ml\.g4dn\.xlarge for training job usage' is 0: ask for more"
    ) as refused:
        place.service.create(place.request("pass"))
    assert refused.value.is_final
    assert account.jobs.names() == []


def test_a_quota_that_is_used_up(place: SageMakerPlace, account: Account) -> None:
    account.jobs.quotas["ml.g4dn.xlarge"] = 1
    job = submit(place.service, place.request(RUNS_ON))
    with pytest.raises(QuotaError, match="is 1: all of it is in use"):
        place.service.create(place.request("pass", name="second"))
    job.stop()
    ended(job)
    assert ended(submit(place.service, place.request("pass", name="second")))[0]["TrainingJobStatus"] == "Completed"


def test_no_machine_is_to_be_had(place: SageMakerPlace, account: Account) -> None:
    account.jobs.troubles.no_capacity.add("ml.g4dn.xlarge")
    description, lines = ended(submit(place.service, place.request("print(1)")))
    assert failure_of(description, [], lines)[0] == "Capacity"
    assert "BillableTimeInSeconds" not in description


def test_the_next_machine_is_taken(place: SageMakerPlace, account: Account) -> None:
    account.jobs.troubles.no_capacity.add("ml.g4dn.xlarge")
    request = place.request("print(1)", fallback_instance_types=("ml.g5.xlarge", "ml.p3.2xlarge"))
    description, lines = ended(submit(place.service, request))
    assert (description["TrainingJobStatus"], lines) == ("Completed", ["1"])
    assert description["ResourceConfig"]["SelectedInstanceType"] == "ml.g5.xlarge"


def test_what_sagemaker_refuses(place: SageMakerPlace, account: Account) -> None:
    with pytest.raises(InputError, match=r"Job job: SageMaker refuses the request: .*ml\.none\.xlarge"):
        place.service.create(place.request("pass", instance_type="ml.none.xlarge"))
    assert account.jobs.names() == []


def test_a_line_that_comes_after_the_end(place: SageMakerPlace, account: Account) -> None:
    """Stored after later ones, and older than what is asked for again: the whole log is read once more at the end."""
    job = submit(place.service, place.request("print('first'); print('last')"))
    description, lines = ended(job)
    assert lines == ["first", "last"]
    logs, group = account.clients["logs"], "/aws/sagemaker/TrainingJobs"
    stream = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
    at_ms = int(1000 * (description["CreationTime"].timestamp() - 3600))

    def late(seconds: float) -> None:
        nonlocal told
        if not told:
            told = True
            event = {"timestamp": at_ms, "message": "an hour ago"}
            logs.put_log_events(logGroupName=group, logStreamName=stream, logEvents=[event])

    told = False
    updates = list(Job(place.service, "job").follow(sleep=late))
    assert updates[0].lines == ["first", "last"]
    assert (updates[-1].is_whole, updates[-1].lines) == (True, ["an hour ago", "first", "last"])


def test_a_bucket_that_is_gone_is_told(place: SageMakerPlace, account: Account) -> None:
    request = place.request("print(1)")
    for entry in account.clients["s3"].list_objects_v2(Bucket=BUCKET)["Contents"]:
        account.clients["s3"].delete_object(Bucket=BUCKET, Key=entry["Key"])
    description, lines = ended(submit(place.service, request))
    assert failure_of(description, [], lines)[0] == "BadData"
