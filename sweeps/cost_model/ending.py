"""Decide when a search has ended, from its trials alone, and which of its settings are trained again. Pure.

The rule for the end was chosen on made-up surfaces and one recorded grid; docs/decisions/0028 compares it with others.
Seeds differ by 6 to 10 % in the samples that they need to reach a target, so the cheapest of many trials is partly the
luckiest. The finalists therefore train a second time with another seed, see docs/decisions/0029. Then the winner, its
controls and the best point of each other compiler train with new seeds. Only these jobs count for the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from sweeps.cost_model.pruning import quality_goal
from sweeps.cost_model.trials import Record, Search, best_trial, cost, eligible_trials, free_points, octaves
from sweeps.space.grid import Point

MIN_GAIN = 0.01
"""Least share by which a trial must be cheaper than all before it to count as an improvement."""
PATIENCE = 4
"""Trials without an improvement before a search may end."""
MIN_REACHED = 2
"""Trials that must have reached the goal before a search may end: a single one may have been lucky."""
NEIGHBOUR_OCTAVES = 1.5
"""Largest distance of a neighbour: one octave in batch size, in learning rate, or in both."""
MAX_GAP = 0.1
"""Largest share by which a finalist's trial may be dearer than the best one."""
Key = TypeVar("Key", bound=Hashable)
Setting = tuple[str, Point]
"""A compiler and a point."""


def stop_reason(search: Search, records: Sequence[Record]) -> str | None:
    """Return the reason why no better point is likely, in one sentence; None while one is.

    A search for the lowest cost ends if all neighbours of its best point were tried, and the last trials improved
    nothing. A search for throughput ends with the fastest calibrated batch size. A search for a front does not end.
    """
    if not free_points(search, records):
        return f"all {len(search.space.points)} points that may fit in memory have been trained"
    if search.objective.is_front:
        return None
    if search.objective.cost == "steady_samples_per_second":
        return _no_faster(search, records)
    return None if quality_goal(search) is None else _no_cheaper(search, records)


def _no_cheaper(search: Search, records: Sequence[Record]) -> str | None:
    best = best_trial(search, records)
    since = trials_since_improvement(search, records)
    if best is None or since < PATIENCE or len(eligible_trials(search, records)) < MIN_REACHED:
        return None
    if any(octaves(best.point, free) <= NEIGHBOUR_OCTAVES for free in free_points(search, records)):
        return None
    return (
        f"the last {since} trials were no better than batch {best.point.batch_size}, rate × "
        f"{best.point.multiplier:g}, and all of its neighbours were tried"
    )


def trials_since_improvement(search: Search, records: Sequence[Record]) -> int:
    """Return the number of ended trials since the last one that was cheaper than all before it by `MIN_GAIN`.

    Failed trials do not count, because they say nothing about their points. Before the first trial that reached the
    goal, the answer is the number of all trials.
    """
    eligible = {record.point for record in eligible_trials(search, records)}
    least, since = math.inf, 0
    for record in records:
        if record.outcome is None or record.state == "failed":
            continue
        since += 1
        if record.point in eligible and cost(search, record) < least * (1 - MIN_GAIN):
            least, since = cost(search, record), 0
    return since


def _no_faster(search: Search, records: Sequence[Record]) -> str | None:
    """Return why no free point is worth a trial for its throughput: none was calibrated faster than the best."""
    record, costs = best_trial(search, records), search.costs
    if record is None or costs is None:
        return None
    fastest = max(costs.samples_per_second(point.batch_size) for point in free_points(search, records))
    known = costs.samples_per_second(record.point.batch_size)
    if fastest > known * (1 + MIN_GAIN):
        return None
    return (
        f"no free batch size was calibrated at more than the {known:.4g} samples/s of batch {record.point.batch_size}"
    )


def finalists(search: Search, records: Sequence[Record], most: int) -> list[Point]:
    """Return the points that one trial each cannot rank, the cheapest first; empty if there is only one.

    Only a search to a target or within a bound has finalists: throughput does not depend on the seed.
    """
    if search.objective.is_front or search.objective.cost == "steady_samples_per_second":
        return []
    ranked = sorted(eligible_trials(search, records), key=lambda record: cost(search, record))
    near = [record.point for record in ranked if cost(search, record) <= cost(search, ranked[0]) * (1 + MAX_GAP)]
    return near[:most] if min(len(near), most) > 1 else []


def choose(costs: Mapping[Key, Sequence[float]]) -> Key | None:
    """Return the key with the lowest geometric mean cost; None if every one has a training without success.

    `costs` contains the costs of the trainings of each finalist, and infinity or NaN for one that failed or missed the
    goal.
    """
    usable = {key: values for key, values in costs.items() if all(map(math.isfinite, values))}
    return min(usable, key=lambda key: math.fsum(map(math.log, usable[key])) / len(usable[key]), default=None)


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
