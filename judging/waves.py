"""Waves of a comparison: which jobs run next, and why an arm has stopped.

The answer depends only on the design and on the jobs that have ended. So every launcher that follows a comparison, also
on another machine or after a crash, starts the same jobs and takes the same looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judging.round_order import round_order
from judging.sequential import Design, Look, Reason, look_at_arms

Job = tuple[str, int]
"""Label of the arm, and number of the repeat, from 0."""
Costs = Mapping[Job, float | None]
"""Positive cost of each job that has ended; None for a job without one, such as a failed job."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a comparison."""

    looks: tuple[Mapping[str, Look], ...]
    """The looks so far, by arm. An arm is missing where it or the baseline had fewer than two costs."""
    stopped: Mapping[str, Reason]
    """The arms that have stopped, with their reasons."""
    due: tuple[Job, ...]
    """Jobs of the current wave that have not ended, in the order to start them; empty if the comparison is complete."""


def progress(design: Design, arms: Sequence[str], costs: Costs, *, seed: int = 0, resolution: float = 0.0) -> Progress:
    """Return the progress of a comparison of `arms`, the baseline first.

    A wave ends when the baseline and every arm that has not stopped have the repeats of the next look. `seed` draws the
    order of the rounds; see `round_order`. `resolution` is the step to which costs are rounded.
    """
    looks: list[Mapping[str, Look]] = []
    stopped: dict[str, Reason] = {}
    for number, repeats in enumerate(design.looks):
        active = [arms[0], *(arm for arm in arms[1:] if arm not in stopped)]
        if due := [job for job in _in_order(active, repeats, seed) if job not in costs]:
            return Progress(looks=tuple(looks), stopped=stopped, due=tuple(due))
        known = {arm: _known(costs, arm, repeats) for arm in active}
        without_difference = sum(reason not in ("cheaper", "dearer") for reason in stopped.values())
        looks.append(
            look_at_arms(
                {arm: known[arm] for arm in active[1:]},
                known[arms[0]],
                design,
                number,
                others=without_difference,
                resolution=resolution,
            )
        )
        for arm in active[1:]:
            reason = looks[-1][arm].stops if arm in looks[-1] else "too few jobs succeeded"
            stopped |= {arm: reason} if reason else {}
        if len(stopped) == len(arms) - 1:
            break
    return Progress(looks=tuple(looks), stopped=stopped, due=())


def _in_order(active: Sequence[str], repeats: int, seed: int) -> list[Job]:
    return [(active[at], repeat) for repeat in range(repeats) for at in round_order(len(active), repeat, seed)]


def _known(costs: Costs, arm: str, repeats: int) -> list[float]:
    """Return the costs of an arm's first repeats. Later repeats, which another launcher may have run, do not count."""
    return [cost for repeat in range(repeats) if (cost := costs[arm, repeat]) is not None]
