"""Protocol of endpoint services, which the verbs `deploy`, `predict`, `undeploy` and `endpoints` call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from training.contract.price import Price, instance_seconds

Echo = Callable[[str], None]
"""Prints one line of progress."""

Status = Literal["Creating", "InService", "Updating", "Deleting", "OutOfService", "Failed"]
"""Status of an endpoint, in SageMaker's spelling. Unknown values are shown unchanged."""

ALIVE: frozenset[str] = frozenset({"Creating", "InService", "Updating"})
"""Statuses of endpoints that answer, or will."""

WhenOver = Literal["warn", "delete"]
"""Action of the next command on an endpoint whose lifetime has ended."""

NAME_PATTERN = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""SageMaker's rule for the name of an endpoint. Locally the name is also a folder."""


@dataclass(frozen=True, kw_only=True)
class EndpointSpec:
    """Request for an endpoint: the model, the machines and the lifetime."""

    name: str
    """Name that matches `NAME_PATTERN`; unique among the living endpoints of a service."""
    model: Path
    """Existing Transformers folder on this machine: config.json, weights, tokenizer files."""
    task: str | None = None
    """Task, as in experiment files; None: read from the folder's config.json."""
    run_id: str | None = None
    """MLflow run of the job that trained the model; None: a folder of the user's own."""
    model_id: str | None = None
    """MLflow logged model (`m-...`), if the run has one."""
    artifact_uri: str | None = None
    """The training job's own model.tar.gz (`s3://...` or `file:///...`), if known."""
    versions: str = ""
    """Library versions of the training: the run's tag `platform.versions`. Empty: unknown."""
    precision: str | None = None
    """fp32, bf16 or fp16; None: that of the evaluation, else the fastest of the device."""
    evaluated_precision: str | None = None
    """Precision of the evaluation; None: unknown."""
    max_length: int | None = None
    """Tokens that inputs are cut to, as in training; None: the model's limit."""
    machine: str = "local"
    """Instance type, such as `ml.g4dn.xlarge`; `local` for this machine."""
    machines: int = 1
    """Number of machines."""
    lifetime_seconds: float | None = None
    """Lifetime of the endpoint, seconds; None: until it is undeployed."""
    when_over: WhenOver = "warn"
    replace: bool = False
    """True if this model may replace another one under the same name."""
    wait_seconds: float = 1800.0
    """Longest wait for the endpoint to answer; then it has failed and is deleted."""

    @property
    def identity(self) -> str:
        """Identity of the model: the run, or the folder if there is no run."""
        return self.run_id or str(self.model.resolve())


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """Current state of an endpoint."""

    name: str
    service: str
    """`local` or `sagemaker`."""
    status: str
    """One of `Status`, or another word of SageMaker's."""
    identity: str
    """`EndpointSpec.identity` of the model that it serves."""
    run_id: str | None = None
    model_id: str | None = None
    address: str
    """Address for requests: `http://127.0.0.1:PORT/invocations`, or the endpoint's ARN."""
    machine: str
    machines: int = 1
    created: datetime
    """Timezone-aware, as all times."""
    expires: datetime | None = None
    """End of its lifetime; None: never."""
    when_over: WhenOver = "warn"
    reason: str | None = None
    """Reason of a failure, with the last lines of the log."""
    log: str | None = None
    """Location of its log: a path or a console address."""
    price: Price | None = None
    """Price of one machine, with source and date; None if unknown, or on this machine."""
    billed_from: datetime | None = None
    """Time since which it runs on these machines; None: since it was created."""
    billed_before_usd: float = 0.0
    """Cost until then, dollars."""
    ended: datetime | None = None
    """Time of its failure, after which it costs nothing."""

    def is_over(self, now: datetime | None = None) -> bool:
        """Return whether the lifetime has ended."""
        return self.expires is not None and (now or datetime.now(UTC)) >= self.expires

    def usd_so_far(self, now: datetime | None = None) -> float | None:
        """Return its cost since it was created, dollars; None if no price is known."""
        if self.price is None:
            return None
        until = self.ended or now or datetime.now(UTC)
        seconds = max(0.0, (until - (self.billed_from or self.created)).total_seconds())
        return self.billed_before_usd + self.price.usd(instance_seconds(seconds, self.machines))


class Endpoints(Protocol):
    """A service that hosts endpoints. Any process may make any call at any time.

    Refusals of a service are raised as errors of `training.contract.errors`, in one sentence.
    """

    name: str
    """`local` or `sagemaker`."""

    def deploy(self, spec: EndpointSpec, echo: Echo) -> EndpointState:
        """Create the endpoint and return it once it answers; `say` prints the progress.

        A living endpoint of this name that serves the same is returned unchanged, once it answers. If `spec` has a
        lifetime, it begins now. An endpoint with another identity or other options raises `EndpointTaken`. With
        `spec.replace` it is replaced: the new model answers before the old one is deleted. Raises `EndpointFailed` if
        the endpoint does not answer. After a failure or Ctrl-C, everything that was created here is deleted.
        """

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request, as JSON. Raises `EndpointNotFound`, `EndpointFailed`, and
        `InputError` where the endpoint refuses the request."""

    def describe(self, name: str) -> EndpointState:
        """Return the endpoint's state now. Raises `EndpointNotFound`."""

    def undeploy(self, name: str, echo: Echo) -> None:
        """Delete everything that deploy made for this name, in any state. Raises `EndpointNotFound`."""

    def endpoints(self) -> list[EndpointState]:
        """Return all endpoints that we made here, newest first, including failed ones."""
