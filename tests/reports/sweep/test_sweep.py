"""A sweep's answer from tables made by hand: which setting is best, and how sure that is."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from reports.sweep.factorial import factorial_cells
from reports.sweep.headline import headline
from reports.sweep.messages import sentences
from reports.sweep.sweep import is_sweep_table
from reports.sweep.tables import best_columns
from reports.sweep.trials import Setting
from tests.support.reports.sweep_tables import FRONT, RATE, WITHIN_045, repeats, sweep, trial

TRIALS = (
    trial("none", 8, 100.0, trial="0"),
    trial("none", 64, 80.0, trial="1"),
    trial("inductor", 64, 62.0, 2.0, trial="2"),
    trial("inductor", 128, 70.0, trial="3"),
)
REPEATS = (
    *repeats("none", 8, 100.0, 101.0, 99.0),
    *repeats("inductor", 8, 88.0, 89.0, 87.0),
    *repeats("none", 64, 80.0, 81.0, 79.0, multiplier=2.0),
    *repeats("inductor", 64, 69.0, 70.0, 68.0, multiplier=2.0),
)


def test_the_best_is_told_with_the_interval_of_its_repeats() -> None:
    """69 over 100 is 31 % fewer; the trial's own 62 is not told."""
    told = sweep(*TRIALS, *REPEATS)
    assert headline(told) == (
        "inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 31 % fewer billable seconds than none at batch 8 "
        "(95 % interval 29 to 33 %, n = 3)."
    )
    assert [str(each.setting) for each in told.best_trials] == ["none at batch 64", "inductor at batch 64, rate × 2"]
    assert "not from the 4 trials among which this setting was chosen" in sentences(told)[0]


def test_compiler_and_batch_apart() -> None:
    told = sweep(*TRIALS, *REPEATS)
    ratios = {
        (c.setting.compiler, c.setting.batch_size): c.ratio.estimate if c.ratio else None for c in factorial_cells(told)
    }
    expected = {("none", 8.0): None, ("none", 64.0): 0.8, ("inductor", 8.0): 0.88, ("inductor", 64.0): 0.69}
    assert ratios == pytest.approx(expected, abs=1e-3)
    assert (
        "Against none at batch 8: the batch and the rate alone 20 % fewer; the compiler alone 12 % fewer; both 31 % "
        "fewer billable seconds." in sentences(told)
    )


def test_what_was_not_repeated_is_told_as_such() -> None:
    told = sweep(*TRIALS)
    assert headline(told).endswith("38 % fewer billable seconds than none at batch 8, based on one job of each.")
    assert sentences(told)[0].startswith("It was not repeated.")


def test_a_best_that_its_repeats_do_not_confirm() -> None:
    told = sweep(
        *TRIALS, *repeats("none", 8, 100.0, 101.0, 99.0), *repeats("inductor", 64, 99, 103, 97, multiplier=2.0)
    )
    assert headline(told).startswith(
        "inductor at batch 64, rate × 2, is the best of 4 trials but is not shown to be cheaper than none at batch 8: "
    )
    worse = sweep(*TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 120, 121, 119, multiplier=2.0))
    assert "but is shown not to be cheaper than none at batch 8: 20 % more (95 %" in headline(worse)


def test_a_saving_that_is_not_shown_earns_nothing_back() -> None:
    noisy = (*repeats("none", 8, 100.0, 101.0), *repeats("inductor", 64, 50.0, 150.0, multiplier=2.0))
    told = sweep(*TRIALS, *noisy)
    assert "is not shown to be cheaper than none at batch 8: 14 % fewer (95 % interval 100 % fewer to" in headline(told)
    assert not any("pays off" in sentence for sentence in sentences(told))


