"""Order of a comparison's jobs: drift of the machine must not favour an arm."""

from __future__ import annotations

import random


def round_order(arms: int, number: int, seed: int) -> tuple[int, ...]:
    """Return the indices of the arms in the order in which round `number`, from 0, runs one job of each.

    Every second round reverses the round before it (ABBA): if a machine slows down or speeds up steadily, each pair of
    rounds costs all arms the same. In the same order every round (ABAB), the later arm would pay for the drift. With
    more than two arms, each pair of rounds after the first has an order drawn from `seed`, so that no arm always
    follows the same neighbour. The first round has the arms' own order, which reports keep.
    """
    order = list(range(arms))
    if arms > 2 and number > 1:
        random.Random(f"{seed} {number // 2}").shuffle(order)
    return tuple(order if number % 2 == 0 else reversed(order))
