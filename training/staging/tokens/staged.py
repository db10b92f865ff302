"""Result of a staging: lengths and buckets, the description for people, and the manifest on disk.

Sequences are padded to buckets so that a compiler sees few shapes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pydantic import TypeAdapter

from training.job.tasks import TASKS, Task
from training.job.tasks.checks import FOR_NUMBERS
from training.staging.tokens.rows import Channel, joining_map, plain_name

MULTIPLE = 8
MAX_BUCKETS = 4
SAMPLES = 5
SAMPLE_CHARACTERS = 200
"""Longest text of a sample row. Longer texts are cut, because a sample is stored with every run."""
MANIFEST = "staged.json"
DATA = "data.parquet"
"""File with a channel's rows."""
METADATA = "channel.json"
CHANNELS: tuple[Channel, ...] = ("train", "validation")
MAX_NOTES = 6
MANY_CLASSES, ROWS_OF_A_CLASS = 21, 100
"""Number of classes from which whole numbers with fewer rows each on average are probably no classes."""
MANY_REPEATED = 0.1
"""Share of validation rows that are also training rows from which the score is of little use."""
MISSING = frozenset({"nan", "none", "null", "nil", "n/a", "na", "<na>", "nat", "-"})
"""Texts that programs write for a missing value, in lower case."""
MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class LengthStatistics:
    """Sequence lengths of a channel's rows after truncation, special tokens included."""

    mean_tokens: float
    median_tokens: int
    p95_tokens: int
    max_tokens: int
    at_max_length_share: float
    """Share of rows that are as long as `max_length`, 0 to 1. Most of them were truncated."""


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


def choose_buckets(lengths: Mapping[int, int], *, max_length: int, max_buckets: int = MAX_BUCKETS) -> tuple[int, ...]:
    """Return at most `max_buckets` bucket lengths with the least padding. The last bucket holds the longest sequence.

    `lengths` maps a length in tokens to the number of sequences of that length; no length exceeds `max_length`. Buckets
    are multiples of 8, which suit tensor cores and vector units, or `max_length` itself. The result is exact: dynamic
    programming over the last bucket, O(candidates^2 x buckets). Of equally good results, the one with the fewest
    buckets is returned.
    """
    counts: dict[int, int] = {}
    for length, count in lengths.items():
        rounded = min(-(-length // MULTIPLE) * MULTIPLE, max_length)
        counts[rounded] = counts.get(rounded, 0) + count
    ends = sorted(counts)
    below = [0]
    for end in ends:
        below.append(below[-1] + counts[end])
    # best[i] covers the first i candidates: (padded tokens, number of buckets, buckets).
    best: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())] + [
        (end * below[i + 1], 1, (end,)) for i, end in enumerate(ends)
    ]
    for _ in range(max_buckets - 1):
        best = [best[0]] + [
            min(
                [best[j]]
                + [(best[i][0] + end * (below[j] - below[i]), best[i][1] + 1, (*best[i][2], end)) for i in range(1, j)]
            )
            for j, end in enumerate(ends, start=1)
        ]
    return best[-1][2]


def with_max_length(buckets: Sequence[int], *, max_length: int) -> tuple[int, ...]:
    """Return ascending bucket lengths that fit every sequence: append `max_length` if the last bucket is shorter."""
    assert all(shorter < longer for shorter, longer in pairwise(buckets)), "the experiment checks that buckets ascend"
    return tuple(buckets) if buckets[-1] >= max_length else (*buckets, max_length)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Preview of one training row."""

    number: int
    """Number of the row in the source, from 1; 0 if unknown."""
    text: str
    """Beginning of the row's text, at most `SAMPLE_CHARACTERS`."""
    label: str | None = None
    """Name of the row's class; None if the task has no classes."""


@dataclass(frozen=True, kw_only=True)
class ChannelDescription:
    rows: int
    """Rows of the channel: rows of the data, their windows, or blocks of packed texts."""
    source_rows: int | None = None
    """Rows of the data that they were made from; None if unknown."""
    lengths: LengthStatistics | None = None
    """Lengths of the channel's rows; None if unknown."""
    tokens: int | None = None
    """Tokens of all rows, special tokens included; None if unknown."""
    cut_rows: int | None = None
    """Rows of the data that `max_length` cut: truncated, or divided into several windows. None if unknown."""
    left_out_rows: int = 0
    """Rows of the data of which `max_length` left nothing to learn or to score."""
    class_counts: tuple[int, ...] = ()
    """Rows of each class; empty if the task has no classes."""
    remarks: Mapping[str, int] = field(default_factory=dict)
    """Numbers of rows of the data by the task's remark on them."""


