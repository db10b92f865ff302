"""A JobSpec spelt as the `CreateTrainingJob` request that a service takes.

The request follows the script-mode contract of the SageMaker training toolkit: every hyperparameter is a
JSON-encoded string, and the keys that start with `sagemaker_` tell the toolkit what to run and how. The spelling is
that of SageMaker's SDK v2 (2.257.7), the last one that speaks this contract.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping

from training.errors import InputError
from training.jobspec import JobSpec, MetricDefinition, Scalar
from training.services.protocol import Request

INFO_LOG_LEVEL = 20

# Limits of the API, botocore 1.44.5 sagemaker/2017-07-24: beyond them AWS refuses the request only after the data and
# the source have been uploaded, so the local service is held to them too.
MAX_ENTRIES = {"hyperparameters": 100, "environment": 100, "channels": 20, "tags": 50, "metric_definitions": 40}
MAX_NAME_CHARACTERS = {"hyperparameters": 256, "environment": 512, "channels": 64, "tags": 128}
MAX_VALUE_CHARACTERS = {"hyperparameters": 2500, "environment": 512, "tags": 256}
NAME_PATTERNS = {
    "hyperparameters": r"[^=\s\0]+",
    "environment": r"[a-zA-Z_][a-zA-Z0-9_]*",
    "channels": r"[A-Za-z0-9._-]+",
    "tags": r"[\w .:/=+\-@]+",
}


def build(spec: JobSpec) -> Request:
    """Return the request for `spec`, as boto3's `create_training_job(**request)` takes it.

    Raises InputError where the API would refuse a name, a value or a count.
    """
    hyperparameters = {**_encoded(spec.hyperparameters), **_encoded(_toolkit_hyperparameters(spec))}
    _check(spec, hyperparameters)
    request: Request = {
        "TrainingJobName": spec.name,
        "AlgorithmSpecification": _algorithm(spec),
        "RoleArn": spec.role_arn,
        "HyperParameters": hyperparameters,
        "OutputDataConfig": {"S3OutputPath": spec.output_uri},
        "ResourceConfig": {
            "InstanceType": spec.instance_type,
            "InstanceCount": spec.instance_count,
            "VolumeSizeInGB": spec.volume_gib,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": spec.max_run_seconds},
        # The profiler and the debugger slow training down and use up a quota of processing jobs.
        "ProfilerConfig": {"DisableProfiler": True},
    }
    # The API refuses empty lists and maps in some of these places, so what is empty is left out everywhere.
    return request | {key: value for key, value in _optional(spec).items() if value}


def _algorithm(spec: JobSpec) -> dict[str, object]:
    algorithm: dict[str, object] = {
        "TrainingImage": spec.image,
        "TrainingInputMode": "File",
        "EnableSageMakerMetricsTimeSeries": True,
    }
    if spec.metric_definitions:
        algorithm["MetricDefinitions"] = [{"Name": m.name, "Regex": m.regex} for m in spec.metric_definitions]
    return algorithm


def _optional(spec: JobSpec) -> dict[str, object]:
    return {
        "InputDataConfig": [_channel(name, uri) for name, uri in spec.channels.items()],
        "CheckpointConfig": {"S3Uri": spec.checkpoint_uri} if spec.checkpoint_uri else {},
        "Environment": dict(spec.environment),
        "Tags": [{"Key": key, "Value": value} for key, value in spec.tags.items()],
    }


def _channel(name: str, uri: str) -> dict[str, object]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def _toolkit_hyperparameters(spec: JobSpec) -> dict[str, Scalar]:
    return {
        "sagemaker_program": spec.program,
        "sagemaker_submit_directory": spec.source_uri,
        "sagemaker_container_log_level": INFO_LOG_LEVEL,
        "sagemaker_job_name": spec.name,
        "sagemaker_region": spec.region,
        **_compiler_hyperparameters(spec),
        **_launcher_hyperparameters(spec),
    }


def _compiler_hyperparameters(spec: JobSpec) -> dict[str, Scalar]:
    """The Training Compiler's documented keys; `trcomp-off` keeps the image and switches the compiler off."""
    if spec.compiler not in ("trcomp", "trcomp-off"):
        return {}
    return {
        "sagemaker_training_compiler_enabled": spec.compiler == "trcomp",
        "sagemaker_training_compiler_debug_mode": False,
    }


