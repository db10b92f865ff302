"""Test arms of jobs from several groups: their selection, their labels, and refused and allowed differences."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reports.comparison.comparison import OTHER_BASELINE, SEVERAL_GROUPS, compare
from reports.formats.html import html_page
from reports.formats.text import summary
from reports.model.report import Report, Table
from reports.render import CompareOptions, render, render_chosen
from tests.support.reports.reading import markdown_text, page_text
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables
from tracking.queries.job_tables import chosen_jobs
from tracking.recorded.arms import with_common_arms
from training.contract.errors import InputError

BATCH = "hp.batch_size"


def two_days(tracked: Tracked) -> None:
    """Log two groups of three jobs: one with batch 16 and one with batch 32. Both label their arm `none`."""
    for repeat, seconds in enumerate((100.0, 101.0, 99.0)):
        tracked.trained("none", repeat, seconds, baseline=True, tags={"platform.compiler": "none"})
    tracked.group = "demo-2"
    for repeat, seconds in enumerate((80.0, 81.0, 79.0)):
        params = {BATCH: 32, "hp.learning_rate": 1e-4}
        tracked.trained("none", repeat, seconds, baseline=True, params=params, tags={"platform.compiler": "none"})


def test_arms_of_several_groups_are_distinguished_by_their_settings(tracked: Tracked) -> None:
    two_days(tracked)
    table = with_common_arms(chosen_jobs(tracked.client, ["demo-1", "demo-2"]))
    assert list(table["arm"]) == ["batch 16, learning rate 5e-05"] * 3 + ["batch 32, learning rate 0.0001"] * 3
    assert list(table["repeat"]) == ["0", "1", "2"] * 2
    comparison = compare(table, "")
    assert comparison.baseline is not None
    assert comparison.baseline.label == "batch 16, learning rate 5e-05"
    assert comparison.contrasts[0].verdict.outcome == "cheaper, quality not shown"
    assert comparison.contrasts[0].verdict.ratio is not None
    assert comparison.contrasts[0].verdict.ratio.estimate == pytest.approx(0.8, rel=1e-3)


def test_equal_settings_of_several_groups_are_one_arm(tracked: Tracked) -> None:
    """Neither a tag that identifies a job counts, nor a parameter that earlier versions did not record."""
    params = {"machine.devices": 1}
    for label, group in (("none", "demo-1"), ("mine", "demo-2")):
        tracked.group = group
        tags = {"platform.compiler": "none", "platform.job_arn": f"arn:aws:sagemaker:{group}"}
        tracked.trained(label, 0, 100.0, tags=tags, params=params)
        params = {**params, "hp.dropout": "auto"}
    table = with_common_arms(chosen_jobs(tracked.client, ["demo-2", "demo-1"]))
    assert (list(table["arm"]), list(table["repeat"])) == (["none", "none"], ["0", "1"])


def test_one_group_keeps_its_arms(tracked: Tracked) -> None:
    tracked.trained("the old way", 0, 100.0)
    tracked.trained("the new way", 0, 80.0, params={BATCH: 32})
    table = with_common_arms(job_tables.jobs(tracked.client, tracked.group))
    assert list(table["arm"]) == ["the old way", "the new way"]


def test_jobs_are_found_by_run_job_group_and_the_run_of_a_group(tracked: Tracked) -> None:
    first = tracked.trained("none", 0, 100.0)
    second = tracked.trained("none", 1, 101.0)
    tags = {"platform.kind": "group", "platform.group": tracked.group}
    parent = str(tracked.client.create_run(tracked.experiment_id, tags=tags).info.run_id)
    for names in ([first, second], ["demo-1-0", "demo-1-1"], ["demo-1"], [parent], ["demo-1", first, "demo-1-1"]):
        assert list(chosen_jobs(tracked.client, names)["run_id"]) == [first, second]


def test_a_missing_run_job_or_group_is_named(tracked: Tracked) -> None:
    run = tracked.trained("none", 0, 100.0)
    empty = {"platform.kind": "group", "platform.group": "gone-1"}
    parent = str(tracked.client.create_run(tracked.experiment_id, tags=empty).info.run_id)
    foreign = str(tracked.client.create_run(tracked.experiment_id).info.run_id)
    with pytest.raises(InputError, match=r"'demo-9' is not a job, nor a group with jobs"):
        chosen_jobs(tracked.client, ["demo-1", "demo-9"])
    with pytest.raises(InputError, match=f"has no run '{'0' * 32}'"):
        chosen_jobs(tracked.client, ["0" * 32])
    with pytest.raises(InputError, match=r"is not a job, nor a group with jobs"):
        chosen_jobs(tracked.client, [parent])
    with pytest.raises(InputError, match=r"is not a job, nor a group with jobs"):
        chosen_jobs(tracked.client, [foreign])
    tracked.client.delete_run(run)
    with pytest.raises(
        InputError, match=rf"run '{run}' is deleted; restore it with `mlflow runs restore --run-id {run}`"
    ):
        chosen_jobs(tracked.client, [run])


def chosen(tracked: Tracked, *allowed: str, baseline: str | None = None) -> Report:
    table = chosen_jobs(tracked.client, ["demo-1", "demo-2"])
    return render_chosen(
        tracked.client,
        table,
        "demo",
        CompareOptions(baseline=baseline, allowed=frozenset(allowed)),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("tags", "metrics", "kind", "sentence"),
    [
        ({}, {"samples": 1000.0}, "samples", "the samples seen differ (1,000 to 2,000)"),
        (
            {"platform.image": "763.dkr/x:2.0.0-transformers4.28.1-gpu-py310"},
            {},
            "image",
            "the image version differs (1.10.2-transformers4.17.0, 2.0.0-transformers4.28.1)",
        ),
    ],
)
def test_different_work_is_refused_unless_it_is_allowed(
    tracked: Tracked, tags: dict[str, str], metrics: dict[str, float], kind: str, sentence: str
) -> None:
    image = {"platform.image": "763.dkr/x:1.10.2-transformers4.17.0-gpu-py38", "platform.compiler": "none"}
    for repeat, seconds in enumerate((100.0, 101.0, 99.0)):
        tracked.trained("none", repeat, seconds, tags=image)
    tracked.group = "demo-2"
    for repeat, seconds in enumerate((80.0, 81.0, 79.0)):
        tracked.trained("none", repeat, seconds, tags={**image, **tags}, params={BATCH: 32}, metrics=metrics)
    refused = chosen(tracked)
    (contrast,) = summary(refused)["contrasts"]
    assert contrast["outcome"] == "not comparable"
    assert contrast["reason"] == sentence
    assert f"run `trainfare report` with `--allow {kind}`." in html_page(refused)
    allowed = chosen(tracked, kind)
    (contrast,) = summary(allowed)["contrasts"]
    assert contrast["outcome"] == "cheaper, quality not shown"
    for form in (page_text(allowed), markdown_text(allowed)):
        assert f"Compared as requested, although {sentence}." in form
    assert contrast["despite"] == [sentence]


def test_recorded_versions_take_precedence_over_the_image_name(tracked: Tracked) -> None:
    """For local jobs the image is always `local`, but the installed versions may change between two days."""
    for group, version in (("demo-1", "torch 2.12.0"), ("demo-2", "torch 2.13.0")):
        tracked.group = group
        tags = {"platform.image": "local", "platform.compiler": "none", "platform.versions": version}
        for repeat in range(2):
            tracked.trained("none", repeat, 100.0 + repeat, tags=tags)
    report = chosen(tracked)
    assert [arm["label"] for arm in summary(report)["arms"]] == ["image torch 2.12.0", "image torch 2.13.0"]
    assert summary(report)["contrasts"][0]["reason"] == "the image version differs (torch 2.12.0, torch 2.13.0)"


@pytest.mark.parametrize(
    ("rate", "runtime", "status", "changes"),
    [
        (45.2, 110.6, "FINISHED", ["−10 %", "+10 %", "+0 %"]),  # 45.2 / 50 - 1 = -9.6 %, and 10.6 of 100 s
        (float("nan"), 99.2, "FINISHED", ["–", "+0 %", "+0 %"]),  # 0.8 of 100 s
        (96.3, 61.0, "FAILED", []),
    ],
)
def test_two_single_jobs_have_their_changes_and_no_verdict(
    tracked: Tracked, rate: float, runtime: float, status: str, changes: list[str]
) -> None:
    for group, size, *values, outcome in (
        ("demo-1", 16, 50.0, 100.0, "FINISHED"),
        ("demo-2", 32, rate, runtime, status),
    ):
        tracked.group = group
        metrics = dict(zip(("train_samples_per_second", "train_runtime"), values, strict=True))
        tracked.trained("none", 0, 100.0, params={BATCH: size}, metrics=metrics, status=outcome)
    report = chosen(tracked)
    tables = [block for block in report.brief if isinstance(block, Table) and block.name == "The two jobs"]
    assert [cell.text for table in tables for cell in table.rows[2].cells[1:4]] == changes
    assert (report.headline == "One job each: no verdict.") == bool(changes)


def test_the_baseline_is_an_arm_or_one_of_its_jobs(tracked: Tracked) -> None:
    two_days(tracked)
    later = "batch 32, learning rate 0.0001"
    job = str(chosen_jobs(tracked.client, ["demo-2"])["run_id"].iloc[1])
    for name in (later, job):
        comparison = summary(chosen(tracked, baseline=name))
        assert comparison["baseline"] == later
        assert comparison["contrasts"][0]["outcome"] == "not cheaper"
    with pytest.raises(InputError, match=r"baseline 'batch 3' is not one of the arms 'batch 16, .*'batch 32, "):
        chosen(tracked, baseline="batch 3")


def test_reports_that_results_may_have_led_to_say_how_often_they_are_wrong(tracked: Tracked) -> None:
    two_days(tracked)
    later = "batch 32, learning rate 0.0001"
    for baseline, cautions in ((None, [SEVERAL_GROUPS]), (later, [SEVERAL_GROUPS, OTHER_BASELINE])):
        report = chosen(tracked, baseline=baseline)
        assert summary(report)["contrasts"][0]["cautions"] == cautions
        for form in (page_text(report), markdown_text(report)):
            assert all(each in form for each in cautions)
    # Two jobs have no verdict.
    jobs = chosen_jobs(tracked.client, ["demo-1-0", "demo-2-3"])
    assert "judged together" not in page_text(render_chosen(tracked.client, jobs, "demo", CompareOptions()))


def trained_alike(tracked: Tracked, group: str, seeds: Sequence[int]) -> None:
    """Log a group of two compilers with accuracies that differ between seeds, but not between the compilers."""
    tracked.group = group
    for label, seconds in (("none", 100.0), ("inductor", 80.0)):
        for repeat, seed in enumerate(seeds):
            accuracy = {"eval_accuracy": 0.8 + 0.05 * repeat}
            more = {"params": {"hp.seed": seed}, "tags": {"platform.compiler": label}, "metrics": accuracy}
            tracked.trained(label, repeat, seconds + repeat, baseline=label == "none", **more)


@pytest.mark.parametrize(
    # Least spread 0.003, a tenth of the margin: 2.919986 x 0.003 / sqrt(3), and 2.015048 x 0.003 / sqrt(6).
    ("seeds", "counted", "most_lost"),
    [((42, 43, 44), 3, 0.0050576), ((2_044, 2_043, 2_042), 6, 0.0024679)],
)
def test_pooled_groups_have_one_score_for_each_seed(
    tracked: Tracked, seeds: Sequence[int], counted: int, most_lost: float
) -> None:
    trained_alike(tracked, "demo-1", (42, 43, 44))
    trained_alike(tracked, "demo-2", seeds)
    (contrast,) = summary(chosen(tracked))["contrasts"]
    assert contrast["outcome"] == "cheaper"
    assert contrast["ratio"]["n_arm"] == 6
    # Equal seeds have equal scores, and differ by up to 0.1 from others.
    quality = contrast["quality"]
    assert (quality["is_paired"], quality["seeds"], quality["difference"]["estimate"]) == (True, counted, 0.0)
    assert quality["most_lost"] == pytest.approx(most_lost, rel=1e-4)


def test_a_single_seed_shows_no_quality(tracked: Tracked) -> None:
    trained_alike(tracked, "demo-1", (42, 42, 42))
    trained_alike(tracked, "demo-2", (42,))
    (contrast,) = summary(chosen(tracked))["contrasts"]
    assert (contrast["outcome"], contrast["quality"]) == ("inconclusive", None)
    assert (
        contrast["reason"] == "but the accuracy of one seed is not enough: a verdict needs at least two of each setting"
    )


def test_probes_have_no_baseline(tracked: Tracked) -> None:
    projected = {"projected/billable_seconds": 60.0, "projected/billable_instance_seconds": 60.0}
    tracked.trained("none", 0, 10.0, params={"hp.probe_precision": "0.05"}, metrics=projected)
    with pytest.raises(
        InputError, match="baseline and allow apply to comparisons only: group 'demo-1' contains probes"
    ):
        render(tracked.client, tracked.group, "demo", CompareOptions(baseline="none"))