@dataclass(frozen=True, kw_only=True)
class DataDescription:
    """Description of staged data, or of what is known of data that is not staged yet."""

    task: str | None
    """Task that the data was staged for; None if unknown."""
    max_length: int | None
    """Longest sequence in tokens; None if unknown."""
    label_names: tuple[str, ...]
    """Names of the classes in the order of their numbers; empty if the task has no classes."""
    train: ChannelDescription
    validation: ChannelDescription
    repeated_rows: int | None = None
    """Validation rows whose text is also a training row; None if unknown."""
    skipped_rows: int = 0
    """Rows with an empty or null value that `data.skip_bad_rows` left out."""
    contradictory_texts: int = 0
    """Training texts that occur with several classes."""
    samples: tuple[Sample, ...] = ()
    """Training rows, drawn at random; empty if unknown."""


def preview(*texts: str) -> str:
    """Return the beginning of one or two texts on one line, at most `SAMPLE_CHARACTERS` long."""
    room = (SAMPLE_CHARACTERS - 3 * (len(texts) - 1)) // len(texts)
    return " | ".join(_shortened(text, room) for text in texts)


def _shortened(text: str, room: int) -> str:
    line = " ".join(text[: 4 * room].split())
    return line if len(line) <= room and len(text) <= 4 * room else line[: room - 1].rstrip() + "…"


def lines(data: DataDescription) -> list[str]:
    """Return a few lines that describe staged data. Anything unknown is left out."""
    return [f"{name}: {phrase}" for name, phrase in phrases(data).items()]


def phrases(data: DataDescription) -> dict[str, str]:
    """Return a phrase by its name: each channel, the classes, and the repeated rows."""
    phrases = {"train": channel_phrase(data, data.train), "validation": channel_phrase(data, data.validation)}
    if (balance := balance_phrase(data)) is not None:
        phrases["classes"] = balance
    if (repeated := repeated_phrase(data)) is not None:
        phrases["repeated"] = repeated
    if data.contradictory_texts:
        phrases["contradictory"] = f"{_plural(data.contradictory_texts, 'text')} with several labels"
    if data.skipped_rows:
        phrases["left out"] = f"{_plural(data.skipped_rows, 'row')} with an empty or null value"
    return phrases


def channel_phrase(data: DataDescription, channel: ChannelDescription) -> str:
    """Return the rows, tokens and lengths of a channel."""
    parts = [f"{channel.rows:,} rows"]
    task = TASKS.get(data.task or "", Task)
    if channel.source_rows not in (None, channel.rows):
        parts[0] += f" of {channel.source_rows:,} {task.row}s"
    if channel.tokens is not None:
        parts.append(f"{channel.tokens:,} tokens")
    if lengths := channel.lengths:
        most, longest = f"{lengths.p95_tokens:,}", f"{lengths.max_tokens:,}"
        parts.append(f"median {lengths.median_tokens:,}, 95 % up to {most}, longest {longest} tokens")
    if channel.cut_rows:
        parts.append(f"{_plural(channel.cut_rows, task.row)} {task.cut} at max_length {data.max_length:,}")
    parts += [f"{_plural(count, task.row)} {remark}" for remark, count in channel.remarks.items()]
    if channel.left_out_rows:
        parts.append(f"{_plural(channel.left_out_rows, task.row)} {task.left_out}")
    return ", ".join(parts)


def balance_phrase(data: DataDescription) -> str | None:
    """Return the number of classes, the largest and the smallest; None without classes."""
    if not (counts := data.train.class_counts):
        return None
    (most, most_share), (fewest, fewest_share) = (
        (data.label_names[counts.index(count)], count / sum(counts)) for count in (max(counts), min(counts))
    )
    if most_share == fewest_share:
        return f"{len(data.label_names):,}; each has {most_share:.1%} of the training rows"
    return (
        f"{len(data.label_names):,}; {_short(most)} has {most_share:.1%} of the training rows, "
        f"{_short(fewest)} {fewest_share:.1%}"
    )


def repeated_phrase(data: DataDescription) -> str | None:
    """Return how many validation rows are also training rows; None if unknown."""
    if data.repeated_rows is None:
        return None
    unit = TASKS.get(data.task or "", Task).row
    total = data.validation.source_rows or data.validation.rows
    return f"{data.repeated_rows:,} of {total:,} validation {unit}s are also training {unit}s"


