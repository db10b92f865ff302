"""Noise for testing verdicts: measured differences between recorded jobs with the same work, and draws of them.

Comparisons are simulated with it, whose repeats arrive in waves: one job after the other, a look after each wave.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.recorded import replay
from benchmarks.recorded.replay import Grid
from judging.design import Design
from judging.result import CacheState, Result
from judging.sequential import Reason
from judging.waves import Job, progress
from tracking.recorded.recorded_job import EVALUATIONS

Numbers = NDArray[np.float64]
Draw = Callable[[Generator, int], Numbers]
"""Draws deviations of this many consecutive jobs: of the log seconds, or of the scores."""

ACCURACY = EVALUATIONS["eval_accuracy"]
FOLDER = Path(__file__).resolve().parent / "repeats"
MIN_JOBS = 3
"""Fewest jobs of one setting from which a spread is estimated."""


@dataclass(frozen=True)
class Noise:
    """Deviations of recorded jobs from the mean of all jobs with the same setting, recorded at the same time."""

    seconds: Numbers
    """Deviations of log seconds, setting by setting, in the order in which the jobs ran."""
    quality: Numbers
    """Deviations of the accuracy, only from experiments with all of their rows: with fewer, it varies more."""
    disturbed_seconds: Numbers
    """Deviations of log seconds of jobs that all ran while other processes loaded the machine."""
    slowdowns: Numbers
    """Log seconds of these jobs, minus the mean of quiet jobs of the same setting."""

    @property
    def spread(self) -> float:
        """Standard deviation of log seconds, which is about the relative spread of identical jobs."""
        return float(np.sqrt(np.mean(self.seconds**2)))


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Jobs of one setting that ran one after the other. Only times of the same recording can be compared."""

    key: tuple[object, ...]
    """Number of the recording, machine and fields: equal for the quiet and the disturbed jobs of a setting."""
    is_disturbed: bool
    """True if other processes loaded the machine in spells, which makes the jobs slower and differ more."""
    has_all_rows: bool
    """True if the experiment was recorded with all rows of its data."""
    rows: Sequence[Mapping[str, str]]

    @property
    def seconds(self) -> list[float]:
        """Seconds of the jobs that the recording is for. Without cold caches and, if quiet, without disturbed jobs."""
        rows = [row for row in self.rows if self.is_disturbed or row.get("disturbed", "") in ("", "no")]
        return [float(row["billable_seconds"]) for row in rows if row["cache_state"] != "cold"]

    @property
    def accuracies(self) -> list[float]:
        return [value for row in self.rows if math.isfinite(value := float(row["eval_accuracy"]))]


