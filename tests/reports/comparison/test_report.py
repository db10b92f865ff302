"""Test what a comparison's report says about failures, stopped jobs, missing data, scripts, and unwanted results."""

from __future__ import annotations

from typing import Any

import pytest

from reports.comparison.comparison import compare
from reports.comparison.messages import cost_sentence, missing_data
from reports.comparison.report import fail_sentences, results_by_arm, texts_sections
from reports.comparison.tables import figures
from reports.formats.text import summary
from reports.model.report import Cell, Definitions, Report, Text
from reports.render import render
from tests.support.reports.reading import chart_names, markdown_text, page_table, page_text, terminal_text
from tracking.queries import job_tables
from tracking.recorded.arms import BILLABLE

STOPPED = {"platform.failure_class": "Stopped", "platform.failure_message": "it was stopped"}
OUTSIDE = {"platform.measured": "outside"}


def results(tracked: Any, *arms: tuple[str, float, float]) -> dict[str, tuple[str, ...]]:
    """Return the results of a selection of jobs: three repeats of each arm, its seconds and its accuracy."""
    for label, seconds, accuracy in arms:
        for repeat in range(3):
            metrics = {"eval_accuracy": accuracy + 0.001 * repeat}
            tracked.trained(label, repeat, seconds + repeat, metrics=metrics, baseline=label == "none")
    table = job_tables.jobs(tracked.client, tracked.group)
    return dict(results_by_arm(compare(table, tracked.group, is_selection=True)))


def test_arms_with_an_unwanted_result_are_named(tracked: Any) -> None:
    tracked.job("equal", 3, status="FAILED", metrics={"cost/billable_instance_seconds": 7.0})
    assert results(
        tracked,
        ("none", 100.5, 0.9),
        ("equal", 80.5, 0.9),
        ("slow", 130.5, 0.9),
        ("bad", 80.5, 0.8),
        ("unknown", 80.5, float("nan")),
    ) == {"dearer": ("slow",), "worse": ("bad", "unknown"), "inconclusive": ("equal",), "failed": ("equal",)}


def test_only_requested_results_have_a_sentence() -> None:
    arms = {"dearer": ("a", "b"), "failed": ("a",)}
    assert list(fail_sentences(arms, frozenset({"dearer", "worse"}))) == ["--fail-on dearer: “a”, “b”."]
    assert list(fail_sentences(arms, frozenset({"failed"}))) == ["--fail-on failed: a job failed of “a”."]
    assert list(fail_sentences(arms, frozenset())) == []


def test_a_stopped_job_is_not_a_failed_one(tracked: Any) -> None:
    for repeat, seconds in enumerate((100.0, 101.0, 102.0)):
        tracked.trained("none", repeat, seconds, baseline=True)
        tracked.trained("inductor", repeat, seconds - 20)
    paid = {"cost/billable_instance_seconds": 60.0}
    tracked.job("inductor", 3, status="KILLED", metrics=paid, tags=STOPPED)
    report = render(tracked.client, tracked.group, "t")
    for form in (page_text(report), terminal_text(report), markdown_text(report)):
        assert "7 jobs took 606 billable instance seconds in all, 60.0 of them in 1 stopped job." in form
        assert "1 job of “inductor” was stopped." in form
        assert "1 failed job" not in form
    row = page_table(report)["inductor"]
    # The stopped job's 60 seconds do not make the successful ones dearer.
    assert (row["failed"], row["stopped"], row["billable"]) == ("0", "1", "81.0")
    [inductor] = [arm for arm in summary(report)["arms"] if arm["label"] == "inductor"]
    assert (inductor["failed"], inductor["stopped"]) == (0, 1)
    assert "failed" not in report.results


def test_a_comparison_of_stopped_jobs_did_not_fail(tracked: Any) -> None:
    for arm in ("none", "inductor"):
        tracked.job(arm, 0, status="KILLED", baseline=arm == "none", tags=STOPPED)
    report = render(tracked.client, tracked.group, "t")
    assert report.headline == "No verdict: all 2 jobs were stopped."
    assert report.short_answer == "stopped"
    assert "failed" not in report.results


