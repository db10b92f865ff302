"""End what an acceptance has started, and list what is left."""

from __future__ import annotations

from acceptance.session import words_of
from acceptance.ways import Account, has_endpoint
from acceptance.workloads import job_prefix
from training.contract.errors import TrainfareError


def clean_up(account: Account) -> list[str]:
    """Stop the jobs that still run and delete the endpoint. Return a sentence about everything that is left.

    Nothing else of the account is touched: jobs and endpoint are known by the id of the acceptance in their names.
    """
    left: list[str] = []
    prefix = job_prefix(account.session.options)
    try:
        for name in _running(account, prefix):
            account.session.run("jobs", "--service", "sagemaker", "stop", name)
        left += [f"Job {name} still runs: stop it in the console." for name in _running(account, prefix)]
    except TrainfareError as error:
        left.append(f"Jobs named {prefix}* may still run: {error}")
    try:
        if has_endpoint(account):
            account.session.run("undeploy", *words_of({"endpoint": account.endpoint_name, "service": "sagemaker"}))
            if has_endpoint(account):
                left.append(f"Endpoint {account.endpoint_name} still exists and is billed: delete it in the console.")
    except TrainfareError as error:
        left.append(f"Endpoint {account.endpoint_name} may still exist and be billed: {error}")
    return left


def lasting(account: Account) -> list[str]:
    """Return sentences about everything that every acceptance leaves."""
    prefix = job_prefix(account.session.options)
    sentences = [
        f"Objects of a few MB in S3 whose keys contain {prefix}, and data and source under trainfare/.",
        "Log streams in /aws/sagemaker/TrainingJobs and /aws/sagemaker/Endpoints.",
    ]
    try:
        pools = [name for name in account.job_names("warm-pool") if _is_warm(account, name)]
    except TrainfareError:
        return sentences
    return [*(f"The warm pool of job {name}, which ends by itself." for name in pools), *sentences]


def _is_warm(account: Account, name: str) -> bool:
    return bool(account.service.describe(name).get("WarmPoolStatus", {}).get("Status") in {"Available", "InUse"})


def _running(account: Account, prefix: str) -> list[str]:
    names = [each["TrainingJobName"] for each in account.service.jobs(running_only=True)]
    return [name for name in names if name.startswith(prefix)]
