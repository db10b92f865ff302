"""Test every form of a sweep's report, from runs on a real tracking store, complete and with missing data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from mlflow import MlflowClient

from reports.formats.text import markdown, summary
from reports.model.report import Report
from reports.render import render
from tests.support.reports.made_sweeps import MadeSweep, sweep_json, whole_sweep
from tests.support.reports.page import HOSTILE, sound_page
from tests.support.reports.reading import chart_names, terminal_text

CHARTS = {"cost_by_batch", "throughput_by_batch", "phases"}


@pytest.fixture(scope="module")
def client(_template_database: Any, tmp_path_factory: pytest.TempPathFactory) -> MlflowClient:
    """One store for all sweeps of this file; each sweep has a separate experiment."""
    path = tmp_path_factory.mktemp("sweeps") / "mlflow.db"
    path.write_bytes(_template_database.read_bytes())
    return MlflowClient(f"sqlite:///{path}")


@pytest.fixture
def new(client: MlflowClient, request: pytest.FixtureRequest, tmp_path: Any) -> Callable[[], MadeSweep]:
    """Function that makes an empty sweep."""
    name = re.sub(r"\W+", "-", request.node.name)
    experiment_id = client.create_experiment(name, artifact_location=(tmp_path / "artifacts").as_uri())
    return lambda: MadeSweep(client, experiment_id, name)


@pytest.fixture(scope="module")
def report(client: MlflowClient, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Report of a complete sweep."""
    artifacts = tmp_path_factory.mktemp("artifacts").as_uri()
    sweep = whole_sweep(client, client.create_experiment("whole", artifact_location=artifacts))
    return render(client, sweep.group, "Emotion & more")


def rendered(sweep: MadeSweep) -> Report:
    return render(sweep.client, sweep.group, "t")


def test_every_job_of_a_sweep_has_a_verdict(report: Report) -> None:
    counts = Counter(report.verdicts.values())
    assert (counts["best"], counts["pruned"], counts["failed"], counts["calibration"]) == (1, 1, 1, 2)
    assert (counts["baseline"], counts["cheaper, 65 % fewer"]) == (3, 3)


def test_every_form_has_the_whole_answer(report: Report) -> None:
    page = sound_page(report, sweep_json()["train_command"])
    answer = "inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 6"
    for text in (page.text, terminal_text(report), markdown(report).replace("\\", "")):
        assert answer in text
        assert sweep_json()["train_command"] in text
    assert chart_names(report) == CHARTS
    assert all(chart.png.startswith(b"\x89PNG") for chart in report.charts)
    for title in (
        "The best of each compiler setting",
        "Change in billable seconds against none",
        "Cost of the sweep",
    ):
        assert title in page.text
    assert "its bill would be above the cheapest" in page.text
    assert "OutOfMemory" in page.text

    numbers = summary(report)
    assert (numbers["best"]["compiler"], numbers["best"]["batch_size"], numbers["best"]["multiplier"]) == (
        "inductor",
        64.0,
        2.0,
    )
    assert numbers["best_by_compiler"]["none"]["batch_size"] == 64.0
    assert numbers["base"]["batch_size"] == 8.0
    assert {each["what"]: each["jobs"] for each in numbers["spent"]} == {
        "calibration": 2,
        "trial": 18,
        "confirmation": 12,
        "all": 30 + 2,
    }
    assert len(numbers["trials"]) == 18
    assert [each["outcome"] for each in numbers["confirmation"]].count("cheaper") == 3
    assert len(report.rows_csv.splitlines()) == 33

    tables = re.findall(r"(?:^\|.*\n)+", markdown(report), flags=re.M)
    assert len(tables) == 2
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def only_calibrated(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json())
    sweep.calibration("none", [8, 16], 8)
    return "No trial yet: none fits batches up to 8."


def hostile_names(sweep: MadeSweep) -> str:
    sweep.write_spec(sweep_json(train_command=HOSTILE, stopped_because={"none": HOSTILE}, compilers=["none"]))
    sweep.training("trial", "none", 32, tags={"platform.end": f"pruned: {HOSTILE}"})
    sweep.training("trial", "none", 16)
    return "none at batch 16 is the best of 2 trials, without a verdict."


@pytest.mark.parametrize(
    "build",
    [
        only_calibrated,
        hostile_names,
    ],
)
def test_missing_data_is_not_an_error(new: Callable[[], MadeSweep], build: Callable[[MadeSweep], str]) -> None:
    sweep = new()
    expected = build(sweep)
    report = rendered(sweep)
    sound_page(report, sweep_json()["train_command"])
    assert summary(report)["headline"].startswith(expected)


def test_one_compiler_in_dollars_at_a_bound(new: Callable[[], MadeSweep]) -> None:
    sweep = new()
    objective = {"cost": "usd", "metric": "eval_loss", "target": None, "bound": 0.42}
    sweep.write_spec(sweep_json(objective=objective, compilers=["none"], multipliers=[1]))
    for size in (8, 32, 128):
        run_id = sweep.training("trial", "none", size, target=None)
        sweep.client.log_metric(run_id, "cost/usd", 1 / size)
    report = rendered(sweep)
    page = sound_page(report, sweep_json()["train_command"])
    assert "none at batch 128 is the best of 3 trials" in page.text
    assert "pareto" in chart_names(report)
