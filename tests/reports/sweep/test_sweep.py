"""Test a sweep's answer on hand-made tables: the best setting and its certainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from judging.design import Design
from reports.sweep.messages import answer_of, headline, sentences
from reports.sweep.report import best_columns
from reports.sweep.sweep import Sweep, factorial_settings
from reports.sweep.trials import Setting
from tests.support.reports.sweep_tables import (
    FRONT,
    RATE,
    WITHIN_045,
    make_sweep,
    rate_repeats,
    rate_trial,
    repeats,
    trial,
)

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


def answer(sweep: Sweep) -> list[str]:
    """Return the headline and the lines below it."""
    sentence, _, lines = answer_of(sweep)
    return [sentence, *lines]


def test_the_best_setting_has_the_interval_of_its_repeats() -> None:
    """69 against 100 is 31 % fewer; the trial's own 62 s is not used."""
    sweep = make_sweep(*TRIALS, *REPEATS)
    assert answer(sweep) == [
        "inductor at batch 64, rate × 2, costs 31 % less than none at batch 8.",
        "inductor at batch 64, rate × 2, reaches eval_loss 0.45 for 31 % fewer billable seconds than none at batch 8 "
        "(95 % interval 28 % to 34 % fewer, n = 3).",
    ]
    assert [str(each.setting) for each in sweep.best_trials] == ["none at batch 64", "inductor at batch 64, rate × 2"]


def best_of_both(winner: Sequence[float], other: Sequence[float], *more: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the repeats of the base, of the winner and of the other compiler's best setting, in waves."""
    rows = [*TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, *winner, multiplier=2.0)]
    return [*rows, *repeats("none", 64, *other), *more]


def test_the_compilers_are_compared_by_the_repeats_of_their_best_settings() -> None:
    """69.99 over 85.0 (geometric means) is 18 % less. The trials' own 62 and 80 s are not used."""
    shown = make_sweep(*best_of_both((69, 70, 71), (84, 85, 86)), design=Design())
    assert answer(shown)[2] == (
        "inductor at batch 64, rate × 2 against none at batch 64, the best of each compiler: cheaper, "
        "18 % fewer billable seconds (95 % interval 15 % to 21 % fewer, n = 3)."
    )
    open_ = make_sweep(*best_of_both((69, 70, 71), (69, 71, 73)), design=Design(looks=(3,)))
    assert answer(open_)[2].startswith(
        "inductor at batch 64, rate × 2 against none at batch 64, the best of each compiler: no verdict, 1.4 % fewer "
    )
    assert [each.best and each.best.setting.compiler for each in (shown, open_)] == ["inductor", "inductor"]


def test_a_compiler_that_the_repeats_show_to_be_cheaper_replaces_the_winner_of_the_trials() -> None:
    """The trial of 62 s was lucky: its repeats cost 90 s, and the other compiler's best setting 75 s."""
    sweep = make_sweep(*best_of_both((89, 90, 91), (74, 75, 76)), design=Design())
    assert sweep.best is not None
    assert str(sweep.best.setting) == "none at batch 64"
    assert answer(sweep) == [
        "none at batch 64 costs 25 % less than none at batch 8.",
        "none at batch 64 reaches eval_loss 0.45 for 25 % fewer billable seconds than none at batch 8 "
        "(95 % interval 22 % to 28 % fewer, n = 3).",
        "inductor at batch 64, rate × 2 against none at batch 64, the best of each compiler: dearer, "
        "20 % more billable seconds (95 % interval 16 % to 24 % more, n = 3).",
    ]


def test_the_base_is_not_the_best_if_repeats_show_another_compiler_to_be_cheaper() -> None:
    trials = [trial("none", 8, 60.0), trial("inductor", 16, 70.0)]
    lucky = [*repeats("none", 8, 100, 101, 99), *repeats("inductor", 16, 69, 70, 71)]
    assert headline(make_sweep(*trials, *lucky, design=Design())) == (
        "inductor at batch 16 costs 30 % less than none at batch 8."
    )
    kept = [*repeats("none", 8, 60, 61, 59), *repeats("inductor", 16, 69, 70, 71)]
    assert answer(make_sweep(*trials, *kept, design=Design())) == [
        "The starting setting, none at batch 8, remains the best.",
        "Its repeats: 60.0 billable seconds to eval_loss 0.45.",
        "inductor at batch 16 against none at batch 8, the best of each compiler: dearer, 17 % more billable seconds "
        "(95 % interval 12 % to 22 % more, n = 3).",
    ]