def test_a_best_that_does_not_always_reach_the_target() -> None:
    missed = repeats("inductor", 64, 50.0, 51.0, multiplier=2.0)
    missed[0]["target_reached"] = 0.0
    told = sweep(*TRIALS, *repeats("none", 8, 100.0, 101.0), *missed)
    assert headline(told).startswith(
        "inductor at batch 64, rate × 2 is the best of 4 trials, but not reliably: 1 of 2 "
    )
    assert sentences(told)[0] == "The best setting that succeeded in every repeat is none at batch 8: 100 s."
    against = next(column for column in best_columns(told) if column.label == "against the base")
    assert [against.detail(each) for each in told.best_trials] == ["not repeated", "1 of 2 missed it"]


def test_a_best_that_is_the_base_itself_was_repeated_as_the_control() -> None:
    told = sweep(trial("none", 8, 100.0), *repeats("none", 8, 100.0, 101.0), *repeats("none", 64, 110.0, 111.0))
    assert not any("not repeated" in sentence for sentence in sentences(told))


def test_within_a_bound_the_cheapest_that_is_good_enough() -> None:
    told = sweep(
        trial("none", 8, 100.0, eval_loss=0.40, hp_target_stop=None),
        trial("none", 64, 50.0, eval_loss=0.50, hp_target_stop=None),
        trial("inductor", 32, 80.0, eval_loss=0.45, hp_target_stop=None),
        told=WITHIN_045,
    )
    assert headline(told) == (
        "inductor at batch 32 takes 20 % fewer billable seconds than none at batch 8, with eval_loss at most 0.45, "
        "based on one job of each."
    )
    assert [t.end for t in told.trials] == ["completed", "completed", "worse than eval_loss 0.45"]
    nothing = sweep(trial("none", 64, 50.0, eval_loss=0.50), told=WITHIN_045)
    assert headline(nothing) == "No answer: every trial that completed is worse than eval_loss 0.45."


def test_a_front_of_cost_and_quality() -> None:
    """(100 s, 0.40) and (80 s, 0.45) are each better in one thing; (90 s, 0.50) is worse than the latter in both."""
    told = sweep(
        trial("none", 8, 100.0, eval_loss=0.40),
        trial("none", 16, 90.0, eval_loss=0.50),
        trial("none", 32, 80.0, eval_loss=0.45),
        told=FRONT,
    )
    assert [t.cost for t in told.front] == [80.0, 100.0]
    assert told.best_trials == told.front
    assert headline(told) == (
        "2 of 3 settings are beaten by no other in both cost and eval_loss: from none at batch 32 (80.0 billable "
        "seconds, eval_loss 0.450) to none at batch 8 (100 billable seconds, eval_loss 0.400)."
    )


def test_the_fastest_in_steady_training() -> None:
    told = sweep(
        trial("none", 8, 100.0, throughput_steady_samples_per_second=100.0),
        trial("inductor", 64, 100.0, throughput_steady_samples_per_second=150.0),
        told=RATE,
    )
    assert headline(told).startswith("inductor at batch 64 trains 50 % more samples/s than none at batch 8, based on")


def test_the_base_setting_may_be_the_best() -> None:
    told = sweep(trial("none", 8, 50.0), trial("inductor", 8, 60.0))
    assert headline(told) == (
        "Nothing tried is better than none at batch 8, the starting setting: 50.0 billable seconds."
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "This sweep holds no jobs."),
        ([trial("none", 8, 1.0, end=None, status="RUNNING")], "No answer yet: 1 of 1 trial still runs"),
        (
            [trial("none", 8, 1.0, end="failed: Error", status="FAILED")],
            "No answer: none of 1 trial completed with a known cost.",
        ),
        ([trial("none", 8, 1.0, end="not reached")], "No answer: none of 1 trial reached eval_loss 0.45."),
        ([trial("none", 8, math.nan)], "No answer: none of 1 trial completed with a known cost."),
        ([trial("inductor", 8, 9.0)], "inductor at batch 8 is the best of 1 trial: 9.00 billable seconds to eval_loss"),
        ([trial("none", math.nan, 1.0)], "none is the best of 1 trial: 1.00 billable seconds to eval_loss 0.45."),
    ],
)
def test_little_is_told_as_little(rows: list[dict[str, Any]], expected: str) -> None:
    told = sweep(*rows)
    assert headline(told).startswith(expected)
    assert all(sentences(told))


