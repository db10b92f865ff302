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


FAMILIES = re.compile(r"[a-z]+\d+[a-z]*d[a-z]*|g[5-9].*|gr6.*|p3dn|p4de?|p[5-9].*|trn.*|dl1")
"""Families with built-in disks: those with a `d` after their generation, and newer ones for machine learning.

SageMaker mounts these disks instead of a volume. They are encrypted with a key of their own, so CreateTrainingJob and
CreateEndpointConfig refuse a KMS key for them, and a size above theirs (botocore's documentation of
`ResourceConfig.VolumeKmsKeyId` and `VolumeSizeInGB`). SageMaker's SDK leaves the key out too (`instance_supports_kms`,
sagemaker-core 2.27.0), by a rule that misses the newest families.
"""

SIZES_GB = {
    "g4dn.xlarge": 125, "g4dn.2xlarge": 225, "g4dn.4xlarge": 225, "g4dn.8xlarge": 900, "g4dn.12xlarge": 900,
    "g4dn.16xlarge": 900,
    "g5.xlarge": 250, "g5.2xlarge": 450, "g5.4xlarge": 600, "g5.8xlarge": 900, "g5.12xlarge": 3800,
    "g5.16xlarge": 1900, "g5.24xlarge": 3800, "g5.48xlarge": 7600,
    "g6.xlarge": 250, "g6.2xlarge": 450, "g6.4xlarge": 600, "g6.8xlarge": 900, "g6.12xlarge": 3760,
    "g6.16xlarge": 1880, "g6.24xlarge": 3760, "g6.48xlarge": 7520,
    "g6e.xlarge": 250, "g6e.2xlarge": 450, "g6e.4xlarge": 600, "g6e.8xlarge": 900, "g6e.12xlarge": 3800,
    "g6e.16xlarge": 1900, "g6e.24xlarge": 3800, "g6e.48xlarge": 7600,
    "g7.2xlarge": 440, "g7.4xlarge": 875, "g7.8xlarge": 930, "g7.12xlarge": 1900, "g7.24xlarge": 3800,
    "g7.48xlarge": 7600,
    "g7e.2xlarge": 1900, "g7e.4xlarge": 1900, "g7e.8xlarge": 1900, "g7e.12xlarge": 3800, "g7e.24xlarge": 7600,
    "g7e.48xlarge": 15200,
    "p3dn.24xlarge": 1800,
    "p4d.24xlarge": 8000,
    "p4de.24xlarge": 8000,
    "p5.4xlarge": 3800, "p5.48xlarge": 30400,
    "p5e.48xlarge": 30400,
    "p5en.48xlarge": 30400,
    "p6-b200.48xlarge": 30400,
    "p6-b300.48xlarge": 30400,
    "r5d.large": 75, "r5d.xlarge": 150, "r5d.2xlarge": 300, "r5d.4xlarge": 600, "r5d.8xlarge": 1200,
    "r5d.12xlarge": 1800, "r5d.16xlarge": 2400, "r5d.24xlarge": 3600,
    "trn1.2xlarge": 474, "trn1.32xlarge": 7600,
    "trn1n.32xlarge": 7600,
    "trn2.48xlarge": 7600,
}  # fmt: skip
"""Total size of the disks of each type, from EC2's DescribeInstanceTypes as of moto 5.2.5 (2026)."""


def has_local_disk(instance_type: str) -> bool:
    """Return whether the instance type has built-in disks, such as ml.g5.xlarge."""
    return FAMILIES.fullmatch(instance_type.removeprefix("ml.").partition(".")[0]) is not None


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
    for each in local:
        total_gb = SIZES_GB.get(each.removeprefix("ml."))
        if total_gb is not None and spec.volume_gib > total_gb:
            return f"volume_gib {spec.volume_gib} is more than the built-in disk of {each}, which has {total_gb} GB"
    return None
