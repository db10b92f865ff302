"""One job as the tracking server records it, and what recorded jobs say about trainings on spot capacity. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, cast

from judging.disturbance import disturbances
from judging.quality import Measure, Unit
from judging.spot import Training, daly_interval, expected_seconds
from tracking.groups.planned_job import AGAIN, job_title
from tracking.queries.job_tables import DIVERGED
from training.contract.plain_text import counted
from training.contract.price import Price, instance_seconds
from training.job.tasks import LOSS, METRICS

STEADY = "throughput_steady_samples_per_second"
TRAINER_RATE = "train_samples_per_second"
COSTS = frozenset({"cost_billable_seconds", "cost_billable_instance_seconds", "cost_usd"})
EVALUATIONS: Mapping[str, Measure] = {
    metric.name: Measure(metric.name, metric.label, cast(Unit, metric.unit), metric.higher_is_better)
    for metric in METRICS
}
"""Measures on rows that were not used in training, by metric name. The preferred measure comes first."""
MEASURES = (
    *(EVALUATIONS[metric.name] for metric in METRICS[: METRICS.index(LOSS) + 1]),
    Measure("train_loss", "training loss", "number", higher_is_better=False),
)
"""Measures of comparisons, in order of preference: the first one that any of its jobs has."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job as the tracking server records it."""

    run_id: str
    experiment_id: str
    name: str
    status: str
    """MLflow's status: RUNNING, FINISHED, FAILED, KILLED ..."""
    arm: str
    is_baseline: bool
    repeat: str
    cache_state: str
    """State of the compile cache when the job started: off, cold, warm or partial."""
    text: Mapping[str, str | None] = field(default_factory=dict)
    """Further tags and parameters by column name, such as `device`."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Metrics and numeric parameters by column name; missing values are NaN."""

    @property
    def title(self) -> str:
        """Title of the job's run, with its arm's label in this comparison."""
        known = self.repeat.isdecimal()
        return job_title(self.arm, int(self.repeat), self.text.get("role")) if known else self.arm

    @property
    def succeeded(self) -> bool:
        return self.status == "FINISHED"

    @property
    def unfinished(self) -> bool:
        return self.status in ("RUNNING", "SCHEDULED")

    @property
    def failed(self) -> bool:
        """True if the job ended without success. A stopped job did not fail."""
        return not self.succeeded and not self.unfinished and not self.stopped

    @property
    def stopped(self) -> bool:
        return self.status == "KILLED"

    @property
    def is_again(self) -> bool:
        return self.text.get("role") == AGAIN

    @property
    def is_script(self) -> bool:
        """True for a user's own training script, which is measured from outside."""
        return self.text.get("measured") == "outside"

    @property
    def diverged(self) -> bool:
        """True if a loss was not finite. Then no score of the model counts."""
        return self.text.get("failure_class") == "Diverged" or (self.succeeded and self.text.get(DIVERGED) == "true")

    @property
    def disturbances(self) -> list[str] | None:
        """Reasons why the job's measurement was disturbed; None if that was not measured."""
        return disturbances(lambda metric: self.number(metric.replace("/", "_")))

    def number(self, column: str) -> float:
        """Return the job's number in a column, or NaN if it is missing."""
        return self.numbers.get(column, math.nan)

    def compared(self, column: str) -> float:
        """Return the number that comparisons use, or NaN if it is missing.

        The cost of a script that was stopped at its target counts up to the evaluation that reached it.
        """
        value, billed, to_target = map(self.number, (column, "cost_billable_seconds", "target_billable_seconds"))
        return value * to_target / billed if column in COSTS and 0 < to_target < billed else value

    @property
    def setup_seconds(self) -> float:
        """Compile plus warm-up seconds; without a compile phase, the warm-up seconds alone."""
        return self.number("time_warmup_seconds") + finite_or_zero(self.number("time_compile_seconds"))

    @property
    def setup_beyond_steady_seconds(self) -> float:
        """Compile plus warm-up seconds, less what the samples of the warm-up take at the steady rate.

        The samples of the warm-up are work that is done. They are those that the steady steps did not train. A resumed
        job counts more samples than it trained itself, so the warm-up takes no less than the steady steps would.
        """
        samples = self.number("samples") - self.number(STEADY) * self.number("time_train_steady_seconds")
        worked = finite_or_zero(samples / self.number(STEADY)) if self.number(STEADY) > 0 else 0.0
        return self.setup_seconds - min(max(worked, 0.0), self.number("time_warmup_seconds"))


