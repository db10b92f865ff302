"""Facts about SageMaker's instance types: kind, accelerators (from `instance_types.json`) and built-in disks. Pure.

A type that the table does not list has unknown counts of accelerators. They are never guessed from its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from training.contract.job_spec import JobSpec

TABLE = Path(__file__).with_name("instance_types.json")
"""Table with its source and date. `tests/support/aws/instance_facts.py` writes it."""
VOLTA = ("p3", "p3dn")
"""Families with V100 GPUs."""


def all_types(spec: JobSpec) -> tuple[str, ...]:
    """Return the instance types on which a job may run."""
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
    """Return the source and the date of the table."""
    table = _table()
    return f"{table['source']}; {table['date']}"


def is_known(instance_type: str) -> bool:
    """Return whether the table lists the instance type."""
    return instance_type in _accelerated() or instance_type in _table()["cpu_only"]


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
    return dict(json.loads(TABLE.read_text("utf-8")))


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


def volume_error(spec: JobSpec) -> str | None:
    """Return the error of a job's volume, without a full stop, or None."""
    local = [each for each in all_types(spec) if has_local_disk(each)]
    if spec.volume_key and local:
        return (
            f"aws.volume_key cannot encrypt the built-in disk of {local[0]}, but another instance type needs the key: "
            "choose instance types of one kind, or leave aws.volume_key out"
        )
    return None
