"""Command and configuration files like those of the SageMaker training toolkit (sagemaker-training 5.1.4).

Pure functions of a request. A test compares them with the toolkit itself. Standard library only.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

# The machine's host name may not resolve; `localhost` always does.
HOST = "localhost"
NETWORK_INTERFACE = "lo"
INSTANCE_GROUP = "homogeneousCluster"

# sagemaker_training/params.py: these keys configure the toolkit and are never passed to the script.
CONSUMED_KEYS = frozenset(
    {
        "sagemaker_program",
        "sagemaker_submit_directory",
        "sagemaker_enable_cloudwatch_metrics",
        "sagemaker_region",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "default_user_module_name",
        "_tuning_objective_metric",
        "sagemaker_s3_output",
    }
)

# environment.py, get_distribution_instance_groups_from_resource_config.
DISTRIBUTION_KEYS = (
    "sagemaker_mpi_enabled",
    "sagemaker_parameter_server_enabled",
    "sagemaker_distributed_dataparallel_enabled",
    "sagemaker_pytorch_ddp_enabled",
    "sagemaker_pytorch_xla_multi_worker_enabled",
    "sagemaker_multi_worker_mirrored_strategy_enabled",
    "sagemaker_torch_distributed_enabled",
)


def decoded(hyperparameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the hyperparameters decoded from JSON. A value that is not JSON stays a string."""
    return {name: _decoded(text) for name, text in hyperparameters.items()}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def user_hyperparameters(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that are passed to the script."""
    return {k: v for k, v in hyperparameters.items() if k not in CONSUMED_KEYS and not k.startswith("sagemaker_")}


def framework_parameters(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that determine the launcher."""
    return {k: v for k, v in hyperparameters.items() if k not in CONSUMED_KEYS and k.startswith("sagemaker_")}


def arguments(hyperparameters: Mapping[str, Any]) -> list[str]:
    """Return the script's command-line arguments, sorted by name. One-letter names get one hyphen."""
    pairs = ((("--" if len(k) > 1 else "-") + k, _argument(hyperparameters[k])) for k in sorted(hyperparameters))
    return [word for pair in pairs for word in pair]


def _argument(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{k}={v}" for k, v in sorted(value.items()))
    return "" if value is None else str(value)


def processes(hyperparameters: Mapping[str, Any]) -> int:
    """Return the number of processes that the job starts, one for each device."""
    if not hyperparameters.get("sagemaker_torch_distributed_enabled"):
        return 1
    return int(hyperparameters.get("sagemaker_mpi_num_of_processes_per_host", 1))


def command(python: str, hyperparameters: Mapping[str, Any], *, is_package: bool = False) -> list[str]:
    """Return the command to run in the code folder, for decoded hyperparameters.

    `is_package` states that the code folder has a `setup.py`. See `_entry_point_type.py` and `process.py`.
    """
    program, words = str(hyperparameters["sagemaker_program"]), arguments(user_hyperparameters(hyperparameters))
    if is_executable(program, is_package=is_package):
        return ["/bin/sh", "-c", f"./{shlex.quote(program)} {' '.join(map(shlex.quote, words))}"]
    if is_package:
        return [python, "-m", re.sub(r"\.py$", "", program), *words]
    script = [program, *words]
    if hyperparameters.get("sagemaker_torch_distributed_enabled"):
        # --standalone picks a free port: the toolkit's fixed port would clash when several jobs share the machine.
        count = str(processes(hyperparameters))
        return [python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", count, *script]
    return [python, "--", *script]


def is_executable(program: str, *, is_package: bool) -> bool:
    """Return whether the program runs as a command: a shell script, or without `setup.py` any file but Python's."""
    return program.endswith(".sh") or not (is_package or program.endswith(".py"))


def resource_config(instance_type: str) -> dict[str, Any]:
    """Return the content of `resourceconfig.json`."""
    group = {"instance_group_name": INSTANCE_GROUP, "instance_type": instance_type, "hosts": [HOST]}
    return {
        "current_host": HOST,
        "current_instance_type": instance_type,
        "current_group_name": INSTANCE_GROUP,
        "hosts": [HOST],
        "instance_groups": [group],
        "network_interface_name": NETWORK_INTERFACE,
    }


def input_data_config(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `inputdataconfig.json`."""
    channel = {"S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    return {
        each["ChannelName"]: {"TrainingInputMode": each.get("InputMode", "File"), **channel}
        for each in request.get("InputDataConfig", [])
    }
