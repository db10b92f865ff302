"""Build the `CreateTrainingJob` request of a JobSpec. Pure.

The request follows the script-mode contract of the SageMaker training toolkit: every hyperparameter is a
JSON-encoded string, and keys that start with `sagemaker_` control the toolkit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from training.contract.errors import InputError
from training.contract.job_spec import FILE_SYSTEMS, ChannelOptions, JobSpec
from training.contract.limits import check_limits, check_text
from training.contract.script_mode import CODE_CHANNEL, toolkit_hyperparameters
from training.contract.service import Request


def build(spec: JobSpec) -> Request:
    """Return the request for `spec`, in the form of boto3's `create_training_job(**request)`.

    Raises InputError for a name, a value or a count that the API would reject.
    """
    carried = spec.entry.values if spec.entry else {}
    own = {name: value for name, value in spec.hyperparameters.items() if name not in carried}
    hyperparameters = {**_encoded(own), **_encoded(toolkit_hyperparameters(spec))}
    check_limits(spec, hyperparameters)
    request: Request = {
        "TrainingJobName": spec.name,
        "AlgorithmSpecification": _algorithm(spec),
        "RoleArn": spec.role_arn,
        "HyperParameters": hyperparameters,
        "OutputDataConfig": _without_empty({"S3OutputPath": spec.output_uri, "KmsKeyId": spec.output_key}),
        "ResourceConfig": _resources(spec),
        "StoppingCondition": _without_empty(
            {
                "MaxRuntimeInSeconds": spec.max_run_seconds,
                "MaxWaitTimeInSeconds": spec.longest_wait_seconds,
            }
        ),
        # The profiler and the debugger slow training down and count towards a quota of processing jobs.
        "ProfilerConfig": {"DisableProfiler": True},
    }
    return _with_groups(overlaid(request | _without_empty(_optional(spec)), spec.request))


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


def _with_groups(request: Request) -> Request:
    """Return the request without the type and the count that instance groups replace: the API refuses both."""
    resources = request["ResourceConfig"]
    if "InstanceGroups" not in resources:
        return request
    replaced = ("InstanceType", "InstanceCount", "InstancePreferences")
    return {**request, "ResourceConfig": {name: value for name, value in resources.items() if name not in replaced}}


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty. The API rejects None, and some empty lists and maps."""
    return {name: value for name, value in fields.items() if value}


def _algorithm(spec: JobSpec) -> dict[str, Any]:
    return {
        "TrainingImage": spec.image,
        "TrainingInputMode": "File",
        "EnableSageMakerMetricsTimeSeries": True,
        **_without_empty(
            {
                "MetricDefinitions": [{"Name": m.name, "Regex": m.regex} for m in spec.metric_definitions],
                "ContainerEntrypoint": list(spec.entry_point),
                "ContainerArguments": list(spec.entry_arguments),
            }
        ),
    }


def _resources(spec: JobSpec) -> dict[str, Any]:
    """Return the instances: one type, or several in order of preference, each with the same count."""
    types = [spec.instance_type, *spec.fallback_instance_types]
    preferences = {"InstancePreferences": [{"InstanceType": name} for name in types]} if len(types) > 1 else {}
    return {
        **(preferences or {"InstanceType": spec.instance_type}),
        "InstanceCount": spec.instance_count,
        "VolumeSizeInGB": spec.volume_gib,
        **_without_empty({"VolumeKmsKeyId": spec.volume_key, "KeepAlivePeriodInSeconds": spec.keep_alive_seconds}),
    }


def _optional(spec: JobSpec) -> dict[str, Any]:
    network = {"Subnets": list(spec.subnets), "SecurityGroupIds": list(spec.security_groups)}
    code = {CODE_CHANNEL: spec.source_uri} if spec.isolate_network else {}
    return {
        "InputDataConfig": [
            _channel(name, uri, spec.channel_options.get(name, ChannelOptions()))
            for name, uri in {**spec.channels, **code}.items()
        ],
        "CheckpointConfig": _without_empty({"S3Uri": spec.checkpoint_uri}),
        "VpcConfig": _without_empty(network),
        "EnableManagedSpotTraining": spec.spot,
        "EnableNetworkIsolation": spec.isolate_network,
        "EnableInterContainerTrafficEncryption": spec.encrypt_traffic,
        "Environment": dict(spec.environment),
        "Tags": [{"Key": key, "Value": value} for key, value in spec.tags.items()],
    }


def _channel(name: str, uri: str, options: ChannelOptions) -> dict[str, Any]:
    """Return a channel. `File` is the mode of the whole job, so only the other modes are named."""
    mode = {} if options.mode == "File" else {"InputMode": options.mode}
    return {"ChannelName": name, "DataSource": _data_source(uri, options), **mode}


def _data_source(uri: str, options: ChannelOptions) -> dict[str, Any]:
    scheme, _, place = uri.partition("://")
    if scheme in FILE_SYSTEMS:
        file_system, _, path = place.partition("/")
        source = {"FileSystemId": file_system, "FileSystemType": FILE_SYSTEMS[scheme], "DirectoryPath": f"/{path}"}
        return {"FileSystemDataSource": {**source, "FileSystemAccessMode": options.access}}
    source = {"S3DataType": options.data_type, "S3Uri": uri, "S3DataDistributionType": options.distribution}
    return {"S3DataSource": {**source, **_without_empty({"AttributeNames": list(options.attributes)})}}


def _encoded(hyperparameters: Mapping[str, Any]) -> dict[str, str]:
    return {name: _json(name, value) for name, value in hyperparameters.items()}


def _json(name: str, value: Any) -> str:
    """Return a value as SageMaker's SDK encodes it. Lists, mappings and null are JSON as well."""
    _check_value(name, value)
    return json.dumps(value)


def _check_value(name: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"Hyperparameter '{name}' is {value}; it must be a finite number.")
    if isinstance(value, str):
        check_text("hyperparameters", name, value)
    for part in [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_value(name, part)
