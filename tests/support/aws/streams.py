"""Log streams of a job."""

from __future__ import annotations

from tests.support.aws.account import Account


def streams(account: Account, job_name: str) -> dict[str, list[str]]:
    """Return the log lines of each instance by its name."""
    logs, lines = account.clients["logs"], {}
    group = {"logGroupName": "/aws/sagemaker/TrainingJobs"}
    for each in logs.describe_log_streams(**group, logStreamNamePrefix=f"{job_name}/")["logStreams"]:
        events = logs.get_log_events(**group, logStreamName=each["logStreamName"], startFromHead=True)["events"]
        instance = each["logStreamName"].partition("/")[2].rpartition("-")[0]
        lines[instance] = [event["message"] for event in events]
    return lines
