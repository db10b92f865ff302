"""The winner of a group: the setting that the report names, and its job with the best evaluation."""

from __future__ import annotations

import math

import pytest

from models.winner import winner
from reports.formats.text import summary
from reports.render import render
from tests.support.models.place import arm, parent
from tests.support.reports.made_sweeps import MadeSweep, sweep_json
from tests.support.tracking.tracked import Tracked
from training.contract.errors import InputError


def test_the_winner_is_the_cheaper_arms_best_job(tracked: Tracked) -> None:
    parent(tracked)
    arm(tracked, "none", [100.0, 101.0, 99.0], [0.95, 0.95, 0.95], baseline=True)
    runs = arm(tracked, "inductor", [80.0, 81.0, 79.0], [0.94, 0.96, 0.95])
    arm(tracked, "slow", [120.0, 121.0, 119.0], [0.99, 0.99, 0.99])
    chosen = winner(tracked.client, tracked.group)
    assert chosen.run_id == runs[1]
    assert chosen.why == (
        "“inductor” is cheaper: 20 % fewer billable seconds than “none”. The model comes from inductor, repeat 2: the "
        "best of its 3 jobs, eval_accuracy 0.96."
    )
    headline = summary(render(tracked.client, tracked.group, "demo"))["headline"]
    assert str(headline) in chosen.why


@pytest.mark.parametrize(
    ("seconds", "accuracy", "sentence"),
    [
        ([80.0, 120.0, 99.0], 0.99, "No setting is shown to be cheaper than “none”, so the baseline stays."),
        ([120.0, 121.0, 119.0], 0.99, "No setting is cheaper than “none”, so the baseline stays."),
        ([80.0, 81.0, 79.0], 0.8, ""),
    ],
)
def test_the_baseline_stays_if_nothing_is_shown_to_be_cheaper_and_as_good(
    tracked: Tracked, seconds: list[float], accuracy: float, sentence: str
) -> None:
    parent(tracked)
    runs = arm(tracked, "none", [100.0, 101.0, 99.0], [0.93, 0.95, 0.95], baseline=True)
    arm(tracked, "inductor", seconds, [accuracy] * 3)
    chosen = winner(tracked.client, tracked.group)
    # The first of equals.
    assert (chosen.run_id, chosen.why.startswith(sentence)) == (runs[1], True)


def test_the_target_metric_decides_and_a_lower_loss_is_better(tracked: Tracked) -> None:
    parent(tracked)
    params = {"hp.target_metric": "eval_loss"}
    for repeat, (loss, accuracy) in enumerate([(0.5, 0.99), (0.3, 0.90), (0.4, 0.95)]):
        metrics = {"eval_loss": loss, "eval_accuracy": accuracy}
        tracked.trained("none", repeat, 100.0, metrics=metrics, params=params, losses=[])
    assert "repeat 2: the best of its 3 jobs, eval_loss 0.3" in winner(tracked.client, tracked.group).why


@pytest.mark.parametrize("target", ["eval_loss", None])
def test_a_job_without_a_number_does_not_win(tracked: Tracked, target: str | None) -> None:
    params = {"hp.target_metric": target} if target else {}
    for repeat, (loss, accuracy) in enumerate([(math.nan, 0.99), (0.5, math.nan), (0.4, math.nan)]):
        metrics = {"eval_loss": loss, "eval_accuracy": accuracy if target else math.nan}
        tracked.trained("none", repeat, 100.0, metrics=metrics, params=params, losses=[])
    assert "repeat 3: the best of its 3 jobs, eval_loss 0.4" in winner(tracked.client, tracked.group).why


def test_the_first_job_without_an_evaluation_wins(tracked: Tracked) -> None:
    runs = [tracked.job("none", repeat, metrics={"train_loss": 1.0 - repeat}) for repeat in range(2)]
    chosen = winner(tracked.client, tracked.group)
    assert (chosen.run_id, chosen.why) == (runs[0], "The model comes from none, repeat 1: the first of its 2 jobs.")


