"""Phrases that describe staged data, for the terminal and for MLflow."""

from __future__ import annotations

from training.staging.tokens.description import ChannelDescription, DataDescription

UNITS = {"classification": "row", "question-answering": "question", "causal-lm": "text"}
"""Name of a row of the data, by task."""


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
    unit = UNITS.get(data.task or "", "row")
    if channel.source_rows not in (None, channel.rows):
        parts[0] += f" of {channel.source_rows:,} {unit}s"
    if channel.tokens is not None:
        parts.append(f"{channel.tokens:,} tokens")
    if (lengths := lengths_phrase(channel)) is not None:
        parts.append(lengths)
    if channel.cut_rows:
        verb = "divided" if data.task == "question-answering" else "cut"
        parts.append(f"{_plural(channel.cut_rows, unit)} {verb} at max_length {data.max_length:,}")
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
    about = "about " if data.repeated_rows_are_estimated else ""
    unit = UNITS.get(data.task or "", "row")
    total = data.validation.source_rows or data.validation.rows
    return f"{about}{data.repeated_rows:,} of {total:,} validation {unit}s are also training {unit}s"


def _plural(count: int, unit: str) -> str:
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def _short(name: str) -> str:
    return repr(name if len(name) <= 30 else name[:29] + "…")
