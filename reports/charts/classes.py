"""Charts of classes: their distribution and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from reports.charts.canvas import BACKGROUND, INK, legend_outside, plot
from reports.model.numbers import short_labels
from reports.model.report import Chart

MAX_CLASSES = 60
"""Largest number of classes in a chart; those with the most rows are shown. The tables have all classes."""
_WIDTH_POINTS = 400.0
_SPLIT_COLOURS = ("#0072b2", "#d55e00", "#009e73")
_MAX_CLASSES_WITH_COUNTS = 16
"""Largest number of classes for which a confusion matrix has room for the counts."""


def class_distribution(label_names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> Chart:
    """Return bars with each class's share of each split's rows, and its count; `counts` is by split."""
    shown = _most_frequent(next(iter(counts.values())))
    shares = {split: [100 * count / max(sum(rows), 1) for count in rows] for split, rows in counts.items()}
    height = 0.8 / len(counts)

    def draw(axes: Axes) -> None:
        for at, (split, numbers) in enumerate(counts.items()):
            y = [row + (at - (len(counts) - 1) / 2) * height for row in range(len(shown))]
            percents = [shares[split][number] for number in shown]
            label = f"{split} ({sum(numbers):,} rows)"
            axes.barh(y, percents, height=0.92 * height, color=_SPLIT_COLOURS[at], label=label)
            for bar_y, percent, number in zip(y, percents, shown, strict=True):
                note = f"{percent:.1f} %  ({numbers[number]:,})"
                axes.annotate(note, (percent, bar_y), (4, 0), textcoords="offset points", va="center", fontsize=7)
        short = short_labels(label_names, 32)
        names = [short[label_names[number]] for number in shown]
        axes.set_yticks(range(len(names)), names, fontsize=9, color=INK)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlim(0, 1.25 * max(max(each) for each in shares.values()))
        axes.set_xlabel("share of the rows, %" + _left_out(len(label_names)))
        axes.grid(axis="x", linewidth=0.7)
        legend_outside(axes, loc="outside upper center", ncols=len(counts), fontsize=9)

    title = "Class distribution: share of the rows by class"
    return plot("class_distribution", title, 0.95 + 0.17 * len(counts) * len(shown), draw, width_points=_WIDTH_POINTS)


def confusion_matrix(label_names: Sequence[str], cells: Mapping[tuple[str, str], int]) -> Chart:
    """Return the matrix of counts by (actual, predicted) label, coloured by the share of the actual class."""
    matrix = np.array([[cells.get((actual, predicted), 0) for predicted in label_names] for actual in label_names])
    shown = _most_frequent(matrix.sum(axis=1).tolist())
    # A share is of all rows of the actual class, including rows whose predicted class is not shown.
    shares = (matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1))[np.ix_(shown, shown)]
    short = short_labels(label_names, 18)
    names = [short[label_names[number]] for number in shown]

    def draw(axes: Axes) -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        if len(shown) <= _MAX_CLASSES_WITH_COUNTS:
            _write_counts(axes, matrix[np.ix_(shown, shown)], shares)
        size = 9 if len(shown) <= _MAX_CLASSES_WITH_COUNTS else 5.5
        axes.set_xticks(range(len(names)), names, rotation=0 if len(names) <= 4 else 90, fontsize=size, color=INK)
        axes.set_yticks(range(len(names)), names, fontsize=size, color=INK)
        axes.set(xlabel="predicted" + _left_out(len(label_names)), ylabel="actual")
        axes.set_xticks([at - 0.5 for at in range(1, len(names))], minor=True)
        axes.set_yticks([at - 0.5 for at in range(1, len(names))], minor=True)
        axes.grid(which="minor", color=BACKGROUND, linewidth=1 if len(shown) <= _MAX_CLASSES_WITH_COUNTS else 0.3)
        axes.tick_params(which="minor", length=0)

    title = "Confusion matrix: counts, coloured by the share of the actual class"
    return plot("confusion_matrix", title, min(5.4, 1.6 + 0.45 * len(shown)), draw, width_points=_WIDTH_POINTS)


def _write_counts(axes: Axes, counts: np.ndarray, shares: np.ndarray) -> None:
    for (row, column), count in np.ndenumerate(counts):
        ink = "white" if shares[row, column] > 0.5 else INK
        text = f"{count:,}" + (f"\n{shares[row, column]:.0%}" if len(counts) <= 8 else "")
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=ink)


def _most_frequent(counts: Sequence[int]) -> list[int]:
    """Return the indices of the classes to show, in ascending order."""
    largest = sorted(range(len(counts)), key=lambda number: -counts[number])[:MAX_CLASSES]
    return sorted(largest)


def _left_out(classes: int) -> str:
    return f"; the {MAX_CLASSES} most frequent of {classes} classes" if classes > MAX_CLASSES else ""
