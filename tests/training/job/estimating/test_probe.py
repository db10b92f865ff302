"""A probe runs the beginning of a training and projects the duration of the rest."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student_t

from experiments.planning import load
from tests.support.job.job_process import DYING, TORCHRUN
from training.job.data.padding import Padding, step_positions
from training.job.estimating.projection import MIN_STEPS, remaining, t_975

CHECKS = [28, 53, 100]
"""Steps after which a probe of 400 samples looks: after 25 and 50 measured ones, and at its end."""

# 200 rows in batches of 4 are 50 steps per epoch, 150 in total.
TRAINING = {"batch_size": 4, "epochs": 3, "padding": "buckets", "bucket_lengths": "6,12", "logging_steps": 5}


def test_quantiles_are_those_of_students_t() -> None:
    for freedom in range(1, 500):
        assert t_975(freedom) == pytest.approx(student_t.ppf(0.975, freedom), rel=2e-3)


def test_the_planner_knows_the_jobs_fewest_steps() -> None:
    """The experiment's rule refuses a probe that is too short. It may not import the job, so it has a copy."""
    assert load.MIN_STEPS == MIN_STEPS


def test_the_projection_follows_the_positions() -> None:
    """Steps of 1 and 3 s alternate, with 10 and 30 positions.

    Remaining steps have 25 positions each, so they take 2.5 s.
    """
    seconds, positions = [1.0, 3.0] * 13, np.array([10, 30] * 13)
    estimate = remaining(seconds, positions, 25.0, 100)
    assert estimate is not None
    # Without noise the interval has no width.
    assert estimate == pytest.approx((250.0, 250.0, 250.0))
    assert remaining(seconds[: MIN_STEPS - 1], positions[: MIN_STEPS - 1], 25.0, 100) is None


def test_projection_interval_by_hand() -> None:
    """Five blocks of five steps have the means 1 to 5: their variance is 2.5, so the mean's error is sqrt(2.5 / 5)."""
    seconds = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 5)
    estimate = remaining(list(seconds), np.full(25, 8), 8.0, 25)
    assert estimate is not None
    # As many steps remain as were measured, so they add the same error again.
    half_width = 2.776 * np.sqrt(0.5 + 0.5)
    assert estimate == pytest.approx((25 * 3.0, 25 * (3.0 - half_width), 25 * (3.0 + half_width)))


def test_step_positions_by_hand() -> None:
    lengths = np.array([3, 5, 5, 5, 9, 9, 2])
    padding = Padding("buckets", 20, (5, 10))
    # Lengths (3 5) (5 5) | (9 9) (2): 2 x 5 + 2 x 5 and 2 x 10 + 5.
    assert step_positions(np.arange(7), lengths, 2, 2, padding).tolist() == [20, 25]
    assert step_positions(np.arange(7), lengths, 2, 3, padding).tolist() == [40, 5]


@pytest.fixture
def long_job(job: Any, channel_writer: Any) -> Any:
    ids = [[10 + at % 2, *((at * 7 + i) % 30 + 15 for i in range(2 + at % 10))] for at in range(200)]
    for channel in ("train", "validation"):
        channel_writer(job.folder / channel, ids, [at % 2 for at in range(200)])
    return job


def test_a_probe_ends_early_and_projects_the_rest(long_job: Any) -> None:
    ended = long_job.run(**TRAINING, probe_precision=0.9, probe_samples=400, probe_eval_samples=50)
    result, metrics = ended.result, ended.result["metrics"]
    # The first check is after 3 steps of warm-up and 25 measured ones. On a busy machine, a later one may be the last.
    assert result["steps"] in CHECKS
    assert metrics["projected/steps"] == 150
    assert metrics["projected/samples"] == 600
    low, middle, high = (metrics[f"projected/remaining_seconds{end}"] for end in ("_low", "", "_high"))
    assert low < middle < high
    assert middle > 0
    assert "eval_accuracy" not in metrics
    projections = [event for event in ended.events("metric") if "projected/seconds" in event["values"]]
    assert [event["step"] for event in projections] == CHECKS[: len(projections)]
    assert [event["samples"] for event in projections] == [4 * each for each in CHECKS][: len(projections)]


