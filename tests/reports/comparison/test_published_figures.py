"""Test published figures beside measured ones, and the factorial, on hand-made jobs with hand-worked numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.schema.compare_fields import Published as PublishedFields
from reports.comparison.comparison import Comparison, compare
from reports.comparison.tables import PublishedRow, factorial_of, published_of, published_rows
from reports.formats.html import html_page
from reports.render import render
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables

FIGURES = {"throughput_ratio": 1.93, "training_time_ratio": 0.62, "loss_ratio": 1.0, "break_even_minutes": 30.0}


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


def test_each_published_figure_is_shown_beside_the_measured_one(tracked: Tracked) -> None:
    comparison = two_arms(tracked, tag(figures=FIGURES))
    published = published_of(job_tables.jobs(tracked.client, tracked.group))
    assert published is not None
    rows = {row.label: row for row in published_rows(published, comparison)}
    assert list(rows) == ["steady samples/s", "training time", "final loss", "break-even"]
    measured = {label: row.measured["inductor"] for label, row in rows.items()}
    assert rows["steady samples/s"].published == "+93 %"
    assert measured["steady samples/s"].startswith("+100 % (+")
    assert (rows["training time"].published, measured["training time"]) == ("−38 %", "−40 %")
    assert (rows["final loss"].published, measured["final loss"]) == ("equal", "+5.0 %")
    # N* = 19 s / (1/100.5 - 1/201) = 3,819 samples (geometric means); 20 s of compile and warm-up and 19 s of steps.
    assert (rows["break-even"].published, measured["break-even"]) == ("30.0 min", "0.65 min")


def test_the_page_shows_published_figures_with_their_source(tracked: Tracked) -> None:
    two_arms(tracked, tag(figures=FIGURES))
    report = render(tracked.client, tracked.group, "squad")
    assert "Published by its authors, on ml.p3.2xlarge; measured here against “none”" in html_page(report)
    assert "−38\N{NO-BREAK SPACE}%" in html_page(report)


def test_a_figure_that_was_not_measured_is_a_dash(tracked: Tracked) -> None:
    figures = {"spot_savings_percent": 90.0, "cost_ratio": 1.87, "batch_size_ratio": 1.33}
    comparison = two_arms(tracked, tag(figures=figures))
    published = published_of(job_tables.jobs(tracked.client, tracked.group))
    assert published is not None
    assert published_rows(published, comparison) == [
        PublishedRow(label="saved by spot", published="up to 90.0 %", measured={"inductor": "–"}),
        PublishedRow(label="cost", published="+87 %", measured={"inductor": "–"}),
        PublishedRow(label="batch size per device", published="+33 %", measured={"inductor": "+0.0 %"}),
    ]


@pytest.mark.parametrize("tags", [{}, tag(), tag(figures=None), {"platform.published": "{"}])
def test_missing_or_broken_figures_are_left_out(tracked: Tracked, tags: dict[str, str]) -> None:
    two_arms(tracked, tags)
    assert published_of(job_tables.jobs(tracked.client, tracked.group)) is None
    assert "Published figures" not in html_page(render(tracked.client, tracked.group, "squad"))


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


def test_compiler_and_batch_size_separately(tracked: Tracked) -> None:
    factorial = factorial_of(four_arms(tracked))
    assert factorial is not None
    assert (factorial.compilers, factorial.batch_sizes) == (("none", "inductor"), (16.0, 64.0))
    assert factorial.texts("none", 16.0) == ("baseline", "100 s")
    assert factorial.texts("inductor", 64.0)[0].startswith("40 % fewer (")
    assert factorial.sentences() == [
        "inductor alone, at batch 16: 10 % fewer billable seconds.",
        "Batch 64 alone, under none: 20 % fewer billable seconds.",
        "inductor and batch 64 together: 40 % fewer billable seconds.",
    ]
    assert "Compiler and batch size separately" in html_page(render(tracked.client, tracked.group, "demo"))


def test_two_arms_make_no_factorial(tracked: Tracked) -> None:
    assert factorial_of(two_arms(tracked, {"platform.compiler": "none"})) is None
    assert "Compiler and batch size separately" not in html_page(render(tracked.client, tracked.group, "demo"))


def test_arms_that_differ_in_more_factors_make_no_factorial(tracked: Tracked) -> None:
    four_arms(tracked)
    tracked.trained("another rate", 0, 70.0, params={"hp.learning_rate": 1e-3}, tags={"platform.compiler": "none"})
    assert factorial_of(compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)) is None
