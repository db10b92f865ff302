"""Build the `CreateTrainingJob` request of a JobSpec. Pure.

The request follows the script-mode contract of the SageMaker training toolkit: every hyperparameter is a JSON-encoded
string, and keys that start with `sagemaker_` control the toolkit, in the form of SageMaker's SDK v2 (2.257.7), the last
SDK with this contract.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, cast

from training.contract.errors import InputError
from training.contract.job_spec import (
    ENTRY_FILE,
    ENTRY_KEY,
    FILE_SYSTEMS,
    ChannelOptions,
    JobSpec,
    Launcher,
    MetricDefinition,
)
from training.contract.service import INSTANCE_TYPES, Request

INFO_LOG_LEVEL = 20
TRAINING_COMPILER = ("trcomp", "trcomp-off")
CODE_CHANNEL = "code"
"""Channel of the source of a job without a network, which cannot download its source (SDK v2, `job.py`)."""
CODE_ARCHIVE = f"/opt/ml/input/data/{CODE_CHANNEL}/sourcedir.tar.gz"
"""Path of that source in the container (SDK v2, `CONTAINER_CODE_CHANNEL_SOURCEDIR_PATH`)."""

MAX_VALUE = 2_500
"""Longest value of a hyperparameter on SageMaker (botocore 1.44.5, `HyperParameterValue`)."""
MAX_METRIC_CHARACTERS = {"name": 255, "regex": 500}
NAME_PATTERNS = {
    "hyperparameters": r"[^=\s\0]+",
    "environment": r"[a-zA-Z_][a-zA-Z0-9_]*",
    "channels": r"[A-Za-z0-9._-]+",
    "tags": r"[\w .:/=+\-@]+",
}

SET_BY_FIELDS = {
    "TrainingJobName": "aws.job_prefix",
    "RoleArn": "aws.role",
    "HyperParameters": "the fields of the experiment",
    "InputDataConfig": "data or script.channels",
    "Environment": "script.environment",
    "Tags": "aws.tags",
    "VpcConfig": "aws.subnets and aws.security_groups",
    "EnableNetworkIsolation": "aws.isolate_network",
    "EnableInterContainerTrafficEncryption": "aws.encrypt_traffic",
    "EnableManagedSpotTraining": "machine.spot",
    "AlgorithmSpecification.TrainingImage": "machine.image",
    "AlgorithmSpecification.MetricDefinitions": "script.metrics",
    "OutputDataConfig.S3OutputPath": "aws.output_uri",
    "OutputDataConfig.KmsKeyId": "aws.output_key",
    "CheckpointConfig.S3Uri": "aws.checkpoint_uri",
    "StoppingCondition.MaxRuntimeInSeconds": "machine.max_run_seconds",
    "StoppingCondition.MaxWaitTimeInSeconds": "machine.max_wait_seconds",
    "ResourceConfig.InstanceType": "machine.instance_type",
    "ResourceConfig.InstanceCount": "machine.instance_count",
    "ResourceConfig.InstancePreferences": "machine.fallback_instance_types",
    "ResourceConfig.VolumeSizeInGB": "machine.volume_gib",
    "ResourceConfig.VolumeKmsKeyId": "aws.volume_key",
    "ResourceConfig.KeepAlivePeriodInSeconds": "machine.keep_alive_seconds",
}
"""Members of a request and the fields that set them. Costs, names and limits follow from these fields, so `aws.request`
cannot change the members."""


def build(spec: JobSpec) -> Request:
    """Return the request for `spec`, in the form of boto3's `create_training_job(**request)`.

    Raises InputError for a name or a value that no service accepts. `job_rules` in `services/sagemaker` checks the
    API's limits.
    """
    carried = spec.entry.values if spec.entry else {}
    own = {name: value for name, value in spec.hyperparameters.items() if name not in carried}
    hyperparameters = {**_encoded(own), **_encoded(toolkit_hyperparameters(spec))}
    settings = hyperparameters.get(ENTRY_KEY, "")
    if len(settings) > MAX_VALUE and spec.instance_type.startswith(INSTANCE_TYPES):
        # The sign keeps the toolkit from reading a part as JSON.
        starts = range(0, len(settings), MAX_VALUE - 1)
        parts = {f"{ENTRY_KEY}_{at:03}": f"|{settings[start:][: MAX_VALUE - 1]}" for at, start in enumerate(starts)}
        hyperparameters = {name: text for name, text in hyperparameters.items() if name != ENTRY_KEY} | parts
    check_limits(spec, hyperparameters)
    channels = {**spec.channels, **({CODE_CHANNEL: spec.source_uri} if spec.isolate_network else {})}
    several = [spec.instance_type, *spec.fallback_instance_types] if spec.fallback_instance_types else []
    groups = spec.resources.get("InstanceGroups")
    request = _present(
        TrainingJobName=spec.name,
        AlgorithmSpecification=_present(
            TrainingImage=spec.image,
            TrainingInputMode="File",
            EnableSageMakerMetricsTimeSeries=True,
            MetricDefinitions=[{"Name": each.name, "Regex": each.regex} for each in spec.metric_definitions],
            ContainerEntrypoint=list(spec.entry_point),
            ContainerArguments=list(spec.entry_arguments),
        ),
        RoleArn=spec.role_arn,
        HyperParameters=hyperparameters,
        OutputDataConfig=_present(S3OutputPath=spec.output_uri, KmsKeyId=spec.output_key),
        ResourceConfig=_present(
            InstanceType=None if several or groups else spec.instance_type,
            InstancePreferences=[{"InstanceType": each} for each in several],
            InstanceCount=None if groups else spec.instance_count,
            VolumeSizeInGB=spec.volume_gib,
            VolumeKmsKeyId=spec.volume_key,
            KeepAlivePeriodInSeconds=spec.keep_alive_seconds,
        ),
        StoppingCondition=_present(
            MaxRuntimeInSeconds=spec.max_run_seconds, MaxWaitTimeInSeconds=spec.longest_wait_seconds
        ),
        # The profiler and the debugger slow training down and count towards a quota of processing jobs.
        ProfilerConfig={"DisableProfiler": True},
        InputDataConfig=[
            _channel(name, uri, spec.channel_options.get(name, ChannelOptions())) for name, uri in channels.items()
        ],
        CheckpointConfig=_present(S3Uri=spec.checkpoint_uri),
        VpcConfig=_present(Subnets=list(spec.subnets), SecurityGroupIds=list(spec.security_groups)),
        EnableManagedSpotTraining=spec.spot,
        EnableNetworkIsolation=spec.isolate_network,
        EnableInterContainerTrafficEncryption=spec.encrypt_traffic,
        Environment=dict(spec.environment),
        Tags=[{"Key": key, "Value": value} for key, value in spec.tags.items()],
    )
    return cast(Request, overlaid(request, spec.request))


def _present(**members: Any) -> dict[str, Any]:
    """Return the members that are not empty or false. The API rejects None, and some empty lists and maps."""
    return {name: value for name, value in members.items() if value}


def overlaid(request: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with the members of `changes`: mappings are joined, null removes, all else is replaced."""
    merged = dict(request)
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
            merged[name] = overlaid(merged[name], value)
        else:
            merged[name] = value
    return merged


