"""Fields of the verb `sweep`: search space, objective and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from experiments.schema.quality_metrics import QualityMetric
from sweeps.space.grid import BatchGrid
from sweeps.space.objective import CostName
from training.contract.errors import InputError, nearest
from training.contract.job_spec import COMPILERS, CompileMode
from training.staging.sources.request import Frozen

SamplerName = Literal["auto", "grid", "random", "tpe"]


def _text(value: Any) -> Any:
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


OPTIONS = {
    "compile_scope": ("layers", "model"),
    "compile_mode": get_args(CompileMode),
    "compile_dynamic": ("true", "false"),
}
"""Options of inductor, and their values as text."""


def _compiler_setting(value: Any) -> Any:
    """Return the text of a compiler setting, with its options in a fixed order. Raises ValueError."""
    if isinstance(value, Mapping):
        own = {str(name): str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}
    elif isinstance(value, str):
        name, _, options_text = value.partition(" ")
        pairs = (word.partition("=") for word in options_text.split())
        own = {"compiler": name, **{option: text for option, _, text in pairs}}
    else:
        return value
    compiler, options = own.pop("compiler", ""), own
    if compiler not in COMPILERS:
        raise ValueError(
            f"compilers names {compiler or 'no compiler'!r}, but a compiler is one of {_listed(COMPILERS)}"
        )
    for name, text in options.items():
        if compiler != "inductor" or name not in OPTIONS:
            raise ValueError(
                f"compilers gives {compiler} the option {name!r}, but only inductor has {_listed(OPTIONS)}"
            )
        if text not in OPTIONS[name]:
            raise ValueError(f"compilers has {name} {text!r}, which must be one of {_listed(OPTIONS[name])}")
    return " ".join([compiler, *(f"{name}={options[name]}" for name in OPTIONS if name in options)])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def compiler_fields(setting: str) -> dict[str, str]:
    """Return the fields of an experiment that a compiler setting sets, as texts."""
    compiler, *options = setting.split()
    return {"compiler": compiler, **dict(option.split("=", 1) for option in options)}


CompilerSetting = Annotated[str, BeforeValidator(_compiler_setting)]
Range = Annotated[str, BeforeValidator(_text), Field(min_length=1, max_length=64)]
"""Range such as `8..256`, both ends included."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Sweep(Frozen):
    """Search space, objective and limits of a sweep. Each compiler has its own study."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] | None = None
    """Name of the sweep. None derives it from the search."""
    compilers: Annotated[tuple[CompilerSetting, ...], Field(strict=False, min_length=1)] = ("none", "inductor")
    """Compilers to search; the first is the base. Inductor may have options, such as `inductor
    compile_mode=max-autotune`."""
    batch_sizes: Range | None = None
    """Range of the batch size per device, in samples. None means from 1/16 of the largest size that AWS has tested for
    the model and instance type up to that size, or 8..256."""
    batch_grid: BatchGrid = "powers_of_two"
    """Batch sizes of the range to try."""
    learning_rate_multipliers: Range | None = None
    """Range of a factor on the scaled learning rate, such as 0.25..4. None searches only the batch size."""
    multipliers_per_octave: Annotated[int, Field(ge=1, le=8)] = 1
    """Factors to try per doubling of the learning rate."""

    objective: Annotated[tuple[CostName | QualityMetric, ...], Field(strict=False, min_length=1, max_length=2)] = (
        "billable_seconds",
    )
    """Cost to minimise, up to the `target` or of the whole training with `worse_by`; `steady_samples_per_second` is
    maximised. A metric as the second objective makes a Pareto front."""
    worse_by: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    """Largest accepted loss of `quality` against the base, in the unit of the metric. Replaces a target."""
    quality: QualityMetric = "eval_loss"
    """Metric that `worse_by` refers to."""
    evaluations: Count = 10
    """Evaluations per trial. Not used with `eval_strategy: samples`."""

    trials: Count = 20
    """Trials per study. Pruned trials count, failed ones do not."""
    sampler: SamplerName = "auto"
    """Method that chooses the next point. `auto` is Optuna's TPE, or `grid` for throughput and small Pareto fronts, and
    ends by itself."""
    pruning: bool = True
    """Stop a trial that can no longer become the best."""
    calibration_seconds: Annotated[float, Field(ge=0.0, le=3_600.0)] | None = None
    """Seconds for which each batch size is timed before the trials. None means 1 for throughput, and 0 otherwise, which
    skips it."""
    finalists: Annotated[int, Field(ge=1, le=10)] = 3
    """Most settings of each compiler, at most 10 % dearer than its best, that train a second time before the winner is
    chosen. 1 chooses by the trials alone. Throughput and fronts have no finalists."""
    repeats: Annotated[int, Field(ge=0, le=1_000)] = 9
    """Most jobs of the winner and of each control after the search. They run in waves, with the fields `compare.looks`,
    `compare.least_gain` and `compare.quality_margin`; for throughput, only the first wave runs. 0 skips them."""

    max_parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Jobs to run at the same time, over all workers."""
    max_billable_seconds: Annotated[float, Field(gt=0.0)] | None = None
    """Earlier name of `max_billable_seconds`."""
    max_usd: Annotated[float, Field(gt=0.0)] | None = None
    """Earlier name of `max_usd`."""


def with_full_names(overrides: Mapping[str, str], is_field: Callable[[str], bool]) -> dict[str, str]:
    """Return overrides of the verb `sweep` with their full names: `trials` becomes `sweep.trials`.

    Names for which `is_field` is true are fields of the experiment and stay as they are. Raises InputError for a
    misspelt short name.
    """
    named = {}
    for name, text in overrides.items():
        if name in Sweep.model_fields and not is_field(name):
            named[f"sweep.{name}"] = text
        elif "." not in name and not is_field(name) and (hint := nearest(name, Sweep.model_fields)):
            raise InputError(f"unknown field {name[:80]!r} of sweep.{hint}")
        else:
            named[name] = text
    return named
