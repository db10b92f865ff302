"""Our defaults against a well-tuned plain script, on each workload: the same rows, batch size, learning rate and steps.

The script gets the better number format and attention implementation of this machine, chosen by trainings with a seed
that is not reported. Then both sides train in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from benchmarks.support.command import CommandRun, train
from benchmarks.support.results import Row, figure, loss_row, write
from benchmarks.support.workloads import WORKLOADS, Workload, check_data

SEEDS, SEED_TO_CHOOSE = range(int(os.environ.get("BENCH_ROUNDS", 5))), 100
STEPS = {"squad": 24, "reviews": 40, "emotion": 100, "mnli": 40, "sst2-gpt2": 12}
"""Optimizer steps of each workload; others are left out."""
VALIDATION_ROWS = {"squad": 100, "sst2-gpt2": 100}
"""Fewer rows where an evaluation takes long."""
PACKED = {"sst2-gpt2"}
"""Workloads that pack many rows of the data into one of the training."""
LEAST = {"squad": 1.5, "sst2-gpt2": 1.5}
"""Least speed-up over the tuned Trainer; for the others, it is 1.1."""
LOSS_DEPENDS_ON_PADDING = {"squad"}
"""Workloads whose loss is a softmax over all positions, padding included."""


Pairs = list[tuple[dict[str, float], dict[str, float]]]
"""Real tokens per second and loss of the script and of ours, for each seed."""
SCRIPT = Path(__file__).with_name("tuned_trainer.py")
STEPS_TO_CHOOSE = 8
Choice = tuple[str, str]
"""Number format and attention implementation."""


def fields(workload: Workload, seed: int) -> dict[str, str]:
    """Return the fields of our side: the experiment's defaults, without a compiler."""
    steps = STEPS[workload.name]
    rows = {"data.validation_rows": str(VALIDATION_ROWS.get(workload.name, 400))}
    if workload.name not in PACKED:
        rows["data.train_rows"] = str(steps * workload.batch_size)
    own = {"max_steps": str(steps), "compiler": "none", "seed": str(seed), "steady_after_steps": "3"}
    return workload.fields(**own, **rows)


def run_pairs(workload: Workload, folder: Path) -> tuple[Choice, Pairs]:
    """Choose the script's settings, then train both sides in turns."""
    choice = fastest_choice(train(folder, fields(workload, SEED_TO_CHOOSE)))
    pairs: Pairs = []
    for seed in SEEDS:
        ours = train(folder, fields(workload, seed))
        result = ours.metrics
        measured = {
            "tokens_per_second": float(result["throughput/steady_tokens_per_second"]),
            "eval_loss": float(result["eval_loss"]),
        }
        pairs.append((plain(ours, choice, STEPS[workload.name]), measured))
        print(f"  {workload.name}, seed {seed}: {pairs[-1]}", file=sys.stderr, flush=True)
    return choice, pairs


def rows(workload: Workload, choice: Choice, pairs: Pairs) -> list[Row]:
    name = f"{workload.name} ({workload.model})"
    theirs, ours = ([each["tokens_per_second"] for each in side] for side in zip(*pairs, strict=True))
    gains = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    least = LEAST.get(workload.name, 1.1)
    figures = [
        figure(f"{name}, tuned Trainer ({', '.join(choice)})", theirs, "real tokens/s"),
        figure(f"{name}, our defaults", ours, "real tokens/s"),
        figure(f"{name}: speed-up in real tokens over the tuned Trainer", gains, "x", least=least),
    ]
    losses = loss_row(
        f"{name}: loss minus the tuned Trainer's, mean",
        [mine["eval_loss"] for _, mine in pairs],
        [other["eval_loss"] for other, _ in pairs],
        has_target=workload.name not in LOSS_DEPENDS_ON_PADDING,
    )
    return [*figures, losses] if losses else figures


def main(names: Sequence[str]) -> None:
    check_data()
    figures: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in WORKLOADS:
            if workload.name in (names or STEPS):
                figures += rows(workload, *run_pairs(workload, Path(folder)))
                write("tuned_trainer", figures)


def plain(run: CommandRun, choice: Choice, steps: int, *, evaluates: bool = True) -> dict[str, float]:
    """Train the script with the seed of a job of ours. Return its real tokens per second and its loss."""
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
    rates = {each: plain(run, each, STEPS_TO_CHOOSE, evaluates=False)["tokens_per_second"] for each in choices}
    print(f"  plain script: {rates}", file=sys.stderr, flush=True)
    return max(rates, key=rates.__getitem__)


if __name__ == "__main__":
    main(sys.argv[1:])
