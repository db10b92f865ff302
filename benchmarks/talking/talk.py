"""A job that costs next to nothing and says what a training says: `loss` at every step, for some seconds."""

from __future__ import annotations

import argparse
import random
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--pause", type=float, required=True)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()

drawn = random.Random(given.seed)
for step in range(1, given.steps + 1):
    # No two jobs of a study are equally fast.
    time.sleep(given.pause * drawn.uniform(0.75, 1.25))
    print(f"step {step} samples {step * given.batch} loss {1 / step:.9f}", flush=True)
print("eval_accuracy 0.5", flush=True)
