"""Open the service of an experiment, and prepare its jobs for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.schema.experiment import Experiment
from training.contract.service import Echo, ServiceContext
from training.services.registry import SERVICES

if TYPE_CHECKING:
    from tracking.groups.planned_job import PlannedJob


def open_service_context(experiment: Experiment, echo: Echo, *, is_read_only: bool = False) -> ServiceContext:
    """Open the service of the experiment's jobs; see `Room.open_context`. Raises InputError, AccessError."""
    return SERVICES[experiment.service].open_context(experiment.aws.given(), echo, is_read_only=is_read_only)


def prepare(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    """Upload the inputs of a job, and add the prices of its instance types."""
    return priced(context, replace(job, spec=context.upload(job.spec)))


def priced(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    """Return a job with the prices of its instance types."""
    spec = job.spec
    fallback_prices = {each: price for each in spec.fallback_instance_types if (price := context.price(each))}
    return replace(job, price=context.price(spec.instance_type), fallback_prices=fallback_prices)
