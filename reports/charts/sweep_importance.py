"""Importance of a sweep's parameters, and the reason if it is unknown."""

from __future__ import annotations

from reports.charts.bars import labelled_bars
from reports.charts.canvas import INK
from reports.charts.sweep_markers import Marks
from reports.model.blocks import Chart
from reports.sweep.sweep import Sweep
from tracking.groups.plan_file import MIN_TRIALS

_PARAMETERS = {"batch_size": "batch size", "learning_rate": "learning rate"}


def importance(sweep: Sweep) -> Chart | None:
    """Return the chart of each parameter's share in the differences in cost, by compiler."""
    rows = [
        (f"{compiler}: {_PARAMETERS.get(name, name)}", 100 * share, colour)
        for compiler, shares in sweep.spec.importances.items()
        for name, share in shares.items()
        if (colour := Marks(sweep).colour(compiler) if compiler in sweep.compilers else INK)
    ]
    label = "share of the differences in cost among the trials, %"
    return labelled_bars(rows, "importance", "Importance of the parameters", label) if rows else None


def importance_note(sweep: Sweep) -> str:
    """Reason why compilers are missing from the chart; empty if it has all of them."""
    missing = [name for name in sweep.compilers if name not in sweep.spec.importances]
    if not missing or not sweep.trials:
        return ""
    ended = [trial.setting.compiler for trial in sweep.trials if trial.kind in ("completed", "worse")]
    counts = ", ".join(f"{ended.count(name)} under {name}" for name in missing)
    return (
        "The importance of batch size and learning rate is known once "
        f"{MIN_TRIALS} trials of a compiler have completed at different costs. So far: {counts}."
    )
