"""Did two arms do the same work, and in what does it compare: seconds of one machine, or dollars of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from reports.comparison.arms import Arm, Job, finite

PAID = "cost_billable_instance_seconds"
SAMPLES_TOLERANCE = 0.01
"""Relative difference in samples seen that still counts as equal work: a last batch that was not full."""


Kind = Literal["data", "samples", "target", "image", "machine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In what jobs may differ that are compared all the same, where that is asked for."""


@dataclass(frozen=True)
class Difference:
    """In what the work of two arms differs."""

    kind: Kind
    told: str
    """The difference with its values, such as `the samples seen differ (1,000 to 2,000)`."""

    def __str__(self) -> str:
        return self.told


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
    """Return dollars for arms on machines of different types, whose seconds cost differently; else seconds.

    Seconds too where a price is missing, which `unequal` tells.
    """
    return DOLLARS if _types(arm) != _types(baseline) and _priced(arm, baseline) else SECONDS


def is_priced_alike(arm: Arm, baseline: Arm) -> bool:
    """Tell whether what two arms paid is one currency: seconds of one type of machine, or dollars."""
    return _types(arm) == _types(baseline) or _priced(arm, baseline)


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


def unequal(arm: Arm, baseline: Arm) -> list[Difference]:
    """Return in what the work of two arms differs; empty for equal work or where either has no successful job.

    Machines may differ where the arms ask for different ones, as long as each arm's own jobs ran on the same, and a
    price is known for all. Samples may differ where all jobs were to end at the same target.
    """
    if not arm.headline or not baseline.headline:
        return []
    jobs = [*arm.headline, *baseline.headline]
    found = [
        *_differing(jobs, "data", "data", _text_of("data_key")),
        *_images(jobs),
        *_machines(arm, baseline),
    ]
    if target_of(arm, baseline):
        return found
    if any(map(_target, jobs)):
        told = sorted({str(_target(job) or "none") for job in jobs})
        return [*found, Difference("target", f"the target at which the training ends differs ({', '.join(told)})")]
    return [*found, *_samples(jobs)]


def image_version(job: Job) -> str | None:
    """Return what tells a job's image from others: the versions in its tag, so that an image with a compiler and one
    without compare where both hold the same libraries; of an image that names none, the whole of it."""
    image = job.text.get("image")
    # As SageMaker's images are called: 1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04
    found = re.search(r":([\d.]+-transformers[\d.]+)", image or "")
    return found[1] if found else image


def _samples(jobs: Sequence[Job]) -> list[Difference]:
    samples = finite(jobs, "samples")
    if not samples and all(job.is_script for job in jobs):
        return []  # taken on trust, and the report says so
    if len(samples) < len(jobs):
        return [Difference("samples", "some jobs do not tell how many samples they saw")]
    if max(samples) - min(samples) > SAMPLES_TOLERANCE * max(samples):
        return [Difference("samples", f"the samples seen differ ({min(samples):,.0f} to {max(samples):,.0f})")]
    return []


def _target(job: Job) -> Target | None:
    if (job.text.get("hp_target_stop") or "").lower() != "true":
        return None
    return Target(job.text.get("hp_target_metric") or "the target", job.text.get("hp_target_value") or "")


def _images(jobs: Sequence[Job]) -> list[Difference]:
    """Return whether the jobs ran other versions of the libraries: as they tell themselves, else by their image."""
    tell = all(job.text.get("versions") for job in jobs)
    return _differing(jobs, "image", "image version", _text_of("versions") if tell else image_version)


def _machines(arm: Arm, baseline: Arm) -> list[Difference]:
    sides = [arm.headline, baseline.headline]
    for jobs in sides if is_other_machine(arm, baseline) else [[*arm.headline, *baseline.headline]]:
        names = {"device": "device", "machine type": "instance_type"}
        found = [each for name, column in names.items() for each in _differing(jobs, "machine", name, _text_of(column))]
        if found:
            return found
    if not is_priced_alike(arm, baseline):
        types = _listed([*arm.headline, *baseline.headline], _text_of("instance_type"))
        return [Difference("machine", f"the machine type differs ({types}) and not every job has a price")]
    return []


def _priced(*arms: Arm) -> bool:
    return all(len(arm.positive(DOLLARS.column)) == len(arm.headline) for arm in arms)


def _asked(arm: Arm) -> set[tuple[str | None, ...]]:
    names = ("instance_type", "job_instance_count", "job_devices")
    return {tuple(job.text.get(name) for name in names) for job in arm.headline}


def _types(arm: Arm) -> set[str | None]:
    return {job.text.get("instance_type") for job in arm.headline}


def _text_of(column: str) -> Callable[[Job], str | None]:
    return lambda job: job.text.get(column)


def _differing(jobs: Sequence[Job], kind: Kind, name: str, value: Callable[[Job], str | None]) -> list[Difference]:
    differs = len({value(job) for job in jobs}) > 1
    return [Difference(kind, f"the {name} differs ({_listed(jobs, value)})")] if differs else []


def _listed(jobs: Sequence[Job], value: Callable[[Job], str | None]) -> str:
    return ", ".join(sorted({value(job) or "unknown" for job in jobs}))
