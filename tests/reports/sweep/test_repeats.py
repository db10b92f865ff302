"""Test that the costs of a sweep's repeats are those of their verdict, and that reports state rules and looks."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from judging.design import Design
from reports.comparison.report import Source
from reports.formats.figures import summary
from reports.formats.markdown import markdown
from reports.sweep.messages import sentences
from reports.sweep.report import metrics_of, sweep_report
from reports.sweep.tables import best_columns
from reports.sweep.trials import Setting
from tests.support.reports.sweep_tables import RATE, make_sweep, repeats, trial, waves

TRIALS = (
    trial("none", 8, 100.0, trial="0"),
    trial("none", 64, 80.0, trial="1"),
    trial("inductor", 64, 62.0, 2.0, trial="2"),
    trial("inductor", 128, 70.0, trial="3"),
)


def test_the_saving_includes_failed_repeats() -> None:
    """Three repeats of the winner cost 70 s, and one failed after 30 s: 240 / 3 = 80 s for a usable model.

    Against 100 s, 20 s are saved. All jobs took 312 + 400 + 240 = 952 s: 47.6 times the saving.
    """
    failing = waves("inductor", 64, 70, 70, 70, 30, multiplier=2.0)
    failing[3] |= {"status": "FAILED", "failure_class": "OutOfMemory"}
    rows = [*TRIALS, *waves("none", 8, 100, 100, 100, 100), *failing]
    sweep = make_sweep(*rows, design=Design(looks=(4,)))
    ratio = sweep.interval_of(sweep.best_trials[-1])
    assert ratio is not None
    assert ratio.estimate == pytest.approx(0.8)
    assert (sweep.base_cost, sweep.saving) == (pytest.approx(100.0), pytest.approx(20.0))
    metrics = {metric.name: metric.value for metric in metrics_of(sweep) if not metric.label}
    assert metrics["sweep/best_billable_seconds"] == pytest.approx(80.0)
    assert "The sweep pays off after 48 trainings with its best setting." in sentences(sweep)
    repeated = next(column for column in best_columns(sweep) if column.label == "repeats")
    assert repeated.value(sweep.best_trials[-1]) == "80.0"


def test_from_five_repeats_on_the_cost_is_that_of_the_verdict() -> None:
    """One slow repeat hardly moves the median of the pairs' means: of 100 (four times) and 200 it is 100."""
    rows = [*TRIALS, *waves("none", 8, 100, 100, 100, 100, 200), *waves("inductor", 64, *[70] * 5, multiplier=2.0)]
    sweep = make_sweep(*rows, design=Design(looks=(5,)))
    ratio = sweep.interval_of(sweep.best_trials[-1])
    assert ratio is not None
    assert (sweep.base_cost, ratio.estimate) == (pytest.approx(100.0), pytest.approx(0.7))


def test_the_report_states_the_rules_and_the_looks() -> None:
    rows = [*TRIALS, *waves("none", 8, 100, 101, 99), *waves("inductor", 64, 69, 70, 71, multiplier=2.0)]
    table = pd.DataFrame([{**each, "run_id": f"r{at}"} for at, each in enumerate(rows)])
    source = Source(title="t", tracking_uri="sqlite:///mlflow.db", environment={}, table=table)
    report = sweep_report(make_sweep(*rows, design=Design(looks=(3, 5))), [], source)
    numbers = summary(report)
    assert (report.rules, numbers["rules"], numbers["stopped"]) == (3, 3, {"inductor 64 2.0": "cheaper"})
    assert [each["repeats"] for each in numbers["looks"]] == [3]
    assert "; stops: it is cheaper |" in markdown(report)
    unrepeated = sweep_report(make_sweep(*TRIALS), [], source)
    assert (unrepeated.rules, summary(unrepeated)["rules"], summary(unrepeated)["looks"]) == (None, None, [])


def test_a_verdict_from_an_earlier_look_is_explained() -> None:
    """The winner stops after three repeats. The base goes on beside a control, and its later jobs are slower."""
    rows = [
        *TRIALS,
        *waves("none", 8, 100, 101, 99, 140, 141),
        *waves("inductor", 64, 60, 61, 59, multiplier=2.0),
        *waves("inductor", 8, 98, 95, 92, 96, 94),
    ]
    sweep = make_sweep(*rows, design=Design(looks=(3, 5)))
    note = "The verdict on “inductor 64 2.0”, 40 % fewer, rests on other jobs than the table's."
    assert note in sentences(sweep)


def test_equal_rates_have_an_interval_and_several_share_the_error() -> None:
    """The interval of 200 against 100, twice each, reaches 0.004302653 to each side, see `test_intervals`."""
    rows = [
        trial("none", 8, 100.0, throughput_steady_samples_per_second=100.0),
        trial("inductor", 64, 100.0, throughput_steady_samples_per_second=210.0),
        *repeats("none", 8, 100.0, 100.0, throughput_steady_samples_per_second=100.0, hp_target_stop=None),
        *repeats("inductor", 64, 100.0, 100.0, throughput_steady_samples_per_second=200.0, hp_target_stop=None),
    ]
    sweep = make_sweep(*rows, document=RATE)
    ratio = sweep.interval_of(sweep.best_trials[-1])
    assert ratio is not None
    assert math.log(ratio.high / ratio.estimate) == pytest.approx(0.004302653, rel=1e-5)
    control = repeats("inductor", 8, 100.0, 100.0, throughput_steady_samples_per_second=100.1, hp_target_stop=None)
    wider = make_sweep(*rows, *control, document=RATE)
    arm = wider.arm_of(Setting("inductor", 8.0))
    assert arm is not None
    shared = wider.ratio(arm, wider.arm_of(wider.base))
    # 0.1 % more is within the least spread; 2.5 % of the error has t = 6.205347.
    both = wider.interval_of(wider.best_trials[-1])
    assert shared is not None
    assert both is not None
    assert shared.low < 1 < shared.high
    assert math.log(both.high / both.estimate) == pytest.approx(0.006205347, rel=1e-5)
