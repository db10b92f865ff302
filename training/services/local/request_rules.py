"""Check a request before the local service creates the job. Pure, except that it reads the number of cores."""

from __future__ import annotations

import re
from typing import Any

from training.contract.errors import InputError
from training.contract.job_spec import JOB_NAME_PATTERN
from training.contract.service import Request
from training.services.local import slots, toolkit
from training.services.local.supervisor import GRACE_VARIABLE, MEMORY_VARIABLE

# The toolkit's own rule (process.py, validate_entry_point).
PROGRAM_PATTERN = r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*"


def check(request: Request) -> None:
    """Raise InputError for a request that cannot run here. The message states the field, its value and the rule."""
    name, resources = request["TrainingJobName"], request["ResourceConfig"]
    if not re.fullmatch(JOB_NAME_PATTERN, name):
        raise InputError(f"Job name '{name}' is not allowed: it must match {JOB_NAME_PATTERN}.")
    if resources["InstanceCount"] != 1:
        raise InputError(f"instance_count is {resources['InstanceCount']}; it must be 1 on the local service.")
    hyperparameters = toolkit.decoded(request["HyperParameters"])
    program = str(hyperparameters.get("sagemaker_program", ""))
    if not re.fullmatch(PROGRAM_PATTERN, program) or ".." in program.split("/"):
        raise InputError(f"sagemaker_program is '{program}'; it must be a path within the source, such as train.py.")
    if hyperparameters.get("sagemaker_torch_distributed_enabled") and not program.endswith(".py"):
        raise InputError(f"sagemaker_program is '{program}'; torchrun starts only Python files.")
    _check_images(hyperparameters)
    _check_variables(request.get("Environment", {}))


def _check_images(hyperparameters: dict[str, Any]) -> None:
    if "sagemaker_training_compiler_enabled" in hyperparameters:
        raise InputError(
            "Compilers 'trcomp' and 'trcomp-off' exist only in SageMaker's images: "
            "choose the service 'sagemaker', or the compiler 'none' or 'inductor'."
        )
    for key in toolkit.DISTRIBUTION_KEYS:
        if hyperparameters.get(key) and key != "sagemaker_torch_distributed_enabled":
            raise InputError(f"{key} requires a launcher of SageMaker's images; the local service has only torchrun.")


def _check_variables(variables: dict[str, str]) -> None:
    slots.requested_cores(variables)
    for name in (MEMORY_VARIABLE, GRACE_VARIABLE):
        text = variables.get(name, "1")
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text) or float(text) == 0:
            raise InputError(f"{name} is '{text}'; it must be a number greater than 0.")
