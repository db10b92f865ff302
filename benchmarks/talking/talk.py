"""Cheap job that logs like a training: `loss` at every step, for some seconds."""

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
    # The jobs of a study differ in speed.
    time.sleep(arguments.pause * generator.uniform(0.75, 1.25))
    print(f"step {step} samples {step * arguments.batch} loss {1 / step:.9f}", flush=True)
print("eval_accuracy 0.5", flush=True)
