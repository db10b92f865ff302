"""Hyperparameters that control the SageMaker training toolkit. Pure.

Their form is that of SageMaker's SDK v2 (2.257.7), the last SDK with this contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.contract import script_entry
from training.contract.job_spec import JobSpec, Launcher

INFO_LOG_LEVEL = 20
TRAINING_COMPILER = ("trcomp", "trcomp-off")
CODE_CHANNEL = "code"
"""Channel of the source of a job without a network, which cannot download its source (SDK v2, `job.py`)."""
CODE_ARCHIVE = f"/opt/ml/input/data/{CODE_CHANNEL}/sourcedir.tar.gz"
"""Path of that source in the container (SDK v2, `CONTAINER_CODE_CHANNEL_SOURCEDIR_PATH`)."""


def toolkit_hyperparameters(spec: JobSpec) -> dict[str, Any]:
    """Return the hyperparameters that the toolkit reads, before they are encoded as JSON."""
    return {
        "sagemaker_program": spec.program if spec.entry is None else script_entry.FILE,
        "sagemaker_submit_directory": CODE_ARCHIVE if spec.isolate_network else spec.source_uri,
        "sagemaker_container_log_level": INFO_LOG_LEVEL,
        "sagemaker_job_name": spec.name,
        "sagemaker_region": spec.region,
        **_compiler(spec),
        **_launcher(spec),
        **({} if spec.entry is None else {script_entry.KEY: spec.entry.settings(spec.program)}),
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


def _launcher(spec: JobSpec) -> Mapping[str, Any]:
    launcher = launcher_of(spec)
    if launcher is None:
        return {}
    if launcher == "xla":
        return {"sagemaker_pytorch_xla_multi_worker_enabled": True}
    flags = {"pytorchddp": _pytorch_ddp, "smddp": _data_parallel, "smp": _model_parallel, "torchrun": _torchrun}
    return {**flags[launcher](spec), "sagemaker_instance_type": spec.instance_type}


def _torchrun(spec: JobSpec) -> dict[str, Any]:
    flags: dict[str, Any] = {"sagemaker_torch_distributed_enabled": True}
    if spec.instance_type == "local":
        # The toolkit counts the GPUs of an instance. On this machine, this key of the toolkit's torchrun launcher sets
        # the number of processes.
        flags["sagemaker_mpi_num_of_processes_per_host"] = spec.devices
    return flags


def _pytorch_ddp(_: JobSpec) -> dict[str, Any]:
    return {"sagemaker_pytorch_ddp_enabled": True}


def _data_parallel(spec: JobSpec) -> dict[str, Any]:
    return {
        "sagemaker_distributed_dataparallel_enabled": True,
        "sagemaker_distributed_dataparallel_custom_mpi_options": spec.mpi_options,
    }


def _model_parallel(spec: JobSpec) -> dict[str, Any]:
    return {
        "sagemaker_mpi_enabled": True,
        "sagemaker_mpi_num_of_processes_per_host": spec.devices,
        "sagemaker_mpi_custom_mpi_options": spec.mpi_options,
        "sagemaker_distributed_dataparallel_enabled": False,
        "mp_parameters": dict(spec.model_parallel),
    }
