"""A file answered by `predict` against `transformers.pipeline` over the same file: same model, one process, in turn."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.support.data import check_data
from benchmarks.support.fitted_model import LABELS, contexts, emotion, write_model
from benchmarks.support.results import Row, measured, write

ROUNDS = 3
SHORT, LONG = 400, 60
"""Texts: messages of some 22 tokens, and contexts of some 150."""
TARGET = 3.0

NOTES = [
    "MiniLM (6 layers, 384 wide) with a head fitted to emotion; both sides in fp32. short: the first 400 messages of "
    "emotion's test set; long: 60 contexts of SQuAD. From JSON lines to JSON lines, the model loaded before; the "
    "pipeline in its default, which is batch size 1. The sides take turns.",
    "one at a time: every text by itself, in the same process, without HTTP.",
    "bf16 against fp32: the same messages answered in either precision; a processor without it emulates it, so its "
    "speed is not told.",
]


def by_pipeline(pipe: Any, file: Path, output: Path) -> None:
    """Answer the file as a short script does."""
    texts = [json.loads(line)["text"] for line in file.open(encoding="utf-8")]
    with output.open("w", encoding="utf-8") as answers:
        for answer in pipe(texts, truncation=True):
            answers.write(json.dumps(answer) + "\n")


_loaded: list[Any] = []
"""The predictor of the process that answers files."""


def load(folder: Path) -> None:
    """Load the model in a process of its own, as the verb has one: the threads of one side's batches would slow down
    the other side's products."""
    from models.inference.predictor import load_predictor

    _loaded.append(load_predictor(folder, precision="fp32"))


def by_predict(file: Path, output: Path) -> None:
    """Answer the file as the verb does, from the check of its rows to the output."""
    predictor = _loaded[0]
    from models.batch.prediction import check, run
    from models.batch.rows import Source
    from models.batch.unfinished import Unfinished

    source = Source(path=file, task=predictor.task)
    check(predictor, source.rows(), None, lambda _: None)
    with Unfinished(output, {}) as unfinished:
        run(predictor, source.rows(), None, unfinished, lambda _: None)
        unfinished.finish()


def in_turn(sides: dict[str, Callable[[], None]], count: int) -> dict[str, list[float]]:
    """Return the rows/s of each side, `ROUNDS` times in turn; a first turn is not counted."""
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(ROUNDS + 1):
        for name, side in sides.items():
            started = time.perf_counter()
            side()
            if turn:
                found[name].append(count / (time.perf_counter() - started))
    return found


def compared(kind: str, found: dict[str, list[float]], target: float | None) -> list[Row]:
    """Return the rates of both sides, and the ratio of the turns."""
    ours, theirs = found.values()
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    words = f"at least {target:g} times the pipeline's" if target else None
    met = statistics.median(ratios) >= target if target else None
    rates = [measured(f"{kind}: {name}", values, "rows/s") for name, values in found.items()]
    return [*rates, measured(f"{kind}: ratio", ratios, "x", words, met)]


def files(pipe: Any, answering: ProcessPoolExecutor, folder: Path) -> list[Row]:
    """Return the rates of whole files."""
    rows = []
    kinds = {"short": [row["text"] for row in emotion("test", SHORT)], "long": contexts(LONG)}
    for kind, texts in kinds.items():
        file = folder / f"{kind}.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        ours, theirs = folder / f"{kind}.ours.jsonl", folder / f"{kind}.theirs.jsonl"

        def predict(file: Path = file, output: Path = ours) -> None:
            output.unlink(missing_ok=True)
            answering.submit(by_predict, file, output).result()

        def direct(file: Path = file, output: Path = theirs) -> None:
            by_pipeline(pipe, file, output)

        found = in_turn({"predict": predict, "pipeline": direct}, len(texts))
        rows += compared(f"file of {kind} texts", found, TARGET)
        rows += same(f"file of {kind} texts", answers(ours), answers(theirs))
    return rows


def answers(file: Path) -> list[dict[str, Any]]:
    """Return the answers of a file."""
    return [json.loads(line) for line in file.open(encoding="utf-8")]


def same(kind: str, ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> list[Row]:
    """Return how far two sides' answers agree."""
    pairs = list(zip(ours, theirs, strict=True))
    equal = sum(mine["label"] == other["label"] for mine, other in pairs) / len(pairs)
    apart = max(abs(mine["score"] - other["score"]) for mine, other in pairs if mine["label"] == other["label"])
    return [
        Row(name=f"{kind}: equal labels", value=100 * equal, unit="%", n=len(pairs)),
        Row(name=f"{kind}: largest difference of a score", value=apart, unit="", n=len(pairs)),
    ]


def one_at_a_time(pipe: Any, predictor: Any) -> list[Row]:
    """Return the rates of single texts."""
    texts = [row["text"] for row in emotion("test", SHORT // 2)]

    def ours() -> None:
        for text in texts:
            predictor.answer(text)

    def theirs() -> None:
        for text in texts:
            pipe(text)

    return compared("one at a time", in_turn({"predictor": ours, "pipeline": theirs}, len(texts)), None)


def precisions(predictor: Any, folder: Path) -> list[Row]:
    """Return how far answers in bf16 agree with those in fp32, and how many of either are right."""
    from models.inference.predictor import load_predictor

    rows = emotion("test", SHORT // 2)
    texts = [row["text"] for row in rows]
    found = {
        name: [answer for at in range(0, len(texts), 16) for answer in each.answer(texts[at : at + 16])]
        for name, each in {"fp32": predictor, "bf16": load_predictor(folder, precision="bf16")}.items()
    }
    right = [row["label"] if isinstance(row["label"], str) else LABELS[row["label"]] for row in rows]
    scored = [
        Row(
            name=f"accuracy in {name}",
            value=100 * sum(answer["label"] == label for answer, label in zip(made, right, strict=True)) / len(right),
            unit="%",
            n=len(right),
        )
        for name, made in found.items()
    ]
    return [*same("bf16 against fp32", found["bf16"], found["fp32"]), *scored]


def main() -> None:
    """Measure all, and write the result."""
    check_data()
    from transformers import pipeline

    from models.inference.predictor import load_predictor

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "model"
        write_model(folder)
        pipe = pipeline("text-classification", model=str(folder))
        predictor = load_predictor(folder, precision="fp32")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=load, initargs=(folder,)) as answering:
            rows = files(pipe, answering, Path(name))
        rows += [*one_at_a_time(pipe, predictor), *precisions(predictor, folder)]
    write("prediction", rows, NOTES)


if __name__ == "__main__":
    main()
