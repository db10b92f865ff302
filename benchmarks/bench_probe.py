"""Accuracy of a probe: its projected duration, compared with the full training that follows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import MINILM, TWEETS, emotion_fields
from benchmarks.support.results import Row, median_row, write

ROUNDS = 3
TOLERANCE = 0.1

EMOTION = {"batch_size": "32", "epochs": "2", "padding": "buckets", "eval_strategy": "epoch"}
REVIEWS = {
    "experiment": "reviews-distilbert",
    **MINILM,
    **TWEETS,
    "data.train_rows": "1600",
    "data.validation_rows": "400",
    "max_length": "128",
    "batch_size": "16",
    "epochs": "2",
    "best_metric": "null",
    "eval_strategy": "epoch",
    "save_strategy": "none",
}
COMMON = {"save_model": "false", "precision": "auto", "compare.arms": "[{compiler: none}]"}


@dataclass(frozen=True)
class Pair:
    """Billable seconds of a probe and of the full training that follows it."""

    projected: float
    low: float
    high: float
    probe: float
    actual: float


def run_pair(folder: Path, fields: dict[str, str]) -> Pair:
    """Run a probe, then the full training."""
    probe = train(folder, fields, verb="probe")
    metrics, spent = probe.result(), probe.billable_seconds
    projected, low, high = (spent + metrics[f"projected/remaining_seconds{end}"] for end in ("", "_low", "_high"))
    return Pair(projected, low, high, probe=spent, actual=train(folder, fields).billable_seconds)


def result_rows(name: str, pairs: list[Pair]) -> list[Row]:
    """Return the figures of one workload."""
    ratios = [each.projected / each.actual for each in pairs]
    within_tolerance = sum(abs(ratio - 1) <= TOLERANCE for ratio in ratios)
    covered = sum(each.low <= each.actual <= each.high for each in pairs)
    target = f"within {TOLERANCE:.0%} in every round"
    return [
        median_row(f"{name}: projected over actual", ratios, "x", target, within_tolerance == len(pairs)),
        median_row(
            f"{name}: half-width of the interval",
            [(p.high - p.low) / 2 / p.projected for p in pairs],
            "of the projection",
        ),
        Row(name=f"{name}: intervals that contain the actual", value=covered, unit=f"of {len(pairs)}"),
        median_row(f"{name}: cost of the probe", [each.probe / each.actual for each in pairs], "of the training"),
    ]


def main() -> None:
    """Run probes and trainings in turn, and write the figures."""
    workloads = {"emotion, batch 32": emotion_fields(3200, 400) | EMOTION, "reviews, batch 16": REVIEWS}
    pairs_of: dict[str, list[Pair]] = {name: [] for name in workloads}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, fields in workloads.items():
                pairs_of[name].append(run_pair(Path(folder), {**fields, **COMMON}))
    write(
        "probe",
        [row for name, pairs in pairs_of.items() for row in result_rows(name, pairs)],
        [
            "MiniLM, compiler none. Billable seconds that a probe projects, compared with those of the training that "
            "follows it. The probe's precision is 5 %; it takes at most a tenth of the training, but at least 28 "
            "steps.",
            "An interval covers the noise within a job. Reports widen it by the spread between jobs: see `next_job`.",
        ],
    )


if __name__ == "__main__":
    main()