def test_several_compilers_share_the_error() -> None:
    """With two other compilers, each pair has half of the error, so the interval of the same repeats is wider."""
    third = [trial("trcomp", 64, 79.0), *repeats("trcomp", 64, 84, 85, 86)]
    one, two = (
        make_sweep(*best_of_both((69, 70, 71), (84, 85, 86), *more), design=Design()).pairs for more in ([], third)
    )
    assert [*map(str, two)] == ["none at batch 64", "trcomp at batch 64"]
    first, second = (pairs[Setting("none", 64.0)].verdict.ratio for pairs in (one, two))
    assert first is not None
    assert second is not None
    assert second.low < first.low < first.high < second.high


def test_a_long_headline_is_shortened() -> None:
    """The name of the setting alone has 67 characters."""
    options = "inductor compile_mode=max-autotune-no-cudagraphs"
    long = {"compiler": "inductor", "compiler_setting": options, "multiplier": "0.353553"}
    rows = [trial("none", 8, 100.0), *repeats("none", 8, 100, 101, 99), {**trial("", 128, 70.0), **long}]
    sweep = make_sweep(*rows, *({**row, **long} for row in repeats("long", 128, 70, 71, 69)))
    assert headline(sweep) == f"{options[:39]}… costs 30 % less than none at batch 8."
    assert answer(sweep)[1].startswith(f"{options} at batch 128, rate × 0.354, reaches eval_loss 0.45 for 30 % fewer ")


def test_a_best_setting_without_repeats_is_marked() -> None:
    assert answer(make_sweep(*TRIALS)) == [
        "inductor at batch 64, rate × 2 is the best of 4 trials, without a verdict.",
        "The trainings that chose it: 62.0 billable seconds to eval_loss 0.45.",
        "It is not compared with none at batch 8: both need repeats, because the best of many trials is partly the "
        "luckiest one.",
    ]


def test_a_best_setting_that_its_repeats_do_not_confirm() -> None:
    sweep = make_sweep(
        *TRIALS, *repeats("none", 8, 100.0, 101.0, 99.0), *repeats("inductor", 64, 99, 103, 97, multiplier=2.0)
    )
    assert headline(sweep) == "inductor at batch 64, rate × 2, is not shown to be cheaper than none at batch 8."
    assert answer(sweep)[1].startswith(
        "inductor at batch 64, rate × 2, is the best of 4 trials but is not shown to be cheaper than none at batch 8: "
    )
    worse = make_sweep(
        *TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 120, 121, 119, multiplier=2.0)
    )
    assert headline(worse) == "inductor at batch 64, rate × 2, is shown not to be cheaper than none at batch 8."
    assert "but is shown not to be cheaper than none at batch 8: 20 % more (95 %" in answer(worse)[1]


def test_what_is_odd_in_the_data_is_said_once() -> None:
    noted = [{**each, "data_notes": "two labels mean no label"} for each in repeats("none", 8, 100.0, 101.0)]
    assert sentences(make_sweep(*TRIALS, *noted)).count("Data: two labels mean no label.") == 1


def test_an_unproven_saving_does_not_pay_off() -> None:
    noisy = (*repeats("none", 8, 100.0, 101.0), *repeats("inductor", 64, 50.0, 150.0, multiplier=2.0))
    sweep = make_sweep(*TRIALS, *noisy)
    assert "is not shown to be cheaper than none at batch 8: 14 % fewer (too few repeats, n = 2)" in answer(sweep)[1]
    assert not any("pays off" in sentence for sentence in sentences(sweep))