@pytest.mark.parametrize("broken", [{}, {"objective": None, "base": 3, "models": {"none": "x"}, "batch_sizes": "8"}])
def test_a_broken_or_missing_question_is_no_error(broken: dict[str, Any]) -> None:
    told = sweep(*TRIALS, *REPEATS, told=broken)
    assert headline(told).startswith("inductor at batch 64, rate × 2, ")
    assert told.base == Setting("none", 8.0)
    assert sentences(told)


def test_a_table_without_roles_is_no_sweep() -> None:
    assert not is_sweep_table(pd.DataFrame({"run_id": ["r"]}))
    assert is_sweep_table(pd.DataFrame({"role": [None, "trial"]}))


def test_without_a_question_the_target_is_that_of_the_jobs() -> None:
    told = sweep(*TRIALS, told={}).spec
    assert (told.metric, told.target) == ("eval_loss", 0.45)


def test_another_setting_that_comes_out_better_in_the_repeats_is_told() -> None:
    again = [*repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 69, 70, 68, multiplier=2.0)]
    told = sweep(*TRIALS, *again, *repeats("inductor", 128, 60, 61, 59))
    assert "In the repeats, inductor at batch 128 was better: 60.0 s against 69.0 s." in sentences(told)


def test_a_winner_of_the_base_compiler_is_squared_with_the_next_compiler() -> None:
    told = sweep(
        *(trial("none", 8, 100.0), trial("none", 32, 50.0), trial("inductor", 16, 60.0)),
        *(*repeats("none", 8, 100, 101), *repeats("none", 32, 50, 51), *repeats("inductor", 8, 90, 91)),
        *(*repeats("inductor", 32, 55, 56), *repeats("inductor", 16, 60, 61)),
    )
    assert [str(cell.setting) for cell in factorial_cells(told)] == [
        *("none at batch 8", "none at batch 32", "inductor at batch 8", "inductor at batch 32")
    ]
    assert factorial_cells(sweep(trial("none", 8, 1.0), *repeats("none", 8, 1.0, 2.0))) == ()


def test_a_rate_is_confirmed_by_the_rates_of_the_repeats() -> None:
    """200 over 100 samples/s is twice as much, whatever the jobs billed."""
    rows = [
        trial("none", 8, 100.0, throughput_steady_samples_per_second=100.0),
        trial("inductor", 64, 100.0, throughput_steady_samples_per_second=210.0),
    ]
    for compiler, size, rates in (("none", 8, (99.0, 101.0)), ("inductor", 64, (199.0, 201.0))):
        rows += [
            repeats(compiler, size, 100.0, throughput_steady_samples_per_second=rate, hp_target_stop=None)[0]
            for rate in rates
        ]
    assert headline(sweep(*rows, told=RATE)).startswith(
        "inductor at batch 64 trains 100 % more samples/s than none at batch 8 (95 % interval 87 to"
    )


def test_a_base_whose_repeats_failed_leaves_the_trials_word() -> None:
    failed = repeats("none", 8, 5.0, 5.0, status="FAILED")
    told = sweep(*TRIALS, *failed, *repeats("inductor", 64, 69.0, 70.0, multiplier=2.0))
    assert headline(told).endswith("38 % fewer billable seconds than none at batch 8, based on one job of each.")


def test_jobs_that_cannot_be_compared_have_no_verdict() -> None:
    other = repeats("inductor", 64, 69.0, 70.0, multiplier=2.0, device="gpu")
    told = sweep(*TRIALS, *repeats("none", 8, 100.0, 101.0), *other)
    assert headline(told) == (
        "No verdict on inductor at batch 64, rate × 2, the best of 4 trials: the device differs (cpu, gpu)."
    )


def test_a_trial_that_failed_before_its_job_said_anything_is_known_by_its_tag() -> None:
    told = sweep(trial("none", math.nan, 1.0, batch_size="32", status="FAILED", end="failed: Capacity"))
    assert told.trials[0].setting == Setting("none", 32.0)
