"""Open a Slurm cluster as a service; see `Room`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from state.home import home
from training.contract.errors import InputError
from training.contract.price import Price
from training.contract.service import Echo, PriceOf, Service, ServiceContext
from training.services.slurm.traits import TRAITS as TRAITS

if TYPE_CHECKING:
    from training.contract.job_spec import JobSpec

FOLDER = "slurm"
"""Folder in the state folder with the jobs' folders."""
OF_ONE_MACHINE = ("ext2/ext3", "xfs", "btrfs", "zfs", "tmpfs", "overlayfs")
"""File systems, as `stat` names them, that no other machine sees unless it is exported."""


def open_context(section: Mapping[str, Any], echo: Echo, *, is_read_only: bool) -> ServiceContext:
    from training.contract.request import build
    from training.services.slurm.commands import NO_NODES, options, test_start
    from training.services.supervision.folder_service import check_program

    root = next(path for path in (home(), *home().parents) if path.exists())
    kind = subprocess.run(["stat", "-f", "-c", "%T", root], capture_output=True, text=True, check=False).stdout.strip()
    if is_read_only or kind in OF_ONE_MACHINE:
        python = section.get("python") or sys.executable
        echo(f"Slurm's nodes must see {home()}, which is on {kind} here, and {python}.")

    @cache
    def test(text: str, words: tuple[str, ...]) -> None:
        start = test_start(words)
        if is_read_only or NO_NODES in start:
            echo(f"Slurm: {text}. {start}.")

    def check(spec: JobSpec) -> JobSpec:
        request = build(spec)
        check_program(request)
        words = options(request)
        test(" ".join(words), tuple(words))
        return spec

    price = partial(_price, section.get("prices"))
    return ServiceContext(service=open_service(), check=check, upload=check, price=price)


def open_service() -> Service:
    from training.services.slurm.service import SlurmService

    return SlurmService(home() / FOLDER)


def service_of(spec: JobSpec, group_id: str) -> Service:
    from training.services.supervision.toolkit import local_path

    if not (folder := local_path(spec.output_uri)).is_relative_to(home()):
        raise InputError(
            f"group {group_id} writes to {folder}, which is not under {home()}: run attach with the TRAINFARE_HOME "
            "with which it was started."
        )
    return open_service()


def prices(table: str | None, _: Echo) -> PriceOf:
    return partial(_price, table)


def _price(table: str | None, instance_type: str) -> Price | None:
    """Return the price of one node of a job, `slurm:PARTITION/4xa100`, in the user's table.

    The first key counts that the table has: the whole type, `PARTITION/a100` and `a100` for each GPU, and `PARTITION`
    for a node.
    """
    from training.contract.price_table import table_price

    if table is None:
        return None
    place = instance_type.partition(":")[2]
    partition, _, gpus = place.partition("/")
    count, _, gpu = gpus.partition("x")
    per_gpu = [f"{partition}/{gpu}", gpu] if gpu else []
    for key, factor in [(place, 1), *((key, int(count)) for key in per_gpu), (partition, 1)]:
        if price := table_price(table, key, "slurm.prices"):
            return Price(usd_per_hour=price.usd_per_hour * factor, source=price.source, date=price.date)
    return None
