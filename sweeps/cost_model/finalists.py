"""Choose among the best points of a search by a second training of each, with another seed. Pure.

Seeds differ by 6 to 10 % in the samples that they need to reach a target, so the cheapest of many trials is partly the
luckiest. The limit was chosen on made-up surfaces and one recorded grid, see docs/decisions/0029.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from sweeps.cost_model.trials import Record, Search, cost, eligible_trials
from sweeps.space.grid import Point

MAX_GAP = 0.1
"""Largest share by which a finalist's trial may be dearer than the best one."""

Key = TypeVar("Key", bound=Hashable)


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
