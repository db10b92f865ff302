"""Checks that two arms did the same work, and the unit in which their cost is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from reports.comparison.arms import Arm, Job, finite, image_version

BILLABLE = "cost_billable_instance_seconds"
"""Column of the table of jobs: billable seconds times instances."""
SAMPLES_TOLERANCE = 0.01
"""Largest relative difference in samples seen that counts as equal work, for example from a last, partial batch."""
Kind = Literal["data", "samples", "target", "image", "machine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of differences that `allow` accepts."""


@dataclass(frozen=True)
class Difference:
    """A difference between the work of two arms."""

    kind: Kind
    description: str
    """The difference with its values, such as `the samples seen differ (1,000 to 2,000)`."""

    def __str__(self) -> str:
        return self.description


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
    targets = {_target(job) for arm in arms for job in arm.succeeded}
    return targets.pop() if len(targets) == 1 else None


def not_reached(arm: Arm) -> list[Job]:
    """Return the successful jobs, of any cache state, that ended before they reached their target."""
    return [job for job in arm.succeeded if not job.number("target_reached") > 0]


def misses_target(job: Job) -> bool:
    """Return True if a job was to end at a target and did not reach it."""
    return _target(job) is not None and not job.number("target_reached") > 0


def work_differences(arm: Arm, baseline: Arm) -> list[Difference]:
    """Return the differences between the work of two arms; empty if either arm has no successful job.

    Every successful job counts, also one whose cache state differs from that of the jobs in the tables. Machines may
    differ if the arms request different ones, each arm's jobs ran on equal machines, and every job has a price. Samples
    may differ if all jobs were to end at the same target.
    """
    if not arm.succeeded or not baseline.succeeded:
        return []
    jobs = [*arm.succeeded, *baseline.succeeded]
    # The recorded library versions count if every job has them, or else the images'.
    version = _text_of("versions") if all(job.text.get("versions") for job in jobs) else image_version
    differences = [
        *_differing(jobs, "data", "data", _text_of("data_key")),
        *_differing(jobs, "image", "image version", version),
        *_machines(arm, baseline),
    ]
    if target_of(arm, baseline):
        return differences
    if any(map(_target, jobs)):
        targets = ", ".join(sorted({str(_target(job) or "none") for job in jobs}))
        return [*differences, Difference("target", f"the target at which the training ends differs ({targets})")]
    return [*differences, *_samples(jobs)]


def _samples(jobs: Sequence[Job]) -> list[Difference]:
    samples = finite(jobs, "samples")
    if not samples and all(job.is_script for job in jobs):
        return []  # assumed to be equal, which the report states
    if len(samples) < len(jobs):
        return [Difference("samples", "some jobs did not record how many samples they saw")]
    # Samples that follow from the steps of a script's log are exact up to the last batch of each epoch.
    fewest = [
        job.number("samples_fewest") if job.number("samples_fewest") >= 0 else job.number("samples") for job in jobs
    ]
    if max(fewest) - min(samples) > SAMPLES_TOLERANCE * max(samples):
        return [Difference("samples", f"the samples seen differ ({min(samples):,.0f} to {max(samples):,.0f})")]
    return []


def _target(job: Job) -> Target | None:
    if (job.text.get("hp_target_stop") or "").lower() != "true":
        return None
    return Target(job.text.get("hp_target_metric") or "the target", job.text.get("hp_target_value") or "")


def _machines(arm: Arm, baseline: Arm) -> list[Difference]:
    sides = [arm.succeeded, baseline.succeeded]
    if precisions := _precisions(arm, baseline):
        return precisions
    for jobs in sides if uses_other_machines(arm, baseline) else [[*arm.succeeded, *baseline.succeeded]]:
        names = {"device": "device", "instance type": "instance_type"}
        differing = [_differing(jobs, "machine", name, _text_of(column)) for name, column in names.items()]
        if any(differing):
            return [difference for each in differing for difference in each]
    if not has_common_currency(arm, baseline):
        types = _listed([*arm.succeeded, *baseline.succeeded], _text_of("instance_type"))
        return [Difference("machine", f"the instance type differs ({types}) and not every job has a price")]
    return []


def _precisions(arm: Arm, baseline: Arm) -> list[Difference]:
    """Return the difference in precision within an arm, or between the choices of `auto` on equal machines.

    Two arms may differ in precision if the experiment sets it, or if their machines differ. Runs of earlier versions do
    not record the request.
    """
    used = _text_of("hp_precision")
    for jobs in (arm.succeeded, baseline.succeeded):
        if differing := _differing(jobs, "machine", "precision", used):
            return differing
    if uses_other_machines(arm, baseline):
        return []
    automatic = [job for job in (*arm.succeeded, *baseline.succeeded) if job.text.get("requested_precision") == "auto"]
    return _differing(automatic, "machine", "precision that `auto` chose", used)


def _priced(*arms: Arm) -> bool:
    return all(job.number(DOLLARS.column) > 0 for arm in arms for job in arm.succeeded)


def _types(arm: Arm) -> set[str | None]:
    return {job.text.get("instance_type") for job in arm.succeeded}


def _text_of(column: str) -> Callable[[Job], str | None]:
    return lambda job: job.text.get(column)


def _differing(jobs: Sequence[Job], kind: Kind, name: str, value: Callable[[Job], str | None]) -> list[Difference]:
    differs = len({value(job) for job in jobs}) > 1
    return [Difference(kind, f"the {name} differs ({_listed(jobs, value)})")] if differs else []


def _listed(jobs: Sequence[Job], value: Callable[[Job], str | None]) -> str:
    return ", ".join(sorted({value(job) or "unknown" for job in jobs}))
