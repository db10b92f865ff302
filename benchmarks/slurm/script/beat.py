"""Script of a job that prints a loss ten times per second, and continues from its checkpoint.

It appends a line to the file `--notes` when it starts, at each step, and when it has ended: kind, job, attempt, time,
process.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

PAUSE_SECONDS = 0.1

parser = argparse.ArgumentParser()
parser.add_argument("--notes", type=Path, required=True)
parser.add_argument("--seconds", type=float, required=True)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()
job, attempt = os.environ.get("TRAINING_JOB_NAME", "plain"), os.environ.get("BENCH_ATTEMPT", "-")


def note(kind: str) -> None:
    with arguments.notes.open("a") as notes:
        notes.write(f"{kind} {job} {attempt} {time.time()} {os.getpid()}\n")


note("script")
base = os.environ.get("SAGEMAKER_BASE_DIR")
checkpoint = Path(base) / "checkpoints" / "step.txt" if base else None
step = int(checkpoint.read_text()) if checkpoint and checkpoint.exists() else 0
while step < arguments.seconds / PAUSE_SECONDS:
    time.sleep(PAUSE_SECONDS)
    step += 1
    print(f"step {step} samples {step * arguments.batch} loss {(1 + arguments.seed % 7 / 100) / step:.9f}", flush=True)
    if checkpoint:
        unfinished = checkpoint.with_suffix(".new")
        unfinished.write_text(str(step))
        unfinished.replace(checkpoint)
    note("step")
print("eval_accuracy 0.5", flush=True)
note("end")
