"""Planned job of a training job that others started, from SageMaker's description of it. Pure.

Nothing starts such a job: the plan only says how its log is read and how its run is labelled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from tracking.groups.planned_job import IMPORTED, DataSource, PlannedJob, ScriptPlan
from training.contract.errors import InputError
from training.contract.events import EVENT_PREFIX
from training.contract.job_spec import Compiler, JobSpec, MetricDefinition
from training.contract.price import Price
from training.contract.request import check_metric
from training.contract.service import Description, instance_count
from training.scripts.likely_secrets import is_likely_secret, likely_secret_texts

HIDDEN = "(hidden: it looks like a secret)"
ARN = "platform.job_arn"
"""Tag of an imported run with the ARN of its job."""
ENTRIES = ("HyperParameters", "Environment")
"""Fields of a description in which people pass tokens."""
SHORTEST_SECRET = 6
"""Characters of the shortest secret that is hidden in a log."""
SOURCE_CHANNELS = frozenset({"code", "sm_drivers"})
"""Channels in which SageMaker's SDK sends a source. Their addresses contain the name of the job."""
TOOLKIT_PREFIX = "sagemaker_"
"""Beginning of the hyperparameters that belong to the toolkit and not to the script."""


def described_job(description: Description, price: Price | None, first_lines: Sequence[str]) -> PlannedJob:
    """Return the plan to record a job. `description` is without secrets; see `without_likely_secrets`.

    `first_lines` of its log show whether it is a job of ours, which emits events. The metrics of any other job are read
    by its own definitions.
    """
    values = _hyperparameters(description)
    is_ours = any(line.startswith(EVENT_PREFIX) for line in first_lines)
    spec = _spec(description, values)
    data = {name: uri for name, uri in spec.channels.items() if name not in SOURCE_CHANNELS}
    script = ScriptPlan(regexes=_expressions(description), hyperparameters=spec.hyperparameters)
    return PlannedJob(
        spec=spec,
        arm=spec.name,
        repeat=0,
        is_baseline=False,
        experiment_yaml="",
        data=_data(list(data.values())),
        data_key=sha256(json.dumps(sorted(data.items())).encode()).hexdigest()[:16],
        price=price,
        script=None if is_ours else script,
        tags={"platform.role": IMPORTED, ARN: str(description["TrainingJobArn"])},
    )


def likely_secrets(description: Description) -> list[str]:
    """Return the texts in hyperparameters and variables that look like secrets, the longest first.

    Shorter ones than `SHORTEST_SECRET` are left out: they would also be parts of harmless lines.
    """
    entries = [entry for field in ENTRIES for entry in description.get(field, {}).items()]
    texts = {text for name, value in entries for text in likely_secret_texts(name, _decoded(value))}
    return sorted((text for text in texts if len(text) >= SHORTEST_SECRET), key=len, reverse=True)


def without_likely_secrets(description: Description) -> Description:
    """Return the description with a placeholder for each likely secret."""
    hidden = {
        field: {
            name: HIDDEN if is_likely_secret(name, _decoded(value)) else value
            for name, value in description.get(field, {}).items()
        }
        for field in ENTRIES
    }
    return {**description, **hidden}


def instance_type_of(description: Description) -> str:
    """Return the instance type of a job: the selected one, if the job allows several."""
    resources = description.get("ResourceConfig", {})
    groups = resources.get("InstanceGroups") or [{}]
    chosen = resources.get("SelectedInstanceType") or resources.get("InstanceType") or groups[0].get("InstanceType")
    return str(chosen or "unknown")


def _spec(description: Description, values: Mapping[str, Any]) -> JobSpec:
    algorithm, stopping = description["AlgorithmSpecification"], description.get("StoppingCondition", {})
    kept = {name: value for name, value in values.items() if not name.startswith(TOOLKIT_PREFIX)}
    return JobSpec(
        name=description["TrainingJobName"],
        compiler=_compiler(values),
        hyperparameters=kept,
        channels=_channels(description),
        source_uri=str(values.get("sagemaker_submit_directory", "")),
        program=str(values.get("sagemaker_program", "")),
        output_uri=description["OutputDataConfig"]["S3OutputPath"],
        image=algorithm.get("TrainingImage") or algorithm.get("AlgorithmName", "unknown"),
        role_arn=description["RoleArn"],
        region=description["TrainingJobArn"].split(":")[3],
        instance_type=instance_type_of(description),
        instance_count=max(1, instance_count(description)),
        spot=bool(description.get("EnableManagedSpotTraining")),
        max_run_seconds=int(stopping.get("MaxRuntimeInSeconds", 86_400)),
        environment=description.get("Environment", {}),
        capacity_retry_minutes=(),  # an import starts nothing
    )


def _hyperparameters(description: Description) -> dict[str, Any]:
    return {name: _decoded(text) for name, text in description.get("HyperParameters", {}).items()}


def _decoded(text: str) -> Any:
    """Return a hyperparameter's value. SDK v2 encodes values as JSON; other senders pass plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _compiler(values: Mapping[str, Any]) -> Compiler:
    enabled = values.get("sagemaker_training_compiler_enabled")
    return "none" if enabled is None else "trcomp" if enabled in (True, "true") else "trcomp-off"


def _channel_uri(channel: Mapping[str, Any]) -> str:
    source = channel["DataSource"]
    if files := source.get("FileSystemDataSource"):
        return f"{files['FileSystemType'].lower()}://{files['FileSystemId']}{files['DirectoryPath']}"
    return str(source.get("S3DataSource", {}).get("S3Uri", ""))


def _channels(description: Description) -> dict[str, str]:
    return {each["ChannelName"]: _channel_uri(each) for each in description.get("InputDataConfig", [])}


def _data(uris: Sequence[str]) -> DataSource:
    source = ", ".join(uris) or "none"
    digest = sha256(source.encode()).hexdigest()[:16]
    return DataSource(name=uris[0] if uris else "no channels", source=source, digest=digest, rows={})


def _expressions(description: Description) -> dict[str, str]:
    """Return the job's metric definitions that can be used, by a name that MLflow accepts."""
    usable = {}
    for each in description["AlgorithmSpecification"].get("MetricDefinitions", []):
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", each["Name"])  # as ours are written: `train:loss` is `train_loss`
        definition = MetricDefinition(name=name, regex=each["Regex"])
        try:
            check_metric(definition)
        except InputError:  # SageMaker accepts expressions that Python does not
            continue
        usable[definition.name] = definition.regex
    return usable
