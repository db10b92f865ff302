"""Command, configuration files and variables of the SageMaker training toolkit (sagemaker-training 5.1.4).

Pure functions of a request. A test compares them with the toolkit itself. Standard library only.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from training.contract.service import Request

# The machine's host name may not resolve; `localhost` always does.
HOST = "localhost"
NETWORK_INTERFACE = "lo"
INSTANCE_GROUP = "homogeneousCluster"
INFO_LOG_LEVEL = 20

# The toolkit's own rule (process.py, validate_entry_point).
PROGRAM_PATTERN = r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*"

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


class DataError(Exception):
    """A channel, the source or a folder of the request cannot be used. The message states which one and why."""

    def __init__(self, message: str, failure_class: str = "BadData") -> None:
        super().__init__(message)
        self.failure_class = failure_class


def decoded(hyperparameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the hyperparameters decoded from JSON. A value that is not JSON stays a string."""
    return {name: _decoded(text) for name, text in hyperparameters.items()}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def user_hyperparameters(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
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


def local_path(uri: str) -> Path:
    """Return the path of a `file://` URI or an absolute path. Raises DataError for anything else."""
    if uri.startswith("file://"):
        return Path(unquote(uri.removeprefix("file://").removeprefix("localhost")))
    if not uri.startswith("/"):
        raise DataError(f"'{uri}' is not a local path; it must be a file:// URI or an absolute path")
    return Path(uri)


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


def input_data_config(request: Request) -> dict[str, Any]:
    """Return the content of `inputdataconfig.json`."""
    channel = {"S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    return {
        each["ChannelName"]: {"TrainingInputMode": each.get("InputMode", "File"), **channel}
        for each in request.get("InputDataConfig", [])
    }


def script_variables(request: Request, base: Path, *, cpus: int, gpus: int) -> dict[str, str]:
    """Return the variables that the platform and the toolkit set for the script.

    `cpus` and `gpus` are the numbers of CPUs and GPUs that the job may use, not the machine's.
    """
    values = _settings(request, base, cpus, gpus)
    snapshot = {name: value for name, value in values.items() if name not in ("channels", "hps", "framework_params")}
    user = values["hps"]
    values["training_env"] = snapshot | _snapshot_only(request, values)
    values["user_args"] = arguments(user)
    values |= {f"channel_{name}": path for name, path in _channel_folders(request, base).items()}
    values |= {f"hp_{name}": value for name, value in user.items()}
    return {f"SM_{name.upper()}": _text(value) for name, value in values.items()} | _platform(request, base)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _channel_folders(request: Request, base: Path) -> dict[str, str]:
    return {name: str(base / "input" / "data" / name) for name in input_data_config(request)}


def _settings(request: Request, base: Path, cpus: int, gpus: int) -> dict[str, Any]:
    parameters = decoded(request["HyperParameters"])
    resources = resource_config(request["ResourceConfig"]["InstanceType"])
    framework = framework_parameters(parameters)
    program = str(parameters["sagemaker_program"])
    return {
        "hosts": resources["hosts"],
        "network_interface_name": NETWORK_INTERFACE,
        "hps": user_hyperparameters(parameters),
        "user_entry_point": program,
        "framework_params": framework,
        "resource_config": resources,
        "input_data_config": input_data_config(request),
        "output_data_dir": str(base / "output" / "data"),
        "channels": sorted(input_data_config(request)),
        "current_host": HOST,
        "current_instance_type": resources["current_instance_type"],
        "current_instance_group": INSTANCE_GROUP,
        "current_instance_group_hosts": [HOST],
        "instance_groups": [INSTANCE_GROUP],
        "instance_groups_dict": {INSTANCE_GROUP: resources["instance_groups"][0]},
        "distribution_instance_groups": _distribution_groups(framework),
        "is_hetero": False,
        "module_name": program.removesuffix(".py"),
        "log_level": parameters.get("sagemaker_container_log_level", INFO_LOG_LEVEL),
        "framework_module": None,
        "input_dir": str(base / "input"),
        "input_config_dir": str(base / "input" / "config"),
        "output_dir": str(base / "output"),
        "num_cpus": cpus,
        "num_gpus": gpus,
        "num_neurons": 0,
        "model_dir": str(base / "model"),
        "module_dir": str(parameters.get("sagemaker_submit_directory", base / "code")),
        "output_intermediate_dir": str(base / "output" / "intermediate"),
    }


def _distribution_groups(framework: Mapping[str, Any]) -> Any:
    chosen = [INSTANCE_GROUP] if any(framework.get(key) for key in DISTRIBUTION_KEYS) else []
    return framework.get("sagemaker_distribution_instance_groups", chosen)


def _snapshot_only(request: Request, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of SM_TRAINING_ENV that have no variable of the same name."""
    folders = _channel_folders(request, Path(values["input_dir"]).parent)
    groups = values["distribution_instance_groups"]
    return {
        "additional_framework_parameters": values["framework_params"],
        "channel_input_dirs": folders,
        "distribution_hosts": [HOST] if INSTANCE_GROUP in groups else [],
        "hyperparameters": values["hps"],
        "is_master": True,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": request["TrainingJobName"],
        "master_hostname": HOST,
        "topology": [],
    }


def _platform(request: Request, base: Path) -> dict[str, str]:
    parameters = decoded(request["HyperParameters"])
    return {
        # The toolkit's variable for the folder that stands for /opt/ml; scripts use it to find checkpoints.
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_JOB_NAME": str(parameters.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(parameters.get("sagemaker_region", "")),
        "TRAINING_JOB_NAME": request["TrainingJobName"],
        "CURRENT_HOST": HOST,
    }
