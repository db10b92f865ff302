"""Identity of a training: a checkpoint can resume only the training that wrote it."""

import hashlib
from pathlib import Path
from typing import Any

from training.job.processes.reporting import ArgumentError
from training.job.settings.arguments import FIELDS
from training.job.settings.declared import traits_of
from training.job.settings.job_settings import Settings
from training.job.weights.adapters import weights_digest


def identity(settings: Settings, model: Any) -> dict[str, Any]:
    """Return everything that determines the trained weights, by name: settings, data, and the initial model."""
    values = {name: value for name, value in settings.effective().items() if traits_of(FIELDS[name]).changes_training}
    # The checkpoint stores JSON, which has lists but no tuples.
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {
        **plain,
        "processes": settings.processes,
        "data": _rows_digest(settings),
        "weights": weights_digest(model.named_parameters()),
    }


def check_same(checkpoint: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise `ArgumentError` when a checkpoint belongs to a different training."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if names:
        differing = ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in names)
        raise ArgumentError(
            f"{checkpoint} belongs to a different training: {differing}. Use the same values, or an empty folder for "
            "the checkpoints"
        )


def _rows_digest(settings: Settings) -> str:
    rows = settings.train.rows
    digest = hashlib.sha256(rows.lengths.tobytes())
    if options := settings.train.metadata.options:
        digest.update(repr(sorted(options.items())).encode())
    for column in (rows.tokens, rows.types, *rows.columns.values()):
        if column is not None:
            digest.update(column.tobytes())
    return digest.hexdigest()[:16]
