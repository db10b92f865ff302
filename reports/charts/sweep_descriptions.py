"""Descriptions of a sweep's charts for readers who cannot see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.model.numbers import figure
from reports.sweep.trials import Trial


def describe_trials(trials: Sequence[Trial]) -> str:
    """Return the number of trials by outcome, and where their values are listed."""
    outcomes = ", ".join(f"{count} {kind}" for kind, count in Counter(trial.kind for trial in trials).most_common())
    return f"{len(trials)} trials: {outcomes}. The table of trials lists their values."


def describe_points(points: Iterable[tuple[str, float, float]], unit: str) -> str:
    """Return the points, given as (compiler, batch size, value), grouped by compiler."""
    by_compiler: dict[str, list[str]] = {}
    for compiler, batch_size, value in points:
        by_compiler.setdefault(compiler, []).append(f"{figure(value)} at batch {batch_size:g}")
    return "; ".join(f"{compiler}, {unit}: {', '.join(texts)}" for compiler, texts in by_compiler.items()) + "."
