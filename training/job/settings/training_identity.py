"""What makes a training this one and no other: only a checkpoint of the same training may be gone on from."""

import hashlib
from pathlib import Path
from typing import Any, Dict

from reporting.errors import ArgumentError
from settings.job_settings import Settings

MAY_CHANGE = frozenset(
    (
        *("logging_steps", "eval_strategy", "eval_steps", "per_device_eval_batch_size", "steady_after_steps"),
        "dataloader_workers",
        *("save_strategy", "save_steps", "save_total_limit", "save_model"),
        *("probe_precision", "probe_samples", "probe_eval_samples"),
        *("target_metric", "target_value", "target_direction"),
        *("push_to_hub", "push_private", "push_revision", "push_message", "push_token_variable", "push_token_secret"),
    )
)
"""Arguments that change what is said and kept, and no weight."""

VALUES_A_PARAMETER = 256
"""Enough to tell one pretrained model from another of the same shape, and read in no time."""


def identity(settings: Settings, model: Any) -> Dict[str, Any]:
    """Return what fixes every weight of the training, by name: settings, data, and the model before its first step."""
    told = {name: value for name, value in settings.effective().items() if name not in MAY_CHANGE}
    # As JSON gives them back.
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}
    return {**plain, "processes": settings.processes, "data": _digest_of_rows(settings), "weights": _digest_of(model)}


def check_same(checkpoint: Path, before: Dict[str, Any], now: Dict[str, Any]) -> None:
    """Raise `ArgumentError` when a checkpoint is of another training."""
    names = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if names:
        differing = ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in names)
        raise ArgumentError(
            f"{checkpoint} is of another training: {differing}; go on with the same, or give the job an empty folder "
            "for its checkpoints"
        )


def _digest_of_rows(settings: Settings) -> str:
    rows = settings.train.rows
    digest = hashlib.sha256(rows.lengths.tobytes())
    for column in (rows.tokens, rows.types, *rows.columns.values()):
        if column is not None:
            digest.update(column.tobytes())
    return digest.hexdigest()[:16]


def _digest_of(model: Any) -> str:
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        values = parameter.detach().flatten()[:VALUES_A_PARAMETER].cpu().numpy()
        digest.update(f"{name} {tuple(parameter.shape)}".encode() + values.tobytes())
    return digest.hexdigest()[:16]
