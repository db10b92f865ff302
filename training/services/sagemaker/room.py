"""Open Amazon SageMaker as a service; see `Room`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from state.home import home
from training.contract.errors import AccessError
from training.contract.service import Echo, PriceOf, Service, ServiceContext
from training.services.sagemaker.traits import TRAITS as TRAITS

if TYPE_CHECKING:
    from training.contract.job_spec import JobSpec
    from training.services.sagemaker.clients import Clients


def open_context(aws: Mapping[str, Any], echo: Echo, *, is_read_only: bool) -> ServiceContext:
    from training.services.sagemaker.aws_context import open_aws_context
    from training.services.sagemaker.quotas import quota_check
    from training.services.sagemaker.service import SageMakerService

    aws_context = open_aws_context(aws, is_read_only=is_read_only)
    # Only a plan says what it could not check.
    check_quotas = quota_check(aws_context.clients, echo if is_read_only else lambda _: None)
    price = cache(_prices(aws_context.clients, aws.get("prices"), echo, is_read_only=is_read_only))
    return ServiceContext(
        service=SageMakerService(aws_context.clients),
        check=lambda spec: check_quotas(aws_context.resolve(spec)),
        upload=lambda spec: aws_context.upload(spec, echo),
        price=price,
        missing_bytes=aws_context.storage.missing_bytes,
        missing_bucket=aws_context.storage.missing_bucket,
    )


def open_service() -> Service:
    from training.services.sagemaker.clients import Clients, account_of
    from training.services.sagemaker.service import SageMakerService

    clients = Clients()
    account_of(clients)  # fails immediately without credentials or network
    return SageMakerService(clients)


def service_of(spec: JobSpec, group_id: str) -> Service:
    """See `Room.service_of`. SageMaker takes only roles of the job's own account."""
    from training.services.sagemaker.clients import Clients, account_of
    from training.services.sagemaker.service import SageMakerService

    clients, owner = Clients(spec.region), spec.role_arn.split(":")[4]
    if (account := account_of(clients)) != owner:
        raise AccessError(
            f"the jobs of group {group_id} belong to AWS account {owner}, but the credentials belong to account "
            f"{account}: set AWS_PROFILE to a profile of account {owner}. attach does not read aws.profile."
        )
    return SageMakerService(clients)


def prices(table: str | None, echo: Echo) -> PriceOf:
    from training.services.sagemaker.clients import Clients

    return _prices(Clients(), table, echo)


def _prices(clients: Clients, table: str | None, echo: Echo, *, is_read_only: bool = False) -> PriceOf:
    from training.contract.price_table import table_price
    from training.services.sagemaker.prices import listed_price

    if table:
        return lambda instance_type: table_price(table, instance_type, "aws.prices")
    file = home() / "prices.json"
    return lambda instance_type: listed_price(clients, instance_type, file, echo, is_read_only=is_read_only)
