"""What the platform costs: the same training by a plain Trainer script, with MLflow's stock callback, and by a job."""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.data import DATA, emotion_fields
from benchmarks.support.results import measured, write

ROWS, STEPS, ROUNDS = 1600, 50, 5
WARMUP_STEPS = 3


def bare(folder: Path, tracker: str) -> tuple[float, float]:
    """Run the plain script and return (median steady step seconds, wall seconds)."""
    script = Path(__file__).parent / "support" / "bare_trainer.py"
    data = [str(folder / f"emotion-{split}.jsonl") for split in ("train", "validation")]
    started = time.perf_counter()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'bare.db'}"}
    done = subprocess.run(
        [sys.executable, str(script), *data, str(ROWS), str(STEPS), tracker, str(folder / "out")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    wall_seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"error: the plain script failed:\n{done.stderr}")
    said = json.loads(done.stdout.splitlines()[-1])
    return statistics.median(said["step_seconds"][WARMUP_STEPS:]), wall_seconds


def platform(folder: Path) -> tuple[float, float]:
    """Run the platform's command and return (median steady step seconds, wall seconds)."""
    fields = emotion_fields(ROWS, 200) | {
        "max_steps": str(STEPS),
        "batch_size": "32",
        "eval_batch_size": "32",
        "base_learning_rate": "1e-4",
        "padding": "max_length",
        "max_length": "64",
        "logging_steps": "10",
        "eval_strategy": "end",
        "save_model": "false",
        "precision": "auto",
    }
    done = train(folder, fields)
    return done.result()["throughput/steady_step_seconds_p50"], done.wall_seconds


def main() -> None:
    """Alternate the three for a number of rounds and write the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split in ("train", "validation"):
            packed = DATA / f"emotion-{split}.jsonl.gz"
            (folder / f"emotion-{split}.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
        platform(folder)  # stages the data and creates the tracking database: once, whoever runs first
        bare(folder, "mlflow")
        sides: dict[str, Callable[[], tuple[float, float]]] = {
            "bare": lambda: bare(folder, "none"),
            "mlflow": lambda: bare(folder, "mlflow"),
            "platform": lambda: platform(folder),
        }
        found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side, run in sides.items():
                found[side].append(run())
    steps = {side: [step for step, _ in runs] for side, runs in found.items()}
    walls = {side: [wall for _, wall in runs] for side, runs in found.items()}
    pairs = zip(steps["platform"], steps["bare"], strict=True)
    step_percent = [100 * (ours / theirs - 1) for ours, theirs in pairs]
    extra = [ours - theirs for ours, theirs in zip(walls["platform"], walls["bare"], strict=True)]
    callback_extra = [ours - theirs for ours, theirs in zip(walls["mlflow"], walls["bare"], strict=True)]
    callback_percent = [100 * (a / b - 1) for a, b in zip(steps["mlflow"], steps["bare"], strict=True)]
    write(
        "overhead",
        [
            *(measured(f"{side}: steady step", values, "s") for side, values in steps.items()),
            *(measured(f"{side}: end to end", values, "s") for side, values in walls.items()),
            measured(
                "platform over bare: steady step",
                step_percent,
                "%",
                "at most 1 %",
                statistics.median(step_percent) <= 1,
            ),
            measured("platform over bare: end to end", extra, "s", "at most 3 s", statistics.median(extra) <= 3),
            measured("stock callback over bare: steady step", callback_percent, "%"),
            measured("stock callback over bare: end to end", callback_extra, "s"),
        ],
        [
            f"{STEPS} steps of batch 32 at 64 tokens, MiniLM on emotion, {ROUNDS} rounds, each side in turn; "
            "figures of a pair are of the same round.",
            "End to end is the whole command: for the platform also tracking, reporting and its own start.",
        ],
    )


if __name__ == "__main__":
    main()
