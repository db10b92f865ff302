"""Order of a comparison's jobs: drift of the machine must not favour an arm."""

from __future__ import annotations

import random


def round_order(arms: int, number: int, seed: int) -> tuple[int, ...]:
    """Return the indices of the arms in the order in which round `number`, from 0, runs one job of each.

    Every second round reverses the round before it (ABBA): if a machine slows down or speeds up steadily, each pair of
    rounds costs all arms the same. In the same order every round (ABAB), the later arm would pay for the drift.

    Two arms have ABBA BAAB or BAAB ABBA in each four rounds, drawn from `seed`: in ABBA alone, a load that comes and
    goes with every four jobs would always meet the same arm. With more arms, each pair of rounds has an order drawn
    from `seed`, so that no arm always follows the same neighbour. The first round has the arms' own order, which
    reports keep.
    """
    order, pair = list(range(arms)), number // 2
    drawn = pair // 2 if arms == 2 else pair
    if drawn:
        random.Random(f"{seed} {drawn}").shuffle(order)
    is_reversed = (number + (pair if arms == 2 else 0)) % 2
    return tuple(reversed(order) if is_reversed else order)
