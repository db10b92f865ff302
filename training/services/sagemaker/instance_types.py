"""GPUs and Neuron devices of SageMaker's instance types, from the dated table `instance_types.json`.

A type that the table does not list has unknown counts. They are never guessed from its name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

TABLE = Path(__file__).with_name("instance_types.json")
"""Table with its source and date. `tests/support/aws/instance_facts.py` writes it."""


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
    return instance_type in _accelerated() or instance_type in _cpu_only()


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


@cache
def _cpu_only() -> frozenset[str]:
    return frozenset(_table()["cpu_only"])
