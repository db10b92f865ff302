"""Result of a staging, and the manifest that describes it on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training.staging.rows.selection import Channel
from training.staging.tokens.description import ChannelDescription, DataDescription, description_of
from training.staging.tokens.lengths import LengthStatistics

MANIFEST = "staged.json"
DATA = "data.parquet"
METADATA = "channel.json"
CHANNELS: tuple[Channel, ...] = ("train", "validation")
MAX_NOTES = 6
MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of both channels."""

    train_rows: int
    """Rows to train on."""
    validation_rows: int
    """Rows to evaluate on."""
    label_names: tuple[str, ...]
    """Names in the order of the class numbers."""
    train_class_counts: tuple[int, ...]
    """Training rows of each class."""
    validation_class_counts: tuple[int, ...]
    """Validation rows of each class."""
    description: DataDescription | None = None
    """Description for people; None in an estimate, or if an earlier version staged the data. `describe` always returns
    one."""


@dataclass(frozen=True, kw_only=True)
class Manifest(Rows):
    """Content of `staged.json`, which describes one staging."""

    task: str
    max_length: int
    """Longest sequence, tokens."""
    length_counts: tuple[tuple[int, int], ...]
    """(length in tokens, rows) of the training rows, ascending."""
    longest_tokens: int
    """Longest sequence of training and validation rows, tokens."""
    has_model: bool
    """True if the staged data includes the configuration of a model from scratch."""


@dataclass(frozen=True, kw_only=True)
class Staged(Rows):
    """Staged data of a job."""

    key: str
    """Hash of everything that determines the channels."""
    channels: Mapping[str, str]
    """Channel name to `file://` URI of its folder: train, validation, and model if its files are local."""
    bucket_lengths: tuple[int, ...]
    """Lengths for bucketed padding, ascending, tokens: as requested, or chosen from the data."""
    lengths: LengthStatistics
    """Lengths of the training rows."""
    source: str
    """Origin of the data, for messages."""
    digest: str
    """SHA-256 of the data's content; for a Hub data set, of its name, commit and splits."""
    evaluation_key: str
    """Hash of everything that identifies the validation rows, independent of the training rows."""
    cached: bool
    """True if an earlier staging was reused."""

    def notes(self) -> list[str]:
        """Return one sentence for each class without rows."""
        consequences = (
            (self.train_class_counts, "training", "cannot be learnt"),
            (self.validation_class_counts, "validation", "is not evaluated"),
        )
        notes = [
            f"no {rows} row has the label {name!r}: it {consequence}"
            for counts, rows, consequence in consequences
            for name, count in zip(self.label_names, counts, strict=True)
            if count == 0
        ]
        more = [f"and {len(notes) - MAX_NOTES} more labels without rows"] if len(notes) > MAX_NOTES else []
        return notes[:MAX_NOTES] + more


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `staged.json`. It marks a complete staging, so it must be written last."""
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1, ensure_ascii=False), "utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the staged files, or None if any of the files is missing or the manifest is damaged."""
    if not all(has_rows(folder / channel) for channel in CHANNELS):
        return None
    try:
        fields: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        for name in ("label_names", "train_class_counts", "validation_class_counts"):
            fields[name] = tuple(fields[name])
        fields["length_counts"] = tuple((length, count) for length, count in fields["length_counts"])
        fields["description"] = description_of(fields["description"]) if fields.get("description") else None
        manifest = Manifest(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if manifest.has_model and not (folder / MODEL / "config.json").is_file() else manifest


def has_rows(channel: Path) -> bool:
    """Return whether a channel has its rows: `data.parquet`, or the first shard of a large channel."""
    return (channel / DATA).is_file() or (channel / shard_name(0)).is_file()


def shard_name(number: int) -> str:
    """Return the file name of a shard, from 0. The names sort in the order of the rows."""
    return f"data-{number:05d}.parquet"


def describe(staged: Staged) -> DataDescription:
    """Return the description of staged data: rows, classes, lengths, duplicates and samples, as far as known."""
    if staged.description is not None:
        return staged.description
    train = ChannelDescription(rows=staged.train_rows, lengths=staged.lengths, class_counts=staged.train_class_counts)
    validation = ChannelDescription(rows=staged.validation_rows, class_counts=staged.validation_class_counts)
    return DataDescription(
        task=None, max_length=None, label_names=staged.label_names, train=train, validation=validation
    )
