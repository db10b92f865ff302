"""Measured differences between recorded jobs with the same work: realistic noise for testing verdicts."""

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

MIN_JOBS = 3
"""Fewest jobs of one setting from which a spread is estimated."""


@dataclass(frozen=True)
class Noise:
    """Deviations of recorded jobs from the mean of all jobs with the same setting."""

    seconds: Numbers
    """Deviations of log seconds, setting by setting, in the order in which the jobs ran."""
    settings: tuple[list[float], ...]
    """Seconds of the jobs of each setting."""
    quality: Numbers
    """Deviations of the accuracy, only from unmodified experiments: those with fewer rows have more noise."""
    disturbed_seconds: Numbers
    """Deviations of log seconds of jobs that ran at the same time as other programs."""

    @property
    def spread(self) -> float:
        """Standard deviation of log seconds, which is about the relative spread of identical jobs."""
        return float(np.sqrt(np.mean(self.seconds**2)))


def recorded_noise() -> Noise:
    """Return the noise of all recorded grids and repeats."""
    tables = [table for name in repeats_table.names() if (table := repeats_table.read(name))]
    grids = [grid for path in sorted(grid_table.FOLDER.glob("*.json")) for grid in grid_table.read(path.stem).values()]
    settings = [seconds for grid in grids for seconds in equal_jobs(grid)]
    settings += [_seconds(table) for table in tables if not table.setting.is_disturbed]
    settings = [seconds for seconds in settings if len(seconds) >= MIN_JOBS]
    unmodified = [table.rows for table in tables if table.setting.fields.keys() == {"experiment"}]
    scores = [[row.eval_accuracy for row in rows if math.isfinite(row.eval_accuracy)] for rows in unmodified]
    disturbed = [_seconds(table) for table in tables if table.setting.is_disturbed]
    return Noise(
        seconds=concatenated(deviations(np.log(seconds)) for seconds in settings),
        settings=tuple(settings),
        quality=concatenated(deviations(values) for values in scores if len(values) >= MIN_JOBS),
        disturbed_seconds=concatenated(deviations(np.log(seconds)) for seconds in disturbed),
    )


def _seconds(repeats: Repeats) -> list[float]:
    return [row.billable_seconds for row in repeats.rows if row.cache_state != "cold"]


def equal_jobs(grid: Grid) -> list[list[float]]:
    """Return, for each batch size, the jobs' billable seconds at the last evaluation that all of its jobs reached.

    The jobs of a batch size differ only in their learning rate, which does not affect the step time: rows, order and
    lengths are the same.
    """
    by_size: dict[int, list[dict[int, float]]] = defaultdict(list)
    for point, runs in grid.runs.items():
        by_size[point.batch_size] += [
            {at.samples: at.billable_instance_seconds for at in run.curve} for run in runs if run.curve
        ]
    settings = []
    for curves in by_size.values():
        common = set.intersection(*map(set, curves)) if curves else set()
        if common:
            settings.append([curve[max(common)] for curve in curves])
    return settings


def deviations(values: Sequence[float] | Numbers) -> Numbers:
    """Return the deviations from the mean, scaled up because the mean uses one degree of freedom."""
    array = np.asarray(values, dtype=np.float64)
    scaled: Numbers = (array - array.mean()) * math.sqrt(len(array) / (len(array) - 1))
    return scaled


def concatenated(parts: Iterable[Numbers]) -> Numbers:
    """Return the parts concatenated. Without parts, return an empty array."""
    return np.concatenate([np.zeros(0), *parts])
