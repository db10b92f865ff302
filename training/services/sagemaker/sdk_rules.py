"""What SageMaker's SDK refuses or advises against, said before anything is uploaded. Pure.

Sources: sagemaker-python-sdk 2.257.7, `training_compiler/config.py`, `huggingface/training_compiler/config.py` and
`fw_utils.py`; botocore's documentation of CreateTrainingJob. A rule that looks at versions is held to images whose
address tells them; an image of one's own is its owner's affair, as with the SDK.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from training.contract.errors import InputError
from training.contract.image_address import Image, read_image
from training.contract.job_spec import JobSpec
from training.contract.script_mode import TRAINING_COMPILER, launcher_of

COMPILER_FAMILIES = ("p3", "p3dn", "g4dn", "p4d", "g5")
EFA_TYPES = ("ml.g4dn.8xlarge", "ml.g4dn.12xlarge", "ml.g5.48xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge")
SMDDP_TYPES = ("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge")

Rule = Callable[[JobSpec, Image | None], str | None]
"""Returns what is wrong with a job in its image, or None."""


def check_sdk_rules(spec: JobSpec) -> None:
    """Raise InputError, naming the rule, for a job that SageMaker would refuse or start in vain."""
    image = read_image(spec.image)
    for rule in RULES:
        if wrong := rule(spec, image):
            raise InputError(f"{wrong}.")


def advice(spec: JobSpec) -> list[str]:
    """Return what would be better otherwise, though it runs as it is."""
    found = []
    if launcher_of(spec) == "xla" and spec.instance_type not in EFA_TYPES:
        found.append(
            f"{spec.instance_type} has no Elastic Fabric Adapter, which the Training Compiler uses between devices: "
            f"{', '.join(EFA_TYPES)} have one."
        )
    if spec.compiler == "trcomp" and spec.compiler_debug:
        found.append("The Training Compiler's debug mode slows training down: leave it off where time is measured.")
    partitions = int(spec.model_parallel.get("partitions", 1))
    if spec.launcher == "smp" and partitions > 1:
        found.append(
            f"launcher smp splits the model over {partitions} GPUs, but batch, learning rate and rows are counted as "
            "if each GPU had a copy of its own: no training under it has been tried, so check the first losses."
        )
    return found


def _types(spec: JobSpec) -> tuple[str, ...]:
    return (spec.instance_type, *spec.fallback_instance_types)


def _family(instance_type: str) -> str:
    return instance_type.split(".")[1] if instance_type.count(".") == 2 else instance_type


def _is_gpu(instance_type: str) -> bool:
    return _family(instance_type).startswith(("p", "g"))


def _is_trainium(instance_type: str) -> bool:
    return _family(instance_type).startswith("trn")


def _type_is_one(spec: JobSpec, _: Image | None) -> str | None:
    for each in _types(spec):
        if not re.fullmatch(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", each):
            return f"instance_type '{each}' is no machine of SageMaker's: they are called as ml.g5.xlarge is"
    if len(set(_types(spec))) < len(_types(spec)):
        return f"fallback_instance_types repeat a type: {', '.join(_types(spec))}; each is tried once"
    return None


def _compiler_family(spec: JobSpec, _: Image | None) -> str | None:
    if spec.compiler not in TRAINING_COMPILER:
        return None
    for each in _types(spec):
        if _family(each) not in COMPILER_FAMILIES:
            return (
                f"compiler '{spec.compiler}' does not run on {each}: SageMaker Training Compiler supports the "
                f"families {', '.join(COMPILER_FAMILIES)} alone"
            )
    return None


def _compiler_image(spec: JobSpec, image: Image | None) -> str | None:
    """Also the SDK's refusal of images of one's own: the compiler is not to be had outside its images."""
    needs = spec.compiler in TRAINING_COMPILER
    if needs and not (image and image.has_training_compiler):
        return f"compiler '{spec.compiler}' needs one of SageMaker Training Compiler's images, and {spec.image} is none"
    if not needs and image and image.has_training_compiler:
        return (
            f"compiler '{spec.compiler}' in the Training Compiler's image {spec.image} would not be what it says: "
            f"'trcomp-off' is the control within that image"
        )
    if needs and image and image.transformers and not (1, 9) <= image.pytorch[:2] <= (1, 11):
        return (
            f"compiler '{spec.compiler}' with Transformers' images is for PyTorch 1.9 to 1.11, not {image.pytorch_text}"
        )
    return None


def _compiler_launcher(spec: JobSpec, image: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if launcher == "xla" and spec.compiler not in TRAINING_COMPILER:
        return f"launcher 'xla' comes with the compilers trcomp and trcomp-off, not with '{spec.compiler}'"
    if spec.compiler not in TRAINING_COMPILER or launcher is None:
        return None
    if launcher in {"smddp", "smp"}:
        return f"launcher '{launcher}' and compiler '{spec.compiler}' exclude each other"
    old = image is not None and image.pytorch < (1, 11)
    if launcher == "xla" and old:
        return f"launcher 'xla' needs PyTorch 1.11 or later, and the image has {image.pytorch_text if image else ''}"
    if launcher != "xla" and not old:
        return f"launcher '{launcher}' does not go with compiler '{spec.compiler}' from PyTorch 1.11 on: 'xla' does"
    return None


def _inductor(spec: JobSpec, image: Image | None) -> str | None:
    if spec.compiler == "inductor" and image and image.pytorch < (2,):
        return f"compiler 'inductor' needs PyTorch 2.0 or later, and the image has {image.pytorch_text}"
    return None


def _torchrun(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "torchrun":
        return None
    for each in _types(spec):
        if not (_is_gpu(each) or _is_trainium(each)):
            return f"launcher 'torchrun' runs on GPUs and Trainium alone, and {each} has neither"
    # The SDK lists versions from 1.13.1 to the newest of its day; newer ones have come since.
    if image and _is_gpu(spec.instance_type) and image.pytorch < (1, 13, 1):
        return f"launcher 'torchrun' needs PyTorch 1.13.1 or later on GPUs, and the image has {image.pytorch_text}"
    if not spec.program.endswith(".py"):
        return f"launcher 'torchrun' starts Python programs alone, and '{spec.program}' is none"
    return None


def _pytorch_ddp(spec: JobSpec, image: Image | None) -> str | None:
    if (
        launcher_of(spec) == "pytorchddp"
        and spec.compiler not in TRAINING_COMPILER
        and image
        and image.pytorch < (1, 10)
    ):
        return f"launcher 'pytorchddp' needs PyTorch 1.10 or later, and the image has {image.pytorch_text}"
    return None


def _trainium(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    for each in _types(spec):
        if _is_trainium(each) and launcher not in {None, "torchrun"}:
            return f"launcher '{launcher}' does not run on Trainium ({each}): 'torchrun' does"
    return None


def _data_parallel(spec: JobSpec, image: Image | None) -> str | None:
    if launcher_of(spec) != "smddp":
        return None
    for each in _types(spec):
        if each not in SMDDP_TYPES:
            return f"launcher 'smddp' runs on {', '.join(SMDDP_TYPES)} alone, not on {each}"
    if image and not (1, 6) <= image.pytorch <= (2, 2, 0):
        return f"launcher 'smddp' is for PyTorch 1.6 to 2.2.0, and the image has {image.pytorch_text}"
    return None


def _launcher_options(spec: JobSpec, _: Image | None) -> str | None:
    launcher = launcher_of(spec)
    if spec.mpi_options and launcher not in {"smddp", "smp"}:
        return f"mpi_options goes with the launchers smddp and smp, not with {launcher or 'a single process'}"
    if spec.model_parallel and launcher != "smp":
        return f"model_parallel goes with launcher smp, not with {launcher or 'a single process'}"
    if launcher == "smp" and "partitions" not in spec.model_parallel:
        return "launcher 'smp' needs model_parallel.partitions: into how many parts is the model cut?"
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
    """The rules of `validate_mp_config`."""
    given = spec.model_parallel
    for name, allowed in ALLOWED.items():
        if name in given and given[name] not in allowed:
            yield f"model_parallel.{name} is {given[name]!r}; it must be one of {', '.join(map(str, allowed))}"
    for name in POSITIVE:
        value = given.get(name, 1)
        if type(value) is not int or value < 1:
            yield f"model_parallel.{name} is {value!r}; it must be a whole number from 1"
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            yield f"model_parallel.{name} is {value}; it must be a finite number"
    if given.get("auto_partition") is False and "default_partition" not in given:
        yield "model_parallel.default_partition is needed where auto_partition is false"
    default, parts = given.get("default_partition", 0), given.get("partitions", 0)
    if "default_partition" in given and isinstance(parts, int) and not (type(default) is int and 0 <= default < parts):
        yield f"model_parallel.default_partition is {default!r}; it must be below partitions, {parts}"
    weight = given.get("memory_weight", 0.0)
    if not isinstance(weight, (int, float)) or not 0.0 <= weight <= 1.0:
        yield f"model_parallel.memory_weight is {weight!r}; it must be from 0 to 1"
    port = given.get("ddp_port", 0)
    if type(port) is not int or port < 0:
        yield f"model_parallel.ddp_port is {port!r}; it must be a whole number from 0"
    if not isinstance(given.get("partition_file", ""), str):
        yield f"model_parallel.partition_file is {given['partition_file']!r}; it must be text"
    for name in ("ddp_port", "ddp_dist_backend"):
        if name in given and "ddp" not in given:
            yield f"model_parallel.{name} needs ddp"
    if given.get("horovod") and given.get("ddp"):
        yield "model_parallel.horovod and model_parallel.ddp exclude each other"


def _spot(spec: JobSpec, _: Image | None) -> str | None:
    if not spec.spot:
        if spec.max_wait_seconds is not None:
            return f"max_wait_seconds {spec.max_wait_seconds} goes with spot, and spot is off"
        return None
    if not (spec.checkpoint_uri or "").startswith("s3://"):
        return "spot needs a checkpoint URI in S3: without one an interrupted job begins again and pays twice"
    if spec.max_wait_seconds is not None and spec.max_wait_seconds < spec.max_run_seconds:
        return (
            f"max_wait_seconds {spec.max_wait_seconds} must be at least max_run_seconds {spec.max_run_seconds}: "
            f"the run is part of the wait"
        )
    if spec.fallback_instance_types:
        return "spot and fallback_instance_types exclude each other: SageMaker takes fallbacks on demand alone"
    if spec.keep_alive_seconds:
        return f"spot and keep_alive_seconds {spec.keep_alive_seconds} exclude each other: spot machines are given back"
    return None


def _network(spec: JobSpec, _: Image | None) -> str | None:
    if bool(spec.subnets) != bool(spec.security_groups):
        missing = "security_groups" if spec.subnets else "subnets"
        return f"subnets and security_groups go together, and {missing} is not given"
    return None


RULES: tuple[Rule, ...] = (
    *(_type_is_one, _compiler_family, _compiler_image, _compiler_launcher, _inductor, _torchrun, _pytorch_ddp),
    *(_trainium, _data_parallel, _launcher_options, _spot, _network),
)
