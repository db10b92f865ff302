"""Measured differences between recorded jobs with the same work: realistic noise for testing verdicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
    """Deviations of recorded jobs from the mean of all jobs with the same setting, recorded at the same time."""

    seconds: Numbers
    """Deviations of log seconds, setting by setting, in the order in which the jobs ran."""
    settings: tuple[list[float], ...]
    """Seconds of the jobs of each setting."""
    quality: Numbers
    """Deviations of the accuracy, only from experiments with all of their rows: with fewer, it varies more."""
    disturbed_seconds: Numbers
    """Deviations of log seconds of jobs that all ran beside other load."""
    slowdowns: Numbers
    """Log seconds of these jobs, minus the mean of quiet jobs of the same setting."""

    @property
    def spread(self) -> float:
        """Standard deviation of log seconds, which is about the relative spread of identical jobs."""
        return float(np.sqrt(np.mean(self.seconds**2)))


def recorded_noise() -> Noise:
    """Return the noise of all recorded repeats, and of the grids whose jobs ran one after the other."""
    read = [table for name in repeats_table.names() if (table := repeats_table.read(name))]
    tables = [part for table in read for part in table.recordings.values() if len(_seconds(part)) >= MIN_JOBS]
    quiet = [table for table in tables if not table.setting.is_disturbed]
    disturbed = [table for table in tables if table.setting.is_disturbed]
    grids = [grid for path in sorted(grid_table.FOLDER.glob("*.json")) for grid in grid_table.read(path.stem).values()]
    sequential = [grid for grid in grids if grid.parallel == 1]
    settings = [*_estimable(each for grid in sequential for each in equal_jobs(grid)), *map(_seconds, quiet)]
    accuracies = _estimable(_accuracies(table) for table in quiet if _has_all_rows(table))
    return Noise(
        seconds=concatenated(deviations(np.log(seconds)) for seconds in settings),
        settings=tuple(settings),
        quality=concatenated(map(deviations, accuracies)),
        disturbed_seconds=concatenated(deviations(np.log(_seconds(table))) for table in disturbed),
        slowdowns=concatenated(slowdowns(quiet, disturbed)),
    )


def slowdowns(quiet: Iterable[Repeats], disturbed: Iterable[Repeats]) -> Iterator[Numbers]:
    """Yield the log seconds of each disturbed table, minus the mean of the quiet table of the same setting.

    Each table is one recording, and only tables of the same recording are compared.
    """
    means = {_key(table): np.log(_seconds(table)).mean() for table in quiet}
    for table in disturbed:
        if _key(table) in means:
            yield np.log(_seconds(table)) - means[_key(table)]


def _key(table: Repeats) -> tuple[object, ...]:
    return tuple(table.recordings), table.setting.machine, *sorted(table.setting.fields.items())


def _seconds(table: Repeats) -> list[float]:
    """Return the seconds of the jobs that the table is for: a quiet table's disturbed jobs are left out."""
    rows = [row for row in table.rows if table.setting.is_disturbed or not row.is_disturbed]
    return [row.billable_seconds for row in rows if row.cache_state != "cold"]


def _has_all_rows(table: Repeats) -> bool:
    return not any(name.endswith("_rows") for name in table.setting.fields)


def _accuracies(table: Repeats) -> list[float]:
    return [row.eval_accuracy for row in table.rows if math.isfinite(row.eval_accuracy)]


def _estimable(settings: Iterable[list[float]]) -> list[list[float]]:
    return [values for values in settings if len(values) >= MIN_JOBS]


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
