"""Looks of a comparison, from its experiment."""

from __future__ import annotations

from experiments.schema.fields import Compare
from judging.sequential import Design


def design_of(compare: Compare) -> Design | None:
    """Return the looks after which arms may stop, or None if all repeats run."""
    looks = (*(repeats for repeats in compare.looks if repeats < compare.repeats), compare.repeats)
    if compare.stop == "never" or len(looks) == 1:
        return None
    return Design(looks=looks, least_gain=compare.least_gain)
