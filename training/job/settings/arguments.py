"""The job's arguments, which script mode passes as pairs `--name value` of strings."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from training.job.processes.reporting import ArgumentError
from training.job.settings.declared import (
    ADAPTER_PREFIX,
    ADAPTER_SETTINGS,
    LARGEST_BATCH,
    AdapterSettings,
    QualityMetric,
    TrainingSettings,
    choices_of,
    setting,
    type_of,
)


@dataclass(frozen=True)
class Arguments(TrainingSettings):
    """Settings of the job, as planning resolves them, and those that only the job has."""

    weights: Literal["pretrained", "random"] = setting("pretrained")
    """Initial weights. random: train the model's architecture from scratch."""
    eval_batch_size: int = setting(32, ge=1, le=LARGEST_BATCH, changes_training=False)
    """Evaluation samples per device and batch; by default the `batch_size`."""
    eval_strategy: Literal["end", "epoch", "steps"] = setting("epoch", changes_training=False)
    """Schedule of evaluations. Planning converts samples to steps."""

    learning_rate: float = setting(math.nan, gt=0.0)
    """Peak learning rate, scaled to the global batch size. Required."""
    bucket_lengths: tuple[int, ...] = setting(())
    """Bucket lengths in tokens, ascending. `max_length` is added when the last one is shorter."""
    probe_precision: float | None = setting(None, gt=0.0, lt=1.0, changes_training=False)
    """Train only until the projected duration is this precise: half the width of its 95 % interval divided by its
    value. None trains to the end."""
    probe_samples: int | None = setting(None, ge=1, changes_training=False)
    """Samples after which a probe ends at the latest. None means a tenth of the training."""
    probe_eval_samples: int = setting(256, ge=1, changes_training=False)
    """Validation rows that a probe or a calibration evaluates."""
    calibration_batch_sizes: tuple[int, ...] = setting(())
    """Batch sizes per device, ascending. The job measures a few steps of each and trains nothing."""
    calibration_seconds: float = setting(2.0, gt=0.0)
    """Approximate seconds for which each batch size is measured."""
    check_steps: int | None = setting(None, ge=1, changes_training=False)
    """Optimizer steps of each training of a check. The job then trains nothing else. None is no check."""
    target_metric: QualityMetric | None = setting(None, changes_training=False)
    """Metric of the target."""
    target_value: float | None = setting(None, changes_training=False)
    """Value to reach."""
    target_direction: Literal["min", "max"] | None = setting(None, changes_training=False)
    """min: at or below the value; max: at or above. None means min for losses and perplexity, else max."""
    target_stop: bool = setting(False)
    """Stop training when the target is reached."""
    quality_function: str | None = setting(None)
    """The user's own quality function, `FILE.py:NAME`. The channel `quality` has the file."""
    quality_digest: str | None = setting(None)
    """Digest of the file."""


FIELDS = {**{field.name: field for field in dataclasses.fields(Arguments)}, **ADAPTER_SETTINGS}


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments. Raises `ArgumentError` for one that cannot be read.

    The experiment's schema has checked their limits and combinations.
    """
    values = {}
    for option, text in zip(argv[::2], argv[1::2]):
        name = option.removeprefix("--")
        if name not in FIELDS:
            raise ArgumentError(f"unknown argument {option!r}")
        values[name] = _value(name, text)
    if "learning_rate" not in values:
        raise ArgumentError("missing argument: learning_rate")
    if "batch_size" in values:
        values.setdefault("eval_batch_size", values["batch_size"])
    adapter = {name[len(ADAPTER_PREFIX) :]: values.pop(name) for name in ADAPTER_SETTINGS if name in values}
    return Arguments(**values, adapter=AdapterSettings(**adapter) if adapter else None)


def _value(name: str, text: str) -> Any:
    kind = type_of(FIELDS[name])
    choices = choices_of(FIELDS[name]) if kind is not bool else ()
    if choices and text not in choices:
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, choices))}, not {text!r}")
    return text if choices else CONVERSIONS[kind](text)


CONVERSIONS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: text.lower() == "true",
    tuple[str, ...]: lambda text: tuple(filter(None, text.split(","))),
    tuple[int, ...]: lambda text: tuple(int(part) for part in text.split(",") if part.strip()),
}
"""Type of a value -> the conversion from text."""
