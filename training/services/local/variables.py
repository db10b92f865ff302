"""Environment variables that the SageMaker training toolkit (sagemaker-training 5.1.4) sets for a script.

Pure; tests/training/services/local/test_toolkit.py compares them with the toolkit itself. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training.services.local import toolkit

INFO_LOG_LEVEL = 20


def script_variables(request: Mapping[str, Any], base: Path, *, cpus: int, gpus: int) -> dict[str, str]:
    """Return the variables that the platform and the toolkit set for the script.

    `cpus` and `gpus` are the numbers of CPUs and GPUs that the job may use, not those of the machine.
    """
    values = _settings(request, base, cpus, gpus)
    snapshot = {name: value for name, value in values.items() if name not in ("channels", "hps", "framework_params")}
    user = values["hps"]
    values["training_env"] = snapshot | _snapshot_only(request, values)
    values["user_args"] = toolkit.arguments(user)
    values |= {f"channel_{name}": path for name, path in _channel_folders(request, base).items()}
    values |= {f"hp_{name}": value for name, value in user.items()}
    return {f"SM_{name.upper()}": _text(value) for name, value in values.items()} | _platform(request, base)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _channel_folders(request: Mapping[str, Any], base: Path) -> dict[str, str]:
    return {name: str(base / "input" / "data" / name) for name in toolkit.input_data_config(request)}


def _settings(request: Mapping[str, Any], base: Path, cpus: int, gpus: int) -> dict[str, Any]:
    parameters = toolkit.decoded(request["HyperParameters"])
    resources = toolkit.resource_config(request["ResourceConfig"]["InstanceType"])
    framework = toolkit.framework_parameters(parameters)
    program = str(parameters["sagemaker_program"])
    return {
        "hosts": resources["hosts"],
        "network_interface_name": toolkit.NETWORK_INTERFACE,
        "hps": toolkit.user_hyperparameters(parameters),
        "user_entry_point": program,
        "framework_params": framework,
        "resource_config": resources,
        "input_data_config": toolkit.input_data_config(request),
        "output_data_dir": str(base / "output" / "data"),
        "channels": sorted(toolkit.input_data_config(request)),
        "current_host": toolkit.HOST,
        "current_instance_type": resources["current_instance_type"],
        "current_instance_group": toolkit.INSTANCE_GROUP,
        "current_instance_group_hosts": [toolkit.HOST],
        "instance_groups": [toolkit.INSTANCE_GROUP],
        "instance_groups_dict": {toolkit.INSTANCE_GROUP: resources["instance_groups"][0]},
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
    chosen = [toolkit.INSTANCE_GROUP] if any(framework.get(key) for key in toolkit.DISTRIBUTION_KEYS) else []
    return framework.get("sagemaker_distribution_instance_groups", chosen)


def _snapshot_only(request: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of SM_TRAINING_ENV that have no variable of the same name."""
    folders = _channel_folders(request, Path(values["input_dir"]).parent)
    groups = values["distribution_instance_groups"]
    return {
        "additional_framework_parameters": values["framework_params"],
        "channel_input_dirs": folders,
        "distribution_hosts": [toolkit.HOST] if toolkit.INSTANCE_GROUP in groups else [],
        "hyperparameters": values["hps"],
        "is_master": True,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": request["TrainingJobName"],
        "master_hostname": toolkit.HOST,
        "topology": [],
    }


def _platform(request: Mapping[str, Any], base: Path) -> dict[str, str]:
    parameters = toolkit.decoded(request["HyperParameters"])
    return {
        # The toolkit's variable for the folder that stands for /opt/ml; scripts use it to find checkpoints.
        "SAGEMAKER_BASE_DIR": str(base),
        "SAGEMAKER_JOB_NAME": str(parameters.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(parameters.get("sagemaker_region", "")),
        "TRAINING_JOB_NAME": request["TrainingJobName"],
        "CURRENT_HOST": toolkit.HOST,
    }
