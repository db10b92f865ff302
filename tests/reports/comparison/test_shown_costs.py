"""Test that the costs in tables and charts have the verdict's ratio, with failures and with many repeats."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from judging.design import Design
from reports.charts.report_charts import comparison_charts
from reports.comparison.comparison import Comparison, compare
from reports.comparison.messages import unlike_sentences
from reports.comparison.report import Source, comparison_report, metrics_of
from reports.comparison.tables import factorial_of, figures
from tests.support.reports.reading import markdown_text, page_text, terminal_text
from tests.support.reports.verdicts import job_row
from tracking.recorded.arms import BILLABLE

SLOW = (100.0, 103.0, 98.0, 240.0, 101.0)
QUICK = (80.0, 81.0, 83.0, 79.0, 160.0)


def compared(
    design: Design, *arms: tuple[str, tuple[float, ...]], failed: dict[str, float] | None = None
) -> Comparison:
    """Return the comparison of arms, given as (label, seconds of each job). `failed` has a failed job's seconds."""
    rows = [job_row(label, seconds, at) for label, of_jobs in arms for at, seconds in enumerate(of_jobs)]
    count = {label: len(of_jobs) for label, of_jobs in arms}
    rows += [job_row(label, seconds, count[label], status="FAILED") for label, seconds in (failed or {}).items()]
    return compare(pd.DataFrame(rows), "g", design=design)


def shown(comparison: Comparison) -> dict[str, str]:
    """Return the chart's text for each arm."""
    [chart] = [chart for chart in comparison_charts(comparison, {}) if chart.name == "billable"]
    description = re.findall(r"<desc[^>]*>(.*?)</desc>", chart.svg)[0].rstrip(".")
    return dict(part.split(": ") for part in description.split("; "))


@pytest.mark.parametrize(
    ("design", "repeats", "failed"),
    [
        (Design(looks=(3,)), 3, None),
        (Design(looks=(5,)), 5, None),
        (Design(looks=(6,)), 5, {"inductor": 70.0, "none": 0.0}),
    ],
    ids=["means", "ranks", "with a failed job"],
)
def test_the_ratio_of_the_shown_costs_is_the_verdicts(
    design: Design, repeats: int, failed: dict[str, float] | None
) -> None:
    comparison = compared(design, ("none", SLOW[:repeats]), ("inductor", QUICK[:repeats]), failed=failed)
    [contrast] = comparison.contrasts
    assert contrast.verdict.ratio is not None
    mine, others = (comparison.typical(arm, BILLABLE) for arm in (contrast.arm, comparison.arms[0]))
    assert mine is not None
    assert others is not None
    assert mine / others == pytest.approx(contrast.verdict.ratio.estimate)
    assert unlike_sentences(comparison) == []
    metrics = {metric.label: metric.value for metric in metrics_of(comparison) if metric.name == BILLABLE[5:]}
    assert metrics == {"none": others, "inductor": mine}


def test_a_failed_job_raises_the_shown_cost_by_hand() -> None:
    """Three jobs of 80 s and one that failed after 60 s: 300 / 240 * 80 = 100 s for each usable model."""
    comparison = compared(
        Design(looks=(4,)),
        ("none", (100.0, 100.0, 100.0)),
        ("inductor", (80.0,) * 3),
        failed={"inductor": 60.0, "none": 0.0},
    )
    assert comparison.typical(comparison.arms[1], BILLABLE) == pytest.approx(100.0)
    assert shown(comparison)["inductor"] == "typically 100, +0.0 %, 80.0 to 80.0, n = 3"
    [cost] = [column for column in figures(comparison) if column.label == "billable"]
    assert cost.cell(comparison.arms[1]).text == "100"


def test_every_form_explains_a_ratio_from_other_jobs() -> None:
    """The baseline's median of pairs is 117.7 s, of 99 and 140 s. 60 s is 49 % fewer; the verdict is of three jobs."""
    baseline, late = (100.0, 101.0, 99.0, 140.0, 141.0), (98.0, 95.0, 92.0, 96.0, 94.0)
    comparison = compared(Design(looks=(3, 5)), ("none", baseline), ("early", (60.0, 61.0, 59.0)), ("late", late))
    assert shown(comparison)["early"].startswith("typically 60.0, −49 %")
    table = pd.DataFrame({"run_id": [job.run_id for job in comparison.jobs]})
    source = Source(title="t", tracking_uri="sqlite:///mlflow.db", environment={}, table=table)
    report = comparison_report(comparison, [], source)
    note = "The verdict on “early”, 40 % fewer, rests on other jobs than the table's."
    assert note in terminal_text(report)
    assert note in page_text(report)
    assert note in markdown_text(report)


def test_the_factorial_shows_the_cost_that_its_percentages_compare() -> None:
    """Four jobs of 80 s, and one that failed after 84 s: 404 / 320 * 80 = 101 s, against 4 * 100 / 4 = 100 s."""
    arms = [("none, 8", 100.0), ("none, 64", 90.0), ("inductor, 8", 95.0), ("inductor, 64", 80.0)]
    rows = []
    for label, seconds in arms:
        compiler, size = label.split(", ")
        factors = {"compiler": compiler, "hp_batch_size": float(size), "baseline": str(label == "none, 8").lower()}
        rows += [{**job_row(label, seconds, at), **factors} for at in range(4)]
        last = {"cost_billable_instance_seconds": 84.0 if label == "inductor, 64" else 0.0}
        rows.append({**job_row(label, 0.0, 4, status="FAILED"), **factors, **last})
    factorial = factorial_of(compare(pd.DataFrame(rows), "g", design=Design(looks=(5,))))
    assert factorial is not None
    none, inductor = (row.cells[2] for row in factorial.rows)
    assert inductor.text.startswith("1.0 % more (")
    assert (none.detail, inductor.detail) == ("90.0 s", "101 s")
