"""Rules and advice of SageMaker's SDK, applied to a job before anything is uploaded. Pure.

Sources: sagemaker-python-sdk 2.257.7, `training_compiler/config.py`, `huggingface/training_compiler/config.py` and
`fw_utils.py`; botocore's documentation of CreateTrainingJob. As in the SDK, rules about versions apply only to images
whose URI states the versions, not to a user's own images.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from training.contract.errors import InputError
from training.contract.image_address import Image, read_image
from training.contract.job_spec import FILE_SYSTEMS, JobSpec
from training.contract.request import TRAINING_COMPILER, launcher_of
from training.services.sagemaker.checks.local_disks import volume_error

COMPILER_FAMILIES = ("p3", "p3dn", "g4dn", "p4d", "g5")
EFA_TYPES = ("ml.g4dn.8xlarge", "ml.g4dn.12xlarge", "ml.g5.48xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge")
SMDDP_TYPES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge")

Rule = Callable[[JobSpec, Image | None], str | None]
"""Function that returns the error of a job with this image, or None."""


def check_sdk_rules(spec: JobSpec) -> None:
    """Raise InputError for a job that SageMaker would reject or that could not run."""
    image = read_image(spec.image)
    for rule in RULES:
        if message := rule(spec, image):
            raise InputError(f"{message}.")


def check_instance_types(spec: JobSpec) -> None:
    """Raise InputError for a name that is not an instance type, and for a type that is listed twice."""
    if message := _instance_types(spec, None):
        raise InputError(f"{message}.")


def advice(spec: JobSpec) -> list[str]:
    """Return notes on a job that can run but would run better with different settings."""
    notes = []
    if launcher_of(spec) == "xla" and spec.instance_type not in EFA_TYPES:
        notes.append(
            f"{spec.instance_type} has no Elastic Fabric Adapter, which the Training Compiler uses between devices; "
            f"instance types with an adapter: {', '.join(EFA_TYPES)}."
        )
    if spec.compiler == "trcomp" and spec.compiler_debug:
        notes.append("The Training Compiler's debug mode slows training down; turn it off to measure time.")
    partitions = int(spec.model_parallel.get("partitions", 1))
    if spec.launcher == "smp" and partitions > 1:
        notes.append(
            f"launcher smp splits the model over {partitions} GPUs, but batch size, learning rate and rows are counted "
            "as if each GPU had its own copy. Training with smp was never tested: check the first losses."
        )
    return notes


def _types(spec: JobSpec) -> tuple[str, ...]:
    return (spec.instance_type, *spec.fallback_instance_types)


def _family(instance_type: str) -> str:
    return instance_type.split(".")[1] if instance_type.count(".") == 2 else instance_type


def _is_gpu(instance_type: str) -> bool:
    return _family(instance_type).startswith(("p", "g"))


def _is_trainium(instance_type: str) -> bool:
    return _family(instance_type).startswith("trn")


def _instance_types(spec: JobSpec, _: Image | None) -> str | None:
    for each in _types(spec):
        if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", each):
            return f"instance_type '{each}' is not a SageMaker instance type; an example is ml.g5.xlarge"
    if len(set(_types(spec))) < len(_types(spec)):
        return f"fallback_instance_types repeats a type: {', '.join(_types(spec))}; list each type once"
    return None


def _compiler_family(spec: JobSpec, _: Image | None) -> str | None:
    if spec.compiler not in TRAINING_COMPILER:
        return None
    for each in _types(spec):
        if _family(each) not in COMPILER_FAMILIES:
            return (
                f"compiler '{spec.compiler}' does not run on {each}: SageMaker Training Compiler supports only the "
                f"families {', '.join(COMPILER_FAMILIES)}"
            )
    return None


def _compiler_image(spec: JobSpec, image: Image | None) -> str | None:
    """Check that the image fits the compiler. Like the SDK, reject a user's own image for the Training Compiler."""
    needs_compiler = spec.compiler in TRAINING_COMPILER
    if needs_compiler and not (image and image.has_training_compiler):
        return f"compiler '{spec.compiler}' needs an image of SageMaker Training Compiler; {spec.image} is not one"
    if not needs_compiler and image and image.has_training_compiler:
        return (
            f"compiler '{spec.compiler}' does not run in the Training Compiler's image {spec.image}: "
            "use 'trcomp-off' to train without the compiler in that image"
        )
    if needs_compiler and image and image.transformers and not (1, 9) <= image.pytorch[:2] <= (1, 11):
        return (
            f"compiler '{spec.compiler}' needs PyTorch 1.9 to 1.11 in images with Transformers; "
            f"this image has {image.pytorch_text}"
        )
    return None


