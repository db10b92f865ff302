"""Open the service of this machine; see `Room`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import distribution, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from state.home import home
from training.contract.errors import InputError
from training.contract.service import Echo, PriceOf, Service, ServiceContext
from training.services.local.traits import TRAITS as TRAITS

if TYPE_CHECKING:
    from training.contract.job_spec import JobSpec


def open_context(_: Mapping[str, Any], echo: Echo, *, is_read_only: bool) -> ServiceContext:
    from training.contract.request import build
    from training.services.local.service import LocalService, check_request
    from training.services.local.slots import gpu_listing, machine, used_device

    service, gpus = LocalService(home()), len(machine({}).gpus)
    has_cuda = Path(str(distribution("torch").locate_file("torch/lib/libtorch_cuda.so"))).exists()
    if not is_read_only or (gpus and not has_cuda):
        echo(used_device(gpus, gpu_listing(), version("torch"), has_cuda))

    def check(spec: JobSpec) -> JobSpec:
        service.check_folders(spec.environment, create=not is_read_only)
        check_request(build(spec))
        return spec

    return ServiceContext(service=service, check=check, upload=check, price=lambda _: None)


def open_service() -> Service:
    from training.services.local.service import LocalService

    return LocalService(home())


def service_of(spec: JobSpec, group_id: str) -> Service:
    folder = unquote(urlparse(spec.output_uri).path)
    if not Path(folder).parent.is_relative_to(home()):
        raise InputError(
            f"group {group_id} writes to {folder}, which is not under {home()}: run attach on the machine where it was "
            "started, with the same TRAINFARE_HOME."
        )
    return open_service()


def prices(_: str | None, __: Echo) -> PriceOf:
    return lambda _: None
