"""Service of an experiment's jobs, and the preparation of a job for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from experiments.schema.experiment import Experiment
from experiments.schema.machine_fields import has_instance_groups
from state.home import home
from training.contract.job_spec import JobSpec
from training.contract.price import Price
from training.contract.service import Service

if TYPE_CHECKING:
    from tracking.groups.planned_job import PlannedJob
    from training.services.sagemaker.clients import Clients

Echo = Callable[[str], None]
PriceOf = Callable[[str], Price | None]
"""Function from instance type to price; None if the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class ServiceContext:
    """A service, with the steps that prepare a job for it."""

    service: Service
    check: Callable[[JobSpec], JobSpec]
    """Raises InputError for a job that cannot run there. Uploads nothing."""
    upload: Callable[[JobSpec], JobSpec]
    """Copies the inputs of a job to the service; returns the spec with their locations."""
    price: PriceOf
    """Returns the price of an instance type, or None if unknown."""
    missing_bytes: Mapping[str, int] = field(default_factory=dict)
    """Size of each upload that a read-only context left out, by its URI."""
    missing_bucket: str | None = None
    """Bucket that a read-only context would have created."""

    def prepare(self, job: PlannedJob) -> PlannedJob:
        """Upload the inputs of a job, and add the prices of its instance types."""
        return self.priced(replace(job, spec=self.upload(job.spec)))

    def priced(self, job: PlannedJob) -> PlannedJob:
        """Return a job with the prices of its instance types."""
        fallback_prices = {each: price for each in job.spec.fallback_instance_types if (price := self.price(each))}
        return replace(job, price=self.price(job.spec.instance_type), fallback_prices=fallback_prices)


def open_service_context(experiment: Experiment, echo: Echo, *, is_read_only: bool = False) -> ServiceContext:
    """Open the service of the experiment's jobs. Raises InputError, AccessError.

    A read-only context changes nothing: its `upload` returns the URIs of the uploads without making them.
    """
    openers = {"local": _local, "sagemaker": _sagemaker}
    return openers[experiment.service](experiment, echo, is_read_only)


def _local(_: Experiment, __: Echo, is_read_only: bool) -> ServiceContext:
    from training.services.local.service import LocalService

    service = LocalService(home())

    def check(spec: JobSpec) -> JobSpec:
        service.check_folders(spec.environment, create=not is_read_only)
        return spec

    return ServiceContext(service=service, check=check, upload=lambda spec: spec, price=lambda _: None)


def _sagemaker(experiment: Experiment, echo: Echo, is_read_only: bool) -> ServiceContext:
    from training.services.sagemaker.aws_context import open_aws_context
    from training.services.sagemaker.service import SageMakerService

    aws_context = open_aws_context(experiment.aws.given(), is_read_only=is_read_only)
    price = sagemaker_price(aws_context.clients, experiment.aws.prices, echo, is_read_only=is_read_only)
    has_one_type = not has_instance_groups(experiment.aws.request)  # each group has its own type
    return ServiceContext(
        service=SageMakerService(aws_context.clients),
        check=aws_context.resolve,
        upload=lambda spec: aws_context.upload(spec, echo),
        price=cache(price) if has_one_type else lambda _: None,
        missing_bytes=aws_context.storage.missing_bytes,
        missing_bucket=aws_context.storage.missing_bucket,
    )


def open_service(name: str) -> Service:
    """Return a service in the region and account of the environment. Raises AccessError, InputError."""
    if name == "sagemaker":
        from training.services.sagemaker.clients import Clients, account_of
        from training.services.sagemaker.service import SageMakerService

        clients = Clients()
        account_of(clients)  # fails immediately without credentials or network
        return SageMakerService(clients)
    from training.services.local.service import LocalService

    return LocalService(home())


def price_of(service: str, table: str | None, echo: Callable[[str], None]) -> PriceOf:
    """Return the price function of a service. Local jobs have no price."""
    if service == "local":
        return lambda _: None
    from training.services.sagemaker.clients import Clients

    return sagemaker_price(Clients(), table, echo)


def sagemaker_price(
    clients: Clients, table: str | None, echo: Callable[[str], None], *, is_read_only: bool = False
) -> PriceOf:
    """Return the price function of SageMaker: from a user's table, or AWS's price list."""
    from training.services.sagemaker.prices import listed_price, table_price

    if table:
        return lambda instance_type: table_price(table, instance_type)
    file = home() / "prices.json"
    return lambda instance_type: listed_price(clients, instance_type, file, echo, is_read_only=is_read_only)
