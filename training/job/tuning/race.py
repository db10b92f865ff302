"""Find the fastest of several candidates from a few timings of each. Pure: measurement and clock are passed in.

All candidates are timed once in every round, in an order that is reversed from round to round, so that a change of the
machine's speed affects them alike. A candidate that is clearly slower than the leader leaves the race early.
"""

import statistics
from dataclasses import dataclass
from typing import Callable, Dict, List, Sequence

MAX_ROUNDS = 7
"""Rounds after which the race ends."""
MIN_GAIN = 1.02
"""A candidate replaces the preferred one only if its steps are faster by at least this factor."""
ERROR_OF_ONE = 0.25
"""Relative error of a single timing."""
CLEARLY_SLOWER = 2.0
"""Factor by which the warm-up of a candidate may exceed the fastest one. A slower candidate is not timed again."""


class StepFailed(Exception):
    """A step with a candidate raised an error."""

    def __init__(self, candidate: int) -> None:
        super().__init__(candidate)
        self.candidate = candidate


@dataclass(frozen=True)
class Race:
    """Timings of candidates, by index. The first candidate is the preferred one."""

    seconds: Dict[int, List[float]]
    """Seconds of each timed step of each candidate, without its warm-up. A candidate that left early has
    fewer, and one that its warm-up excluded has only that."""
    winner: int
    """Index of the chosen candidate."""
    is_complete: bool
    """False if the time was over before each remaining candidate had been timed. The preferred one then wins, unless
    its warm-up was far slower."""

    def median_seconds(self) -> Dict[int, float]:
        """Return the median seconds of a step of each candidate that was timed."""
        return {index: statistics.median(each) for index, each in self.seconds.items() if each}


def run_race(count: int, measure: Callable[[int], float], has_time: Callable[[], bool]) -> Race:
    """Time the candidates 0 to `count` - 1 until one has won or the time is over, and return the race.

    `measure` takes a step with a candidate and returns its seconds. If it raises `StepFailed`, which it must not do for
    candidate 0, the race starts again without that candidate. `has_time` is asked before every step.
    """
    candidates = list(range(count))
    while True:
        try:
            return _race(candidates, measure, has_time)
        except StepFailed as failed:
            candidates.remove(failed.candidate)


def _race(candidates: Sequence[int], measure: Callable[[int], float], has_time: Callable[[], bool]) -> Race:
    warmups: Dict[int, float] = {}
    for index in candidates:
        if not has_time():
            return Race({}, 0, False)
        warmups[index] = measure(index)
    fastest = min(warmups.values())
    left = [index for index in candidates if warmups[index] <= CLEARLY_SLOWER * fastest]
    seconds: Dict[int, List[float]] = {index: [] if index in left else [warmups[index]] for index in candidates}
    for number in range(MAX_ROUNDS):
        if len(left) == 1 and seconds[left[0]]:
            break
        for index in left if number % 2 == 0 else left[::-1]:
            if not has_time():
                return _ended(seconds, left, warmups)
            seconds[index].append(measure(index))
        left = _remaining(seconds, left)
    return Race(seconds, winner(seconds, left), True)


def winner(seconds: Dict[int, List[float]], left: Sequence[int]) -> int:
    """Return the candidate to use: the first one in `left`, unless another one is faster by more than the noise.

    The noise of a median is taken as the standard error of a normal distribution, 1.25 s / sqrt(n).
    """
    preferred = left[0]
    best = min(left, key=lambda index: statistics.median(seconds[index]))
    gain = statistics.median(seconds[preferred]) / statistics.median(seconds[best])
    noise = sum(_relative_error(seconds[index]) ** 2 for index in (preferred, best)) ** 0.5
    return best if gain > max(MIN_GAIN, 1 + noise) else preferred


def _ended(seconds: Dict[int, List[float]], left: List[int], warmups: Dict[int, float]) -> Race:
    """Return a race without time for another step. The warm-ups have at least excluded slow candidates."""
    if all(seconds[index] for index in left):
        return Race(seconds, winner(seconds, left), True)
    return Race({}, 0 if 0 in left else min(left, key=lambda index: warmups[index]), False)


def _remaining(seconds: Dict[int, List[float]], left: List[int]) -> List[int]:
    """Return the candidates that are not clearly slower: the leader's slowest step is not faster than their fastest."""
    leader = min(left, key=lambda index: statistics.median(seconds[index]))
    rounds = len(seconds[leader])
    # After few rounds, a single slow step could be chance.
    limit = max(seconds[leader]) * {1: 1.5, 2: 1.1}.get(rounds, 1.0)
    return [index for index in left if index == leader or min(seconds[index]) <= limit]


def _relative_error(values: Sequence[float]) -> float:
    if len(values) < 2:
        return ERROR_OF_ONE
    return float(1.25 * statistics.stdev(values) / len(values) ** 0.5 / statistics.median(values))
