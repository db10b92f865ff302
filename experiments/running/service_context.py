"""Where an experiment's jobs run, and what has to be there first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.schema.experiment import Experiment
from training.contract.job_spec import JobSpec
from training.contract.price import Price
from training.contract.service import Service
from training.state.home import home

if TYPE_CHECKING:
    from tracking.groups.planned_job import PlannedJob

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Where:
    """A service, and the way of a job there."""

    service: Service
    checked: Callable[[JobSpec], JobSpec]
    """Refuses what cannot run there, before anything is uploaded."""
    ready: Callable[[JobSpec], JobSpec]
    """Brings what the job reads to where it runs."""
    price: Callable[[JobSpec], Price | None]
    """What a machine of the job costs, where that is known."""

    def made_ready(self, job: PlannedJob) -> PlannedJob:
        """Return a job with all that it reads where it runs, and with the prices of its machines."""
        kinds = job.spec.fallback_instance_types
        others = {kind: self.price(job.spec.model_copy(update={"instance_type": kind})) for kind in kinds}
        return replace(
            job,
            spec=self.ready(job.spec),
            price=self.price(job.spec),
            fallback_prices={kind: price for kind, price in others.items() if price},
        )


def open_where(experiment: Experiment, say: Say) -> Where:
    """Return where the experiment's jobs run. Raises InputError, AccessError."""
    return OPENERS[experiment.service](experiment, say)


def _local(_: Experiment, __: Say) -> Where:
    from training.services.local.service import LocalService

    return Where(service=LocalService(home()), checked=_as_it_is, ready=_as_it_is, price=lambda _: None)


def _sagemaker(experiment: Experiment, say: Say) -> Where:
    from training.services.sagemaker.aws_context import open_aws_context
    from training.services.sagemaker.prices import listed_price, table_price
    from training.services.sagemaker.service import SageMakerService

    site = open_aws_context(experiment.aws.given())
    table = experiment.aws.prices

    def price(spec: JobSpec) -> Price | None:
        if table:
            return table_price(Path(table), spec.instance_type)
        return listed_price(site.clients, spec.instance_type, home() / "prices.json", say)

    return Where(
        service=SageMakerService(site.clients),
        checked=site.resolve,
        ready=lambda spec: site.upload(spec, say),
        price=price,
    )


def _as_it_is(spec: JobSpec) -> JobSpec:
    return spec


OPENERS: Mapping[str, Callable[[Experiment, Say], Where]] = {"local": _local, "sagemaker": _sagemaker}
"""By the experiment's `service`."""
