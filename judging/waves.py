"""Waves of a comparison: which jobs run next, in which order, and why an arm has stopped.

The answer depends only on the design and on the jobs that have ended. So every launcher that follows a comparison, also
on another machine or after a crash, starts the same jobs and takes the same looks.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from judging.design import Design
from judging.quality import Measure
from judging.result import Result, costs
from judging.sequential import Look, Reason, look_at_arms

Job = tuple[str, int]
"""Label of the arm, and number of the repeat, from 0."""
Results = Mapping[Job, Result | None]
"""Result of each job that has ended; None for a job that does not count, such as one that a person stopped."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a comparison."""

    design: Design
    looks: tuple[Mapping[str, Look], ...]
    """The looks so far, by arm. An arm is missing where it or the baseline had fewer than two costs."""
    stopped: Mapping[str, Reason]
    due: tuple[Job, ...]
    """Jobs of the current wave that have not ended, in the order to start them; empty if the comparison is complete."""
    begun: frozenset[Job]
    """Jobs of all waves so far, ended or due."""


def progress(
    design: Design,
    arms: Sequence[str],
    results: Results,
    *,
    measure: Measure | None = None,
    paired: Set[str] = frozenset(),
    resolution: float = 0.0,
    failing: Set[str] = frozenset(),
    started: Set[Job] = frozenset(),
) -> Progress:
    """Return the progress of a comparison of `arms`, the baseline first.

    A wave ends when the baseline and every arm that has not stopped have the repeats of the next look. `measure` is
    the metric of the scores; None judges the cost alone. The arms `paired` train like the baseline, so the scores of
    the same repeat are compared. `resolution` is the step to which costs are rounded.

    Of the arms `failing`, whose jobs would all fail, only the jobs that have `started` belong to the waves.
    """
    looks: list[Mapping[str, Look]] = []
    stopped: dict[str, Reason] = {}
    begun: set[Job] = set()
    due: list[Job] = []
    different = 0
    for number, repeats in enumerate(design.looks):
        active = [arms[0], *(arm for arm in arms[1:] if arm not in stopped)]
        rounds = ((round_order(len(active), repeat, 0), repeat) for repeat in range(repeats))
        planned = [(active[at], repeat) for order, repeat in rounds for at in order]
        wave = [job for job in planned if job[0] not in failing or job in started or job in results]
        begun.update(wave)
        if due := [job for job in wave if job not in results]:
            break
        # Repeats of later waves, which another launcher may have run, do not count.
        known = {arm: [result for repeat in range(repeats) if (result := results.get((arm, repeat)))] for arm in active}
        others = len(stopped) - different
        rivals = {arm: known[arm] for arm in active[1:]}
        new = look_at_arms(
            rivals, known[arms[0]], design, number, measure=measure, paired=paired, others=others, resolution=resolution
        )
        looks.append(new)
        has_few = {arm for arm, own in known.items() if len(costs(own)) < 2}
        if repeats == design.looks[-1] or arms[0] in has_few:
            has_few = set(active)
        ended = _ended(active[1:], new, failing, has_few)
        stopped |= ended
        different += sum(arm in new and new[arm].cost_outcome != "undecided" for arm in ended)
        if len(stopped) == len(arms) - 1:
            break
    return Progress(design=design, looks=tuple(looks), stopped=stopped, due=tuple(due), begun=frozenset(begun))


def _ended(arms: Sequence[str], looks: Mapping[str, Look], failing: Set[str], has_few: Set[str]) -> dict[str, Reason]:
    """Return the arms that stop at a look, with their reasons.

    An arm without a look has too few costs of one cache state. It continues unless too few of its jobs succeeded, or
    of the baseline's (`has_few`), or this is the last look.
    """
    reasons: dict[str, Reason | None] = {arm: look.stops for arm, look in looks.items()}
    reasons |= {arm: "too few jobs succeeded" for arm in arms if arm not in looks and arm in has_few}
    reasons |= dict.fromkeys((arm for arm in arms if arm in failing), "all jobs fail")
    return {arm: reason for arm, reason in reasons.items() if reason}


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
