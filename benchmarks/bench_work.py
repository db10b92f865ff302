"""Speed of the emotion experiment, compared with the reference recipe: padded to 512 tokens, 32-bit, uncompiled."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.support.command import train
from benchmarks.support.data import emotion_fields
from benchmarks.support.results import median_row, write

SAMPLES, BATCH, ROUNDS = 240, 24, 2
"""Samples that each side trains on, for which the reference recipe takes minutes on two cores; batch size; rounds."""

RECIPE = {"padding": "max_length", "max_length": "512", "precision": "fp32"}
OURS: dict[str, dict[str, str]] = {"ours, none": {"compiler": "none"}, "ours, inductor": {"compiler": "inductor"}}


def run(folder: Path, fields: Mapping[str, str], seed: int) -> Mapping[str, Any]:
    """Train one side on the same rows and return its result."""
    same = {
        "max_steps": str(SAMPLES // BATCH),
        "batch_size": str(BATCH),
        "base_batch_size": str(BATCH),
        "base_learning_rate": "1e-4",
        "seed": str(seed),
        "eval_strategy": "end",
        "save_model": "false",
        "logging_steps": "5",
    }
    return train(folder, {**emotion_fields(SAMPLES, 200), **same, **fields}).result()


def main() -> None:
    """Run the sides alternately, and write the ratios and the losses."""
    sides = {"recipe": RECIPE, **OURS}
    results: dict[str, list[Mapping[str, Any]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        for seed in range(ROUNDS):
            for side, fields in sides.items():
                results[side].append(run(Path(name), fields, seed))
                print(f"  {side}, seed {seed}", file=sys.stderr, flush=True)
    rates = {side: [r["throughput/steady_samples_per_second"] for r in runs] for side, runs in results.items()}
    losses = {side: [r["eval_loss"] for r in runs] for side, runs in results.items()}
    rows = [median_row(f"{side}: steady samples", values, "samples/s") for side, values in rates.items()]
    rows += [median_row(f"{side}: evaluation loss after {SAMPLES} samples", v, "nats") for side, v in losses.items()]
    for side in OURS:
        ratios = [ours / theirs for ours, theirs in zip(rates[side], rates["recipe"], strict=True)]
        rows.append(
            median_row(
                f"{side}: speed-up over the recipe", ratios, "x", "at least 80 x", statistics.median(ratios) >= 80
            )
        )
        differences = [ours - theirs for ours, theirs in zip(losses[side], losses["recipe"], strict=True)]
        within = abs(statistics.median(differences)) <= 0.05
        rows.append(median_row(f"{side}: loss minus the recipe's", differences, "nats", "within 0.05 nats", within))
    write(
        "work",
        rows,
        [f"MiniLM on emotion, batch size {BATCH}. Every side trains on the same {SAMPLES} rows with {ROUNDS} seeds."],
    )


if __name__ == "__main__":
    main()