def _compiler_launcher(spec: JobSpec, image: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if launcher == "xla" and spec.compiler not in TRAINING_COMPILER:
        return f"launcher 'xla' needs the compiler trcomp or trcomp-off, not '{spec.compiler}'"
    if spec.compiler not in TRAINING_COMPILER or launcher is None:
        return None
    if launcher in {"smddp", "smp"}:
        return f"launcher '{launcher}' and compiler '{spec.compiler}' cannot be combined"
    is_old = image is not None and image.pytorch < (1, 11)
    if launcher == "xla" and is_old:
        return f"launcher 'xla' needs PyTorch 1.11 or later; the image has {image.pytorch_text if image else ''}"
    if launcher != "xla" and not is_old:
        return f"compiler '{spec.compiler}' needs launcher 'xla' with PyTorch 1.11 or later, not '{launcher}'"
    return None


def _inductor(spec: JobSpec, image: Image | None) -> str | None:
    if spec.compiler == "inductor" and image and image.pytorch < (2,):
        return f"compiler 'inductor' needs PyTorch 2.0 or later; the image has {image.pytorch_text}"
    return None


def _torchrun(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "torchrun":
        return None
    for each in _types(spec):
        if not (_is_gpu(each) or _is_trainium(each)):
            return f"launcher 'torchrun' runs only on GPUs and Trainium; {each} has neither"
    # The SDK lists the versions from 1.13.1 to the newest of its release; later versions are allowed here.
    if image and _is_gpu(spec.instance_type) and image.pytorch < (1, 13, 1):
        return f"launcher 'torchrun' needs PyTorch 1.13.1 or later on GPUs; the image has {image.pytorch_text}"
    if not spec.program.endswith(".py"):
        return f"launcher 'torchrun' starts only Python programs; '{spec.program}' is not one"
    return None


def _pytorch_ddp(spec: JobSpec, image: Image | None) -> str | None:
    if (
        launcher_of(spec) == "pytorchddp"
        and spec.compiler not in TRAINING_COMPILER
        and image
        and image.pytorch < (1, 10)
    ):
        return f"launcher 'pytorchddp' needs PyTorch 1.10 or later; the image has {image.pytorch_text}"
    return None


def _trainium(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    for each in filter(_is_trainium, _types(spec)):
        if not spec.is_script:
            return f"Our own training does not run on Trainium ({each}): use a type with a GPU, or your own script"
        if launcher not in {None, "torchrun"}:
            return f"launcher '{launcher}' does not run on Trainium ({each}): use 'torchrun'"
    return None


def _data_parallel(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "smddp":
        return None
    for each in _types(spec):
        if each not in SMDDP_TYPES:
            return f"launcher 'smddp' runs only on {', '.join(SMDDP_TYPES)}, not on {each}"
    if image and not (1, 6) <= image.pytorch <= (2, 2, 0):
        return f"launcher 'smddp' needs PyTorch 1.6 to 2.2.0; the image has {image.pytorch_text}"
    return None


def _launcher_options(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if spec.mpi_options and launcher not in {"smddp", "smp"}:
        return f"mpi_options needs the launcher smddp or smp, not {launcher or 'a single process'}"
    if spec.model_parallel and launcher != "smp":
        return f"model_parallel needs the launcher smp, not {launcher or 'a single process'}"
    if launcher == "smp" and "partitions" not in spec.model_parallel:
        return "launcher 'smp' needs model_parallel.partitions, the number of parts of the model"
    return next(_wrong_parameters(spec), None)


ALLOWED = {
    "pipeline": ("simple", "interleaved", "_only_forward"),
    "placement_strategy": ("spread", "cluster"),
    "optimize": ("speed", "memory"),
    **dict.fromkeys(("auto_partition", "contiguous", "load_partition", "horovod", "ddp"), (True, False)),
    "deterministic_server": (True, False),
}
POSITIVE = ("microbatches", "partitions", "active_microbatches")


def _wrong_parameters(spec: JobSpec) -> Iterator[str]:
    """Yield the errors in `model_parallel`, by the rules of the SDK's `validate_mp_config`."""
    options = spec.model_parallel
    for name, allowed in ALLOWED.items():
        if name in options and options[name] not in allowed:
            yield f"model_parallel.{name} is {options[name]!r}; it must be one of {', '.join(map(str, allowed))}"
    for name in POSITIVE:
        value = options.get(name, 1)
        if type(value) is not int or value < 1:
            yield f"model_parallel.{name} is {value!r}; it must be a whole number of at least 1"
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield f"model_parallel.{name} is {value}; it must be a finite number"
    if options.get("auto_partition") is False and "default_partition" not in options:
        yield "model_parallel.default_partition is required when auto_partition is false"
    default, parts = options.get("default_partition", 0), options.get("partitions", 0)
    is_valid = type(default) is int and isinstance(parts, int) and 0 <= default < parts
    if "default_partition" in options and isinstance(parts, int) and not is_valid:
        yield f"model_parallel.default_partition is {default!r}; it must be below partitions, {parts}"
    weight = options.get("memory_weight", 0.0)
    if not isinstance(weight, (int, float)) or not 0.0 <= weight <= 1.0:
        yield f"model_parallel.memory_weight is {weight!r}; it must be from 0 to 1"
    port = options.get("ddp_port", 0)
    if type(port) is not int or port < 0:
        yield f"model_parallel.ddp_port is {port!r}; it must be a whole number of at least 0"
    if not isinstance(options.get("partition_file", ""), str):
        yield f"model_parallel.partition_file is {options['partition_file']!r}; it must be text"
    for name in ("ddp_port", "ddp_dist_backend"):
        if name in options and "ddp" not in options:
            yield f"model_parallel.{name} needs model_parallel.ddp"
    if options.get("horovod") and options.get("ddp"):
        yield "model_parallel.horovod and model_parallel.ddp cannot be combined"


def _spot(spec: JobSpec, _: Image | None) -> str | None:
    if not spec.spot:
        if spec.max_wait_seconds is not None:
            return f"max_wait_seconds {spec.max_wait_seconds} applies only to spot training, but spot is false"
        return None
    if not (spec.checkpoint_uri or "").startswith("s3://"):
        return "spot needs a checkpoint URI in S3: without one, an interrupted job starts again and is billed twice"
    if spec.max_wait_seconds is not None and spec.max_wait_seconds < spec.max_run_seconds:
        return (
            f"max_wait_seconds {spec.max_wait_seconds} must be at least max_run_seconds {spec.max_run_seconds}, "
            f"because the wait includes the run"
        )
    if spec.fallback_instance_types:
        return "spot and fallback_instance_types cannot be combined: fallbacks work only with on-demand instances"
    if spec.keep_alive_seconds:
        return (
            f"spot and keep_alive_seconds {spec.keep_alive_seconds} cannot be combined: "
            "spot instances cannot be kept alive"
        )
    return None


def _network(spec: JobSpec, _: Image | None) -> str | None:
    if bool(spec.subnets) != bool(spec.security_groups):
        missing = "security_groups" if spec.subnets else "subnets"
        return f"subnets and security_groups must be set together; {missing} is missing"
    for name, uri in spec.channels.items():
        if uri.partition("://")[0] in FILE_SYSTEMS and not spec.subnets:
            return f"channel '{name}' is in a file system, which needs aws.subnets and aws.security_groups to reach it"
    return None


def _volume(spec: JobSpec, _: Image | None) -> str | None:
    return volume_error(spec)


RULES: tuple[Rule, ...] = (
    *(_instance_types, _compiler_family, _compiler_image, _compiler_launcher, _inductor, _torchrun, _pytorch_ddp),
    *(_trainium, _data_parallel, _launcher_options, _spot, _network, _volume),
)
