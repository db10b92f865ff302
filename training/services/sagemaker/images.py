"""Default container image of a compiler setting."""

from __future__ import annotations

from training.contract.errors import InputError
from training.contract.job_spec import Compiler
from training.contract.script_mode import TRAINING_COMPILER

# The newest versions that sagemaker-core 2.27.0 lists.
NEWEST = {"version": "5.3.0", "base_framework_version": "pytorch2.9.0"}
TRAINING_COMPILER_IMAGE = {"version": "4.21.1", "base_framework_version": "pytorch1.11.0", "py_version": "py38"}


def default_image(compiler: Compiler, instance_type: str, region: str) -> str:
    """Return the URI of AWS's newest Hugging Face image with that compiler. Raises InputError if none is listed."""
    # Imported here because the imports take seconds.
    from sagemaker.core import image_uris
    from sagemaker.core.training_compiler.config import TrainingCompilerConfig

    has_compiler = compiler in TRAINING_COMPILER
    versions = TRAINING_COMPILER_IMAGE if has_compiler else NEWEST
    configuration = TrainingCompilerConfig() if has_compiler else None
    try:
        return str(
            image_uris.retrieve(
                "huggingface",
                region,
                instance_type=instance_type,
                image_scope="training",
                training_compiler_config=configuration,
                **versions,
            )
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(
            f"AWS lists no image for compiler '{compiler}' on {instance_type} in {region} ({reason}): "
            "set machine.image to an image URI."
        ) from error
