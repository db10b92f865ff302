"""Log streams of a job."""

from __future__ import annotations

from tests.support.aws.account import Account


def streams(account: Account, job_name: str) -> dict[str, list[str]]:
    """Return the log of each machine."""
    logs, found = account.clients["logs"], {}
    where = {"logGroupName": "/aws/sagemaker/TrainingJobs"}
    for each in logs.describe_log_streams(**where, logStreamNamePrefix=f"{job_name}/")["logStreams"]:
        events = logs.get_log_events(**where, logStreamName=each["logStreamName"], startFromHead=True)["events"]
        machine = each["logStreamName"].partition("/")[2].rpartition("-")[0]
        found[machine] = [event["message"] for event in events]
    return found
