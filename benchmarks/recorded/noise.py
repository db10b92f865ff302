"""What recorded jobs of equal work differ by: the noise that verdicts are tried with."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded import grid_table, repeats_table
from benchmarks.recorded.grid_table import Grid
from benchmarks.recorded.repeats_table import Repeats

Numbers = NDArray[np.float64]

LEAST_JOBS = 3
"""Fewer jobs of one setting tell nothing of its spread."""


@dataclass(frozen=True)
class Noise:
    """Deviations of recorded jobs from the mean of their setting."""

    seconds: Numbers
    """Of the logarithm of their seconds, in the order in which they ran, setting after setting."""
    settings: tuple[list[float], ...]
    """The seconds themselves, of each setting."""
    quality: Numbers
    """Of the accuracy, where an experiment was trained as it stands: cut down to a few rows it has more noise."""
    disturbed_seconds: Numbers
    """Likewise of the seconds of jobs beside which other programs ran."""

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm: about the relative spread of equal jobs."""
        return float(np.sqrt(np.mean(self.seconds**2)))


def recorded() -> Noise:
    """Return the noise of all recorded grids and repeats."""
    tables = [found for name in repeats_table.names() if (found := repeats_table.read(name))]
    grids = [grid for path in sorted(grid_table.FOLDER.glob("*.json")) for grid in grid_table.read(path.stem).values()]
    settings = [seconds for grid in grids for seconds in equal_jobs(grid)]
    settings += [_seconds(found) for found in tables if not found.setting.is_disturbed]
    settings = [seconds for seconds in settings if len(seconds) >= LEAST_JOBS]
    whole = [found.rows for found in tables if found.setting.fields.keys() == {"experiment"}]
    scores = [[row.eval_accuracy for row in rows if math.isfinite(row.eval_accuracy)] for rows in whole]
    return Noise(
        seconds=joined(deviations(np.log(seconds)) for seconds in settings),
        settings=tuple(settings),
        quality=joined(deviations(values) for values in scores if len(values) >= LEAST_JOBS),
        disturbed_seconds=joined(deviations(np.log(_seconds(found))) for found in tables if found.setting.is_disturbed),
    )


def _seconds(repeats: Repeats) -> list[float]:
    return [row.billable_seconds for row in repeats.rows if row.cache_state != "cold"]


def equal_jobs(grid: Grid) -> list[list[float]]:
    """Return, of each batch size, the billable seconds of its jobs at the last evaluation that all of them had.

    They differ in their learning rate alone, which no step takes longer for: same rows, same order, same lengths.
    """
    by_size: dict[int, list[dict[int, float]]] = defaultdict(list)
    for point, runs in grid.runs.items():
        by_size[point.batch_size] += [
            {at.samples: at.billable_instance_seconds for at in run.curve} for run in runs if run.curve
        ]
    found = []
    for curves in by_size.values():
        common = set.intersection(*map(set, curves)) if curves else set()
        if common:
            found.append([curve[max(common)] for curve in curves])
    return found


def deviations(values: Sequence[float] | Numbers) -> Numbers:
    """Return what values deviate from their mean by, widened for the degree of freedom that the mean has taken."""
    told = np.asarray(values, dtype=np.float64)
    deviating: Numbers = (told - told.mean()) * math.sqrt(len(told) / (len(told) - 1))
    return deviating


def joined(parts: Iterable[Numbers]) -> Numbers:
    """Return the parts one after the other."""
    return np.concatenate([np.zeros(0), *parts])
