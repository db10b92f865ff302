"""A sweep's answer from tables made by hand: which setting is best, how sure that is, what it cost to know."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from tracking.report.sweep import Sweep, is_of_sweep, sweep_of
from tracking.report.sweep_grid import grid_of
from tracking.report.sweep_words import headline, sentences
from tracking.report.trials import Setting, value_at

TO_045 = {"cost": "billable_seconds", "metric": "eval_loss", "higher_is_better": False, "target": 0.45}
BASE = {"compiler": "none", "batch_size": 8, "multiplier": 1}
ASKED: dict[str, Any] = {"objective": TO_045, "base": BASE, "compilers": ["none", "inductor"]}
WITHIN_045 = {**ASKED, "objective": {**TO_045, "target": None, "bound": 0.45}}
FRONT = {**ASKED, "objective": {**TO_045, "target": None, "is_front": True}}
RATE = {**ASKED, "objective": {"cost": "steady_samples_per_second"}}


def row(role: str, compiler: str, size: float, paid: float, multiplier: float = 1.0, **told: Any) -> dict[str, Any]:
    """A job that trained 1,000 samples and reached its target."""
    found = {
        "status": "FINISHED",
        "role": role,
        "compiler": compiler,
        "hp_per_device_batch_size": size,
        "multiplier": f"{multiplier:g}",
        "cost_billable_seconds": paid,
        "cost_billable_instance_seconds": paid,
        "target_reached": 1.0,
        "samples": 1000.0,
        "eval_loss": 0.44,
        "arm": f"{compiler} {size} {multiplier}",
        "instance_type": "local",
        "device": "cpu",
        "data_key": "k",
        "end": "completed" if role == "trial" else None,
        "hp_target_stop": "True",
        "hp_target_metric": "eval_loss",
        "hp_target_value": "0.45",
    }
    return {**found, **told}


def trial(compiler: str, size: float, paid: float, multiplier: float = 1.0, **told: Any) -> dict[str, Any]:
    return row("trial", compiler, size, paid, multiplier, **told)


def repeats(compiler: str, size: float, *paid: float, multiplier: float = 1.0, **told: Any) -> list[dict[str, Any]]:
    baseline = "true" if (compiler, size, multiplier) == ("none", 8, 1.0) else "false"
    return [row("confirmation", compiler, size, each, multiplier, baseline=baseline, **told) for each in paid]


def sweep(*rows: dict[str, Any], told: dict[str, Any] = ASKED, **read: Any) -> Sweep:
    table = pd.DataFrame([{**each, "run_id": f"r{i}"} for i, each in enumerate(rows)])
    return sweep_of(table, "g", told, read.get("calibrations", {}), read.get("curves", {}))


TRIALS = (
    trial("none", 8, 100.0, trial="0"),
    trial("none", 64, 80.0, trial="1"),
    trial("inductor", 64, 62.0, 2.0, trial="2"),
    trial("inductor", 128, 70.0, trial="3"),
)
REPEATS = (
    *repeats("none", 8, 100.0, 101.0, 99.0),
    *repeats("inductor", 8, 88.0, 89.0, 87.0),
    *repeats("none", 64, 80.0, 81.0, 79.0),
    *repeats("inductor", 64, 69.0, 70.0, 68.0, multiplier=2.0),
)


def test_the_best_is_told_with_the_interval_of_its_repeats() -> None:
    """69 over 100 is 31 % fewer; the trial's own 62 is not told."""
    told = sweep(*TRIALS, *REPEATS)
    assert headline(told) == (
        "inductor at batch 64, rate x 2, reaches eval_loss 0.45 for 31 % fewer billable seconds than none at batch 8 "
        "(95 % interval 29 to 33 %, n = 3)."
    )
    assert [str(each.setting) for each in told.best_trials] == ["none at batch 64", "inductor at batch 64, rate x 2"]
    assert "not of the 4 trials that it was chosen from" in sentences(told)[0]


def test_compiler_and_batch_apart() -> None:
    told = sweep(*TRIALS, *REPEATS)
    ratios = {(c.setting.compiler, c.setting.batch_size): c.ratio.estimate if c.ratio else None for c in told.cells}
    expected = {("none", 8.0): None, ("none", 64.0): 0.8, ("inductor", 8.0): 0.88, ("inductor", 64.0): 0.69}
    assert ratios == pytest.approx(expected, abs=1e-3)
    assert (
        "Against none at batch 8: the batch alone 20 % fewer; the compiler alone 12 % fewer; both 31 % fewer billable "
        "seconds." in sentences(told)
    )


