"""One job as the tracking server records it, from a row of the table of jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from judging.disturbance import disturbances
from tracking.groups.planned_job import AGAIN, job_title
from tracking.queries.job_tables import DIVERGED

STEADY = "throughput_steady_samples_per_second"
COSTS = frozenset({"cost_billable_seconds", "cost_billable_instance_seconds", "cost_usd"})


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
        """True if the job ran because the measurement of an equal job was disturbed."""
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

        Earlier versions chose the values of `auto` in a trial, which costs and seconds up to a target leave out.
        """
        value, trial, billed = (self.number(name) for name in (column, "time_trial_seconds", "cost_billable_seconds"))
        if not 0 < trial < billed:
            return value
        return value - trial if column == "target_seconds" else value * (1 - trial / billed * (column in COSTS))

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
    """Return a row of `job_tables.jobs` as a job."""
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
    """Return the value, or 0 for NaN and infinities."""
    return value if math.isfinite(value) else 0.0
