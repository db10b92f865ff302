"""Test finalists and repeats of a sweep on hand-made tables: their costs, their verdicts and unwanted results."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from judging.design import Design
from reports.comparison.report import Source
from reports.formats.text import summary
from reports.model.numbers import NONE
from reports.sweep.messages import answer_of, sentences
from reports.sweep.report import best_columns, metrics_of, results_of_winner, sweep_report, trial_table
from reports.sweep.trials import Setting
from tests.support.answers import checked_report
from tests.support.reports.reading import page_text
from tests.support.reports.sweep_tables import FRONT, RATE, make_sweep, rate_repeats, rate_trial, repeats, row, trial

TRIALS = (
    trial("none", 8, 100.0, trial="0"),
    trial("none", 64, 80.0, trial="1"),
    trial("inductor", 64, 62.0, 2.0, trial="2"),
    trial("inductor", 128, 70.0, trial="3"),
)


def test_the_saving_includes_failed_repeats() -> None:
    """Eight repeats of the winner cost 70 s, and one failed after 40 s: 600 / 8 = 75 s for a usable model.

    Against 100 s, 25 s are saved. All jobs took 312 + 900 + 600 = 1812 s: 72.5 times the saving.
    """
    failing = repeats("inductor", 64, *[70] * 8, 40, multiplier=2.0)
    failing[8] |= {"status": "FAILED", "failure_class": "OutOfMemory"}
    rows = [*TRIALS, *repeats("none", 8, *[100] * 9), *failing]
    sweep = make_sweep(*rows, design=Design(looks=(9,)))
    ratio = sweep.interval_of(sweep.best_trials[-1].setting)
    assert ratio is not None
    assert ratio.estimate == pytest.approx(0.75)
    assert (sweep.base_cost, sweep.saving) == (pytest.approx(100.0), pytest.approx(25.0))
    metrics = {metric.name: metric.value for metric in metrics_of(sweep) if not metric.label}
    assert metrics["sweep/best_billable_seconds"] == pytest.approx(75.0)
    assert "The sweep pays off after 73 trainings with its best setting." in sentences(sweep)
    repeated = next(column for column in best_columns(sweep) if column.label == "repeats")
    assert repeated.cell(sweep.best_trials[-1]).text == "75.0"


def test_from_five_repeats_on_the_cost_is_that_of_the_verdict() -> None:
    """One slow repeat hardly moves the median of the pairs' means: of 100 (four times) and 200 it is 100."""
    rows = [*TRIALS, *repeats("none", 8, 100, 100, 100, 100, 200), *repeats("inductor", 64, *[70] * 5, multiplier=2.0)]
    sweep = make_sweep(*rows, design=Design(looks=(5,)))
    ratio = sweep.interval_of(sweep.best_trials[-1].setting)
    assert ratio is not None
    assert (sweep.base_cost, ratio.estimate) == (pytest.approx(100.0), pytest.approx(0.7))


def test_the_report_states_the_rules_and_the_looks() -> None:
    rows = [*TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 69, 70, 71, multiplier=2.0)]
    table = pd.DataFrame([{**each, "run_id": f"r{at}"} for at, each in enumerate(rows)])
    source = Source(title="t", tracking_uri="sqlite:///mlflow.db", environment={}, table=table)
    report = sweep_report(make_sweep(*rows, design=Design(looks=(3, 5))), [], source)
    numbers = checked_report("search", report)
    assert (numbers["rules"], numbers["stopped"]) == (4, {"inductor 64 2.0": "cheaper"})
    assert [each["repeats"] for each in numbers["looks"]] == [3]
    assert "; stops: it is cheaper" in page_text(report)
    unrepeated = sweep_report(make_sweep(*TRIALS), [], source)
    assert (summary(unrepeated)["rules"], summary(unrepeated)["looks"]) == (None, [])


def test_a_verdict_from_an_earlier_look_is_explained() -> None:
    """The winner stops after three repeats. The base goes on beside a control, and its later jobs are slower."""
    rows = [
        *TRIALS,
        *repeats("none", 8, 100, 101, 99, 140, 141),
        *repeats("inductor", 64, 60, 61, 59, multiplier=2.0),
        *repeats("inductor", 8, 98, 95, 92, 96, 94),
    ]
    sweep = make_sweep(*rows, design=Design(looks=(3, 5)))
    note = "The verdict on “inductor 64 2.0”, 40 % fewer, rests on other jobs than the table's."
    assert note in sentences(sweep)


def test_equal_rates_have_an_interval_and_several_share_the_error() -> None:
    """The interval of 200 against 100, twice each, reaches 0.004302653 to each side, see `test_intervals`."""
    rows = [
        *(rate_trial("none", 8, 100.0), rate_trial("inductor", 64, 210.0)),
        *(*rate_repeats("none", 8, 100.0, 100.0), *rate_repeats("inductor", 64, 200.0, 200.0)),
    ]
    sweep = make_sweep(*rows, document=RATE)
    ratio = sweep.interval_of(sweep.best_trials[-1].setting)
    assert ratio is not None
    assert math.log(ratio.high / ratio.estimate) == pytest.approx(0.004302653, rel=1e-5)
    control = rate_repeats("inductor", 8, 100.1, 100.1)
    wider = make_sweep(*rows, *control, document=RATE)
    arm = wider.arm_of(Setting("inductor", 8.0))
    assert arm is not None
    shared = wider.interval_of(Setting("inductor", 8.0))
    # 0.1 % more is within the least spread; 2.5 % of the error has t = 6.205347.
    both = wider.interval_of(wider.best_trials[-1].setting)
    assert shared is not None
    assert both is not None
    assert shared.low < 1 < shared.high
    assert math.log(both.high / both.estimate) == pytest.approx(0.006205347, rel=1e-5)