def test_what_was_not_repeated_is_told_as_such() -> None:
    told = sweep(*TRIALS)
    assert headline(told).endswith("38 % fewer billable seconds than none at batch 8, as far as one job of each tells.")
    assert sentences(told)[0].startswith("It was not repeated.")


def test_a_best_that_its_repeats_do_not_confirm() -> None:
    told = sweep(
        *TRIALS, *repeats("none", 8, 100.0, 101.0, 99.0), *repeats("inductor", 64, 99, 103, 97, multiplier=2.0)
    )
    assert headline(told).startswith(
        "inductor at batch 64, rate x 2, is the best of 4 trials but is not shown to be cheaper than none at batch 8: "
    )
    worse = sweep(*TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 120, 121, 119, multiplier=2.0))
    assert "but is shown not to be cheaper than none at batch 8: 20 % more (95 %" in headline(worse)


def test_a_best_that_does_not_always_reach_the_target() -> None:
    missed = repeats("inductor", 64, 50.0, 51.0, multiplier=2.0)
    missed[0]["target_reached"] = 0.0
    told = sweep(*TRIALS, *repeats("none", 8, 100.0, 101.0), *missed)
    assert headline(told).startswith(
        "inductor at batch 64, rate x 2 is the best of 4 trials, but not reliably: 1 of 2 "
    )


def test_ranks_and_ends_in_words() -> None:
    ended = (
        trial("none", 8, 50.0, end="not reached", target_reached=0.0, trial="7"),
        trial("none", 16, 10.0, end="pruned: its bill is above the cheapest", status="KILLED", trial="1"),
        trial("none", 64, 5.0, end="failed: OutOfMemory", status="FAILED", trial="2"),
        trial("none", 32, 90.0, trial="3"),
        trial("none", 32, 80.0, 2.0, trial="4"),
        trial("none", 32, math.nan, 4.0, end=None, status="RUNNING", trial="5"),
    )
    told = sweep(*ended)
    assert [(t.number, t.kind) for t in told.trials] == [
        (4, "completed"),
        (3, "completed"),
        (7, "not reached"),
        (1, "pruned"),
        (2, "failed"),
        (5, "running"),
    ]
    assert {s.what: (s.jobs, s.seconds) for s in told.spent_on_trials()} == {
        "completed": (2, 170.0),
        "not reached": (1, 50.0),
        "pruned": (1, 10.0),
        "failed": (1, 5.0),
        "running": (1, 0.0),
    }


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "FINISHED", "target_reached": 0.0}, ("not reached", "not reached")),
        ({"status": "FAILED", "failure_class": "Killed"}, ("failed", "failed: Killed")),
        ({"status": "KILLED"}, ("failed", "failed: killed")),
        ({"status": "RUNNING"}, ("running", "running")),
    ],
)
def test_a_trial_without_an_end_has_that_of_its_run(told: dict[str, Any], expected: tuple[str, str]) -> None:
    found = sweep(trial("none", 8, 10.0, end=None) | told).trials[0]
    assert (found.kind, found.end) == expected