def test_negative_zero_and_missing_costs_are_named(tracked: Any) -> None:
    """Only 80 s and 82 s count for the arm: their geometric mean is 81.0 s."""
    for repeat, (none, inductor) in enumerate([(100.5, 80.0), (101.5, 82.0), (99.5, -5.0), (100.0, 1.0), (100.2, 1.0)]):
        unbilled = {3: {"cost/billable_instance_seconds": 0.0}, 4: {"cost/billable_instance_seconds": float("nan")}}
        tracked.trained("none", repeat, none, baseline=True, losses=[])
        tracked.trained("inductor", repeat, inductor, metrics=unbilled.get(repeat, {}), losses=[])
    tracked.job("inductor", 5, status="FAILED", metrics={"cost/billable_instance_seconds": 0.0})
    comparison = compare(job_tables.jobs(tracked.client, tracked.group), tracked.group)
    assert missing_data(comparison) == [
        "Missing: billable seconds of “inductor, repeat 5”: not recorded or not finite.",
        "Not counted: billable instance seconds -5 of “inductor, repeat 3”, 0 of “inductor, repeat 4”: the cost of a "
        "job must be above 0.",
    ]
    # 501.7 s of the baseline and 162 s: the service may bill nothing for a job that failed.
    assert cost_sentence(comparison) == (
        "11 jobs took 664 billable instance seconds in all, 0.00 of them in 1 failed job (1 without a billing record, "
        "1 with a negative cost, which does not count)."
    )
    [shown] = [column for column in figures(comparison) if column.label == "billable"]
    assert shown.cell(comparison.arms[1]) == Cell(text="81.0", number=pytest.approx(81.0), detail="80.0–82.0")
    assert comparison.arms[1].positive(BILLABLE) == [80.0, 82.0]


def test_undeclared_scores_of_a_script_are_said_first_with_the_line_to_add(tracked: Any) -> None:
    report, _ = script_report(tracked, eval_iou=0.8, eval_dice=0.7)
    sentence = (
        "No quality is judged, because script.metrics declares none of eval_dice and eval_iou: add the line `metrics: "
        "{eval_dice: {unit: fraction, better: higher}}` under the line `script:`."
    )
    assert report.answer[0] == Text(sentence, "strong")
    assert report.brief[0] == report.answer[0]


def script_report(tracked: Any, **more: float) -> tuple[Report, str]:
    """Return the report on a script at two batch sizes, and the labels in its table of settings."""
    for arm, seconds in (("batch 4", 100.0), ("batch 8", 80.0)):
        for repeat in range(2):
            costs = {"cost/billable_seconds": seconds, "cost/billable_instance_seconds": seconds + repeat}
            tracked.job(arm, repeat, metrics={**costs, "loss": 0.5, **more}, tags=OUTSIDE)
    report = render(tracked.client, tracked.group, "own")
    assert report.comparison_table is not None
    return report, " ".join(heading.label for heading in report.comparison_table.headings)


def test_the_report_on_a_plain_loop_omits_unrecorded_figures(tracked: Any) -> None:
    report, labels = script_report(tracked)
    assert labels == "arm billable last training loss repeats failed verdict"
    text = terminal_text(report)
    assert "No job recorded how many samples it saw: equal work is assumed." in text
    assert "No quality is judged, because the script logged no evaluation: log one to MLflow or TensorBoard" in text
    assert "reak-even" not in text
    assert "Measured from outside" in page_text(report)
    assert "phases" not in chart_names(report)


def test_the_report_on_a_trainer_script_has_its_recorded_figures(tracked: Any) -> None:
    metrics = {"time/train_seconds": 50.0, "time/eval_seconds": 5.0, "samples": 100.0, "eval_accuracy": 0.9}
    report, labels = script_report(tracked, **metrics, **{"throughput/end_to_end_samples_per_second": 1.0})
    assert labels == "arm end to end training billable last training loss accuracy repeats failed verdict"
    assert "phases" in chart_names(report)
    assert "equal work is assumed" not in page_text(report)
    assert summary(report)["contrasts"][0]["outcome"] == "cheaper, quality not shown"


def test_generated_texts_stand_beside_the_datas() -> None:
    rows = {"a": [[3, "Why?", "So.", "Because"]], "b": [[3, "Why?", "So.", "x" * 400]]}
    (section,) = texts_sections(rows)
    (block,) = section.blocks
    assert isinstance(block, Definitions)
    assert [(each.term, each.text) for each in block.definitions] == [
        ("Row 3: Why?", f"data: So. — a: Because — b: {'x' * 299}…")
    ]
    assert texts_sections({}) == ()
