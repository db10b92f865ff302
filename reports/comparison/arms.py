"""Jobs grouped into the arms of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import pandas as pd

from judging.disturbance import disturbances
from judging.doomed import Death, doom_of
from judging.quality import MEASURES
from judging.summaries import Summary, summary
from tracking.groups.plan_file import SCALES_COLUMN, read_scales
from tracking.groups.planned_job import AGAIN, job_title
from tracking.recording.recorder import EXCEPTION, MOMENT, compiler_warning, recorded_death

STEADY = "throughput_steady_samples_per_second"
NOT_OF_THE_SETTING = frozenset({"Stopped", "Refused", "Vanished", "Budget"})
"""Failure classes that say nothing about the setting: a person stopped the job, or it never ran to its end."""
_COSTS = frozenset({"cost_billable_seconds", "cost_billable_instance_seconds", "cost_usd"})
_MEANS = frozenset({*(measure.column for measure in MEASURES), "loss"})
"""Columns of losses and scores, of which verdicts and tables use the mean."""
_CACHE_ORDER = ("warm", "off", "partial", "cold")
"""Order of preference among cache states with the same number of repeats."""


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
        """True if the job finished successfully."""
        return self.status == "FINISHED"

    @property
    def unfinished(self) -> bool:
        """True if the job has not ended."""
        return self.status in ("RUNNING", "SCHEDULED")

    @property
    def failed(self) -> bool:
        """True if the job ended without success. A stopped job did not fail."""
        return not self.succeeded and not self.unfinished and not self.stopped

    @property
    def stopped(self) -> bool:
        """True if a person stopped the job."""
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
        return value - trial if column == "target_seconds" else value * (1 - trial / billed * (column in _COSTS))

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


@dataclass(frozen=True)
class Arm:
    """One setting with its jobs. Its figures come from the successful jobs of a single cache state."""

    label: str
    jobs: tuple[Job, ...]

    @property
    def replaced(self) -> list[Job]:
        """Disturbed jobs in whose place a second job counts."""
        return [job for job in self.jobs if not self._counts(job)]

    @cached_property
    def succeeded(self) -> tuple[Job, ...]:
        """Jobs that finished successfully, without replaced ones."""
        return tuple(job for job in self.jobs if job.succeeded and self._counts(job))

    def _counts(self, job: Job) -> bool:
        return job.is_again or job.repeat not in self._repeats_run_again

    @cached_property
    def _repeats_run_again(self) -> frozenset[str]:
        return frozenset(job.repeat for job in self.jobs if job.is_again)

    @property
    def failed(self) -> list[Job]:
        """Jobs that ended without success, except stopped ones."""
        return [job for job in self.jobs if job.failed]

    @property
    def stopped(self) -> list[Job]:
        """Jobs that a person stopped."""
        return [job for job in self.jobs if job.stopped]

    @property
    def doom(self) -> Death | None:
        """Exception of which further jobs would die as well, or None."""
        tags = ({EXCEPTION: job.text.get("exception"), MOMENT: job.text.get("exception_moment")} for job in self.jobs)
        deaths = [recorded_death(of_job) for of_job in tags]
        return doom_of([death for death in deaths if death])

    @property
    def compiler_warnings(self) -> list[str]:
        """Reasons why the figures do not represent the arm's compiler setting, without duplicates."""
        settings = {job.text.get("compiler_active"): job.text.get("compiler") or "" for job in self.succeeded}
        reasons = (
            compiler_warning(setting, None if active is None else active == "true")
            for active, setting in settings.items()
        )
        return [reason for reason in reasons if reason]

    @cached_property
    def cache_state(self) -> str | None:
        """Most common cache state of the successful jobs; warm wins a tie. None if no job succeeded."""
        counts = Counter(job.cache_state for job in self.succeeded)
        return min(counts, key=lambda state: (-counts[state], _rank(state)), default=None)

    @cached_property
    def compared(self) -> tuple[Job, ...]:
        """The jobs that the arm's numbers come from: those that succeeded with the arm's cache state."""
        return tuple(job for job in self.succeeded if job.cache_state == self.cache_state)

    @property
    def other_cache_states(self) -> dict[str, list[Job]]:
        """Successful jobs whose cache state differs from the compared one, by state."""
        states = sorted({job.cache_state for job in self.succeeded} - {self.cache_state}, key=_rank)
        return {state: [job for job in self.succeeded if job.cache_state == state] for state in states}

    def values(self, column: str) -> list[float]:
        """Return the finite numbers of the compared jobs."""
        return finite(self.compared, column)

    def positive(self, column: str) -> list[float]:
        """Return the positive numbers of the compared jobs; only these can form a ratio."""
        return [value for value in self.values(column) if value > 0]

    def summary(self, column: str) -> Summary | None:
        """Return the typical value, extremes and count over the compared jobs. Losses and scores have their mean.

        A cost that is not positive does not count, as in verdicts.
        """
        values = self.positive(column) if column in _COSTS else self.values(column)
        is_score = column in _MEANS or any(column in read_scales(job.text.get(SCALES_COLUMN)) for job in self.jobs)
        return summary(values, fmean if is_score else None)

    def surcharge(self, column: str) -> float:
        """Return the factor by which failed jobs raise the cost of a usable model; 1 without failures."""
        succeeded = math.fsum(value for value in finite(self.succeeded, column) if value > 0)
        lost = [job for job in self.failed if job.text.get("failure_class") not in NOT_OF_THE_SETTING]
        return 1 + math.fsum(value for value in finite(lost, column) if value > 0) / succeeded if succeeded else 1.0

    @property
    def setup_seconds(self) -> list[float]:
        """Compile plus warm-up seconds of the compared jobs."""
        return [job.setup_seconds for job in self.compared if math.isfinite(job.setup_seconds)]

    def setting(self, column: str) -> list[float]:
        """Return the distinct values of a parameter over all the arm's jobs."""
        return sorted(set(finite(self.jobs, column)))


def finite(jobs: Sequence[Job], column: str) -> list[float]:
    """Return the finite numbers of these jobs, as comparisons use them."""
    return [value for job in jobs if math.isfinite(value := job.compared(column))]


def finite_or_zero(value: float) -> float:
    """Return the value, or 0 for NaN and infinities."""
    return value if math.isfinite(value) else 0.0


def arms_of(table: pd.DataFrame) -> list[Arm]:
    """Return the arms in the table from `job_tables.jobs`: the baseline first, then the others by start time."""
    jobs = [job_of(row) for row in table.to_dict("records")]
    labels = dict.fromkeys(job.arm for job in jobs)
    arms = [Arm(label, tuple(job for job in jobs if job.arm == label)) for label in labels]
    return sorted(arms, key=lambda arm: not any(job.is_baseline for job in arm.jobs))


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


def _rank(state: str) -> tuple[int, str]:
    return (_CACHE_ORDER.index(state) if state in _CACHE_ORDER else len(_CACHE_ORDER), state)
