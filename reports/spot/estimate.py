"""Expected time and cost of one training on spot capacity. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from judging.spot.checkpoint_interval import daly_interval
from judging.spot.expected_time import Training, expected_interruptions, expected_seconds
from training.contract.price import Price, instance_seconds


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of a training that is not interrupted."""

    total_seconds: float
    """Time of the whole training, with start-up and checkpoints."""
    startup_seconds: float
    """Time from the start of the download to the first fast step."""
    checkpoint_seconds: float | None
    """Time of one checkpoint; None if it was not measured."""
    checkpoints: int
    """Number of checkpoints, with the one at the end; 0 if the training writes none."""
    steps: int
    """Optimizer steps."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms on which spot capacity is used."""

    interruptions_per_hour: float
    """Interruptions of one instance. The job is interrupted if any of its instances is."""
    instances: int = 1
    discount_percent: float | None = None
    """Discount on the price on demand; None if it is unknown."""
    discount_source: str = ""
    """Origin of the discount: the experiment, or earlier jobs."""
    price: Price | None = None
    """Price on demand; None if it is unknown."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Expected figures of a training with one interval between its checkpoints."""

    save_steps: int | None
    """Optimizer steps between two checkpoints; None without checkpoints."""
    seconds: float
    """Running time, without waits for capacity."""
    interruptions: float
    """Number of interruptions."""
    instance_seconds: float
    """Running time times the number of instances: what would be billed without a discount."""
    billable_instance_seconds: float | None
    """Billable seconds as SageMaker reports them, with the discount in them; None if the discount is unknown."""
    usd: float | None
    """Cost in US dollars; None if the discount or the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class SpotEstimate:
    """A training on spot capacity beside the same training on demand."""

    on_demand_seconds: float
    on_demand_usd: float | None
    """None if the price is unknown."""
    spot: Spent
    """With the checkpoints of the experiment."""
    best: Spent | None
    """With the best interval between checkpoints; None if the time of a checkpoint is unknown, or the rate is 0."""
    terms: Terms


def spot_estimate(times: Times, terms: Terms) -> SpotEstimate | None:
    """Return the expected figures, or None if the times leave no time for the training's steps."""
    checkpoint_seconds = times.checkpoint_seconds or 0.0
    work = times.total_seconds - times.startup_seconds - times.checkpoints * checkpoint_seconds
    if not (work > 0 and times.steps > 0):
        return None
    training = Training(startup_seconds=times.startup_seconds, work_seconds=work, checkpoint_seconds=checkpoint_seconds)
    if not times.checkpoints:
        training = Training(startup_seconds=times.startup_seconds, work_seconds=work)
    interval = work / times.checkpoints if times.checkpoints else math.inf
    return SpotEstimate(
        on_demand_seconds=times.total_seconds,
        on_demand_usd=_usd(times.total_seconds, terms),
        spot=_spent(training, interval, times.steps, terms),
        best=_best(work, times, terms),
        terms=terms,
    )


def _best(work: float, times: Times, terms: Terms) -> Spent | None:
    rate = _rate_per_second(terms)
    if not times.checkpoint_seconds or not rate:
        return None
    training = Training(
        startup_seconds=times.startup_seconds, work_seconds=work, checkpoint_seconds=times.checkpoint_seconds
    )
    step_seconds = work / times.steps
    steps = round(daly_interval(times.checkpoint_seconds, 1 / rate) / step_seconds)
    return _spent(training, min(max(steps, 1), times.steps) * step_seconds, times.steps, terms)


def _spent(training: Training, interval: float, steps: int, terms: Terms) -> Spent:
    rate = _rate_per_second(terms)
    seconds = expected_seconds(training, rate, interval)
    share = None if terms.discount_percent is None else 1 - terms.discount_percent / 100
    usd = _usd(seconds, terms)
    return Spent(
        save_steps=None if math.isinf(interval) else max(1, round(interval / training.work_seconds * steps)),
        seconds=seconds,
        interruptions=expected_interruptions(training, rate, interval),
        instance_seconds=seconds * terms.instances,
        billable_instance_seconds=None if share is None else seconds * terms.instances * share,
        usd=None if share is None or usd is None else usd * share,
    )


def _rate_per_second(terms: Terms) -> float:
    return terms.interruptions_per_hour * terms.instances / 3600


def _usd(seconds: float, terms: Terms) -> float | None:
    return terms.price.usd(instance_seconds(seconds, terms.instances)) if terms.price else None
