"""What the charts of a sweep show, in words, for whoever does not see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reports.comparison.messages import figure
from reports.sweep.trials import Trial


def trials_in_words(trials: Sequence[Trial]) -> str:
    """Return how the trials of a chart ended, and where their values stand."""
    ends = ", ".join(f"{count} {kind}" for kind, count in Counter(trial.kind for trial in trials).most_common())
    return f"{len(trials)} trials: {ends}. The table of the trials tells the value of each."


def points_in_words(points: Iterable[tuple[str, float, float]], unit: str) -> str:
    """Return (compiler, batch size, value) in words, compiler by compiler."""
    by_compiler: dict[str, list[str]] = {}
    for compiler, batch_size, value in points:
        by_compiler.setdefault(compiler, []).append(f"{figure(value)} at batch {batch_size:g}")
    return "; ".join(f"{compiler}, {unit}: {', '.join(told)}" for compiler, told in by_compiler.items()) + "."
