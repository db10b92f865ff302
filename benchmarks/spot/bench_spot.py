"""Trainings that a Poisson clock kills, compared with the expected time that `probe` and `plan` show."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scipy.special import stdtrit

from benchmarks.spot.killed_training import Ran, run_killed
from benchmarks.spot.replay import replayed_seconds
from benchmarks.support.command import train
from benchmarks.support.data import emotion_fields
from benchmarks.support.results import Row, median_row, write
from judging.spot.expected_time import Training
from reports.spot.estimate import SpotEstimate, Terms, Times, spot_estimate
from training.services.local.service import LocalService

TRAININGS = 12
MEAN_LIFE_SECONDS = 10.0
"""Mean time between two kills, in CPU seconds: about the time of an uninterrupted training."""
MAX_WALL_SECONDS = 420.0
"""Time after which no more trainings start."""
STEPS, SAVE_STEPS = 80, 20
SEED = 20261125
FIELDS = {
    "weights": "random",
    "model_overrides": "{num_hidden_layers: 3}",
    "machine.cores": "1",
    "batch_size": "16",
    "epochs": "null",
    "max_steps": str(STEPS),
    "max_length": "32",
    "save_strategy": "steps",
    "save_steps": str(SAVE_STEPS),
    "save_total_limit": "1",
    "save_model": "false",
    "compiler": "none",
}


def times_of(whole: list[Ran]) -> Times:
    """Return the mean times of the uninterrupted trainings, as a probe records them."""
    writes = [seconds_of(each, "checkpoint") for each in whole]
    return Times(
        total_seconds=statistics.fmean(each.seconds for each in whole),
        startup_seconds=statistics.fmean(startup_seconds(each) for each in whole),
        checkpoint_seconds=statistics.fmean(statistics.fmean(each) for each in writes),
        checkpoints=len(writes[0]),
        steps=STEPS,
    )


def startup_seconds(ran: Ran) -> float:
    """Return the CPU seconds until the first step."""
    return next(ran.at(event.time) for event in ran.events if event.fields.get("phase") == "load")


def seconds_of(ran: Ran, phase: str) -> list[float]:
    """Return the CPU seconds of each time that a phase took place."""
    events = [event for event in ran.events if event.kind == "phase" and event.fields["phase"] == phase]
    return [ran.at(event.time) - ran.at(event.time - event.fields["seconds"]) for event in events]


def lives(draws: random.Random) -> Iterator[float]:
    """Yield times between two kills, in seconds, from an exponential distribution."""
    return (draws.expovariate(1 / MEAN_LIFE_SECONDS) for _ in itertools.count())


def result_rows(estimate: SpotEstimate, training: Training, whole: list[float], killed: list[Ran]) -> list[Row]:
    """Return the measured figures beside the expected ones."""
    seconds = [each.seconds for each in killed]
    mean, expected = statistics.fmean(seconds), estimate.spot.seconds
    half = float(stdtrit(len(seconds) - 1, 0.975)) * statistics.stdev(seconds) / math.sqrt(len(seconds))
    interval = training.work_seconds / (STEPS / SAVE_STEPS)
    replayed = [replayed_seconds(training, interval, iter([*each.lives, math.inf])) for each in killed]
    kills = statistics.fmean(each.interruptions for each in killed)
    target = f"95 % interval of the mean, {mean - half:.1f} to {mean + half:.1f} s, contains the expected"
    return [
        median_row("uninterrupted training", whole, "CPU s"),
        Row(name="expected seconds with kills", value=expected, unit="CPU s"),
        Row(
            name="measured seconds with kills, mean",
            value=mean,
            unit="CPU s",
            n=len(seconds),
            spread=half,
            target=target,
            met=abs(mean - expected) <= half,
        ),
        Row(name="expected kills of a training", value=estimate.spot.interruptions, unit="kills"),
        Row(name="measured kills of a training, mean", value=kills, unit="kills", n=len(killed)),
        median_row(
            "measured ÷ predicted seconds, with the same kills",
            [one / other for one, other in zip(seconds, replayed, strict=True)],
            "x",
            "median within 10 %",
            abs(statistics.median(a / b for a, b in zip(seconds, replayed, strict=True)) - 1) <= 0.1,
        ),
        Row(
            name="best steps between checkpoints",
            value=float((estimate.best or estimate.spot).save_steps or 0),
            unit="steps",
        ),
    ]


def main() -> None:
    """Train once with a command, then kill copies of its job, with uninterrupted ones in between."""
    draws = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = train(folder, {**emotion_fields(3200, 100), **FIELDS})
        home = folder / "home"
        service, request = LocalService(home), first.job.request()
        whole: list[Ran] = []
        killed: list[Ran] = []
        began = time.monotonic()
        for number in range(TRAININGS):
            if time.monotonic() - began > MAX_WALL_SECONDS:
                break
            if number % 4 == 0:
                whole.append(run_killed(service, home, request, f"whole-{number}", itertools.repeat(math.inf)))
            killed.append(run_killed(service, home, request, f"killed-{number}", lives(draws)))
            print(f"  {killed[-1].seconds:.1f} s with {killed[-1].interruptions} kills", flush=True)
    times = times_of(whole)
    estimate = spot_estimate(times, Terms(interruptions_per_hour=3600 / MEAN_LIFE_SECONDS))
    assert estimate is not None
    checkpoints = times.checkpoint_seconds or 0.0
    training = Training(
        startup_seconds=times.startup_seconds,
        work_seconds=times.total_seconds - times.startup_seconds - times.checkpoints * checkpoints,
        checkpoint_seconds=checkpoints,
    )
    write(
        "spot",
        result_rows(estimate, training, [each.seconds for each in whole], killed),
        [
            f"A MiniLM of three layers, from scratch on emotion, one core: {STEPS} steps of 16 rows, a checkpoint "
            f"every {SAVE_STEPS} steps. Each run is killed (SIGKILL) after {MEAN_LIFE_SECONDS:g} s on average, at "
            "times from an exponential distribution, and resumes from its last complete checkpoint. Times are "
            "CPU seconds, which other work on the machine hardly changes.",
            f"Expected from the start-up ({times.startup_seconds:.1f} s), the checkpoints ({checkpoints:.2f} s) and "
            "the total time of uninterrupted trainings, which ran between the killed ones.",
        ],
    )


if __name__ == "__main__":
    main()
