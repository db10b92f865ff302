"""Protocol of endpoint services. The verbs `deploy`, `predict`, `undeploy` and `endpoints` call it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from models.inference.evaluation import UNKNOWN, Evaluation
from training.contract.errors import EndpointFailed, InputError
from training.contract.job_spec import NOT_CHOSEN
from training.contract.price import Price, instance_seconds
from training.contract.service import Echo

Action = Literal["create", "keep"]
"""Effect of a deployment on the endpoint with its name."""

Request = tuple[str, dict[str, Any]]
"""Operation of a service with its request."""

NAME_PATTERN = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""SageMaker's rule for endpoint names. A local endpoint also has a folder with this name."""


@dataclass(frozen=True, kw_only=True)
class EndpointSpec:
    """Request for an endpoint: a model and the machines that serve it."""

    name: str
    model: Path
    """Transformers folder on this machine: config.json, weights, tokenizer files."""
    task: str | None = None
    """Task, as in experiment files. None: read from the folder's config.json."""
    run_id: str | None = None
    """MLflow run of the job that trained the model. None: the user gave a folder."""
    model_id: str | None = None
    """MLflow logged model (`m-...`), if the run has one."""
    artifact_uri: str | None = None
    """The training job's model.tar.gz (`s3://...` or `file:///...`), if known."""
    versions: str = ""
    """Library versions of the training, from the run's tag `platform.versions`. Empty: unknown."""
    precision: str | None = None
    """fp32, bf16 or fp16. None: as in the evaluation, and fp32 if that is unknown."""
    evaluation: Evaluation = UNKNOWN
    """Settings of the model's evaluation, with which it also answers."""
    host: str = "127.0.0.1"
    """Address to which a local endpoint binds."""
    token_file: Path | None = None
    """File with the token that requests to a local endpoint need. None: they need none."""
    machine: str = NOT_CHOSEN
    """Instance type, such as `ml.g4dn.xlarge`, or the only one of the service, such as `local`."""
    machines: int = 1
    wait_seconds: float = 1800.0
    """Longest wait for the endpoint to answer. After this, it counts as failed and is deleted."""

    @property
    def identity(self) -> str:
        """Identity of the model: the run id, or the folder's path if there is no run."""
        return self.run_id or str(self.model.resolve())


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """Current state of an endpoint."""

    name: str
    service: str
    status: str
    """Status in SageMaker's spelling, such as Creating, InService or Failed."""
    identity: str
    """`EndpointSpec.identity` of the model that it serves."""
    address: str
    """Address for requests: `http://127.0.0.1:PORT/invocations`, or the endpoint's ARN."""
    machine: str
    machines: int = 1
    created: datetime
    """Timezone-aware, like all times."""
    ended: datetime | None = None
    """Time of its failure, since when it costs nothing. None if it has not failed."""
    reason: str | None = None
    """Reason of a failure, or another remark."""

    def usd(self, price: Price, now: datetime) -> float:
        """Return its cost so far, in US dollars, at the price of one machine."""
        seconds = ((self.ended or now) - self.created).total_seconds()
        return price.usd(instance_seconds(max(0.0, seconds), self.machines))


@dataclass(frozen=True, kw_only=True)
class DeploymentPlan:
    """Steps of a deployment that has not begun."""

    action: Action
    image: str | None = None
    """Container image; None on this machine."""
    note: str | None = None
    """Remark about the image."""
    requests: tuple[Request, ...] = ()
    """Requests that create the endpoint, in order; empty on this machine."""
    uploads: dict[str, int] = field(default_factory=dict)
    """Size in bytes of the model's files that would be packed and uploaded, by the URI of the archive."""
    missing_bucket: str | None = None
    """Bucket that would be created."""


class Endpoints(Protocol):
    """A service that hosts endpoints. Any process may make any call at any time."""

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        """Create the endpoint and return it once it answers; `echo` prints the progress.

        An endpoint that already serves the same model with the same options is returned unchanged. Raises
        `EndpointTaken` for a different one, and `EndpointFailed` if the endpoint does not answer. After a failure or
        Ctrl-C, all that was created is deleted.
        """

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        """Return the steps that `deploy` would take, and take none. Raises the errors that `deploy` raises first."""

    def price(self, machine: str) -> Price | None:
        """Return the price of one machine of this type. None if it is unknown, and for local endpoints.

        Raises `InputError` if the user's table of prices cannot be read.
        """

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request, as JSON.

        Raises `EndpointNotFound`, `EndpointFailed`, and `InputError` if the endpoint rejects the request.
        """

    def undeploy(self, name: str, echo: Echo) -> None:
        """Delete everything that deploy created under this name, in any state. Raises `EndpointNotFound`."""

    def endpoints(self) -> list[EndpointState]:
        """Return all endpoints that trainfare created here, newest first, including failed and half-made ones."""


def refused(name: str, status: int, answer: str, log: str = "") -> InputError | EndpointFailed:
    """Return the error for the answer of a server that did not answer with status 200. `log` is the log's address."""
    with suppress(ValueError, KeyError, TypeError):
        answer = str(json.loads(answer)["message"])
    message = " ".join(answer.split())[:500].rstrip(".")
    if 400 <= status < 500:
        return InputError(f"Endpoint {name} rejected the request with status {status}: {message}.")
    return EndpointFailed(f"Endpoint {name} failed with status {status}: {message}{log and f' ({log})'}.")
