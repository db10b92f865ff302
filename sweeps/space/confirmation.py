"""Select the settings that are repeated after a sweep, to judge its winner by new jobs. Pure.

The winning trial is partly the luckiest of many, so its own result is too optimistic. The winner, its controls and the
best point of each other compiler train again with new seeds. Only these jobs count for the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.space.grid import Point

Setting = tuple[str, Point]
"""A compiler and a point."""


def settings(best: Mapping[str, tuple[Point, float]], baseline: Setting, *, maximise: bool = False) -> list[Setting]:
    """Return the settings to repeat, the baseline first; empty if no trial completed.

    `best` contains the best point and its cost for each compiler that has one. The winner and the baseline span a two
    by two factorial of compiler and batch size. If both have the same compiler, the factorial's second compiler is the
    best other one.
    """
    if not best:
        return []
    ranked = sorted(best, key=lambda compiler: best[compiler][1], reverse=maximise)
    winner = ranked[0]
    others = [compiler for compiler in (baseline[0], *ranked) if compiler != winner]
    compilers = [baseline[0], winner, *others[:1]]
    factorial = [(compiler, point) for point in (baseline[1], best[winner][0]) for compiler in compilers]
    best_of_each = [(compiler, best[compiler][0]) for compiler in ranked]
    return list(dict.fromkeys([baseline, (winner, best[winner][0]), *factorial, *best_of_each]))