def test_a_best_setting_whose_repeats_miss_the_target_is_unreliable() -> None:
    missed = repeats("inductor", 64, 50.0, 51.0, multiplier=2.0)
    missed[0]["target_reached"] = 0.0
    sweep = make_sweep(*TRIALS, *repeats("none", 8, 100.0, 101.0), *missed)
    assert headline(sweep) == "inductor at batch 64, rate × 2 is the best of 4 trials, but not reliably."
    assert answer(sweep)[2].startswith("It is not compared with none at batch 8: 1 of 2 ")
    assert sentences(sweep)[0] == "The best setting that succeeded in every repeat is none at batch 8: 100 s."
    against = next(column for column in best_columns(sweep) if column.label == "against the base")
    assert [against.cell(each).detail for each in sweep.best_trials] == ["not repeated", "1 of 2 missed the target"]


def test_within_a_bound_the_cheapest_acceptable_setting_wins() -> None:
    sweep = make_sweep(
        trial("none", 8, 100.0, eval_loss=0.40, hp_target_stop=None),
        trial("none", 64, 50.0, eval_loss=0.50, hp_target_stop=None),
        trial("inductor", 32, 80.0, eval_loss=0.45, hp_target_stop=None),
        document=WITHIN_045,
    )
    assert answer(sweep)[:2] == [
        "inductor at batch 32 is the best of 3 trials, without a verdict.",
        "The trainings that chose it: 80.0 billable seconds.",
    ]
    assert [t.end for t in sweep.trials] == ["completed", "completed", "worse than eval_loss 0.45"]
    all_worse = make_sweep(trial("none", 64, 50.0, eval_loss=0.50), document=WITHIN_045)
    assert headline(all_worse) == "No answer: every trial that completed is worse than eval_loss 0.45."


def test_a_pareto_front_of_cost_and_quality() -> None:
    """(100 s, 0.40) and (80 s, 0.45) are each better in one objective; (80 s, 0.45) beats (90 s, 0.50) in both."""
    sweep = make_sweep(
        trial("none", 8, 100.0, eval_loss=0.40),
        trial("none", 16, 90.0, eval_loss=0.50),
        trial("none", 32, 80.0, eval_loss=0.45),
        document=FRONT,
    )
    assert [t.cost for t in sweep.front] == [80.0, 100.0]
    assert sweep.best_trials == sweep.front
    assert answer(sweep) == [
        "There are 2 Pareto-optimal settings in cost and eval_loss.",
        "2 of 3 settings are Pareto-optimal, by one training each: from none at batch 32 (80.0 billable "
        "seconds, eval_loss 0.450) to none at batch 8 (100 billable seconds, eval_loss 0.400).",
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "This sweep has no jobs."),
        ([trial("none", 8, 1.0, end=None, status="RUNNING")], "No answer yet: 1 of 1 trial is still running"),
        (
            [trial("none", 8, 1.0, end="failed: Error", status="FAILED")],
            "No answer: none of 1 trial completed with a known cost.",
        ),
        ([trial("none", 8, 1.0, end="not reached")], "No answer: none of 1 trial reached eval_loss 0.45."),
    ],
)
def test_headlines_of_incomplete_sweeps(rows: list[dict[str, Any]], expected: str) -> None:
    sweep = make_sweep(*rows)
    assert headline(sweep).startswith(expected)
    assert all(sentences(sweep))


def test_without_a_spec_the_base_comes_from_the_jobs() -> None:
    sweep = make_sweep(*TRIALS, *REPEATS, document={})
    assert sweep.base == Setting("none", 8.0)
    assert headline(sweep).startswith("inductor at batch 64, rate × 2, ")
    assert sentences(sweep)


def test_the_factorial_of_a_base_compiler_winner_uses_the_next_compiler() -> None:
    sweep = make_sweep(
        *(trial("none", 8, 100.0), trial("none", 32, 50.0), trial("inductor", 16, 60.0)),
        *(*repeats("none", 8, 100, 101), *repeats("none", 32, 50, 51), *repeats("inductor", 8, 90, 91)),
        *(*repeats("inductor", 32, 55, 56), *repeats("inductor", 16, 60, 61)),
    )
    assert [str(setting) for setting in factorial_settings(sweep)] == [
        *("none at batch 8", "none at batch 32", "inductor at batch 8", "inductor at batch 32")
    ]
    assert factorial_settings(make_sweep(trial("none", 8, 1.0), *repeats("none", 8, 1.0, 2.0))) == []


