"""Cheap job that logs like a training: it prints `samples` and `loss` at every step, with pauses."""

from __future__ import annotations

import argparse
import random
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--pause", type=float, required=True)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()

generator = random.Random(arguments.seed)
for step in range(1, arguments.steps + 1):
    # Jobs with different seeds have different pauses, like real jobs.
    time.sleep(arguments.pause * generator.uniform(0.75, 1.25))
    print(f"step {step} samples {step * arguments.batch} loss {1 / step:.9f}", flush=True)
print("eval_accuracy 0.5", flush=True)
