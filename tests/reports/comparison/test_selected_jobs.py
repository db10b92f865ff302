"""A report on jobs of several groups: how they are found, which arms they make, and what is refused or allowed."""

from __future__ import annotations

import pytest

from reports.comparison import messages
from reports.comparison.comparison import compare
from reports.comparison.selected_jobs import with_common_arms
from reports.formats.html import html_page
from reports.formats.summary import summary
from reports.model.report import Report
from reports.render import CompareOptions, render, render_chosen
from tests.support.reports.reading import markdown_text, page_text
from tests.support.tracking.tracked import Tracked
from tracking.queries import job_tables
from tracking.queries.selected_jobs import chosen_jobs
from training.contract.errors import InputError

BATCH = "hp.batch_size"


def two_days(tracked: Tracked) -> None:
    """On one day batch 16 three times, on another batch 32; each group calls its own arm `none`."""
    for repeat, seconds in enumerate((100.0, 101.0, 99.0)):
        tracked.trained("none", repeat, seconds, baseline=True, tags={"platform.compiler": "none"})
    tracked.group = "demo-2"
    for repeat, seconds in enumerate((80.0, 81.0, 79.0)):
        params = {BATCH: 32, "hp.learning_rate": 1e-4}
        tracked.trained("none", repeat, seconds, baseline=True, params=params, tags={"platform.compiler": "none"})


def test_arms_of_several_groups_are_told_apart_by_their_settings(tracked: Tracked) -> None:
    two_days(tracked)
    table = with_common_arms(chosen_jobs(tracked.client, ["demo-1", "demo-2"]))
    assert list(table["arm"]) == ["batch 16, learning rate 5e-05"] * 3 + ["batch 32, learning rate 0.0001"] * 3
    assert list(table["repeat"]) == ["0", "1", "2"] * 2
    comparison = compare(table, "")
    assert comparison.baseline is not None
    assert comparison.baseline.label == "batch 16, learning rate 5e-05"
    assert comparison.contrasts[0].verdict.outcome == "cheaper"
    assert comparison.contrasts[0].verdict.ratio is not None
    assert comparison.contrasts[0].verdict.ratio.estimate == pytest.approx(0.8, rel=1e-3)


def test_equal_settings_of_several_groups_are_one_arm(tracked: Tracked) -> None:
    tracked.trained("none", 0, 100.0, tags={"platform.compiler": "none"})
    tracked.group = "demo-2"
    tracked.trained("mine", 0, 102.0, tags={"platform.compiler": "none"})
    table = with_common_arms(chosen_jobs(tracked.client, ["demo-2", "demo-1"]))
    assert list(table["arm"]) == ["none", "none"]
    assert list(table["repeat"]) == ["0", "1"]


def test_a_parameter_that_a_run_does_not_tell_sets_it_apart_from_none(tracked: Tracked) -> None:
    """A run of an earlier version tells less."""
    tracked.trained("none", 0, 100.0, tags={"platform.compiler": "none"}, params={"hp.dropout": "auto"})
    tracked.group = "demo-2"
    tracked.trained("none", 0, 102.0, tags={"platform.compiler": "none"})
    assert set(with_common_arms(chosen_jobs(tracked.client, ["demo-1", "demo-2"]))["arm"]) == {"none"}


def test_one_group_keeps_its_arms(tracked: Tracked) -> None:
    tracked.trained("the old way", 0, 100.0)
    tracked.trained("the new way", 0, 80.0, params={BATCH: 32})
    assert list(with_common_arms(job_tables.jobs(tracked.client, tracked.group))["arm"]) == [
        "the old way",
        "the new way",
    ]


def test_jobs_are_found_by_run_job_group_and_the_run_of_a_group(tracked: Tracked) -> None:
    first = tracked.trained("none", 0, 100.0)
    second = tracked.trained("none", 1, 101.0)
    tags = {"platform.kind": "group", "platform.group": tracked.group}
    parent = str(tracked.client.create_run(tracked.experiment_id, tags=tags).info.run_id)
    for names in ([first, second], ["demo-1-0", "demo-1-1"], ["demo-1"], [parent], ["demo-1", first, "demo-1-1"]):
        assert list(chosen_jobs(tracked.client, names)["run_id"]) == [first, second]


