"""Every service, each declared in its own room. A new service is a room and a line here.

Reading the traits opens no service and imports no library of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from training.contract.service import Room, Traits
from training.services.local import room as local
from training.services.sagemaker import room as sagemaker
from training.services.slurm import room as slurm

ROOMS: tuple[Room, ...] = (
    local,
    sagemaker,
    slurm,
)
"""The first one is the default."""
SERVICES = {room.TRAITS.name: room for room in ROOMS}
SECTIONS = tuple(room.TRAITS.section for room in ROOMS if room.TRAITS.section)
"""Sections of an experiment with the fields of one service."""
DEFAULT = next(iter(SERVICES))
if TYPE_CHECKING:
    ServiceName = str
else:
    ServiceName = Literal[tuple(SERVICES)]
_BY_INSTANCE_TYPE = {room.TRAITS.instance_type: name for name, room in SERVICES.items()}


def traits_of(service: str) -> Traits:
    return SERVICES[service].TRAITS


def service_name(instance_type: str) -> str:
    """Return the name of the service whose jobs have this instance type in their requests and records.

    Details may follow a colon, such as in `slurm:gpu/a100`.
    """
    return _BY_INSTANCE_TYPE.get(instance_type.partition(":")[0]) or _BY_INSTANCE_TYPE[None]


def services_with(trait: str) -> str:
    """Return the names of the services that have a trait, for messages."""
    return " or ".join(name for name, room in SERVICES.items() if getattr(room.TRAITS, trait))
