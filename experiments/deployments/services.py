"""The services that host endpoints, by their names. `training.services.registry` has their traits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from state.home import home
from training.services.local.traits import TRAITS as LOCAL
from training.services.sagemaker.traits import TRAITS as SAGEMAKER

if TYPE_CHECKING:  # `--help` reads the names
    from models.endpoints.protocol import Endpoints
    from training.contract.service import Echo

ENDPOINTS = (LOCAL.name, SAGEMAKER.name)
"""Names of the services. The first one is the default."""


def open_endpoints(name: str, aws: Mapping[str, Any], echo: Echo, *, is_read_only: bool = False) -> Endpoints:
    """Return the endpoints of a service. Read-only ones can plan a deployment, and change nothing.

    `aws` are the fields of an experiment's `aws`, and `image` and `ami`. Raises InputError, AccessError.
    """
    if name == LOCAL.name:
        from models.endpoints.local import LocalEndpoints

        return LocalEndpoints(home())
    from models.endpoints.sagemaker.endpoints import SageMakerEndpoints

    return SageMakerEndpoints(aws, echo, is_read_only=is_read_only)