def read(name: str, folder: Path = FOLDER) -> list[Recording]:
    """Return the recordings of one table: `NAME.csv` with a row for each job, and `NAME.json` with the setting."""
    setting = json.loads((folder / f"{name}.json").read_text())
    recordings: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    with (folder / f"{name}.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            recordings[row.get("recording", "1")].append(row)
    return [
        Recording(
            key=(number, setting["machine"], *sorted(setting["fields"].items())),
            is_disturbed=setting.get("is_disturbed", False),
            has_all_rows=not any(field.endswith("_rows") for field in setting["fields"]),
            rows=rows,
        )
        for number, rows in sorted(recordings.items())
    ]


def recorded_noise() -> Noise:
    """Return the noise of all recorded repeats, and of the grids whose jobs ran one after the other."""
    recordings = [each for name in sorted(path.stem for path in FOLDER.glob("*.json")) for each in read(name)]
    recordings = [each for each in recordings if len(each.seconds) >= MIN_JOBS]
    quiet = [each for each in recordings if not each.is_disturbed]
    disturbed = [each for each in recordings if each.is_disturbed]
    grids = map(replay.read, replay.names())
    sequential = [each for grid in grids if grid.parallel == 1 for each in equal_jobs(grid) if len(each) >= MIN_JOBS]
    settings = [*sequential, *(each.seconds for each in quiet)]
    accuracies = [each.accuracies for each in quiet if each.has_all_rows and len(each.accuracies) >= MIN_JOBS]
    return Noise(
        seconds=np.concatenate([deviations(np.log(seconds)) for seconds in settings]),
        quality=np.concatenate([deviations(each) for each in accuracies]),
        disturbed_seconds=np.concatenate([deviations(np.log(each.seconds)) for each in disturbed]),
        slowdowns=np.concatenate([*slowdowns(quiet, disturbed)]),
    )


def slowdowns(quiet: Iterable[Recording], disturbed: Iterable[Recording]) -> Iterator[Numbers]:
    """Yield the log seconds of each disturbed recording, minus the mean of the quiet one of the same setting."""
    means = {each.key: np.log(each.seconds).mean() for each in quiet}
    for each in disturbed:
        if each.key in means:
            yield np.log(each.seconds) - means[each.key]


def equal_jobs(grid: Grid) -> list[list[float]]:
    """Return, for each batch size, the jobs' billable seconds at the last evaluation that all of its jobs reached.

    The jobs of a batch size differ only in their learning rate, which does not affect the step time: rows, order and
    lengths are the same.
    """
    by_size: dict[int, list[dict[int, float]]] = defaultdict(list)
    for point, runs in grid.runs.items():
        by_size[point.batch_size] += [
            {at.samples: at.billable_instance_seconds for at in run.curve} for run in runs if run.curve
        ]
    common = [(set.intersection(*map(set, curves)), curves) for curves in by_size.values() if curves]
    return [[curve[max(samples)] for curve in curves] for samples, curves in common if samples]


def deviations(values: Sequence[float] | Numbers) -> Numbers:
    """Return the deviations from the mean, scaled up because the mean uses one degree of freedom."""
    array = np.asarray(values, dtype=np.float64)
    scaled: Numbers = (array - array.mean()) * math.sqrt(len(array) / (len(array) - 1))
    return scaled


def resampled(values: Numbers) -> Draw:
    """Draw from the recorded values, each job independently."""
    return lambda random, jobs: random.choice(values, jobs)


def in_order(values: Numbers) -> Draw:
    """Draw jobs that were recorded one after the other, which keeps slow spells."""
    return lambda random, jobs: np.take(values, random.integers(len(values)) + np.arange(jobs), mode="wrap")


def normal(spread: float) -> Draw:
    return lambda random, jobs: spread * random.standard_normal(jobs)


def other_draws(noise: Noise) -> dict[str, Draw]:
    """Return what else jobs may vary by, by name. Student's t has the same standard deviation."""
    plain, spread = resampled(noise.seconds), noise.spread
    return {
        "jobs in their recorded order": in_order(noise.seconds),
        "normal noise of the same spread": normal(spread),
        "heavy tails (t, 3 degrees of freedom)": lambda random, jobs: spread / 3**0.5 * random.standard_t(3, jobs),
        "slow periods": with_spells(plain),
        "each job 2 % slower than the last": lambda random, jobs: plain(random, jobs) + 0.02 * np.arange(jobs),
        "recorded noise of a busy machine": resampled(noise.disturbed_seconds),
    }


def slowdown_draws(noise: Noise) -> dict[str, Draw]:
    """Return the log slowdowns of disturbed jobs: as recorded, and as other load was measured to cause them."""
    return {
        "2 to 10 times as slow": lambda random, jobs: np.log(random.uniform(2.0, 10.0, jobs)),
        "as slow as recorded on a busy machine": resampled(noise.slowdowns),
    }


def with_spells(draw: Draw) -> Draw:
    """Let one job in ten begin a spell of one to four jobs that are 1.2 to 3 times as slow."""

    def drawn(random: Generator, jobs: int) -> Numbers:
        values = draw(random, jobs)
        for begin in np.flatnonzero(random.random(jobs) < 0.1):
            values[begin : begin + random.integers(1, 5)] += np.log(random.uniform(1.2, 3.0))
        return values

    return drawn


@dataclass(frozen=True, kw_only=True)
class Setting:
    ratio: float = 1.0
    """True cost of a job, relative to a plain job."""
    cold_ratio: float | None = None
    """True cost of the first job, whose compile cache is cold; None for an arm without a cache."""
    failure_rate: float = 0.0
    """Probability that a job fails, after a part of its time that is equally likely to be any."""
    accuracy: float = 0.9


@dataclass(frozen=True, kw_only=True)
class Waves:
    seconds: Draw
    arms: tuple[Setting, ...] = (Setting(), Setting())
    """The baseline first."""
    slowdowns: Draw | None = None
    """Additional log seconds of a disturbed job; None disturbs no job."""
    disturbed_share: float = 0.1
    """Probability that a job is disturbed, if there are slowdowns. `design.when_disturbed` applies."""
    scores: Draw | None = None
    """Noise of the accuracy; None judges the cost alone."""
    is_paired: bool = False
    """True if the same seed gives all arms the same deviation, and the arms are compared seed by seed."""
    seed_differences: Draw | None = None
    """With `is_paired`, deviations of an arm's accuracy from the baseline's of the same seed; None means none."""
    design: Design = field(default_factory=Design)
    job_seconds: float = 40.0
    whole_seconds: bool = False
    """True if a job bills whole seconds, as on SageMaker."""
    interrupts: bool = False
    """True if the launcher ends after every job and another one continues, as with `attach`."""


@dataclass(frozen=True)
class Ended:
    reasons: tuple[Reason, ...]
    """Reason for which each arm stopped."""
    jobs: int
    """Jobs of all arms and of the baseline, with those that ran again."""


def simulate_waves(waves: Waves, random: Generator) -> Ended:
    """Run the waves of one comparison until every arm has stopped."""
    labels = [str(at) for at in range(len(waves.arms))]
    run = _jobs(waves, random)
    results: dict[Job, Result | None] = {}
    jobs = 0
    while (
        state := progress(
            waves.design,
            labels,
            results,
            measure=ACCURACY if waves.scores else None,
            paired=frozenset(labels[1:]) if waves.is_paired else frozenset[str](),
            resolution=float(waves.whole_seconds),
        )
    ).due:
        for job in state.due[:1] if waves.interrupts else state.due:
            result, is_disturbed = run(job)
            runs_again = is_disturbed and result.succeeded and waves.design.when_disturbed == "repeat"
            results[job] = run(job)[0] if runs_again else result
            jobs += 1 + runs_again
    return Ended(tuple(state.stopped[label] for label in labels[1:]), jobs)


def simulations(waves: Waves, comparisons: int, seed: int) -> Sequence[Ended]:
    random = np.random.default_rng(seed)
    return [simulate_waves(waves, random) for _ in range(comparisons)]


def _jobs(waves: Waves, random: Generator) -> Callable[[Job], tuple[Result, bool]]:
    """Return the function that runs a job once. It returns the result, and True if the job was disturbed.

    Jobs take the drawn deviations in the order in which they run.
    """
    repeats = waves.design.looks[-1]
    jobs = (2 if waves.design.when_disturbed == "repeat" else 1) * len(waves.arms) * repeats
    deviations = iter(waves.seconds(random, jobs))
    failures = iter(random.random((jobs, 2)))
    scores = _scores(waves, random, repeats)
    slower = waves.slowdowns(random, jobs) if waves.slowdowns else np.zeros(jobs)
    disturbed = random.random(jobs) < waves.disturbed_share if waves.slowdowns else np.zeros(jobs, dtype=bool)
    slowdowns = iter(zip(slower, disturbed, strict=True))

    def run(job: Job) -> tuple[Result, bool]:
        arm, repeat = int(job[0]), job[1]
        setting, (slowdown, is_disturbed) = waves.arms[arm], next(slowdowns)
        cache: CacheState = "off" if setting.cold_ratio is None else "warm" if repeat else "cold"
        ratio = setting.cold_ratio if cache == "cold" and setting.cold_ratio else setting.ratio
        seconds = waves.job_seconds * ratio * math.exp(float(next(deviations)) + float(slowdown * is_disturbed))
        cost = float(math.ceil(seconds)) if waves.whole_seconds else seconds
        draw, part = next(failures)
        if draw < setting.failure_rate:
            return Result(cost * float(part), succeeded=False, repeat=repeat), bool(is_disturbed)
        return Result(cost, float(scores[arm][repeat]), repeat=repeat, cache=cache), bool(is_disturbed)

    return run


def _scores(waves: Waves, random: Generator, repeats: int) -> list[Numbers]:
    """Return the accuracy by arm and repeat; NaN if the cost alone is judged."""
    if waves.scores is None:
        return [np.full(repeats, math.nan)] * len(waves.arms)
    shared = waves.scores(random, repeats)
    deviations = [shared]
    for _ in waves.arms[1:]:
        if not waves.is_paired:
            deviations.append(waves.scores(random, repeats))
        else:
            deviations.append(shared + waves.seed_differences(random, repeats) if waves.seed_differences else shared)
    return [setting.accuracy + each for setting, each in zip(waves.arms, deviations, strict=True)]