@pytest.mark.slow
def test_a_probe_is_the_beginning_of_its_training(long_job: Any, new_job: Any) -> None:
    probe = long_job.run(**TRAINING, probe_precision=0.0001, probe_samples=160)
    full = new_job("full")
    full.environment |= {name: long_job.environment[name] for name in ("SM_CHANNEL_TRAIN", "SM_CHANNEL_VALIDATION")}
    assert probe.result["steps"] == 40
    assert len(probe.losses) >= 9
    # Each check logs another loss, for the steps since the last logged one.
    losses = [
        {e["step"]: e["values"]["loss"] for e in ended.events("metric") if "loss" in e["values"]}
        for ended in (probe, full.run(**TRAINING))
    ]
    assert [losses[0][step] for step in range(5, 26, 5)] == [losses[1][step] for step in range(5, 26, 5)]


def test_a_training_too_short_for_a_probe_runs_completely(job: Any) -> None:
    """With 13 batches, the probe trains to the end. Its evaluation includes all rows, so no time remains."""
    ended = job.run(**{**TRAINING, "epochs": 1}, probe_precision=0.05)
    assert ended.result["steps"] == 13
    assert ended.result["metrics"]["projected/remaining_seconds"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_the_projection_includes_checkpoints_and_evaluations(long_job: Any) -> None:
    """The full training has three evaluations of 200 rows and three checkpoints.

    The probe has one evaluation of 50 rows and one checkpoint.
    """
    long_job.with_checkpoints()
    arguments = {**TRAINING, "eval_strategy": "epoch", "save_strategy": "epoch", "eval_batch_size": 10}
    ended = long_job.run(**arguments, probe_precision=0.99, probe_samples=1, probe_eval_samples=50)
    seconds = {event["phase"]: event["seconds"] for event in ended.events("phase")}
    metrics = ended.result["metrics"]
    assert metrics["projected/steps"] - ended.result["steps"] == 150 - 28
    # Four times the rows is about four times the work. The padding depends on the rows drawn.
    minimum = 2 * seconds["checkpoint"] + (3 * 2.5 - 1) * seconds["eval"]
    assert metrics["projected/remaining_seconds"] > minimum


@pytest.mark.slow
def test_processes_end_a_probe_together(long_job: Any) -> None:
    """Each process measures different times. Rank 0 decides for both, even if the other would have continued."""
    arguments = {**TRAINING, "batch_size": 2, "probe_eval_samples": 20}
    result = long_job.run(TORCHRUN, **arguments, probe_precision=0.9, probe_samples=400).result
    assert result["steps"] in CHECKS
    assert result["metrics"]["projected/steps"] == 150
    assert result["metrics"]["projected/samples"] == 600


@pytest.mark.slow
def test_a_resumed_probe_measures_again(long_job: Any) -> None:
    """The probe is killed at step 20 of at most 40. It resumes from step 10 and measures 25 steps after that."""
    long_job.with_checkpoints()
    arguments = {**TRAINING, "save_strategy": "steps", "save_steps": 10, "probe_precision": 1e-4, "probe_samples": 160}
    dying = [DYING, "training.job.loop.job_trainer:Reporter.on_step_end:20", "SIGKILL"]
    assert long_job.run(dying, **arguments).code == -signal.SIGKILL
    ended = long_job.run(**arguments)
    assert ended.events("start")[-1]["resumed_from_step"] == 10
    # Three steps of warm-up, then the fewest steps for a projection.
    assert ended.result["steps"] == 40
    assert ended.result["metrics"]["projected/remaining_seconds"] > 0
