"""Result of a staging, and the manifest that describes it on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANIFEST = "staged.json"
DATA = "data.parquet"
CHANNELS = ("train", "validation")
MAX_NOTES = 6
MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class LengthStatistics:
    """Sequence lengths of the training rows after truncation, special tokens included."""

    mean_tokens: float
    median_tokens: int
    p95_tokens: int
    max_tokens: int
    at_max_length_share: float
    """Share of rows that are as long as `max_length`, 0 to 1. Most of them were truncated."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Content of `staged.json`, which describes one staging."""

    task: str
    max_length: int
    """Longest sequence, tokens."""
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
    length_counts: tuple[tuple[int, int], ...]
    """(length in tokens, rows) of the training rows, ascending."""
    longest_tokens: int
    """Longest sequence of training and validation rows, tokens."""
    has_model: bool
    """True if the staged data includes the configuration of a model from scratch."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Staged data of a job."""

    key: str
    """Hash of everything that determines the channels."""
    channels: Mapping[str, str]
    """Channel name to `file://` URI of its folder: train, validation, and model if its files are local."""
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


def length_statistics(length_counts: Mapping[int, int], max_length: int) -> LengthStatistics:
    """Return the statistics of a histogram of lengths.

    A quantile is the smallest length such that at least its share of the rows are no longer.
    """
    rows = sum(length_counts.values())
    return LengthStatistics(
        mean_tokens=sum(length * count for length, count in length_counts.items()) / rows,
        median_tokens=_quantile(length_counts, rows, 0.5),
        p95_tokens=_quantile(length_counts, rows, 0.95),
        max_tokens=max(length_counts),
        at_max_length_share=length_counts.get(max_length, 0) / rows,
    )


def _quantile(length_counts: Mapping[int, int], rows: int, share: float) -> int:
    rows_so_far = 0
    for length in sorted(length_counts):
        rows_so_far += length_counts[length]
        if rows_so_far >= share * rows:
            return length
    raise AssertionError("the shares of a histogram add up to one")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `staged.json`. It marks a complete staging, so it must be written last."""
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1, ensure_ascii=False), "utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the staged files, or None if any of the files is missing or the manifest is damaged."""
    if not all((folder / channel / DATA).is_file() for channel in CHANNELS):
        return None
    try:
        fields: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        for name in ("label_names", "train_class_counts", "validation_class_counts"):
            fields[name] = tuple(fields[name])
        fields["length_counts"] = tuple((length, count) for length, count in fields["length_counts"])
        manifest = Manifest(**fields)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if manifest.has_model and not (folder / MODEL / "config.json").is_file() else manifest
