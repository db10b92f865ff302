"""The services that host endpoints, by their names. `training.services.registry` has their traits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from state.home import home
from training.services.local.traits import TRAITS as LOCAL
from training.services.sagemaker.traits import TRAITS as SAGEMAKER

if TYPE_CHECKING:  # `--help` reads the names
    from models.endpoints.protocol import Echo, Endpoints


def open_endpoints(name: str, aws: Mapping[str, Any], echo: Echo, *, is_read_only: bool = False) -> Endpoints:
    """Return the endpoints of a service. Read-only ones can plan a deployment, and change nothing.

    `aws` are the fields of an experiment's `aws`, and `image` and `ami`. Raises InputError, AccessError.
    """
    return ENDPOINTS[name](aws, echo, is_read_only)


def _local(_: Mapping[str, Any], __: Echo, ___: bool) -> Endpoints:
    from models.endpoints.local import LocalEndpoints

    return LocalEndpoints(home())


def _sagemaker(aws: Mapping[str, Any], echo: Echo, is_read_only: bool) -> Endpoints:
    from models.endpoints.sagemaker.endpoints import SageMakerEndpoints

    return SageMakerEndpoints(aws, echo, is_read_only=is_read_only)


ENDPOINTS: dict[str, Callable[[Mapping[str, Any], Echo, bool], Endpoints]] = {
    LOCAL.name: _local,
    SAGEMAKER.name: _sagemaker,
}
"""Opener of each service. The first one is the default."""