def _channel(name: str, uri: str, options: ChannelOptions) -> dict[str, Any]:
    """Return a channel. `File` is the mode of the whole job, so only the other modes are named."""
    scheme, _, place = uri.partition("://")
    file_system, _, path = place.partition("/")
    if scheme in FILE_SYSTEMS:
        source = {
            "FileSystemDataSource": {
                "FileSystemId": file_system,
                "FileSystemType": FILE_SYSTEMS[scheme],
                "DirectoryPath": f"/{path}",
                "FileSystemAccessMode": options.access,
            }
        }
    else:
        source = {
            "S3DataSource": _present(
                S3DataType=options.data_type,
                S3Uri=uri,
                S3DataDistributionType=options.distribution,
                AttributeNames=list(options.attributes),
                InstanceGroupNames=list(options.instance_groups),
            )
        }
    mode = "" if options.mode == "File" else options.mode
    return _present(
        ChannelName=name,
        DataSource=source,
        ContentType=options.content_type,
        CompressionType=options.compression,
        RecordWrapperType=options.record_wrapper,
        InputMode=mode,
        ShuffleConfig=None if options.shuffle_seed is None else {"Seed": options.shuffle_seed},
    )


def _encoded(hyperparameters: Mapping[str, Any]) -> dict[str, str]:
    """Return values as SageMaker's SDK encodes them. Lists, mappings and null are JSON as well."""
    for name, value in hyperparameters.items():
        _check_value(name, value)
    return {name: json.dumps(value) for name, value in hyperparameters.items()}


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"Hyperparameter '{name}' is {value}; it must be a finite number.")
    if isinstance(value, str):
        check_text("hyperparameters", name, value)
    for part in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_value(name, part)


def toolkit_hyperparameters(spec: JobSpec) -> dict[str, Any]:
    """Return the hyperparameters that the toolkit reads, before they are encoded as JSON."""
    return {
        "sagemaker_program": spec.program if spec.entry is None else ENTRY_FILE,
        "sagemaker_submit_directory": CODE_ARCHIVE if spec.isolate_network else spec.source_uri,
        "sagemaker_container_log_level": INFO_LOG_LEVEL,
        "sagemaker_job_name": spec.name,
        "sagemaker_region": spec.region,
        **_compiler(spec),
        **_launcher(spec),
        **({} if spec.entry is None else {ENTRY_KEY: spec.entry.settings(spec.program)}),
    }


def launcher_of(spec: JobSpec) -> Launcher | None:
    """Return the launcher of the job's processes, or None for a single process, which needs no launcher."""
    if spec.launcher is None and spec.devices * spec.instance_count == 1:
        return None
    return spec.launcher or ("xla" if spec.compiler in TRAINING_COMPILER else "torchrun")


