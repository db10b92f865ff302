"""Test published figures beside measured ones, and the factorial, on hand-made jobs with hand-worked numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.schema.fields import Published as PublishedFields
from reports.comparison.comparison import Comparison, compare
from reports.comparison.tables import factorial_of, published_sections
from reports.model.report import Table
from tests.support.reports.reading import texts_by_title
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables


def tag(**fields: Any) -> dict[str, str]:
    return {"platform.published": json.dumps({"source": "its authors", "machine": "ml.p3.2xlarge", **fields})}


def two_arms(tracked: Tracked, tags: dict[str, str]) -> Comparison:
    """Compare an arm with twice the steady rate, 0.6 of the training time, 5 % more loss and 19 s more compiling."""
    for repeat in range(2):
        plain = {"train_runtime": 100.0 + repeat, "eval_loss": 0.40}
        tracked.trained("none", repeat, 120.0 + repeat, 100.0 + repeat, metrics=plain, baseline=True, tags=tags)
        fast = {"train_runtime": 60.0 + 0.6 * repeat, "eval_loss": 0.42, "time/compile_seconds": 19.0}
        tracked.trained("inductor", repeat, 90.0 + repeat, 200.0 + 2 * repeat, metrics=fast, tags=tags)
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def shown(tracked: Tracked, tags: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the published and the measured text of each figure."""
    comparison, table = two_arms(tracked, tags), job_tables.jobs(tracked.client, tracked.group)
    return {
        row["figure"]: (row["published"], row["inductor, measured"])
        for section in published_sections(table, comparison)
        for block in section.blocks
        if isinstance(block, Table)
        for row in texts_by_title(block)
    }


def test_a_figure_that_was_not_measured_is_a_dash(tracked: Tracked) -> None:
    assert shown(
        tracked, tag(figures={"spot_savings_percent": 90.0, "cost_ratio": 1.87, "batch_size_ratio": 1.33})
    ) == {
        "saved by spot": ("up to 90.0 %", "–"),
        "cost": ("+87 %", "–"),
        "batch size per device": ("+33 %", "+0.0 %"),
    }


@pytest.mark.parametrize(("time", "contradicts"), [(0.518, False), (0.53, False), (0.62, True)])
def test_published_figures_that_contradict_each_other(tracked: Tracked, time: float, contradicts: bool) -> None:
    tags = tag(figures={"throughput_ratio": 1.93, "training_time_ratio": time})
    comparison = two_arms(tracked, tags)
    [section] = published_sections(job_tables.jobs(tracked.client, tracked.group), comparison)
    assert ("contradict each other" in str(section)) is contradicts


@pytest.mark.parametrize("tags", [tag(figures=None), {"platform.published": "{"}])
def test_missing_or_broken_figures_are_left_out(tracked: Tracked, tags: dict[str, str]) -> None:
    assert shown(tracked, tags) == {}


def test_a_source_without_a_figure_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one published number is needed in addition to source and machine"):
        PublishedFields(source="somebody")


def four_arms(tracked: Tracked) -> Comparison:
    billed = {("none", 16): 100.0, ("inductor", 16): 90.0, ("none", 64): 80.0, ("inductor", 64): 60.0}
    for repeat in range(2):
        for (compiler, size), seconds in billed.items():
            params, tags = {"hp.batch_size": size}, {"platform.compiler": compiler}
            label = f"{compiler}, batch {size}"
            tracked.trained(
                label, repeat, seconds + repeat / 10, params=params, tags=tags, baseline=label == "none, batch 16"
            )
    return compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)


def test_arms_that_differ_in_other_factors_make_no_factorial(tracked: Tracked) -> None:
    assert factorial_of(four_arms(tracked)) is not None
    tracked.trained("another rate", 0, 70.0, params={"hp.learning_rate": 1e-3}, tags={"platform.compiler": "none"})
    assert factorial_of(compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)) is None
    tracked.group = "demo-2"
    assert factorial_of(two_arms(tracked, {"platform.compiler": "none"})) is None