def _plural(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def _short(name: str) -> str:
    return repr(name if len(name) <= 30 else name[:29] + "…")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Content of `staged.json`, which describes one staging."""

    description: DataDescription
    length_counts: tuple[tuple[int, int], ...]
    """(length in tokens, rows) of the training rows, ascending."""
    longest_tokens: int
    """Longest sequence of training and validation rows, tokens."""
    has_model: bool
    """True if the staged data includes the configuration of a model from scratch."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    key: str
    """Hash of everything that determines the channels."""
    channels: Mapping[str, str]
    """Channel name to `file://` URI of its folder: train, validation, and model if its files are local."""
    bucket_lengths: tuple[int, ...]
    """Lengths for bucketed padding, ascending, tokens: as requested, or chosen from the data."""
    source: str
    """Origin of the data, for messages."""
    digest: str
    """SHA-256 of the data's content; for a Hub data set, of its name, commit and splits."""
    evaluation_key: str
    """Hash of everything that identifies the validation rows, independent of the training rows."""
    description: DataDescription
    """Rows, classes, lengths, duplicates and samples, as far as known."""
    cached: bool
    """True if an earlier staging was reused."""
    rows_key: str = ""
    """Hash of everything that identifies the rows of the data, however the training rows are cut or packed."""
    sample_rows: int | None = None
    """Rows of the data from which an estimate comes; None if the data itself was staged. In an estimate, rows, lengths
    and buckets are extrapolated, and classes are not known."""

    @property
    def train_rows(self) -> int:
        return self.description.train.rows

    @property
    def lengths(self) -> LengthStatistics:
        """Lengths of the training rows."""
        assert self.description.train.lengths is not None, "only descriptions of recorded runs may lack them"
        return self.description.train.lengths

    def notes(self) -> list[str]:
        """Return one sentence for each class without rows, and for what is probably not meant."""
        consequences = (
            (self.description.train.class_counts, "training", "cannot be learnt"),
            (self.description.validation.class_counts, "validation", "is not evaluated"),
        )
        notes = [
            f"no {rows} row has the label {name!r}: it {consequence}"
            for counts, rows, consequence in consequences
            for name, count in zip(self.description.label_names, counts, strict=True)
            if count == 0
        ]
        more = [f"and {len(notes) - MAX_NOTES} more labels without rows"] if len(notes) > MAX_NOTES else []
        return notes[:MAX_NOTES] + more + data_warnings(self.description)


def data_warnings(data: DataDescription) -> list[str]:
    """Return a sentence for each property of the data that is probably not meant."""
    rows = dict(zip(data.label_names, data.train.class_counts, strict=False))
    warnings, all_rows = [], sum(data.train.class_counts) + sum(data.validation.class_counts)
    task = TASKS.get(data.task or "", Task)
    spellings = Counter(map(plain_name, rows))
    if alike := [f"{name!r} ({count:,})" for name, count in rows.items() if spellings[plain_name(name)] > 1]:
        warnings.append(
            f"labels that differ only in case or blanks are classes of their own: {', '.join(alike)}; to join them, "
            f"set data.label_map{joining_map(rows)}"
        )
    if missing := [name for name in rows if plain_name(name) in MISSING]:
        listed = ", ".join(f"{name!r} ({_plural(rows[name], 'training row')})" for name in missing)
        warnings.append(f"{listed} is a class: if it means no label, set data.skip_labels: {json.dumps(missing)}")
    is_numeric = task.classes == "one" and all(map(str.isdecimal, rows))
    if is_numeric and len(rows) >= MANY_CLASSES and all_rows < ROWS_OF_A_CLASS * len(rows):
        warnings.append(f"{len(rows):,} classes for {all_rows:,} rows, all whole numbers: {FOR_NUMBERS}")
    if texts := data.contradictory_texts:
        warnings.append(f"{_plural(texts, 'training text')} with several labels: no model can get all their rows right")
    if data.repeated_rows and data.repeated_rows >= MANY_REPEATED * (data.validation.source_rows or math.inf):
        warnings.append(f"{repeated_phrase(data)}: their score shows what the model remembers, not what it has learnt")
    return warnings


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `staged.json`. It marks a complete staging, so it must be written last."""
    (folder / MANIFEST).write_bytes(TypeAdapter(Manifest).dump_json(manifest, indent=1))


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the staged files, or None if any of the files is missing or the manifest is damaged."""
    if not all((folder / channel / DATA).is_file() for channel in CHANNELS):
        return None
    try:
        manifest = TypeAdapter(Manifest).validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return None if manifest.has_model and not (folder / MODEL / "config.json").is_file() else manifest
