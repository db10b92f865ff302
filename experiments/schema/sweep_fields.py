"""Fields of an experiment that say what the verb `sweep` searches, by what it judges, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from experiments.schema.quality_metrics import QualityMetric
from sweeps.space.grid import BatchGrid
from sweeps.space.objective import CostName
from training.contract.errors import InputError, nearest
from training.contract.job_spec import Compiler
from training.staging.sources.request import Frozen

SamplerName = Literal["auto", "model", "grid", "random", "tpe"]


def _text(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


Range = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=64)]
"""Such as `8..256`; both ends belong to it."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Sweep(Frozen):
    """What a sweep searches. Each compiler setting has a study of its own."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] | None = None
    """What the sweep is called; None names it by all that it searches, so that another search is another sweep."""
    compilers: Annotated[tuple[Compiler, ...], Field(strict=False, min_length=1)] = ("none", "inductor")
    """Compiler settings; the first is the one that the others are compared with."""
    batch_sizes: Range | None = None
    """Range of the batch size of each device, samples; None is a sixteenth of what AWS has tested for the model and the
    machine up to all of it, or 8..256 where AWS tells nothing."""
    batch_grid: BatchGrid = "powers_of_two"
    """Which batch sizes of the range are tried."""
    learning_rate_multipliers: Range | None = None
    """Range of a factor on the scaled learning rate, such as 0.25..4; None searches the batch size alone."""
    multipliers_per_octave: Annotated[int, Field(ge=1, le=8)] = 1
    """Factors that are tried to each doubling."""

    objective: Annotated[tuple[CostName | QualityMetric, ...], Field(strict=False, min_length=1, max_length=2)] = (
        "billable_seconds",
    )
    """What is made small: the cost until the experiment's `target` is reached, or of the whole training with
    `worse_by`; `steady_samples_per_second` is made large. With a metric as the second one both are sought, and the
    result is the front between them."""
    worse_by: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    """By how much `quality` may be worse than that of the first compiler at the experiment's own batch size, in the
    metric's unit; takes the place of a target."""
    quality: QualityMetric = "eval_loss"
    """Metric that `worse_by` is about."""
    evaluations: Count = 10
    """Evaluations of a trial, at like counts of samples for every batch size; not used where `eval_strategy` is
    `samples` already."""

    trials: Count = 20
    """Trials of each study, the pruned ones included; those that failed are not counted."""
    sampler: SamplerName = "auto"
    """How points are chosen: `model` learns what a batch size costs and what a rate is worth, `auto` takes it where it
    applies; `grid`, `random` and `tpe` are there to compare with."""
    pruning: bool = True
    """Stop a trial that cannot win any more."""
    calibration_seconds: Annotated[float, Field(ge=0.0, le=3_600.0)] = 1.0
    """How long each batch size is timed before the trials, seconds; 0 leaves the calibration out."""
    repeats: Annotated[int, Field(ge=0, le=1_000)] = 3
    """Jobs of the winner and of its controls afterwards, each with a seed of its own; 0 leaves them out."""

    max_parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs at a time, over all workers."""
    max_billable_seconds: Annotated[float, Field(gt=0.0)] | None = None
    """No trial is started once all jobs of the sweep, failed and stopped ones too, have taken so many instance
    seconds; those that run may go over."""
    max_usd: Annotated[float, Field(gt=0.0)] | None = None
    """Likewise, in dollars; needs the price."""


def spelt_out(given: Mapping[str, str], is_field: Callable[[str], bool]) -> dict[str, str]:
    """Return overrides with the short names of the verb `sweep` spelt out, `trials` as `sweep.trials`.

    `is_field` tells the names of an experiment's own fields, which stay as they are. Raises InputError for a name that
    is near to one of the short ones and is none.
    """
    found = {}
    for name, text in given.items():
        if name in Sweep.model_fields and not is_field(name):
            found[f"sweep.{name}"] = text
        elif "." not in name and not is_field(name) and (hint := nearest(name, Sweep.model_fields)):
            raise InputError(f"unknown field {name[:80]!r} of sweep.{hint}")
        else:
            found[name] = text
    return found