def test_what_is_not_found_is_said_by_its_name(tracked: Tracked) -> None:
    run = tracked.trained("none", 0, 100.0)
    empty = {"platform.kind": "group", "platform.group": "gone-1"}
    parent = str(tracked.client.create_run(tracked.experiment_id, tags=empty).info.run_id)
    foreign = str(tracked.client.create_run(tracked.experiment_id).info.run_id)
    with pytest.raises(InputError, match=r"'demo-9' is not a run, job or group"):
        chosen_jobs(tracked.client, ["demo-1", "demo-9"])
    with pytest.raises(InputError, match=f"has no run '{'0' * 32}'"):
        chosen_jobs(tracked.client, ["0" * 32])
    with pytest.raises(InputError, match=r"the run of group 'gone-1', which has no jobs"):
        chosen_jobs(tracked.client, [parent])
    with pytest.raises(InputError, match=r"not the run of a job or of a group"):
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
        ({"platform.data_key": "ffff"}, {}, "data", "the data differs (abc123, ffff)"),
        ({}, {"samples": 1000.0}, "samples", "the samples seen differ (1,000 to 2,000)"),
        ({"platform.device": "1 x other"}, {}, "machine", "the device differs (1 x other, 1 x test processor)"),
        (
            {"platform.image": "763.dkr/x:2.0.0-transformers4.28.1-gpu-py310"},
            {},
            "image",
            "the image version differs (1.10.2-transformers4.17.0, 2.0.0-transformers4.28.1)",
        ),
    ],
)
def test_other_work_is_refused_unless_it_is_allowed_and_then_told(
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
    assert f"run `report` with allow={kind}." in html_page(refused)
    allowed = chosen(tracked, kind)
    (contrast,) = summary(allowed)["contrasts"]
    assert contrast["outcome"] == "cheaper"
    for form in (page_text(allowed), markdown_text(allowed)):
        assert f"Compared as requested, although {sentence}." in form
    assert contrast["despite"] == [sentence]


def test_versions_that_the_jobs_tell_count_for_more_than_the_name_of_an_image(tracked: Tracked) -> None:
    """On one machine the environment is the image, and it changes between two days."""
    told = {"platform.image": "local", "platform.compiler": "none"}
    for repeat, seconds in enumerate((100.0, 101.0)):
        tracked.trained("none", repeat, seconds, tags={**told, "platform.versions": "torch 2.12.0"})
    tracked.group = "demo-2"
    for repeat, seconds in enumerate((80.0, 81.0)):
        tracked.trained("none", repeat, seconds, tags={**told, "platform.versions": "torch 2.13.0"})
    made = chosen(tracked)
    assert [arm["label"] for arm in summary(made)["arms"]] == ["image torch 2.12.0", "image torch 2.13.0"]
    assert summary(made)["contrasts"][0]["reason"] == "the image version differs (torch 2.12.0, torch 2.13.0)"


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


def test_a_group_takes_another_baseline_too(tracked: Tracked) -> None:
    for repeat in range(2):
        tracked.trained("none", repeat, 100.0 + repeat, baseline=True)
        tracked.trained("inductor", repeat, 80.0 + repeat)
    made = render(tracked.client, tracked.group, "demo", CompareOptions(baseline="inductor"))
    assert [arm["label"] for arm in summary(made)["arms"]] == ["inductor", "none"]


def test_probes_have_no_baseline(tracked: Tracked) -> None:
    projected = {"projected/billable_seconds": 60.0, "projected/billable_instance_seconds": 60.0}
    tracked.trained("none", 0, 10.0, params={"hp.probe_precision": "0.05"}, metrics=projected)
    with pytest.raises(InputError, match="baseline and allow are for comparisons, and group 'demo-1' holds probes"):
        render(tracked.client, tracked.group, "demo", CompareOptions(baseline="none"))


def test_jobs_of_two_services_compare_where_they_are_allowed_to(tracked: Tracked) -> None:
    """Half the seconds of another machine without a price: a shorter time, and no word of what it costs."""
    for repeat, seconds in enumerate((100.0, 101.0, 99.0)):
        tracked.trained("none", repeat, seconds, tags={"platform.compiler": "none", "platform.service": "local"})
    tracked.group = "demo-2"
    elsewhere = {"platform.service": "sagemaker", "platform.instance_type": "ml.g5.xlarge", "platform.device": "A10G"}
    for repeat, seconds in enumerate((50.0, 51.0, 49.0)):
        tracked.trained("none", repeat, seconds, tags={"platform.compiler": "none", **elsewhere})
    told = "the instance type differs (local, ml.g5.xlarge) and not every job has a price"
    assert summary(chosen(tracked))["contrasts"][0]["reason"] == told
    table = with_common_arms(chosen_jobs(tracked.client, ["demo-1", "demo-2"]))
    allowed = compare(table, "", allowed={"machine"})
    assert messages.headline(allowed) == "“ml.g5.xlarge” is cheaper: 50 % fewer billable seconds than “local”."
    assert allowed.contrasts[0].verdict.despite == (told,)
    [sentence] = messages.time_sentences(allowed.arms[1], allowed.arms[0])
    assert sentence.endswith(" times as long: 50.0 s against 100 s.")
