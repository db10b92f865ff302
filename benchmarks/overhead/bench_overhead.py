"""Overhead of our jobs: the same training as a job, as a plain Trainer script, and as one with MLflow's stock callback.

Our steps differ from the script's for other reasons than tracking, too. So the program of a job also runs by itself,
without supervisor and tracking: only the comparison with it shows what tracking costs.
"""

from __future__ import annotations

import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.overhead.job_program import run_program
from benchmarks.support.command import CommandRun, train
from benchmarks.support.data import DATA, emotion_fields
from benchmarks.support.results import median_row, write

ROWS, STEPS, ROUNDS = 1600, 50, 5
MAX_PERCENT = 1.0
WARMUP_STEPS = 3
STEP_SECONDS = "throughput/steady_step_seconds_p50"


def run_plain_script(folder: Path, tracker: str) -> tuple[float, float]:
    """Run the plain script. Return the median step seconds after the warm-up, and the wall seconds."""
    script = Path(__file__).with_name("plain_script.py")
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
    result = json.loads(done.stdout.splitlines()[-1])
    # The list begins with the second step.
    return statistics.median(result["step_seconds"][WARMUP_STEPS - 1 :]), wall_seconds


def run_job(folder: Path) -> CommandRun:
    """Run `trainfare train`."""
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
    return train(folder, fields)


class JobSides:
    """Jobs in a folder, and the program of the latest one by itself. Both take the values of `auto` from one trial.

    Each side returns the median step time after the warm-up and the elapsed time, both in seconds.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._latest = run_job(folder)

    def platform(self) -> tuple[float, float]:
        """Run a job with the whole command."""
        self._latest = run_job(self._folder)
        return self._latest.result()[STEP_SECONDS], self._latest.wall_seconds

    def program(self) -> tuple[float, float]:
        """Run the program of the latest job."""
        started = time.perf_counter()
        return run_program(self._latest.job)[STEP_SECONDS], time.perf_counter() - started


def main() -> None:
    """Run the sides in turn for several rounds, and write the ratios."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split in ("train", "validation"):
            packed = DATA / f"emotion-{split}.jsonl.gz"
            (folder / f"emotion-{split}.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
        jobs = JobSides(folder)  # The first runs stage the data and create the tracking databases.
        run_plain_script(folder, "mlflow")
        sides: dict[str, Callable[[], tuple[float, float]]] = {
            "plain script": lambda: run_plain_script(folder, "none"),
            "stock callback": lambda: run_plain_script(folder, "mlflow"),
            "job's program by itself": jobs.program,
            "platform": jobs.platform,
        }
        measured: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for number in range(ROUNDS):
            # The machine's speed drifts, so no side always comes last.
            for side, run in list(sides.items())[:: 1 if number % 2 else -1]:
                measured[side].append(run())
    _write_ratios(measured)


def _write_ratios(measured: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Write the results. `measured` has the step seconds and wall seconds of each side, by round."""
    steps = {side: [step for step, _ in runs] for side, runs in measured.items()}
    walls = {side: [wall for _, wall in runs] for side, runs in measured.items()}
    tracking_percent = _percent_above(steps["platform"], steps["job's program by itself"])
    step_percent = _percent_above(steps["platform"], steps["plain script"])
    callback_percent = _percent_above(steps["stock callback"], steps["plain script"])
    extra = [ours - theirs for ours, theirs in zip(walls["platform"], walls["plain script"], strict=True)]
    callback_extra = [
        ours - theirs for ours, theirs in zip(walls["stock callback"], walls["plain script"], strict=True)
    ]
    write(
        "overhead",
        [
            *(median_row(f"{side}: steady step", values, "s") for side, values in steps.items()),
            *(median_row(f"{side}: end to end", values, "s") for side, values in walls.items()),
            median_row(
                "platform above the job's program by itself: steady step",
                tracking_percent,
                "%",
                f"at most {MAX_PERCENT:g} %",
                statistics.median(tracking_percent) <= MAX_PERCENT,
            ),
            median_row("platform above plain script: steady step", step_percent, "%"),
            median_row(
                "platform above plain script: end to end", extra, "s", "at most 3 s", statistics.median(extra) <= 3
            ),
            median_row("stock callback above plain script: steady step", callback_percent, "%"),
            median_row("stock callback above plain script: end to end", callback_extra, "s"),
        ],
        [
            f"{STEPS} steps of batch 32 at 64 tokens, MiniLM on emotion. The sides alternate for {ROUNDS} rounds. "
            "Differences are between runs of the same round.",
            "End to end is the whole command. The platform's includes its own start, tracking and the report. "
            "The job's program by itself is the platform's training process without supervisor and tracking: it "
            "computes in the same way, so the difference is what tracking costs.",
        ],
    )


def _percent_above(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    return [100 * (mine / other - 1) for mine, other in zip(ours, theirs, strict=True)]


if __name__ == "__main__":
    main()
