"""Effects of compiler and batch, from the repeats of two compilers at the base and the best batch size. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from judging.intervals import Interval
from reports.comparison.arms import Arm
from reports.sweep.sweep import Sweep
from reports.sweep.trials import Setting, setting_of


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of the factorial (two by two)."""

    arm: Arm
    setting: Setting
    ratio: Interval | None
    """Cost divided by the base setting's cost; None for the base setting and with fewer than two repeats."""


def factorial_cells(sweep: Sweep) -> tuple[Cell, ...]:
    """Return the cells, starting with the base compiler and base batch; empty if fewer than three were repeated.

    The two compilers are the base compiler and the best setting's. If these are the same, the second one is the next
    compiler that was repeated.
    """
    best, base = sweep.best, sweep.base
    if best is None or sweep.confirmation is None or best.setting.point == base.point:
        return ()
    arms = {setting_of(arm.jobs[0]): arm for arm in sweep.confirmation.arms}
    compilers = list(dict.fromkeys([base.compiler, best.setting.compiler, *(setting.compiler for setting in arms)]))[:2]
    points = (base.point, best.setting.point)
    repeated = {s: arm for s, arm in arms.items() if s.compiler in compilers and s.point in points}
    if len(repeated) < 3:
        return ()
    cells = [Cell(arm=arm, setting=s, ratio=sweep.ratio(arm, arms.get(base))) for s, arm in repeated.items()]
    return tuple(
        sorted(cells, key=lambda cell: (cell.setting.compiler != base.compiler, cell.setting.point != base.point))
    )


def changed_factors(cell: Cell, base: Setting) -> str:
    """Return the factors in which a cell differs from the base setting; empty if it does not differ."""
    setting = cell.setting
    if setting == base:
        return ""
    if setting.point == base.point:
        return "the compiler alone"
    if setting.compiler != base.compiler:
        return "both"
    changed = {"batch": setting.batch_size != base.batch_size, "rate": setting.multiplier != base.multiplier}
    return f"the {' and the '.join(name for name, differs in changed.items() if differs)} alone"