def test_a_group_without_successful_jobs_has_no_winner(tracked: Tracked) -> None:
    with pytest.raises(
        InputError, match=r"group 'demo-1' has no winner: it has no jobs\. Name one of its jobs instead"
    ):
        winner(tracked.client, tracked.group)
    tracked.job("none", status="FAILED", baseline=True)
    tracked.job("none", 1, status="FAILED", baseline=True)
    with pytest.raises(InputError, match=r"has no winner: no job of “none” succeeded\. Name one of its jobs"):
        winner(tracked.client, tracked.group)
    arm(tracked, "inductor", [80.0], [0.9])
    with pytest.raises(InputError, match=r"has no winner: no job of “none” succeeded"):
        winner(tracked.client, tracked.group)
    tracked.job("none", 2, status=None)
    with pytest.raises(
        InputError, match="has no winner yet: 1 of its 4 jobs have not ended; `trainfare attach --group demo-1`"
    ):
        winner(tracked.client, tracked.group)


GONE = r"has no winner: its baseline's runs were deleted, so its settings cannot be compared\. Name one of its jobs"


def test_a_comparison_without_its_baseline_has_no_winner(tracked: Tracked) -> None:
    parent(tracked)
    gone = arm(tracked, "none", [100.0, 101.0, 99.0], [0.9, 0.9, 0.9], baseline=True)
    arm(tracked, "slow", [120.0, 121.0, 119.0], [0.9, 0.9, 0.9])
    arm(tracked, "inductor", [110.0, 111.0, 109.0], [0.9, 0.9, 0.9])
    for run_id in gone:
        tracked.client.delete_run(run_id)
    with pytest.raises(InputError, match=GONE):
        winner(tracked.client, tracked.group)


def test_probes_have_no_model(tracked: Tracked) -> None:
    tracked.job("none", metrics={"projected/billable_seconds": 100.0}, params={"hp.probe_precision": 0.05})
    with pytest.raises(InputError, match="has no winner: its jobs are probes, which train only the first steps"):
        winner(tracked.client, tracked.group)


def rates(tracked: Tracked, *, loss: float = 0.35) -> str:
    """Write a sweep for throughput. `loss` is that of the winner's repeats."""
    sweep = MadeSweep(tracked.client, tracked.experiment_id)
    tracked.client.set_tag(sweep.parent, "platform.group_state", "closed")
    sweep.write_spec(sweep_json(objective={"cost": "steady_samples_per_second"}))

    def job(role: str, compiler: str, repeat: int, rate: float, **metrics: float) -> None:
        tags = {"platform.batch_size": "8", "arm": f"{compiler}, batch 8", "platform.repeat": str(repeat)}
        tags |= {"platform.baseline": str(compiler == "none").lower(), "platform.end": "completed"}
        values = {"throughput/steady_samples_per_second": rate + repeat, **metrics}
        sweep.run(role, compiler, seconds=100.0 + repeat, tags=tags, metrics=values)

    for compiler, rate in (("none", 100.0), ("inductor", 200.0)):
        job("trial", compiler, 0, rate)
        for repeat in range(1, 4):
            quality = loss if compiler == "inductor" else 0.35
            job("confirmation", compiler, repeat, rate, samples=16_000.0, eval_loss=quality)
    return sweep.group


@pytest.mark.parametrize(
    ("fields", "arm", "why"),
    [
        ({}, "inductor", "inductor at batch 8 is 98 % faster than none at batch 8"),
        ({"loss": 0.9}, "none", ", but its validation loss is 0.9 against 0.35, so the base setting stays."),
    ],
)
def test_a_faster_setting_must_keep_the_quality(tracked: Tracked, fields: dict[str, float], arm: str, why: str) -> None:
    chosen = winner(tracked.client, rates(tracked, **fields))
    assert tracked.client.get_run(chosen.run_id).data.tags["arm"] == f"{arm}, batch 8"
    assert why in chosen.why


def test_a_sweep_without_repeats_or_one_answer_has_no_model(tracked: Tracked) -> None:
    sweep = MadeSweep(tracked.client, tracked.experiment_id)
    tracked.client.set_tag(sweep.parent, "platform.group_state", "closed")
    sweep.write_spec(sweep_json(train_command="trainfare train --batch_size 64"))
    sweep.training("trial", "none", 8, until=0.1)
    with pytest.raises(InputError, match=r"no winner: no answer: none of 1 trial reached eval_loss 0\.45\. Name one"):
        winner(tracked.client, sweep.group)
    for size, factor in ((64, 2.0), (32, 1.0)):
        sweep.training("trial", "none", size, factor)
    with pytest.raises(InputError) as caught:
        winner(tracked.client, sweep.group)
    assert str(caught.value) == (
        f"run: group '{sweep.group}' has no winner: its best setting was not repeated, and trials save no model. "
        "`trainfare train --batch_size 64` trains none at batch 64, rate × 2."
    )
