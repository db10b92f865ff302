"""Per-class charts, for the run recorder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache


class PngClassCharts:
    """`tracking.recording.run_artifacts.ClassCharts` as PNG. Matplotlib is imported when the first chart is drawn."""

    def distribution(self, label_names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> bytes:
        """Return bars with each class's number of rows, by split."""
        return _distribution_png(tuple(label_names), tuple((split, tuple(rows)) for split, rows in counts.items()))

    def confusion(self, label_names: Sequence[str], cells: Mapping[tuple[str, str], int]) -> bytes:
        """Return the confusion matrix; `cells` counts rows by (actual, predicted) label."""
        from reports.charts.classes import confusion_matrix

        return confusion_matrix(label_names, cells).png


@lru_cache(maxsize=8)
def _distribution_png(label_names: tuple[str, ...], counts: tuple[tuple[str, tuple[int, ...]], ...]) -> bytes:
    """Return the chart. It is cached because the jobs of a comparison share it."""
    from reports.charts.classes import class_distribution

    return class_distribution(label_names, dict(counts)).png
