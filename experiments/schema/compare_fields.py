"""Fields of a comparison, a probe and a calibration."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from training.staging.sources.request import Frozen, Name

Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
BatchSize = Annotated[int, Field(ge=1, le=1_048_576)]
RepeatsAtLook = Annotated[int, Field(ge=2, le=1_000)]


class Compare(Frozen):
    """Arms and repeats of a comparison."""

    arms: Annotated[tuple[dict[str, Any], ...], Field(strict=False, min_length=1, max_length=64)] = (
        {"compiler": "none"},
        {"compiler": "inductor"},
    )
    """Arms. Each one is a mapping of the fields that it changes."""
    repeats: Annotated[int, Field(ge=1, le=1_000)] = 9
    """Most jobs per arm, each with a different seed."""
    stop: Literal["early", "never"] = "early"
    """`early` stops an arm at a look once its cost and quality are decided, or a gain of `least_gain` is ruled out.
    `never` runs all repeats."""
    looks: Annotated[tuple[RepeatsAtLook, ...], Field(strict=False, min_length=1)] = (3, 5, 7, 9)
    """Repeats of each arm at each look, ascending. Looks above `repeats` are dropped; the last one is at `repeats`."""
    least_gain: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """Least gain worth having, as a share of the baseline's cost."""
    quality_margin: Annotated[float, Field(gt=0.0)] | None = None
    """Largest acceptable drop in quality, in the metric's unit. None means 0.03 for accuracy and macro F1, 3 points for
    scores in percent, and 5 % of the baseline's mean for a loss."""
    trainings: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of trainings to come, for which the settings are compared: the first with a cold compile cache, later ones
    with a warm one."""
    when_disturbed: Literal["keep", "repeat"] = "keep"
    """`repeat` runs a job again, once, if other programs or the hypervisor disturbed its measurement, and counts the
    second one. `keep` only marks it."""
    baseline: Name | None = None
    """Label of the baseline. None means the first arm."""
    parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs to run at the same time. Local jobs still wait for free cores or devices."""


class Probe(Frozen):
    """Length of each arm's training under the command `probe`."""

    precision: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    """Precision at which an arm stops: half the width of the 95 % interval of the projected seconds, as a share of
    them."""
    samples: Count | None = None
    """Most samples on which an arm trains. None means a tenth of the training."""
    eval_samples: Count = 256
    """Validation rows in the evaluations of a probe."""


class Calibration(Frozen):
    """Measurements of a calibration job. It trains nothing and keeps no model."""

    batch_sizes: Annotated[tuple[BatchSize, ...], Field(strict=False, min_length=1, max_length=256)]
    """Batch sizes per device, in samples, ascending."""
    seconds: Annotated[float, Field(gt=0.0, le=3_600.0)] = 2.0
    """Approximate seconds for which each batch size is measured, in 4 to 30 steps."""