def _launcher_hyperparameters(spec: JobSpec) -> dict[str, Scalar]:
    """How the toolkit starts several processes: XLA's spawner under the Training Compiler, torchrun otherwise."""
    if spec.devices * spec.instance_count == 1:
        return {}
    if spec.compiler == "trcomp":
        return {"sagemaker_pytorch_xla_multi_worker_enabled": True}
    flags: dict[str, Scalar] = {
        "sagemaker_torch_distributed_enabled": True,
        "sagemaker_instance_type": spec.instance_type,
    }
    if spec.instance_type == "local":
        # The toolkit counts the GPUs of an instance; on this machine the number is ours to say, and this is the
        # key by which the toolkit's torchrun launcher lets it be said.
        flags["sagemaker_mpi_num_of_processes_per_host"] = spec.devices
    return flags


def _encoded(hyperparameters: Mapping[str, Scalar]) -> dict[str, str]:
    return {name: _json(name, value) for name, value in hyperparameters.items()}


def _json(name: str, value: Scalar) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"Hyperparameter '{name}' is {value}; it must be a finite number.")
    if isinstance(value, str):
        _check_text("hyperparameters", name, value)
    return json.dumps(value)


def _check_text(field: str, name: str, value: str) -> None:
    """Refuse what no command line and no environment can carry."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"Value of '{name}' in {field} holds a NUL or half a surrogate pair; it must be plain text.")


def _check(spec: JobSpec, hyperparameters: Mapping[str, str]) -> None:
    for name in spec.hyperparameters:
        if name.startswith("sagemaker_"):
            raise InputError(
                f"Hyperparameter '{name}' is reserved: names that start with 'sagemaker_' are set for you."
            )
    _check_map("hyperparameters", hyperparameters)
    _check_map("environment", spec.environment)
    _check_map("channels", spec.channels)
    _check_map("tags", spec.tags)
    _check_count("metric_definitions", spec.metric_definitions)
    for definition in spec.metric_definitions:
        check_metric(definition)


def _check_map(field: str, entries: Mapping[str, str]) -> None:
    _check_count(field, entries)
    for name, value in entries.items():
        if not re.fullmatch(NAME_PATTERNS[field], name) or len(name) > MAX_NAME_CHARACTERS[field]:
            rule = f"match {NAME_PATTERNS[field]} and have at most {MAX_NAME_CHARACTERS[field]} characters"
            raise InputError(f"Name '{name}' in {field} is not allowed: it must {rule}.")
        limit = MAX_VALUE_CHARACTERS.get(field)
        if limit is not None and len(value) > limit:
            raise InputError(f"Value of '{name}' in {field} has {len(value)} characters; {limit} are allowed.")
        _check_text(field, name, value)


def _check_count(field: str, entries: Iterable[object]) -> None:
    count = len(list(entries))
    if count > MAX_ENTRIES[field]:
        raise InputError(f"There are {count} {field}; {MAX_ENTRIES[field]} are allowed.")


def check_metric(definition: MetricDefinition) -> None:
    """Raise InputError for an expression that is none, or has not exactly one group."""
    try:
        groups = re.compile(definition.regex).groups
    except re.error as error:
        raise InputError(
            f"Metric '{definition.name}': '{definition.regex}' is no regular expression: {error}."
        ) from error
    if groups != 1:
        raise InputError(f"Metric '{definition.name}': '{definition.regex}' has {groups} groups; it must have one.")
