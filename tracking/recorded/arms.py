"""Jobs grouped into the arms of a comparison, with the target and the unit of cost that arms have in common.

Jobs of any groups can be compared, too: their arms are labelled by their settings.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, Literal

import pandas as pd

from judging.deterministic_failures import Death, deterministic_failure
from judging.summaries import Summary, summary
from tracking.groups.plan_file import SCALES_COLUMN, read_scales
from tracking.groups.planned_job import BEFORE_TRAININGS, IMPORTED
from tracking.recorded.recorded_job import COSTS, MEASURES, Job, job_of
from tracking.recording.recorder import EXCEPTION, MOMENT, compiler_warning, recorded_death
from training.job.tasks import TASKS, Task

BILLABLE = "cost_billable_instance_seconds"
"""Column of the table of jobs: billable seconds times instances."""
NOT_OF_THE_SETTING = frozenset({"Stopped", "Refused", "Vanished", "Budget"})
"""Failure classes that say nothing about the setting: a person stopped the job, or it never ran to its end."""
_MEANS = frozenset({*(measure.column for measure in MEASURES), "loss"})
"""Columns of losses and scores, of which verdicts and tables use the mean."""
_CACHE_ORDER = ("warm", "off", "partial", "cold")
"""Order of preference among cache states with the same number of repeats."""


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

    @property
    def trained(self) -> list[Job]:
        """Jobs that finished successfully or diverged."""
        return [*self.succeeded, *(job for job in self.failed if job.diverged)]

    def _counts(self, job: Job) -> bool:
        return job.is_again or job.repeat not in self._repeats_run_again

    @cached_property
    def _repeats_run_again(self) -> frozenset[str]:
        return frozenset(job.repeat for job in self.jobs if job.is_again)

    @property
    def failed(self) -> list[Job]:
        return [job for job in self.jobs if job.failed]

    @property
    def stopped(self) -> list[Job]:
        return [job for job in self.jobs if job.stopped]

    @property
    def deterministic_failure(self) -> Death | None:
        """Exception with which further jobs would fail as well, or None."""
        tags = ({EXCEPTION: job.text.get("exception"), MOMENT: job.text.get("exception_moment")} for job in self.jobs)
        deaths = [recorded_death(of_job) for of_job in tags]
        return deterministic_failure([death for death in deaths if death])

    @property
    def compiler_warnings(self) -> list[str]:
        """Reasons why the figures do not represent the arm's compiler setting, without duplicates."""
        settings = {job.text.get("compiler_active"): job.text.get("compiler") or "" for job in self.succeeded}
        reasons = (
            compiler_warning(setting, None if active is None else active == "true")
            for active, setting in settings.items()
        )
        return [reason for reason in reasons if reason]

    @property
    def setting_warnings(self) -> list[str]:
        return [f"“{self.label}” does not match its setting: {warning}" for warning in self.compiler_warnings]

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
        return finite(self.compared, column)

    def positive(self, column: str) -> list[float]:
        """Return the positive numbers of the compared jobs; only these can form a ratio."""
        return [value for value in self.values(column) if value > 0]

    def summary(self, column: str) -> Summary | None:
        """Return the typical value, extremes and count over the compared jobs. Losses and scores have their mean.

        A cost that is not positive does not count, as in verdicts.
        """
        values = self.positive(column) if column in COSTS else self.values(column)
        is_score = column in _MEANS or any(column in read_scales(job.text.get(SCALES_COLUMN)) for job in self.jobs)
        return summary(values, fmean if is_score else None)

    def mean_bill(self, column: str) -> float | None:
        """Return the mean cost of a usable model, everything paid over the compared jobs; None if no job failed."""
        lost = [job for job in self.failed if job.text.get("failure_class") not in NOT_OF_THE_SETTING]
        compared = self.positive(column)
        paid = math.fsum([*compared, *(value for value in finite(lost, column) if value > 0)])
        return paid / len(compared) if lost and compared else None

    @property
    def setup_seconds(self) -> list[float]:
        return [job.setup_seconds for job in self.compared if math.isfinite(job.setup_seconds)]

    def setting(self, column: str) -> list[float]:
        return sorted(set(finite(self.jobs, column)))