def test_a_rate_is_confirmed_by_the_rates_of_the_repeats() -> None:
    """200 over 100 samples/s is twice as much, whatever the jobs billed, and 33 % more than 150."""
    trials = [rate_trial("none", 8, 100.0), rate_trial("none", 16, 150.0), rate_trial("inductor", 64, 210.0)]
    again = [*rate_repeats("none", 8, 99.0, 101.0), *rate_repeats("inductor", 64, 199.0, 201.0)]
    sentence, *lines = answer(make_sweep(*trials, *again, *rate_repeats("none", 16, 149.0, 151.0), document=RATE))
    assert sentence == "inductor at batch 64 is 100 % faster than none at batch 8."
    assert lines[0].startswith("inductor at batch 64 trains 100 % more samples/s than none at batch 8 (95 % interval ")
    assert lines[1].startswith("inductor at batch 64 against none at batch 16, the best of each compiler: faster, 33 %")


def test_repeats_in_waves_are_judged_by_their_looks() -> None:
    design = Design(looks=(3, 5))
    rows = [*TRIALS, *repeats("none", 8, 100, 101, 99), *repeats("inductor", 64, 69, 70, 71, multiplier=2.0)]
    sweep = make_sweep(*rows, design=design)
    assert sweep.confirmation is not None
    assert sweep.confirmation.progress is not None
    assert dict(sweep.confirmation.progress.stopped) == {"inductor 64 2.0": "cheaper"}
    assert "reaches eval_loss 0.45 for 30 % fewer billable seconds than none at batch 8 (95 %" in answer(sweep)[1]
    ratio = sweep.interval_of(sweep.best_trials[-1].setting)
    assert ratio is not None
    assert ratio.estimate == pytest.approx(0.7, rel=1e-3)
    # Two looks share the error, so the interval is wider than that of the three repeats alone.
    alone = make_sweep(*rows).interval_of(sweep.best_trials[-1].setting)
    assert alone is not None
    assert ratio.low < alone.low < alone.high < ratio.high
    # 12 s of the best trial do not decide: all jobs took 822 s, and the repeats save 30 s.
    saved = "The sweep pays off after 28 trainings with its best setting."
    assert saved in sentences(sweep)


def test_the_spread_of_samples_between_seeds_widens_the_interval() -> None:
    """Both settings cost 0.1 s a sample. Seeds need 700, 1,000 and 1,300 samples in the mean to the target."""
    narrow = [*TRIALS, *repeats("none", 8, 99, 100, 101), *repeats("inductor", 64, 69, 70, 71, multiplier=2.0)]
    wide = [*TRIALS, *repeats("none", 8, 70, 100, 130), *repeats("inductor", 64, 49, 70, 91, multiplier=2.0)]
    outcomes = []
    for rows in (narrow, wide):
        contrast = make_sweep(*rows, design=Design()).contrast_of(Setting("inductor", 64, 2.0))
        assert contrast is not None
        outcomes.append(contrast.verdict.outcome)
    assert outcomes == ["cheaper", "inconclusive"]


def test_jobs_that_cannot_be_compared_have_no_verdict() -> None:
    other = repeats("inductor", 64, 69.0, 70.0, multiplier=2.0, device="gpu")
    sweep = make_sweep(*TRIALS, *repeats("none", 8, 100.0, 101.0), *other)
    assert answer(sweep) == [
        "No verdict on the best of 4 trials: its repeats are not comparable.",
        "inductor at batch 64, rate × 2, is the best of 4 trials: the device differs (cpu, gpu).",
    ]


def test_a_trial_that_failed_early_is_identified_by_its_tag() -> None:
    sweep = make_sweep(trial("none", math.nan, 1.0, batch_size="32", status="FAILED", end="failed: Capacity"))
    assert sweep.trials[0].setting == Setting("none", 32.0)