def second(compiler: str, size: float, billed: float, multiplier: float = 1.0, **more: Any) -> dict[str, Any]:
    return row("finalist", compiler, size, billed, multiplier, **more)


def test_both_trainings_of_the_finalists_choose_the_winner() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 90.0), trial("none", 32, 95.0), trial("none", 64, 200.0)]
    sweep = make_sweep(*trials, second("none", 16, 110.0), second("none", 32, 96.0))
    # Geometric means of 90 and 110, 95 and 96: 99.5 and 95.5. The trial of batch 8 was not repeated.
    assert sweep.best is not None
    assert sweep.best.setting.batch_size == 32
    assert [each.setting.batch_size for each in sweep.trials] == [32, 16, 8, 64]
    assert answer_of(sweep)[2][0] == "The trainings that chose it: 95.5 billable seconds to eval_loss 0.45."
    assert sentences(sweep)[0] == (
        "The 2 best settings trained a second time with another seed; both trainings together chose the winner."
    )
    [_, second_line] = sweep.cost_by_role()[:2]
    assert (second_line.what, second_line.jobs, second_line.seconds) == ("finalist", 2, 206.0)
    table = trial_table(sweep, 10)
    column = [heading.label for heading in table.headings].index("second training")
    assert [r.cells[column].text for r in table.rows] == ["96.0", "110", NONE, NONE]


def test_a_finalist_whose_second_training_misses_the_target_does_not_win() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 90.0)]
    missed = second("none", 16, 80.0, target_reached=0.0)
    sweep = make_sweep(*trials, missed, second("none", 8, 101.0))
    assert sweep.best is not None
    assert sweep.best.setting.batch_size == 8
    stopped = make_sweep(
        *trials, second("none", 16, 80.0, status="KILLED", failure_class="Stopped", target_reached=0.0)
    )
    assert stopped.best is not None
    assert stopped.best.setting.batch_size == 16  # that a person stopped a job says nothing about the setting


def test_the_finalists_of_one_compiler_do_not_hide_a_cheaper_other_one() -> None:
    trials = [trial("none", 8, 100.0), trial("none", 16, 105.0), trial("inductor", 8, 60.0)]
    sweep = make_sweep(*trials, second("none", 8, 100.0), second("none", 16, 99.0))
    assert sweep.best is not None
    assert sweep.best.setting.compiler == "inductor"


BASE = (100.0, 101.0, 99.0)
WINNER_AND_BASE = (trial("none", 8, 100.0), trial("inductor", 64, 60.0))


def results(*rows: dict[str, Any], document: dict[str, Any] | None = None) -> dict[str, tuple[str, ...]]:
    fields = {"document": document} if document else {}
    return dict(results_of_winner(make_sweep(*rows, **fields, design=Design(looks=(3,)))))


WINNER = "inductor 64 1.0"


def test_the_winner_is_judged_by_its_repeats() -> None:
    base = repeats("none", 8, *BASE)
    assert results(*WINNER_AND_BASE, *base, *repeats("inductor", 64, 60.0, 61.0, 59.0)) == {}
    dearer = repeats("inductor", 64, 130.0, 131.0, 129.0)
    assert results(*WINNER_AND_BASE, *base, *dearer) == {"dearer": (WINNER,)}
    missing = repeats("inductor", 64, 60.0, 61.0, 59.0, target_reached=0.0)
    assert results(*WINNER_AND_BASE, *base, *missing) == {"worse": (WINNER,)}


def test_the_controls_do_not_count_unless_they_fail() -> None:
    dearer = repeats("inductor", 8, 130.0, 131.0, 129.0)
    winner = [*WINNER_AND_BASE, *repeats("none", 8, *BASE), *repeats("inductor", 64, 60.0, 61.0, 59.0)]
    assert results(*winner, *dearer) == {}
    dearer[0]["status"] = "FAILED"
    assert results(*winner, *dearer) == {"failed": ("inductor 8 1.0",)}


@pytest.mark.parametrize(
    ("rows", "document", "expected"),
    [
        ([trial("none", 8, 1.0, end="not reached")], None, {"inconclusive": ("the sweep",)}),
        (WINNER_AND_BASE, None, {"inconclusive": ("inductor at batch 64",)}),
        ([trial("none", 8, 50.0), trial("inductor", 64, 60.0)], None, {}),
        ([trial("none", 8, 9.0, eval_loss=0.4), trial("none", 16, 8.0)], FRONT, {"inconclusive": ("the sweep",)}),
    ],
    ids=["no winner", "not repeated", "the base wins", "a Pareto front"],
)
def test_sweeps_without_a_verdict(rows: Any, document: Any, expected: dict[str, tuple[str, ...]]) -> None:
    assert results(*rows, document=document) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((150.0, 151.0, 149.0), {}),
        ((100.0, 101.0, 99.0), {"inconclusive": (WINNER,)}),
        ((50.0,) * 3, {"dearer": (WINNER,)}),
    ],
)
def test_a_winner_by_throughput_is_judged_by_its_rate(
    rates: tuple[float, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    trials = (rate_trial("none", 8, 100.0), rate_trial("inductor", 64, 200.0))
    rows = [*trials, *rate_repeats("none", 8, 100.0, 101.0, 99.0), *rate_repeats("inductor", 64, *rates)]
    assert dict(results_of_winner(make_sweep(*rows, document=RATE))) == expected