def arms_of(table: pd.DataFrame) -> list[Arm]:
    """Return the arms in the table from `job_tables.jobs`: the baseline first, then the others by start time."""
    jobs = [job_of(row) for row in table.to_dict("records")]
    labels = dict.fromkeys(job.arm for job in jobs)
    arms = [Arm(label, tuple(job for job in jobs if job.arm == label)) for label in labels]
    return sorted(arms, key=lambda arm: not any(job.is_baseline for job in arm.jobs))


def split_trainings(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the trainings in a table from `job_tables.jobs`, and the calibrations and checks."""
    is_before = table["role"].isin(BEFORE_TRAININGS) if "role" in table else pd.Series(False, index=table.index)
    return table[~is_before], table[is_before]


def finite(jobs: Sequence[Job], column: str) -> list[float]:
    return [value for job in jobs if math.isfinite(value := job.compared(column))]


def _rank(state: str) -> tuple[int, str]:
    return (_CACHE_ORDER.index(state) if state in _CACHE_ORDER else len(_CACHE_ORDER), state)


_MACHINE = ("instance_type", "device")
_PARAMETERS = ("hp_", "job_model_", "machine_devices", "machine_instance_count", "job_threads")
"""Beginnings of the columns of parameters. Columns of tags such as `job_arn` identify a job and are not settings."""
_IGNORED = frozenset({"hp_seed", "hp_compiler"})
"""Columns that differ between repeats, or whose value is also in a tag."""
_SETTING_NAMES = {
    "hp_batch_size": "batch",
    "hp_learning_rate": "learning rate",
    "machine_devices": "devices",
    "machine_instance_count": "instances",
    "data_key": "data",
}
_SHOWN_CHARACTERS = 12


def with_common_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return a `job_tables.jobs` table with arms renamed after their settings, independent of their groups' labels.

    Jobs of a single group keep their arms, and two imported jobs their names. Data, image and device are part of a
    setting: jobs that differ in one of these are never averaged. A parameter distinguishes runs only if at least two
    different values were recorded.
    """
    is_imported_pair = len(table) == 2 and list(table.get("role", ())) == [IMPORTED, IMPORTED]
    if is_imported_pair or (table["group"].notna().all() and table["group"].nunique() <= 1):
        return table
    table, _ = split_trainings(table)
    settings = [setting_of(row) for row in table.to_dict("records")]
    labels = _setting_labels(settings)
    flagged = {label for label, row in zip(labels, table["baseline"], strict=True) if row == "true"}
    numbers: dict[str, int] = {}
    repeats = []
    for label in labels:
        repeats.append(str(numbers.get(label, 0)))
        numbers[label] = numbers.get(label, 0) + 1
    baselines = ["true" if flagged == {label} else "false" for label in labels]
    # A role is meaningful only within its sweep.
    without_role = {"role": None} if "role" in table else {}
    return table.assign(arm=labels, repeat=repeats, baseline=baselines, **without_role)


def setting_of(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return a job's parameters, with its machine, data and image."""
    job = job_of(row)
    names = [str(name) for name in row if str(name).startswith(_PARAMETERS) and name not in _IGNORED]
    parameters = {name: text for name in names if (text := _setting_text(row[name]))}
    tags = {name: job.text.get(name) for name in (*_MACHINE, "data_key")}
    image = job.text.get("versions") or image_version(job)
    setting = {"compiler": job.text.get("compiler"), **parameters, **tags, "image": image}
    return {name: text for name, text in setting.items() if text}


def image_version(job: Job) -> str | None:
    """Return the library versions in the tag of a job's image, or the whole image name if the tag has no versions.

    Images with and without a compiler then count as equal if they contain the same library versions.
    """
    image = job.text.get("image")
    # SageMaker's tags look like this: 1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04
    match = re.search(r":([\d.]+-transformers[\d.]+)", image or "")
    return match[1] if match else image


def _setting_labels(settings: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for setting in settings for name in setting)
    differing = [name for name in names if len({setting[name] for setting in settings if name in setting}) > 1]
    # The instance type implies the device.
    differing = [name for name in differing if name != "device" or "instance_type" not in differing]
    differing = sorted(differing or ["compiler"], key=lambda name: name != "compiler")
    return [
        ", ".join(_setting_part(name, setting[name]) for name in differing if name in setting) or "unnamed"
        for setting in settings
    ]


def _setting_part(name: str, value: str) -> str:
    if name in {"compiler", *_MACHINE}:
        return value
    known = _SETTING_NAMES.get(name) or name.removeprefix("hp_").removeprefix("job_").replace("_", " ")
    return f"{known} {value[:_SHOWN_CHARACTERS] if name == 'data_key' else value}"


def _setting_text(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Target:
    """A quality at which jobs end. Jobs that reached the same target did equal work, however long they took."""

    metric: str
    value: str
    """As in the job's parameters."""

    def __str__(self) -> str:
        return f"{self.metric} {self.value}"


@dataclass(frozen=True)
class Currency:
    """Unit in which the cost of two arms is compared."""

    column: str
    noun: str
    """As in `20 % fewer ...`."""


SECONDS = Currency(BILLABLE, "billable seconds")
DOLLARS = Currency("cost_usd", "dollars")


def work_unit(*arms: Arm) -> Literal["samples", "tokens"]:
    """Return the column in which the work of arms is counted.

    Language models whose data was cut or packed differently have samples of different sizes, so their work is counted
    in tokens without padding.
    """
    jobs = [job for arm in arms for job in arm.succeeded]
    tasks = [TASKS.get(job.text.get("hp_task") or "", Task) for job in jobs if job.number("tokens") > 0]
    is_counted = len(tasks) == len(jobs) and all(task.predicts_tokens for task in tasks)
    return "tokens" if is_counted and len({job.text.get("data_key") for job in jobs}) > 1 else "samples"


def currency(arm: Arm, baseline: Arm) -> Currency:
    """Return dollars for arms on different instance types, whose seconds cost differently; otherwise seconds.

    If a price is missing, return seconds; `work_differences` reports the missing price.
    """
    return DOLLARS if _types(arm) != _types(baseline) and _priced(arm, baseline) else SECONDS


def has_common_currency(arm: Arm, baseline: Arm) -> bool:
    """Return True if the costs of two arms can be compared: as seconds of one instance type, or as dollars."""
    return _types(arm) == _types(baseline) or _priced(arm, baseline)


def uses_other_machines(arm: Arm, baseline: Arm) -> bool:
    """Return True if two arms requested different machines. The faster arm may then cost more."""
    columns = ("instance_type", "machine_instance_count", "machine_devices")
    mine, others = ({tuple(map(job.text.get, columns)) for job in side.succeeded} for side in (arm, baseline))
    return mine != others


def target_of(*arms: Arm) -> Target | None:
    """Return the target at which all successful jobs were to end, or None if they have no common target."""
    targets = {job_target(job) for arm in arms for job in arm.succeeded}
    return targets.pop() if len(targets) == 1 else None


def misses_target(job: Job) -> bool:
    return job_target(job) is not None and not job.number("target_reached") > 0


def job_target(job: Job) -> Target | None:
    """Return the target at which a job was to end, or None."""
    if (job.text.get("hp_target_stop") or "").lower() != "true":
        return None
    return Target(job.text.get("hp_target_metric") or "the target", job.text.get("hp_target_value") or "")


def _priced(*arms: Arm) -> bool:
    return all(job.number(DOLLARS.column) > 0 for arm in arms for job in arm.succeeded)


def _types(arm: Arm) -> set[str | None]:
    return {job.text.get("instance_type") for job in arm.succeeded}
