"""Did two arms do the same work, and in what does it compare: seconds of one machine, or dollars of several."""

from __future__ import annotations

from dataclasses import dataclass

from tracking.report.arms import Arm, Job, finite

PAID = "cost_billable_instance_seconds"
SAMPLES_TOLERANCE = 0.01
"""Relative difference in samples seen that still counts as equal work: a last batch that was not full."""


@dataclass(frozen=True)
class Target:
    """A quality at which jobs end: those that have reached the same one did equal work, whatever it took."""

    metric: str
    value: str
    """As the job was given it."""

    def __str__(self) -> str:
        return f"{self.metric} {self.value}"


@dataclass(frozen=True)
class Currency:
    """In what two arms are compared."""

    column: str
    noun: str
    """As in `20 % fewer ...`."""


SECONDS = Currency(PAID, "billable seconds")
DOLLARS = Currency("cost_usd", "dollars")


def currency(arm: Arm, baseline: Arm) -> Currency:
    """Return dollars for arms on machines of different types, whose seconds cost differently; else seconds."""
    return DOLLARS if _types(arm) != _types(baseline) else SECONDS


def is_other_machine(arm: Arm, baseline: Arm) -> bool:
    """Tell whether two arms ran on other machines, or on another number of them: then time and cost fall apart."""
    return _asked(arm) != _asked(baseline)


def target_of(*arms: Arm) -> Target | None:
    """Return the target at which all headline jobs of these arms were to end, or None where they have no common one."""
    told = {_target(job) for arm in arms for job in arm.headline}
    return told.pop() if len(told) == 1 else None


def not_reached(arm: Arm) -> list[Job]:
    """Return the headline jobs that ended before they reached their target."""
    return [job for job in arm.headline if not job.number("target_reached") > 0]


def unequal(arm: Arm, baseline: Arm) -> list[str]:
    """Return in what the work of two arms differs; empty for equal work or where either has no successful job.

    Machines may differ where the arms ask for different ones, as long as each arm's own jobs ran on the same, and a
    price is known for all. Samples may differ where all jobs were to end at the same target.
    """
    if not arm.headline or not baseline.headline:
        return []
    jobs = [*arm.headline, *baseline.headline]
    found = [*_differing(jobs, "data", "data_key"), *_machines(arm, baseline)]
    if target_of(arm, baseline):
        return found
    if any(map(_target, jobs)):
        told = sorted({str(_target(job) or "none") for job in jobs})
        return [*found, f"the target at which the training ends differs ({', '.join(told)})"]
    samples = finite(jobs, "samples")
    if not samples and all(job.is_script for job in jobs):
        return found  # taken on trust, and the report says so
    if len(samples) < len(jobs):
        return [*found, "some jobs do not tell how many samples they saw"]
    if max(samples) - min(samples) > SAMPLES_TOLERANCE * max(samples):
        found.append(f"the samples seen differ ({min(samples):,.0f} to {max(samples):,.0f})")
    return found


def _target(job: Job) -> Target | None:
    if (job.text.get("hp_target_stop") or "").lower() != "true":
        return None
    return Target(job.text.get("hp_target_metric") or "the target", job.text.get("hp_target_value") or "")


def _machines(arm: Arm, baseline: Arm) -> list[str]:
    sides = [arm.headline, baseline.headline]
    for jobs in sides if is_other_machine(arm, baseline) else [[*arm.headline, *baseline.headline]]:
        if found := [*_differing(jobs, "device", "device"), *_differing(jobs, "machine type", "instance_type")]:
            return found
    priced = all(len(side.positive(DOLLARS.column)) == len(side.headline) for side in (arm, baseline))
    if currency(arm, baseline) is DOLLARS and not priced:
        types = _listed([*arm.headline, *baseline.headline], "instance_type")
        return [f"the machine type differs ({types}) and not every job has a price"]
    return []


def _asked(arm: Arm) -> set[tuple[str | None, ...]]:
    names = ("instance_type", "job_instance_count", "job_devices")
    return {tuple(job.text.get(name) for name in names) for job in arm.headline}


def _types(arm: Arm) -> set[str | None]:
    return {job.text.get("instance_type") for job in arm.headline}


def _differing(jobs: list[Job], name: str, column: str) -> list[str]:
    differs = len({job.text.get(column) for job in jobs}) > 1
    return [f"the {name} differs ({_listed(jobs, column)})"] if differs else []


def _listed(jobs: list[Job], column: str) -> str:
    return ", ".join(sorted({job.text.get(column) or "unknown" for job in jobs}))
