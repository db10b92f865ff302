"""Run the tuned plain script on what one of our jobs has trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

from benchmarks.support.command import CommandRun

SCRIPT = Path(__file__).with_name("tuned_trainer.py")
STEPS_TO_CHOOSE = 8
Choice = tuple[str, str]
"""Number format and attention implementation."""


def plain(run: CommandRun, choice: Choice, steps: int, *, evaluates: bool = True) -> dict[str, float]:
    """Train the script with the seed of a job of ours. Return its samples per second and its validation loss."""
    precision, attention = choice
    own = {
        "precision": precision,
        "attention": attention,
        "max_steps": steps,
        "evaluates": evaluates,
        "output": str(run.job.path / "plain"),
    }
    done = subprocess.run(
        [sys.executable, SCRIPT, run.job.request_file, json.dumps(own)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"error: the plain script failed:\n{done.stderr[-3000:]}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def fastest_choice(run: CommandRun) -> Choice:
    """Return the number format and the attention implementation with which the script is fastest on this machine."""
    choices = list(product(("fp32", "bf16"), ("eager", "sdpa")))
    rates = {each: plain(run, each, STEPS_TO_CHOOSE, evaluates=False)["samples_per_second"] for each in choices}
    print(f"  plain script: {rates}", file=sys.stderr, flush=True)
    return max(rates, key=rates.__getitem__)
