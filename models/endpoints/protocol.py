"""The calls behind the verbs `deploy`, `predict`, `undeploy` and `endpoints`, whatever stands behind them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from training.contract.price import Price, instance_seconds

Say = Callable[[str], None]
"""Tells a person one line of progress."""

Status = Literal["Creating", "InService", "Updating", "Deleting", "OutOfService", "Failed"]
"""An endpoint's status, spelt as SageMaker spells it; more may come, which are shown as they are."""

ALIVE: frozenset[str] = frozenset({"Creating", "InService", "Updating"})
"""Statuses of what answers, or will."""

WhenOver = Literal["warn", "delete"]
"""What the next command does with an endpoint whose lifetime is over."""

NAME_PATTERN = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
"""SageMaker's rule for the name of an endpoint; here it also names a folder."""


@dataclass(frozen=True, kw_only=True)
class EndpointSpec:
    """What is to be served, where, and for how long."""

    name: str
    """Matches `NAME_PATTERN`; one living endpoint of this name a service."""
    model: Path
    """A Transformers folder on this machine: config.json, weights, tokenizer files. Exists when this is made."""
    task: str | None = None
    """The task's name as experiment files spell it; None: as the folder's config.json tells."""
    run_id: str | None = None
    """MLflow run of the job that trained the model; None: a folder of the user's own."""
    model_id: str | None = None
    """MLflow logged model (`m-...`), where the run has one."""
    artifact_uri: str | None = None
    """The training job's own model.tar.gz (`s3://...` or `file:///...`), where it is known."""
    versions: str = ""
    """The run's tag `platform.versions`: what the model was trained with. Empty: unknown."""
    precision: str | None = None
    """fp32, bf16 or fp16; None: that of the evaluation, else what the device is fast at."""
    evaluated_precision: str | None = None
    """What the model was evaluated in; None: unknown."""
    max_length: int | None = None
    """Tokens that inputs are cut to, those of the training; None: those that the model takes."""
    machine: str = "local"
    """Machine type, such as `ml.g4dn.xlarge`; `local` on this one."""
    machines: int = 1
    """How many of them."""
    lifetime_seconds: float | None = None
    """How long the endpoint is wanted; None: until it is undeployed."""
    when_over: WhenOver = "warn"
    replace: bool = False
    """Whether the endpoint of this name may be of another model, which this one then takes the place of."""
    wait_seconds: float = 1800.0
    """Longest wait until it answers; then it has failed, and is cleaned up."""

    @property
    def identity(self) -> str:
        """What tells one model from another: the run, or the folder where there is none."""
        return self.run_id or str(self.model.resolve())


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """An endpoint as it is now."""

    name: str
    service: str
    """`local` or `sagemaker`."""
    status: str
    """One of `Status`, or another word of SageMaker's."""
    identity: str
    """`EndpointSpec.identity` of what it serves."""
    run_id: str | None = None
    model_id: str | None = None
    address: str
    """Where requests go: `http://127.0.0.1:PORT/invocations`, or the endpoint's ARN."""
    machine: str
    machines: int = 1
    created: datetime
    """Timezone-aware, as all times."""
    expires: datetime | None = None
    """When its lifetime is over; None: never."""
    when_over: WhenOver = "warn"
    reason: str | None = None
    """Why it failed, with the last lines of its log, where it did."""
    log: str | None = None
    """Where a person finds its log: a path or a console address."""
    price: Price | None = None
    """What one of its machines costs, with source and date, where that is known; None on this machine."""
    billed_from: datetime | None = None
    """Since when it is on these machines; None: since it was created."""
    billed_before_usd: float = 0.0
    """What it had cost until then, dollars."""
    ended: datetime | None = None
    """When it failed, from which time on it costs nothing."""

    def is_over(self, now: datetime | None = None) -> bool:
        """Return whether the lifetime has ended."""
        return self.expires is not None and (now or datetime.now(UTC)) >= self.expires

    def usd_so_far(self, now: datetime | None = None) -> float | None:
        """Return what it has cost since it was created, dollars; None where no price is known."""
        if self.price is None:
            return None
        until = self.ended or now or datetime.now(UTC)
        seconds = max(0.0, (until - (self.billed_from or self.created)).total_seconds())
        return self.billed_before_usd + self.price.usd(instance_seconds(seconds, self.machines))


class Endpoints(Protocol):
    """A place where models are served. Every call may be made from any process on any day.

    Whatever a service refuses is raised as an error of `training.contract.errors`, in one sentence.
    """

    name: str
    """`local` or `sagemaker`."""

    def deploy(self, spec: EndpointSpec, say: Say) -> EndpointState:
        """Return the endpoint once it answers; `say` hears what is waited for.

        One of this name that lives and serves the same is returned as it is (waited for, while it is created); where
        `spec` gives it a lifetime, that begins now. One of another identity, or that answers in another way (each
        service tells by what), raises `EndpointTaken`, or is replaced with `spec.replace`: the new model answers
        before the old one goes. Raises `EndpointFailed` where it does not come up; after that, and after Ctrl-C,
        nothing is left of what was created here.
        """

    def predict(self, name: str, body: bytes) -> bytes:
        """Return the answer to one JSON request, as JSON. Raises `EndpointNotFound`, `EndpointFailed`, and
        `InputError` where the endpoint refuses the request."""

    def describe(self, name: str) -> EndpointState:
        """Return the endpoint's state now. Raises `EndpointNotFound`."""

    def undeploy(self, name: str, say: Say) -> None:
        """Delete all that deploy made for this name, whatever state it is in. Raises `EndpointNotFound`."""

    def endpoints(self) -> list[EndpointState]:
        """Return all that we made here, newest first, also what failed."""
