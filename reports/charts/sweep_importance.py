"""Which parameter makes the differences between a sweep's trials, and why that cannot be told."""

from __future__ import annotations

from reports.charts.bars import labelled_bars
from reports.charts.canvas import INK, Plot
from reports.charts.sweep_markers import Marks
from reports.sweep.sweep import Sweep
from tracking.groups.sweep_file import FEWEST_TRIALS

_PARAMETERS = {"batch_size": "batch size", "learning_rate": "learning rate"}


def importance(sweep: Sweep) -> Plot | None:
    """Return how much of the differences in cost each parameter makes, by compiler."""
    rows = [
        (f"{compiler}: {_PARAMETERS.get(name, name)}", 100 * share, marks)
        for compiler, shares in sweep.asked.importances.items()
        for name, share in shares.items()
        if (marks := Marks(sweep).colour(compiler) if compiler in sweep.compilers else INK)
    ]
    label = "share of the differences in cost among the trials, %"
    return labelled_bars(rows, "importance", "What makes the difference", label) if rows else None


def why_untold(sweep: Sweep) -> str:
    """Return why the chart lacks some compilers, in one sentence; empty where it lacks none."""
    lacking = [name for name in sweep.compilers if name not in sweep.asked.importances]
    if not lacking or not sweep.trials:
        return ""
    ended = [trial.setting.compiler for trial in sweep.trials if trial.kind in ("completed", "worse")]
    counts = ", ".join(f"{ended.count(name)} have under {name}" for name in lacking)
    return (
        "What makes the difference, batch size or learning rate, can be told once "
        f"{FEWEST_TRIALS} trials of a compiler have come to their end at different cost; here {counts}."
    )
