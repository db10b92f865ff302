"""Arguments that SageMaker's toolkit passes through a shell without quotes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import JsonValue

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec, is_shell_safe

MODEL = "model"
"""Channel of a model that was staged, and the argument with its name, which is then only a label."""


def shell_safe_hyperparameters(spec: JobSpec) -> Mapping[str, JsonValue]:
    """Return the hyperparameters of a job so that a shell passes them on as they are.

    Those of a script are safe already, because its entry point carries the others. The name of a staged model, such as
    a folder with a blank in its path, gets underscores. Raises InputError for any other value of our own job.
    """
    if spec.is_script:
        return spec.hyperparameters
    safe = dict(spec.hyperparameters)
    for name, value in spec.hyperparameters.items():
        text = str(value)
        if is_shell_safe(text):
            continue
        if name != MODEL or MODEL not in spec.channels:
            raise InputError(
                f"{name} {text!r} cannot be passed on SageMaker: its toolkit starts programs through a shell without "
                "quotes, so only letters, digits and _@%+=:,./- are possible."
            )
        safe[name] = re.sub(r"[^A-Za-z0-9_@%+=:,./-]", "_", text) or MODEL
    return safe
