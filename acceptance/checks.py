"""Checks before anything is started: credentials, role, quotas, bucket and images. They change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from acceptance.options import Options
from acceptance.steps import INSTANCE_TYPE, Step, needed_quotas
from models.endpoints.sagemaker.images import inference_image
from training.contract.errors import TrainfareError
from training.contract.job_spec import JobSpec
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.identity import account_of, role_of, trusts_sagemaker
from training.services.sagemaker.images.default import default_image
from training.services.sagemaker.quotas import quota_values
from training.services.sagemaker.storage import find_bucket

Outcome = Literal["ok", "failed", "not checked"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Result of one check."""

    name: str
    outcome: Outcome
    detail: str

    def __str__(self) -> str:
        return f"{self.name}: {self.outcome}: {self.detail}"


def run_checks(options: Options, clients: Clients, steps: Mapping[str, Step]) -> list[Check]:
    """Return the result of every check. Without credentials, only that one."""
    credentials = _attempt("credentials", lambda: ("ok", f"account {account_of(clients)}, region {clients.region}"))
    if credentials.outcome == "failed":
        return [credentials]
    return [
        credentials,
        _attempt("role", lambda: _role(options, clients)),
        _quotas(clients, steps),
        _attempt("bucket", lambda: _bucket(options, clients)),
        _attempt("image for training", lambda: ("ok", _training_image(clients.region))),
        _attempt("image for the endpoint", lambda: ("ok", inference_image("", INSTANCE_TYPE, clients.region).uri)),
    ]


def _training_image(region: str) -> str:
    spec = JobSpec(
        name="acceptance",
        hyperparameters={},
        channels={},
        source_uri="",
        output_uri="",
        instance_type=INSTANCE_TYPE,
    )
    return default_image(spec, region)


def _attempt(name: str, check: Callable[[], tuple[Outcome, str]]) -> Check:
    try:
        outcome, detail = check()
    except TrainfareError as error:
        outcome, detail = "failed", str(error)
    return Check(name=name, outcome=outcome, detail=detail)


def _role(options: Options, clients: Clients) -> tuple[Outcome, str]:
    arn = role_of(clients, options.role)
    try:
        trusts = trusts_sagemaker(clients, arn)
    except TrainfareError as error:
        return "not checked", f"{arn}: {error}"
    if not trusts:
        return "failed", f"{arn} does not allow sagemaker.amazonaws.com to assume it: add that to its trust policy."
    return "ok", arn


def _bucket(options: Options, clients: Clients) -> tuple[Outcome, str]:
    bucket, exists = find_bucket(clients, account_of(clients), options.bucket)
    return "ok", bucket if exists else f"{bucket} does not exist and will be created"


def _quotas(clients: Clients, steps: Mapping[str, Step]) -> Check:
    """Compare the quotas with what the steps need. Users need not have the permission to read them."""
    needed = needed_quotas(steps)
    try:
        values = quota_values(clients, needed)
    except TrainfareError as error:
        return Check(name="quotas", outcome="not checked", detail=f"{error} Needed: {_listed(needed)}.")
    low = {name: count for name, count in needed.items() if values.get(name, count) < count}
    if low:
        texts = [f"'{name}' is {values[name]:g} and must be {count}" for name, count in low.items()]
        detail = f"{'; '.join(texts)}: request an increase under Service Quotas, Amazon SageMaker."
        return Check(name="quotas", outcome="failed", detail=detail)
    unknown = {name: count for name, count in needed.items() if name not in values}
    if unknown:
        detail = f"Service Quotas does not list {_listed(unknown)}."
        return Check(name="quotas", outcome="not checked", detail=detail)
    return Check(name="quotas", outcome="ok", detail=_listed({name: int(value) for name, value in values.items()}))


def _listed(quotas: Mapping[str, int]) -> str:
    return ", ".join(f"'{name}' {count}" for name, count in quotas.items())