def test_within_a_bound_the_cheapest_that_is_good_enough() -> None:
    told = sweep(
        trial("none", 8, 100.0, eval_loss=0.40, hp_target_stop=None),
        trial("none", 64, 50.0, eval_loss=0.50, hp_target_stop=None),
        trial("inductor", 32, 80.0, eval_loss=0.45, hp_target_stop=None),
        told=WITHIN_045,
    )
    assert headline(told).startswith(
        "inductor at batch 32 takes 20 % fewer billable seconds than none at batch 8, with eval_loss at most 0.45, as"
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
    assert headline(told) == (
        "2 of 3 settings are beaten by none in both cost and eval_loss: from none at batch 32 (80.0 billable seconds, "
        "eval_loss 0.450) to none at batch 8 (100 billable seconds, eval_loss 0.400)."
    )


def test_the_fastest_in_steady_training() -> None:
    told = sweep(
        trial("none", 8, 100.0, throughput_steady_samples_per_second=100.0),
        trial("inductor", 64, 100.0, throughput_steady_samples_per_second=150.0),
        told=RATE,
    )
    assert headline(told).startswith("inductor at batch 64 trains 50 % more samples/s than none at batch 8, as far as")


def test_the_base_setting_may_be_the_best() -> None:
    told = sweep(trial("none", 8, 50.0), trial("inductor", 8, 60.0))
    assert headline(told) == (
        "Nothing that was tried is better than none at batch 8, the setting to begin with: 50.0 billable seconds."
    )


def test_what_the_grid_would_have_cost_by_hand() -> None:
    """Batches 8 and 16 at rates 1 and 2. A step takes 0.1 s and 0.01 s a sample: 0.0225 s a sample at 8, 0.01625 at 16.
    (8, 1) billed 32.5 s for 1,000 samples, 10 of them beside its steps; (16, 1) likewise 26.25. (8, 2) was stopped and
    is taken to need what (8, 1) did, 1,000 samples: 32.5 s; (16, 2) 26.25: 117.5 s in all."""
    model = {"step_seconds_fixed": 0.1, "step_seconds_per_sample": 0.01, "relative_error": 0.1}
    told = sweep(
        row("calibration", "none", 8, 5.0),
        trial("none", 8, 32.5),
        trial("none", 16, 26.25),
        trial("none", 8, 4.0, 2.0, end="pruned: behind", samples=100.0),
        told={**ASKED, "compilers": ["none"], "batch_sizes": [8, 16], "multipliers": [1, 2], "models": {"none": model}},
    )
    grid = grid_of(told)
    assert grid is not None
    assert (grid.settings, grid.trained, grid.seconds) == (4, 2, pytest.approx(117.5))
    # 5 + 32.5 + 26.25 + 4 = 67.75, which is 57.7 % of it.
    assert (
        "Until its choice it took 57.7 % of the 118 s that all 4 settings are predicted to take (2 of them were "
        "trained to their end)." in sentences(told)
    )


def test_without_a_model_nothing_is_said_of_the_grid() -> None:
    assert grid_of(sweep(*TRIALS, told={**ASKED, "batch_sizes": [8, 64], "multipliers": [1]})) is None


def test_what_the_sweep_cost_is_earned_back() -> None:
    """All jobs took 312 s, the best saves 38 s a training: after 9."""
    assert "It is earned back after 9 trainings with its choice." in sentences(sweep(*TRIALS))


def test_a_calibration_is_read_by_its_batch_sizes() -> None:
    points = pd.DataFrame(
        [(8, "calibration/fits", 1.0), (8, "calibration/step_seconds", 0.1), (16, "calibration/fits", 0.0)],
        columns=["step", "key", "value"],
    )
    told = sweep(row("calibration", "none", math.nan, 40.0), calibrations={"r0": points})
    assert (told.calibrations[0].largest, told.calibrations[0].too_large) == (8.0, (16.0,))
    assert headline(told) == "No trial yet: none fits batches up to 8."


@pytest.mark.parametrize(
    ("samples", "value"), [(100, 2.0), (150, 1.5), (96, 2.0), (80, math.nan), (208, 1.0), (300, math.nan)]
)
def test_a_curve_between_its_points(samples: float, value: float) -> None:
    curve = pd.DataFrame({"samples": [100.0, 200.0, math.nan], "value": [2.0, 1.0, 0.0]})
    assert value_at(curve, "eval_loss", samples) == pytest.approx(value, nan_ok=True)


def test_qualities_are_compared_after_the_samples_that_all_have_seen() -> None:
    curve = pd.DataFrame({"samples": [500.0, 1000.0, 2000.0], "value": [0.6, 0.5, 0.4]})
    rows = trial("none", 8, 1.0, samples=2000.0), trial("none", 16, 1.0, samples=1500.0)
    told = sweep(*rows, curves={"r0": curve, "r1": curve})
    assert told.at_common_samples == {"r0": pytest.approx(0.45), "r1": pytest.approx(0.45)}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "This sweep holds no jobs."),
        ([trial("none", 8, 1.0, end=None, status="RUNNING")], "No answer yet: 1 of 1 trial still runs"),
        ([trial("none", 8, 1.0, end="failed: Error", status="FAILED")], "No answer: none of 1 trial came to its end."),
        ([trial("none", 8, 1.0, end="not reached")], "No answer: none of 1 trial reached eval_loss 0.45."),
        ([trial("none", 8, math.nan)], "No answer: none of 1 trial came to its end."),
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
    assert headline(told).startswith("inductor at batch 64, rate x 2, ")
    assert told.base == Setting("none", 8.0)
    assert sentences(told)


def test_a_table_without_roles_is_no_sweep() -> None:
    assert not is_of_sweep(pd.DataFrame({"run_id": ["r"]}))
    assert is_of_sweep(pd.DataFrame({"role": [None, "trial"]}))


def test_without_a_question_the_target_is_that_of_the_jobs() -> None:
    told = sweep(*TRIALS, told={}).asked
    assert (told.metric, told.target) == ("eval_loss", 0.45)


def test_another_setting_that_comes_out_better_in_the_repeats_is_told() -> None:
    again = [*repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 69, 70, 68, multiplier=2.0)]
    told = sweep(*TRIALS, *again, *repeats("inductor", 128, 60, 61, 59))
    assert "In the repeats inductor at batch 128 came out better: 60.0 against 69.0." in sentences(told)
