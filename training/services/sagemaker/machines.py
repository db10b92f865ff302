"""Instance types of AWS with their accelerators and disks, and training images with their contents.

`instance_types.json` and `published_images.json` list both with a date and sources. A type that the table does not list
has unknown counts of accelerators. They are never guessed from its name. Images of endpoints are in `models/endpoints`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.contract.request import TRAINING_COMPILER

IMAGES_FILE = Path(__file__).with_name("published_images.json")
TRANSFORMERS = "huggingface-pytorch-training"
TRANSFORMERS_COMPILER = "huggingface-pytorch-trcomp-training"
PYTORCH = "pytorch-training"

OLDEST_TRANSFORMERS = (4, 49)
"""Oldest version of an AWS image that our own tasks run in. AWS's images with it have PyTorch 2.5 and Python 3.11."""
SCRIPTS_ONLY = "older images run only scripts, such as those in experiments/published/"
REMEDY = "set machine.image to the URI of your own image"

PROGRAM = Path(__file__).with_name("container_entry.py")
ENTRY_POINT = ("python", "-c", 'import sys; exec("\\n".join(sys.argv[1:]))')
"""Command that runs its arguments as lines of a Python program. One argument can have only 256 characters."""


class Image(BaseModel):
    """Contents of one image of AWS: a row of the table, or what its address states."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    """Name of the ECR repository, which stands for the family."""
    transformers: str | None
    """Version of Transformers. None if the image does not contain it."""
    pytorch: str
    """Version of PyTorch, such as `1.11.0`."""
    python: str
    """Version of Python without the full stop, as in the tag: `312`."""
    cuda: str | None
    """Version of CUDA as in the tag: `cu130`. None if no source states it."""
    devices: tuple[str, ...]
    """`gpu`, `cpu` or both; or `neuron`, which is Trainium."""

    @property
    def pytorch_version(self) -> tuple[int, ...]:
        """Version of PyTorch as numbers."""
        return version_number(self.pytorch)

    @property
    def on_gpu(self) -> bool:
        return "gpu" in self.devices

    @property
    def has_training_compiler(self) -> bool:
        return "-trcomp-" in self.repository

    @property
    def cuda_version(self) -> tuple[int, ...]:
        """Version of CUDA, such as (13, 0) for `cu130`; () if it is unknown or absent."""
        return (int(self.cuda[2:-1]), int(self.cuda[-1])) if self.cuda else ()

    def has(self, versions: Mapping[str, str]) -> bool:
        """Return whether the image has these versions: `{"pytorch": "2.5"}` matches 2.5.1 and not 2.50."""
        own = {"transformers": self.transformers, "pytorch": self.pytorch}
        return all(f"{own[name]}.".startswith(f"{version}.") for name, version in versions.items())

    def supports_volta(self) -> bool:
        """Return whether the image is sure to have kernels for the V100.

        PyTorch's builds for CUDA 13 have none. Those for CUDA 12.8 and 12.9 had none in PyTorch 2.7 and from 2.11 on
        (pytorch/pytorch#157517 and #172352).
        """
        return self.cuda_version < (12, 8)


_TAG = re.compile(
    r"/(?P<repository>[^/:]+):(?P<pytorch>\d+\.\d+(?:\.\d+)?)(?:-transformers(?P<transformers>\d[\d.]*))?-"
    r"(?P<device>gpu|cpu|neuron)x?-py(?P<python>\d+)(?:-(?P<cuda>cu\d+))?"
)


@cache
def published_images() -> tuple[Image, ...]:
    """Return all images, those with Transformers first, by ascending versions within a family."""
    return tuple(Image.model_validate(each) for each in json.loads(IMAGES_FILE.read_text())["images"])


def read_image(uri: str) -> Image | None:
    """Return the parts of the address of an AWS PyTorch container, or None for any other image."""
    match = _TAG.search(uri)
    if match is None:
        return None
    fields: dict[str, Any] = match.groupdict()
    return Image(devices=(fields.pop("device"),), **fields)


def aws_image(uri: str) -> Image | None:
    """Return the parts of the address of an AWS training image, or None for any other image."""
    image = read_image(uri)
    return image if image and any(each.repository == image.repository for each in published_images()) else None


def version_number(text: str) -> tuple[int, ...]:
    """Return (4, 21, 1) for `4.21.1`."""
    return tuple(int(part) for part in text.strip(".").split("."))


def default_image(spec: JobSpec, region: str) -> str:
    """Return the URI of the newest image that can run the job and has its `image_versions`.

    Raises InputError if AWS publishes none for the instance types, the versions or the region.
    """
    return _uri(chosen(spec), spec.instance_type, region)


def chosen(spec: JobSpec) -> Image:
    """Return the newest image of the table that can run the job. Pure. Raises InputError if none does.

    A script may need no Transformers, so it may get an image without, but gets one with it where both would do.
    """
    types = all_types(spec)
    if any(map(is_trainium, types)):  # the SDK's table lacks their images
        raise InputError(
            f"{', '.join(types)} (Trainium) runs only your own script, in an image that machine.image names by its URI."
        )
    families = _families(spec)
    fitting = [
        each
        for each in published_images()
        if each.repository in families
        and (spec.is_script or version_number(each.transformers or "0") >= OLDEST_TRANSFORMERS)
        and all(_runs_on(each, one) for one in types)
    ]
    if not fitting:
        what = "PyTorch" if spec.is_script else "Transformers"
        kind = "Arm CPUs" if any(map(is_arm, types)) else "CPUs"
        raise InputError(f"AWS publishes no image with {what} for {', '.join(types)} ({kind}): {REMEDY}.")
    matching = [each for each in fitting if each.has(spec.image_versions)]
    if not matching:
        versions = " and ".join(f"{name} {version}" for name, version in spec.image_versions.items())
        rows = [
            f"transformers {each.transformers} with pytorch {each.pytorch}" if each.transformers else each.pytorch
            for each in fitting
        ]
        raise InputError(
            f"machine.image asks for {versions}, which no image for {', '.join(types)} has; there are "
            f"{'; '.join(rows)}{'' if spec.is_script else f'. For tasks: {SCRIPTS_ONLY}'}."
        )
    first = next(name for name in families if any(each.repository == name for each in matching))
    own = [each for each in matching if each.repository == first]
    return max(own, key=lambda each: (version_number(each.transformers or "0"), each.pytorch_version))


def _families(spec: JobSpec) -> tuple[str, ...]:
    """Return the families to choose from, the preferred one first."""
    if spec.compiler in TRAINING_COMPILER:
        return (TRANSFORMERS_COMPILER,)
    return (TRANSFORMERS, PYTORCH) if spec.is_script else (TRANSFORMERS,)


def _runs_on(image: Image, instance_type: str) -> bool:
    device = "gpu" if is_gpu(instance_type) else "cpu"
    if is_arm(instance_type) or device not in image.devices:
        return False
    return family(instance_type) not in VOLTA or image.supports_volta()


def _uri(image: Image, instance_type: str, region: str) -> str:
    """Return the address of an image in a region, from the SDK's table of registries."""
    # Imported here because the imports take seconds.
    from sagemaker.core import image_uris
    from sagemaker.core.training_compiler.config import TrainingCompilerConfig

    options = {"framework": "pytorch", "version": image.pytorch, "py_version": f"py{image.python}"}
    if image.transformers:
        options = {"framework": "huggingface", "version": image.transformers}
        options |= {"base_framework_version": f"pytorch{image.pytorch}", "py_version": f"py{image.python}"}
    configuration = TrainingCompilerConfig() if image.has_training_compiler else None
    try:
        return str(
            image_uris.retrieve(
                region=region,
                instance_type=instance_type,
                image_scope="training",
                training_compiler_config=configuration,
                **options,
            )
        )
    except (ValueError, KeyError) as error:
        reason = (str(error).splitlines() or ["not listed"])[0].rstrip(".")
        raise InputError(
            f"AWS lists no image {image.repository} for {instance_type} in {region} ({reason}): {REMEDY}."
        ) from error


def check_image(spec: JobSpec) -> None:
    """Raise InputError if our own job cannot run in the image of a resolved spec. Pure.

    A user's script may need none of this, so it may use any image.
    """
    if spec.is_script:
        return
    match = re.match(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.", spec.image)
    if match and match[1] != spec.region:
        raise InputError(
            f"machine.image {spec.image} is in {match[1]}, but the jobs run in {spec.region}: SageMaker pulls images "
            "only from the region of the job."
        )
    image = aws_image(spec.image)
    if message := image and _image_error(spec, image):
        raise InputError(f"machine.image {spec.image} {message}.")


def _image_error(spec: JobSpec, image: Image) -> str | None:
    if image.transformers is None:
        return (
            "does not contain Transformers, which this training needs: leave machine.image out, choose an image of "
            "huggingface-pytorch-training, or run your own script"
        )
    if version_number(image.transformers) < OLDEST_TRANSFORMERS:
        return (
            f"has Transformers {image.transformers}, and tasks need 4.49 or later, with Python 3.10 and PyTorch 2.5: "
            f"leave machine.image out; {SCRIPTS_ONLY}"
        )
    if "neuron" in image.devices:
        return "is for Trainium, on which only your own script runs"
    listed = [each for each in published_images() if each.repository == image.repository]
    alike = [each for each in listed if each.has({"pytorch": image.pytorch, "transformers": image.transformers})]
    cuda = (alike[-1] if alike and image.on_gpu and not image.cuda else image).cuda_version
    for each in all_types(spec):
        if is_gpu(each) and not image.on_gpu:
            return f"is for CPUs, but {each} has GPUs, which would be billed and not used"
        if family(each) in VOLTA and cuda >= (13,):
            return (
                f"has PyTorch for CUDA 13, which has no kernels for the V100 of {each}: leave machine.image out, or "
                'set it to {transformers: "4.49"}'
            )
    return None


def entry_point(image: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (entry point, arguments) of a container. Both are empty for an image that is not one of AWS's families.

    AWS's images start `bash -m start_with_right_hostname.sh train`. This bash is process 1, has no trap and does not
    forward signals, so the training never gets the SIGTERM of a stop (sagemaker-training-toolkit#125 and #173,
    deep-learning-containers#632). `AlgorithmSpecification.ContainerEntrypoint` replaces the image's entry point by
    `container_entry.py`.
    """
    return (ENTRY_POINT, arguments()) if aws_image(image) else ((), ())


@cache
def arguments() -> tuple[str, ...]:
    """Return the lines of `container_entry.py` without empty lines, comments and docstrings."""
    lines, in_docstring = [], False
    for line in PROGRAM.read_text(encoding="utf-8").splitlines():
        bare = line.strip()
        if '"""' in bare:
            in_docstring ^= bare.count('"""') == 1
        elif bare and not bare.startswith("#") and not in_docstring:
            lines.append(line)
    return tuple(lines)


TYPES_FILE = Path(__file__).with_name("instance_types.json")
"""Table with its source and date. `tests/support/aws/instance_facts.py` writes it."""
VOLTA = ("p3", "p3dn")
"""Families with V100 GPUs."""


def all_types(spec: JobSpec) -> tuple[str, ...]:
    return (spec.instance_type, *spec.fallback_instance_types)


def family(instance_type: str) -> str:
    """Return `g5` for `ml.g5.xlarge`."""
    return instance_type.split(".")[1] if instance_type.count(".") == 2 else instance_type


def is_arm(instance_type: str) -> bool:
    """Return True for Graviton (such as c7g and g5g) and Grace (p6e-gb200), which need images of their own."""
    return bool(re.fullmatch(r"[a-z]+\d+gd?n?|p6e-gb\d+", family(instance_type)))


def is_gpu(instance_type: str) -> bool:
    return family(instance_type).startswith(("p", "g"))


def is_trainium(instance_type: str) -> bool:
    return family(instance_type).startswith("trn")


@dataclass(frozen=True, kw_only=True)
class Accelerators:
    """Accelerators of one instance."""

    kind: Literal["gpu", "neuron"]
    name: str
    """Model, such as A10G; `unknown` if only the count is known."""
    count: int
    memory_mib: int | None
    """Memory of each, in MiB; None if unknown."""
    cores: int
    """Neuron cores of each; 0 for GPUs."""


def source() -> str:
    table = _table()
    return f"{table['source']}; {table['date']}"


def is_known(instance_type: str) -> bool:
    """Return whether the accelerators of a type are known. No family of CPUs has any, whatever the size."""
    return instance_type in _accelerated() or family(instance_type) in _table()["cpu_families"]


def accelerators(instance_type: str) -> Accelerators | None:
    """Return the accelerators of an instance type; None if it has none, or if the type is unknown."""
    return _accelerated().get(instance_type)


def device_count(instance_type: str) -> int | None:
    """Return the number of devices on which a launcher starts a process: the GPUs, or the Neuron cores.

    It is 0 for types without accelerators, and None if it is unknown.
    """
    if not is_known(instance_type):
        return None
    devices = accelerators(instance_type)
    if devices is None or devices.kind == "gpu":
        return devices.count if devices else 0
    # Trainium2 joins its cores into logical ones, whose size is a setting: NEURON_LOGICAL_NC_CONFIG.
    return None if devices.name == "Trainium2" else devices.count * devices.cores


def described(instance_type: str) -> str:
    """Return the accelerators in a few words, such as `4 A10G GPUs with 22 GiB each`."""
    if not is_known(instance_type):
        return "unknown number of GPUs"
    devices = accelerators(instance_type)
    if devices is None:
        return "no GPU"
    noun = "GPU" if devices.kind == "gpu" else "chip"
    name = "" if devices.name == "unknown" else f"{devices.name} "
    memory = f" with {devices.memory_mib / 1024:.0f} GiB" if devices.memory_mib else ""
    if devices.count == 1:
        return f"1 {name}{noun}{memory}"
    return f"{devices.count} {name}{noun}s{memory and f'{memory} each'}"


@cache
def _table() -> dict[str, Any]:
    return dict(json.loads(TYPES_FILE.read_text("utf-8")))


@cache
def _accelerated() -> Mapping[str, Accelerators]:
    fields = ("kind", "name", "count", "memory_mib", "cores")
    return {name: Accelerators(**dict(zip(fields, row, strict=True))) for name, row in _table()["accelerated"].items()}


LOCAL_DISK = re.compile(r"[a-z]+\d+[a-z]*d[a-z]*|g[5-9].*|gr6.*|p3dn|p4de?|p[5-9].*|trn.*|dl1")
"""Families with built-in disks: those with a `d` after their generation, and newer ones for machine learning.

SageMaker mounts these disks instead of a volume. They are encrypted with a key of their own, so CreateTrainingJob and
CreateEndpointConfig refuse a KMS key for them, and a size above theirs (botocore's documentation of
`ResourceConfig.VolumeKmsKeyId` and `VolumeSizeInGB`). SageMaker's SDK leaves the key out too (`instance_supports_kms`,
sagemaker-core 2.27.0), by a rule that misses the newest families.
"""


def has_local_disk(instance_type: str) -> bool:
    """Return whether the instance type has built-in disks, such as ml.g5.xlarge."""
    return LOCAL_DISK.fullmatch(instance_type.removeprefix("ml.").partition(".")[0]) is not None


def volume_key_of(types: Sequence[str], key: str | None) -> str | None:
    """Return the KMS key for the volumes of these instance types: None if all of them have built-in disks."""
    return None if all(has_local_disk(each) for each in types) else key
