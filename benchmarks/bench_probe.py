"""Accuracy of a probe: its projected duration, compared with the full training that follows."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import EMOTION, MINILM, TWEETS, check_data

ROUNDS = 3

COMMON = {"epochs": "2", "eval_strategy": "epoch", "save_model": "false", "compare.arms": "[{compiler: none}]"}
WORKLOADS = {
    "emotion, batch 32": {
        "experiment": "emotion",
        **EMOTION,
        "data.train_rows": "3200",
        "data.validation_rows": "400",
        "batch_size": "32",
        "padding": "buckets",
    },
    "reviews, batch 16": {
        "experiment": "reviews-distilbert",
        **MINILM,
        **TWEETS,
        "data.train_rows": "1600",
        "data.validation_rows": "400",
        "max_length": "128",
        "batch_size": "16",
        "best_metric": "null",
        "save_strategy": "none",
    },
}


def rows(name: str, fields: dict[str, str], folder: Path) -> list[Row]:
    """Run probes and full trainings in turn, and return the figures of their billable seconds."""
    ratios, widths, costs, covered = [], [], [], 0
    for _ in range(ROUNDS):
        probe = train(folder, fields, verb="probe")
        metrics, spent = probe.metrics, probe.billable_seconds
        projected, low, high = (spent + metrics[f"projected/remaining_seconds{end}"] for end in ("", "_low", "_high"))
        actual = train(folder, fields).billable_seconds
        ratios.append(projected / actual)
        widths.append((high - low) / 2 / projected)
        costs.append(spent / actual)
        covered += low <= actual <= high
    return [
        figure(f"{name}: projected over actual", ratios, "x", least=0.9, most=1.1),
        figure(f"{name}: half-width of the interval", widths, "of the projection"),
        figure(f"{name}: intervals that contain the actual", covered, f"of {ROUNDS}"),
        figure(f"{name}: cost of the probe", costs, "of the training"),
    ]


def main() -> None:
    check_data()
    with tempfile.TemporaryDirectory() as folder:
        figures = [row for name, own in WORKLOADS.items() for row in rows(name, {**own, **COMMON}, Path(folder))]
    write("probe", figures)


if __name__ == "__main__":
    main()
