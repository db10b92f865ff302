"""Results of jobs, as verdicts use them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Cost of one job, and quality of its model."""

    cost: float
    """Positive, in the same unit for all jobs of a comparison. Of a failed job, what was paid for it; may be 0."""
    score: float = math.nan
    """Quality metric of the model; NaN if it was not measured."""
    succeeded: bool = True


def costs(results: Sequence[Result]) -> list[float]:
    """Return the costs of the jobs that succeeded."""
    return [result.cost for result in results if result.succeeded]


def scores(results: Sequence[Result]) -> list[float]:
    """Return the finite scores of the jobs that succeeded."""
    return [result.score for result in results if result.succeeded and math.isfinite(result.score)]
