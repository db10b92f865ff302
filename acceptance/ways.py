"""The steps themselves: run trainfare's commands and return the observed values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acceptance.costs import Prices, job_cost, step_costs, usd_text
from acceptance.observations import Values, events_so_far, job_values, run_values, with_prefix
from acceptance.session import Session, words_of
from acceptance.steps import ENDPOINT_SECONDS, INSTANCE_TYPE, STEPS, WAIT_SECONDS
from acceptance.workloads import experiment_name, job_prefix
from tracking.groups.group import find_group
from tracking.groups.plan_file import read_plan
from tracking.server.store import open_store
from training.contract.errors import EndpointNotFound, ServiceError
from training.contract.request import build
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService

TEXT = "row 4 is even"
POLL_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Account:
    """Everything that a step uses."""

    session: Session
    clients: Clients
    prices: Prices
    experiments: Mapping[str, Path]
    poll_seconds: float = POLL_SECONDS

    @property
    def service(self) -> SageMakerService:
        return SageMakerService(self.clients)

    @property
    def endpoint_name(self) -> str:
        """Name of the endpoint."""
        return f"{job_prefix(self.session.options)}endpoint"

    def train_words(self, step: str, **fields: object) -> list[str]:
        """Return the words of `trainfare train` for one job of a step, within the step's budget."""
        budget = {"max_usd": usd_text(job_cost(STEPS[step], self.prices))} if STEPS[step].jobs else {}
        return ["train", *words_of({"experiment": self.experiments[step], **budget, **fields})]

    def job_names(self, step: str) -> list[str]:
        """Return the names of a step's jobs at SageMaker, oldest first."""
        start = experiment_name(self.session.options, step)
        names = [each["TrainingJobName"] for each in self.service.jobs()]
        return [name for name in reversed(names) if name.startswith(f"{start}-")]

    def job_name(self, step: str) -> str:
        """Return the name of a step's newest job. Raises ServiceError if it has none."""
        names = self.job_names(step)
        if not names:
            raise ServiceError(f"The step {step} has started no job; its last command's output says why.")
        return names[-1]


def one_job(account: Account, step: str) -> Values:
    """Train one job."""
    command = account.session.run(*account.train_words(step))
    return {
        "train.exit_code": command.code,
        **with_prefix("job", job_values(account.clients, account.job_name(step))),
        **with_prefix("run", run_values(account.session.tracking_uri, experiment_name(account.session.options, step))),
    }


def stopped_and_resumed(account: Account, step: str) -> Values:
    """Stop a job once it has written a checkpoint, and continue it in a second job with the same checkpoints.

    SageMaker cannot be made to interrupt a spot job. A stop sends the same signal, and the second job starts from the
    same folder as the instance that SageMaker would start after an interruption.
    """
    with account.session.start(*account.train_words(step)) as started:
        name = _wait_for_metric(account, step, started.process.poll)
        stop = account.session.run("jobs", "--service", "sagemaker", "stop", name)
        first = started.result()
    values = {"train.exit_code": first.code, "stop.exit_code": stop.code}
    values |= with_prefix("stopped", job_values(account.clients, name))
    resumed = _resume(account, step, name)
    prices = account.session.options.aws_fields.get("prices")
    attach = account.session.run("attach", *words_of({"job": resumed, **({"prices": prices} if prices else {})}))
    values |= {"attach.exit_code": attach.code}
    values |= with_prefix("resumed", job_values(account.clients, resumed))
    return values | {"is_from_checkpoint": values["resumed.resumed_from_step"] == values["stopped.checkpoint_step"]}


def two_jobs(account: Account, step: str) -> Values:
    """Train two jobs, one directly after the other."""
    values: Values = {}
    for position, seed in (("first", 1), ("second", 2)):
        command = account.session.run(*account.train_words(step, seed=seed))
        values |= {f"{position}.exit_code": command.code}
    first, second = account.job_names(step)[-2:]
    values |= with_prefix("first", job_values(account.clients, first))
    values |= with_prefix("second", job_values(account.clients, second))
    return values | {"is_next_job": values["first.warm_pool_next_job"] == second}


def endpoint(account: Account, step: str) -> Values:
    """Deploy the model of the step `own-task`, ask it, and delete it."""
    name, aws = account.endpoint_name, account.session.options.aws_fields
    run = account.session.run
    [cost] = step_costs({step: STEPS[step]}, account.prices)
    fields = {"run": account.job_name("own-task"), "service": "sagemaker", "machine": INSTANCE_TYPE, "name": name}
    fields |= {"lifetime": f"{ENDPOINT_SECONDS}s", "when_over": "delete", "wait": f"{WAIT_SECONDS}s"}
    fields |= {"max_usd": usd_text(cost.amount)}
    deployed = run("deploy", *words_of({**fields, **{f"aws.{key}": value for key, value in aws.items()}}))
    answer = run("predict", *words_of({"endpoint": name, "service": "sagemaker", "text": TEXT, "trace": "false"}))
    removed = run("undeploy", *words_of({"endpoint": name, "service": "sagemaker"}))
    return {
        "deploy.exit_code": deployed.code,
        "predict.exit_code": answer.code,
        "predict.labels": _labels(answer.output),
        "undeploy.exit_code": removed.code,
        "is_deleted": not has_endpoint(account),
    }


def managed_mlflow(account: Account, step: str) -> Values:
    """Train on this machine, tracked by the managed MLflow server."""
    arn = str(account.session.options.mlflow)
    command = account.session.run(*account.train_words(step), variables={"MLFLOW_TRACKING_URI": arn})
    experiment = experiment_name(account.session.options, step)
    return {"train.exit_code": command.code, **with_prefix("run", run_values(arn, experiment))}


def has_endpoint(account: Account) -> bool:
    """Return whether the acceptance's endpoint exists."""
    from models.endpoints.sagemaker.endpoints import open_endpoints

    try:
        open_endpoints(account.session.options.aws_fields, print).describe(account.endpoint_name)
    except EndpointNotFound:
        return False
    return True


WAYS: Mapping[str, Callable[[Account, str], Values]] = {
    "own-task": one_job,
    "script": one_job,
    "spot-stop": stopped_and_resumed,
    "two-machines": one_job,
    "warm-pool": two_jobs,
    "endpoint": endpoint,
    "managed-mlflow": managed_mlflow,
}


def _wait_for_metric(account: Account, step: str, code: Callable[[], int | None]) -> str:
    """Return the name of a step's job once its log has a metric. Raises ServiceError if the job ends before."""
    while code() is None:
        names = account.job_names(step)
        if names and any(event.kind == "metric" for event in events_so_far(account.service, names[-1])):
            return names[-1]
        time.sleep(account.poll_seconds)
    raise ServiceError(f"The job of the step {step} ended before its log had a metric: it cannot be stopped.")


def _resume(account: Account, step: str, name: str) -> str:
    """Start the stopped job again under a new name, with the same checkpoints, and return that name."""
    store = open_store(account.session.tracking_uri)
    group = find_group(store, group_id=None, experiment_name=experiment_name(account.session.options, step))
    plan, _ = read_plan(store, group, account.session.options.folder / "state")
    [planned] = [job for job in plan.jobs if job.spec.name == name]
    resumed = f"{name}-resumed"
    account.service.create(build(planned.spec.model_copy(update={"name": resumed})))
    return resumed


def _labels(output: str) -> list[str]:
    """Return the labels of an endpoint's answer, which is the last line of the command's output."""
    try:
        answer: Any = json.loads(output.strip().splitlines()[-1])
        return [str(each["label"]) for each in answer]
    except (ValueError, IndexError, KeyError, TypeError):
        return []