def _compiler(spec: JobSpec) -> dict[str, Any]:
    """Return the hyperparameters that SageMaker documents for the Training Compiler.

    `trcomp-off` keeps the image and disables the compiler.
    """
    if spec.compiler not in TRAINING_COMPILER:
        return {}
    return {
        "sagemaker_training_compiler_enabled": spec.compiler == "trcomp",
        "sagemaker_training_compiler_debug_mode": spec.compiler_debug,
    }


def _launcher(spec: JobSpec) -> dict[str, Any]:
    launcher = launcher_of(spec)
    if launcher is None:
        return {}
    if launcher == "xla":
        return {"sagemaker_pytorch_xla_multi_worker_enabled": True}
    flags: dict[str, Any] = {"sagemaker_instance_type": spec.instance_type}
    if groups := spec.resources.get("InstanceGroups"):
        training = [each.get("InstanceGroupName") for each in groups if each["InstanceType"] == spec.instance_type]
        flags["sagemaker_distribution_instance_groups"] = training
    if launcher == "pytorchddp":
        flags["sagemaker_pytorch_ddp_enabled"] = True
    elif launcher == "smddp":
        flags["sagemaker_distributed_dataparallel_enabled"] = True
        flags["sagemaker_distributed_dataparallel_custom_mpi_options"] = spec.mpi_options
    elif launcher == "smp":
        flags["sagemaker_mpi_enabled"] = True
        flags["sagemaker_mpi_num_of_processes_per_host"] = spec.devices
        flags["sagemaker_mpi_custom_mpi_options"] = spec.mpi_options
        flags["sagemaker_distributed_dataparallel_enabled"] = False
        flags["mp_parameters"] = dict(spec.model_parallel)
    else:
        flags["sagemaker_torch_distributed_enabled"] = True
        # The toolkit counts the GPUs of SageMaker's instances. Elsewhere, this key of its torchrun launcher sets the
        # number of processes.
        if not spec.instance_type.startswith(INSTANCE_TYPES):
            flags["sagemaker_mpi_num_of_processes_per_host"] = spec.devices
    return flags


def check_limits(spec: JobSpec, hyperparameters: Mapping[str, str]) -> None:
    """Raise InputError for a name or a value that no service accepts.

    `hyperparameters` are all hyperparameters of the request, encoded as JSON.
    """
    for name in spec.hyperparameters:
        if name.startswith("sagemaker_"):
            raise InputError(
                f"Hyperparameter '{name}' is reserved: names that start with 'sagemaker_' are set automatically."
            )
    _check_map("hyperparameters", hyperparameters)
    _check_map("environment", spec.environment)
    _check_map("channels", spec.channels)
    _check_map("tags", spec.tags)
    check_tags(spec.tags)
    for definition in spec.metric_definitions:
        check_metric(definition)


def check_text(field: str, name: str, value: str) -> None:
    """Raise InputError for text that cannot be passed in a command line or an environment variable."""
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(
            f"Value of '{name}' in {field} contains a NUL or an unpaired surrogate; it must be plain text."
        )


def check_metric(definition: MetricDefinition) -> None:
    """Raise InputError for an invalid regular expression, or one that does not have exactly one group."""
    import regex  # with the package that searches the log

    for part, limit in MAX_METRIC_CHARACTERS.items():
        text = getattr(definition, part)
        problem = "contains a line break" if "\n" in text or "\r" in text else ""
        if not 0 < len(text) <= limit:
            problem = f"has {len(text)} characters; 1 to {limit} are allowed"
        if problem:
            raise InputError(f"Metric {definition.name[:60]!r}: the {part} {problem}.")
    try:
        with warnings.catch_warnings():  # Python warns on the terminal of brackets that may mean more in the future
            warnings.simplefilter("ignore", FutureWarning)
            groups = max(re.compile(definition.regex).groups, regex.compile(definition.regex).groups)
    except (re.error, regex.error, RecursionError) as error:
        raise InputError(
            f"Metric '{definition.name}': '{definition.regex[:500]}' is not a regular expression: {error}."
        ) from error
    if groups != 1:
        raise InputError(
            f"Metric '{definition.name}': '{definition.regex}' has {groups} groups; it must have exactly one."
        )


def check_tags(tags: Iterable[str]) -> None:
    """Raise InputError for a tag whose name AWS reserves, in any case of letters (API reference, `Tag.Key`)."""
    for name in tags:
        if name.lower().startswith("aws:"):
            raise InputError(f"Name '{name}' in tags is not allowed: AWS reserves names that start with 'aws:'.")


def _check_map(field: str, entries: Mapping[str, str]) -> None:
    for name, value in entries.items():
        if not re.fullmatch(NAME_PATTERNS[field], name):
            raise InputError(f"Name {name[:100]!r} in {field} is not allowed: it must match {NAME_PATTERNS[field]}.")
        check_text(field, name, value)
