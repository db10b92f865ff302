"""Looks of a comparison, from its experiment."""

from __future__ import annotations

from experiments.schema.compare_fields import Compare
from judging.design import Design


def design_of(compare: Compare) -> Design:
    """Return the looks after which arms may stop. With `stop: never`, there is only the last one."""
    earlier = [repeats for repeats in compare.looks if repeats < compare.repeats] if compare.stop == "early" else []
    looks = (*earlier, compare.repeats)
    return Design(
        looks=looks,
        least_gain=compare.least_gain,
        margin=compare.quality_margin,
        trainings=compare.trainings,
        when_disturbed=compare.when_disturbed,
    )