def job_of(row: Mapping[Any, Any]) -> Job:
    text = {str(k): v for k, v in row.items() if isinstance(v, str)}
    numbers = {str(k): float(v) for k, v in row.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return Job(
        run_id=text["run_id"],
        experiment_id=text.get("experiment_id", ""),
        name=text.get("job_name") or text.get("run_name") or text["run_id"],
        status=text.get("status", "UNKNOWN"),
        arm=text.get("arm") or "unnamed",
        is_baseline=text.get("baseline") == "true",
        repeat=text.get("repeat", ""),
        cache_state=text.get("cache_state") or "off",
        text=text,
        numbers=numbers,
    )


def finite_or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0


RATE, DISCOUNT = "interruptions_per_hour", "spot_discount_percent"
"""Columns of the tags with which a job records its experiment's terms."""
SAVED_PERCENT = "cost_spot_savings_percent"
CHECKPOINT = "time_seconds_per_checkpoint"
"""Mean seconds of the checkpoints that a job wrote."""


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
    instance_seconds: float
    """Running time times the number of instances: what would be billed without a discount."""
    billable_instance_seconds: float | None
    """Billable seconds as SageMaker reports them, with the discount in them; None if the discount is unknown."""
    usd: float | None
    """Cost in US dollars; None if the discount or the price is unknown."""


@dataclass(frozen=True, kw_only=True)
class SpotEstimate:
    """A training on spot capacity, and the same training on demand."""

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
    seconds, startup = times.checkpoint_seconds or 0.0, times.startup_seconds
    work = times.total_seconds - startup - times.checkpoints * seconds
    if not (work > 0 and times.steps > 0):
        return None
    training = Training(startup_seconds=startup, work_seconds=work, checkpoint_seconds=seconds)
    spot = _spent(training, work / times.checkpoints if times.checkpoints else math.inf, times.steps, terms)
    best, rate = None, _rate_per_second(terms)
    if seconds and rate:
        steps = round(daly_interval(seconds, 1 / rate) / (work / times.steps))
        best = _spent(training, min(max(steps, 1), times.steps) * work / times.steps, times.steps, terms)
    on_demand_usd = _usd(times.total_seconds, terms)
    return SpotEstimate(
        on_demand_seconds=times.total_seconds, on_demand_usd=on_demand_usd, spot=spot, best=best, terms=terms
    )


def _spent(training: Training, interval: float, steps: int, terms: Terms) -> Spent:
    rate = _rate_per_second(terms)
    seconds = expected_seconds(training, rate, interval)
    share = None if terms.discount_percent is None else 1 - terms.discount_percent / 100
    usd = _usd(seconds, terms)
    return Spent(
        save_steps=None if math.isinf(interval) else max(1, round(interval / training.work_seconds * steps)),
        seconds=seconds,
        interruptions=rate * seconds,
        instance_seconds=seconds * terms.instances,
        billable_instance_seconds=None if share is None else seconds * terms.instances * share,
        usd=None if share is None or usd is None else usd * share,
    )


def _rate_per_second(terms: Terms) -> float:
    return terms.interruptions_per_hour * terms.instances / 3600


def _usd(seconds: float, terms: Terms) -> float | None:
    return terms.price.usd(instance_seconds(seconds, terms.instances)) if terms.price else None


Discount = tuple[float, str]
"""Discount on the price on demand in percent, and its origin for people."""


def discounts_of(jobs: Sequence[Job]) -> dict[str, Discount]:
    """Return the median discount of the spot jobs of each instance type."""
    saved: dict[str, list[float]] = {}
    for job in jobs:
        if math.isfinite(percent := job.number(SAVED_PERCENT)):
            saved.setdefault(job.text.get("instance_type") or "", []).append(percent)
    return {
        instance_type: (median(values), f"the median of {counted(len(values), 'earlier spot job')}")
        for instance_type, values in saved.items()
    }


def startup_seconds(job: Job) -> float | None:
    """Return the seconds from the start of the download to the first fast step; None if they are not recorded."""
    load = job.number("time_load_seconds")
    if not math.isfinite(load):
        return None
    return load + finite_or_zero(job.number("time_download_seconds")) + finite_or_zero(job.setup_beyond_steady_seconds)


def running_seconds(job: Job, column: str) -> float:
    """Return billable seconds without the spot discount that SageMaker includes in them: the running time."""
    return job.number(column) / (1 - finite_or_zero(job.number(SAVED_PERCENT)) / 100)


def estimate_of_probe(probe: Job, discounts: Mapping[str, Discount]) -> SpotEstimate | None:
    """Return the estimate for the training that a probe projects; None for jobs of this machine, or if unknown."""
    rate, startup = _tag(probe, RATE), startup_seconds(probe)
    total, steps = running_seconds(probe, "projected_billable_seconds"), probe.number("projected_steps")
    if rate is None or startup is None or not (total > 0 and steps > 0):
        return None
    times = Times(
        total_seconds=total,
        startup_seconds=startup,
        checkpoint_seconds=finite_or_zero(probe.number(CHECKPOINT)) or None,
        checkpoints=int(finite_or_zero(probe.number("projected_checkpoints"))),
        steps=int(steps),
    )
    instances = probe.number("projected_billable_instance_seconds") / probe.number("projected_billable_seconds")
    own, usd = _tag(probe, DISCOUNT), _tag(probe, "price_usd_per_hour")
    earlier = discounts.get(probe.text.get("instance_type") or "")
    price = Price(usd_per_hour=usd, source="", date="") if usd is not None else None
    return spot_estimate(times, terms_of(rate, max(1, round(finite_or_zero(instances))), own, earlier, price))


def terms_of(
    interruptions_per_hour: float, instances: int, own: float | None, earlier: Discount | None, price: Price | None
) -> Terms:
    """Return the terms with the discount of the experiment, or else of earlier jobs."""
    percent, source = earlier or (None, "")
    if own is not None:
        percent, source = own, "machine.spot_discount_percent"
    return Terms(
        interruptions_per_hour=interruptions_per_hour,
        instances=instances,
        discount_percent=percent,
        discount_source=source,
        price=price,
    )


def _tag(job: Job, column: str) -> float | None:
    text, value = job.text.get(column), job.number(column)
    return value if math.isfinite(value) else float(text) if text else None
