"""Values that an ended job, its run and its endpoint show: plain data, which the expectations and the report use."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from urllib.parse import urlparse

from tracking.queries.job_tables import runs_where
from tracking.server.store import open_store
from training.contract.events import Event, parse_line
from training.contract.service import Description
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.service import SageMakerService

Values = dict[str, Any]
"""Value of each observed property, by its name."""
LOG_PAGES = 100
"""Most pages of a log that are read."""
FIRST_LINES = 200
"""Most lines before the program's own first that are kept. The toolkit prints its environment there."""
CHECKPOINT = re.compile(r"checkpoint-(\d+)/")


def with_prefix(prefix: str, values: Mapping[str, Any]) -> Values:
    """Return values under the names `PREFIX.NAME`."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def job_values(clients: Clients, name: str) -> Values:
    """Return the observed values of an ended job: its description, log, model and checkpoints."""
    service = SageMakerService(clients)
    description = service.describe(name)
    lines, checkpoints = log_lines(service, name), _checkpoint_files(clients, description)
    return {
        "name": name,
        **description_values(description),
        **log_values(lines),
        "model_files": _model_files(service, description),
        "checkpoint_files": checkpoints,
        "checkpoint_step": newest_checkpoint(checkpoints),
    }


def description_values(description: Description) -> Values:
    """Return the observed values of a description. Pure.

    `billed_difference_seconds` is BillableTimeInSeconds minus the time between TrainingStartTime and TrainingEndTime.
    On demand both are the same but for rounding (botocore's documentation of DescribeTrainingJob).
    """
    transitions = description.get("SecondaryStatusTransitions", [])
    values: Values = {
        "fields": sorted(description),
        "status": description["TrainingJobStatus"],
        "secondary_statuses": ", ".join(each["Status"] for each in transitions),
        "failure_reason": description.get("FailureReason", ""),
        "service_metrics": sorted(each["MetricName"] for each in description.get("FinalMetricDataList", [])),
        "warm_pool": description.get("WarmPoolStatus", {}).get("Status", ""),
        "instances": description["ResourceConfig"]["InstanceCount"],
        "warm_pool_next_job": description.get("WarmPoolStatus", {}).get("ReusedByJob", ""),
    }
    billed = description.get("BillableTimeInSeconds")
    if billed is None or "TrainingEndTime" not in description:
        return values
    trained = int(description.get("TrainingTimeInSeconds") or billed)
    seconds = (description["TrainingEndTime"] - description["TrainingStartTime"]).total_seconds()
    return values | {
        "billable_seconds": billed,
        "training_seconds": trained,
        "billed_difference_seconds": abs(billed - seconds),
        "billed_share": billed / max(1, trained),
        "transitions_in_order": _are_in_order(transitions),
    }


def log_values(lines: Sequence[str]) -> Values:
    """Return the observed values of a log: events of our job, and the lines before the program's own first. Pure."""
    events = [event for event in map(parse_line, lines) if event]
    first = next((at for at, line in enumerate(lines) if parse_line(line) or "samples=" in line), len(lines))
    starts = [each for each in events if each.kind == "start"]
    steps: list[int] = [each.fields["step"] for each in events if each.kind == "metric"]
    resumed = [int(each.fields.get("resumed_from_step") or 0) for each in starts]
    return {
        "first_lines": list(lines[: min(first, FIRST_LINES)]),
        "event_kinds": sorted({each.kind for each in events}),
        "resumed_from_step": max(resumed, default=0),
        "last_step": max(steps, default=0),
        "machines": _machines(lines),
        "metric_lines": sum("loss=" in line for line in lines) + len(steps),
    }


def newest_checkpoint(files: Sequence[str]) -> int:
    """Return the step of the newest checkpoint among files such as `checkpoint-5/model.safetensors`; 0 without one."""
    return max((int(match[1]) for file in files if (match := CHECKPOINT.match(file))), default=0)


def log_lines(service: SageMakerService, name: str) -> list[str]:
    """Return the lines of a job's log."""
    lines: list[str] = []
    cursor = None
    for _ in range(LOG_PAGES):
        page = service.logs(name, cursor)
        if not page.lines:
            break
        lines += page.lines
        cursor = page.cursor
    return lines


def events_so_far(service: SageMakerService, name: str) -> list[Event]:
    """Return the events of a running job."""
    return [event for event in map(parse_line, log_lines(service, name)) if event]


def run_values(tracking_uri: str, experiment: str) -> Values:
    """Return the status and the names of the metrics of the newest run of a job in MLflow."""
    with _tracking_server(tracking_uri):
        store = open_store(tracking_uri)
        recorded = store.call(store.client.get_experiment_by_name, experiment)
        runs = runs_where(store.client, "tags.`platform.kind` = 'job'", [recorded.experiment_id]) if recorded else []
    if not runs:
        return {"status": "missing", "metrics": []}
    return {"status": runs[-1].info.status, "metrics": sorted(runs[-1].data.metrics)}


@contextmanager
def _tracking_server(uri: str) -> Iterator[None]:
    """Make a tracking server that of this process: sagemaker-mlflow signs each call for the process's own server
    (sagemaker-mlflow 0.5.0, `auth_provider.py`)."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = uri
    try:
        yield
    finally:
        del os.environ["MLFLOW_TRACKING_URI"]
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


def _are_in_order(transitions: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether each status ends when the next one starts, or before."""
    return all(
        first.get("EndTime") is not None and first["StartTime"] <= first["EndTime"] <= second["StartTime"]
        for first, second in pairwise(transitions)
    )


def _machines(lines: Sequence[str]) -> list[str]:
    """Return the names of the machines that the lines name; those of the first machine name none."""
    return sorted({line[1:].partition("]")[0] for line in lines if line.startswith("[algo-")})


def _model_files(service: SageMakerService, description: Description) -> list[str]:
    uri = description.get("ModelArtifacts", {}).get("S3ModelArtifacts")
    if not uri:
        return []
    with service.open_model(uri) as stream, tarfile.open(fileobj=stream, mode="r|gz") as archive:
        return sorted(member.name.removeprefix("./") for member in archive if member.isfile())


def _checkpoint_files(clients: Clients, description: Description) -> list[str]:
    """Return the keys of the checkpoints in S3, relative to the job's checkpoint folder."""
    uri = description.get("CheckpointConfig", {}).get("S3Uri")
    if not uri:
        return []
    location = urlparse(uri)
    prefix = f"{location.path.strip('/')}/"
    pages = clients.get("s3").get_paginator("list_objects_v2").paginate(Bucket=location.netloc, Prefix=prefix)
    return sorted(each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", []))
