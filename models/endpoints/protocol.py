"""Protocol of endpoint services. The verbs `deploy`, `predict`, `undeploy` and `endpoints` call it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from models.loading.evaluation import UNKNOWN, Evaluation
from training.contract.price import Price, instance_seconds

Echo = Callable[[str], None]
"""Prints one line of progress."""

Status = Literal["Creating", "InService", "Updating", "Deleting", "OutOfService", "Failed"]
"""Status of an endpoint, in SageMaker's spelling. Unknown values are shown unchanged."""

ALIVE: frozenset[str] = frozenset({"Creating", "InService", "Updating"})
"""Statuses of endpoints that answer, or are about to."""

WhenOver = Literal["warn", "delete"]
"""The next command's action for an endpoint whose lifetime has ended."""

NAME_PATTERN = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""SageMaker's rule for endpoint names. A local endpoint also has a folder with this name."""


@dataclass(frozen=True, kw_only=True)
class EndpointSpec:
    """Request for an endpoint: model, machines and lifetime."""

    name: str
    """Name that matches `NAME_PATTERN`. It is unique among the existing endpoints of a service."""
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
    """fastest, fp32, bf16 or fp16. None: as in the evaluation, and fp32 if that is unknown."""
    evaluation: Evaluation = UNKNOWN
    """Settings of the model's evaluation."""
    max_length: int | None = None
    """Tokens to which inputs are truncated, as in training. None: the model's limit."""
    host: str = "127.0.0.1"
    """Address to which a local endpoint binds."""
    token_file: Path | None = None
    """File with the token that requests to a local endpoint need. None: they need none."""
    machine: str = "local"
    """Instance type, such as `ml.g4dn.xlarge`; `local` for this machine."""
    machines: int = 1
    """Number of machines."""
    lifetime_seconds: float | None = None
    """Lifetime of the endpoint in seconds. None: until it is undeployed."""
    when_over: WhenOver = "warn"
    replace: bool = False
    """True if this model may replace a different one on the endpoint with this name."""
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
    """`local` or `sagemaker`."""
    status: str
    """One of `Status`, or a different status of SageMaker."""
    identity: str
    """`EndpointSpec.identity` of the model that it serves."""
    run_id: str | None = None
    model_id: str | None = None
    address: str
    """Address for requests: `http://127.0.0.1:PORT/invocations`, or the endpoint's ARN."""
    machine: str
    machines: int = 1
    created: datetime
    """Timezone-aware, like all times."""
    expires: datetime | None = None
    """End of its lifetime. None: it has no end."""
    when_over: WhenOver = "warn"
    reason: str | None = None
    """Reason of a failure, with the last lines of the log."""
    log: str | None = None
    """Location of its log: a path or a console address."""
    price: Price | None = None
    """Price of one machine, with source and date. None if it is unknown, and for local endpoints."""
    billed_from: datetime | None = None
    """Time since when it runs on its current machines. None: since it was created."""
    billed_before_usd: float = 0.0
    """Cost before `billed_from`, in dollars."""
    ended: datetime | None = None
    """Time of its failure. From then on it costs nothing."""

    def is_over(self, now: datetime | None = None) -> bool:
        """Return whether the lifetime has ended."""
        return self.expires is not None and (now or datetime.now(UTC)) >= self.expires

    def usd_so_far(self, now: datetime | None = None) -> float | None:
        """Return its cost since it was created, in dollars; None if the price is unknown."""
        if self.price is None:
            return None
        until = self.ended or now or datetime.now(UTC)
        seconds = max(0.0, (until - (self.billed_from or self.created)).total_seconds())
        return self.billed_before_usd + self.price.usd(instance_seconds(seconds, self.machines))


Action = Literal["create", "replace", "keep"]
"""Effect of a deployment on the endpoint with its name."""


@dataclass(frozen=True, kw_only=True)
class DeploymentPlan:
    """Steps of a deployment that has not begun."""

    action: Action
    image: str | None = None
    """Container image; None on this machine."""
    note: str | None = None
    """Remark about the image."""
    requests: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Operations of SageMaker with their requests, in order; empty on this machine."""
    uploads: dict[str, int] = field(default_factory=dict)
    """Size in bytes of the model's files that would be packed and uploaded, by the URI of the archive."""
    missing_bucket: str | None = None
    """Bucket that would be created."""
    price: Price | None = None
    """Price of one machine, or None."""


class Endpoints(Protocol):
    """A service that hosts endpoints. Any process may make any call at any time.

    If a service refuses a call, the method raises an error of `training.contract.errors` with a one-sentence message.
    """

    name: str
    """`local` or `sagemaker`."""

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        """Create the endpoint and return it once it answers; `echo` prints the progress.

        If an endpoint with this name already serves the same model with the same options, it is returned unchanged. If
        `spec` has a lifetime, it begins now. If the endpoint has a different model or options, the call raises
        `EndpointTaken`, or replaces it if `spec.replace` is set: the new model answers before the old one is deleted.
        Raises `EndpointFailed` if the endpoint does not answer. After a failure or Ctrl-C, everything that this call
        created is deleted.
        """

    def plan(self, spec: EndpointSpec) -> DeploymentPlan:
        """Return the steps that `deploy` would take, and take none. Raises the errors that `deploy` raises first."""

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request, as JSON.

        Raises `EndpointNotFound`, `EndpointFailed`, and `InputError` if the endpoint rejects the request.
        """

    def price(self, machine: str) -> Price | None:
        """Return the price of one machine of this type. None if it is unknown, and for local endpoints."""

    def describe(self, name: str) -> EndpointState:
        """Return the endpoint's current state. Raises `EndpointNotFound`."""

    def undeploy(self, name: str, echo: Echo) -> None:
        """Delete everything that deploy created under this name, in any state. Raises `EndpointNotFound`."""

    def endpoints(self) -> list[EndpointState]:
        """Return all endpoints that trainfare created here, newest first, including failed ones."""
