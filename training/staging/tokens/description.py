"""Description of staged data for people: rows, lengths, labels, duplicates, sample rows, and phrases about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from training.job.tasks import TASKS, Task
from training.staging.tokens.lengths import LengthStatistics

SAMPLES = 5
SAMPLE_CHARACTERS = 200
"""Longest text of a sample row. Longer texts are cut, because a sample is stored with every run."""


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
    """Description of the rows of one channel."""

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
    class_counts: tuple[int, ...] = ()
    """Rows of each class; empty if the task has no classes."""


@dataclass(frozen=True, kw_only=True)
class DataDescription:
    """Description of staged data. An earlier version staged data without the fields that are None."""

    task: str | None
    """Task that the data was staged for; None if unknown."""
    max_length: int | None
    """Longest sequence in tokens; None if unknown."""
    label_names: tuple[str, ...]
    """Names of the classes in the order of their numbers; empty if the task has no classes."""
    train: ChannelDescription
    """Rows to train on."""
    validation: ChannelDescription
    """Rows to evaluate on."""
    repeated_rows: int | None = None
    """Validation rows whose text is also a training row; None if unknown."""
    samples: tuple[Sample, ...] = ()
    """Training rows, drawn at random; empty if unknown."""

    @property
    def largest_class(self) -> tuple[str, float] | None:
        """Name of the class with most training rows, and its share of them, 0 to 1; None without classes."""
        return self._class(max)

    @property
    def smallest_class(self) -> tuple[str, float] | None:
        """Name of the class with fewest training rows, and its share of them, 0 to 1; None without classes."""
        return self._class(min)

    def _class(self, choose: Callable[[tuple[int, ...]], int]) -> tuple[str, float] | None:
        counts = self.train.class_counts
        return (self.label_names[counts.index(choose(counts))], choose(counts) / sum(counts)) if counts else None


def preview(*texts: str) -> str:
    """Return the beginning of one or two texts on one line, at most `SAMPLE_CHARACTERS` long."""
    room = (SAMPLE_CHARACTERS - 3 * (len(texts) - 1)) // len(texts)
    return " | ".join(_shortened(text, room) for text in texts)


def _shortened(text: str, room: int) -> str:
    line = " ".join(text[: 4 * room].split())
    return line if len(line) <= room and len(text) <= 4 * room else line[: room - 1].rstrip() + "…"


def description_of(fields: Mapping[str, Any]) -> DataDescription:
    """Return the description that `dataclasses.asdict` converted to JSON. Raises TypeError or KeyError for others."""
    # An earlier version estimated the repeated rows of large data.
    known = {name: value for name, value in fields.items() if name != "repeated_rows_are_estimated"}
    return DataDescription(
        **{
            **known,
            "label_names": tuple(fields["label_names"]),
            "train": _channel(fields["train"]),
            "validation": _channel(fields["validation"]),
            "samples": tuple(Sample(**each) for each in fields["samples"]),
        }
    )


def _channel(fields: Mapping[str, Any]) -> ChannelDescription:
    channel = ChannelDescription(**{**fields, "class_counts": tuple(fields["class_counts"])})
    lengths = fields["lengths"]
    return channel if lengths is None else replace(channel, lengths=LengthStatistics(**lengths))


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
    return phrases


def channel_phrase(data: DataDescription, channel: ChannelDescription) -> str:
    """Return the rows, tokens and lengths of a channel."""
    parts = [f"{channel.rows:,} rows"]
    task = TASKS.get(data.task or "", Task)
    if channel.source_rows not in (None, channel.rows):
        parts[0] += f" of {channel.source_rows:,} {task.row}s"
    if channel.tokens is not None:
        parts.append(f"{channel.tokens:,} tokens")
    if (lengths := lengths_phrase(channel)) is not None:
        parts.append(lengths)
    if channel.cut_rows:
        parts.append(f"{_plural(channel.cut_rows, task.row)} {task.cut} at max_length {data.max_length:,}")
    return ", ".join(parts)


def lengths_phrase(channel: ChannelDescription) -> str | None:
    """Return the lengths of a channel's rows; None if unknown."""
    lengths = channel.lengths
    if lengths is None:
        return None
    return f"median {lengths.median_tokens:,}, 95 % up to {lengths.p95_tokens:,}, longest {lengths.max_tokens:,} tokens"


def balance_phrase(data: DataDescription) -> str | None:
    """Return the number of classes, the largest and the smallest; None without classes."""
    largest, smallest = data.largest_class, data.smallest_class
    if largest is None or smallest is None:
        return None
    (most, most_share), (fewest, fewest_share) = largest, smallest
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
