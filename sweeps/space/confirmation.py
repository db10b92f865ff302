"""Which settings are repeated after a sweep, so that its winner is judged on jobs that did not choose it. Pure.

The trial that won is the luckiest of many, so its own figure flatters it. The winner, its controls and the best of each
other compiler train again with new seeds, and the verdict is taken from these alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.space.grid import Point

Setting = tuple[str, Point]
"""A compiler and a point."""


def settings(best: Mapping[str, tuple[Point, float]], baseline: Setting, *, maximise: bool = False) -> list[Setting]:
    """Return the settings to repeat, the baseline first; nothing where nothing was found.

    `best` holds the best point of each compiler that has one, with its cost. The winner and the baseline span the 2 x 2
    of compiler and batch; where they are of one compiler, the best other compiler takes the second place in it.
    """
    if not best:
        return []
    ranked = sorted(best, key=lambda compiler: best[compiler][1], reverse=maximise)
    winner = ranked[0]
    others = [compiler for compiler in (baseline[0], *ranked) if compiler != winner]
    compilers = [baseline[0], winner, *others[:1]]
    square = [(compiler, point) for point in (baseline[1], best[winner][0]) for compiler in compilers]
    found = [baseline, (winner, best[winner][0]), *square, *((compiler, best[compiler][0]) for compiler in ranked)]
    return list(dict.fromkeys(found))
