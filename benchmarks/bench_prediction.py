"""Throughput of `predict` on a file, compared with `transformers.pipeline` on the same model and file."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.support.data import check_data
from benchmarks.support.fitted_model import LABELS, contexts, emotion, write_model
from benchmarks.support.matmul_peak import peak_flops_per_second
from benchmarks.support.results import Row, median_row, write

ROUNDS = 3
SHORT, LONG = 400, 60
"""Numbers of texts: messages of about 22 tokens, and contexts of about 150."""
TARGETS = {"short": {"predict": 3.0}, "long": {"predict, fastest": 1.8}}
"""Least ratio to the pipeline's rate. In the same precision, a long text fills the CPU in the pipeline, too."""

NOTES = [
    "MiniLM (6 layers, 384 wide) with a head fitted to emotion, fp32 on both sides. Short texts are the first 400 "
    "messages of emotion's test set; long texts are 60 contexts of SQuAD. Input and output are JSON lines. Loading the "
    'model is not counted. The pipeline runs with its default batch size of 1. The sides alternate. "Fastest" is '
    "`--precision fastest`: the whole model in the format that this CPU multiplies fastest.",
    "Matrix products of long texts: 2 FLOP per matrix parameter and token, excluding padding and attention's "
    "own products, relative to a large product in fp32. The gap to 1 is the most that anything but a faster format "
    "could gain.",
    "One at a time: single texts, in the same process, without HTTP.",
    "bf16 against fp32: the same messages in both precisions. bf16 is the whole model in bf16, as with "
    "`precision=fastest` on a CPU that supports it.",
]


def predict_with_pipeline(pipe: Any, file: Path, output: Path) -> None:
    """Predict the file with the pipeline, as a short script would."""
    texts = [json.loads(line)["text"] for line in file.open(encoding="utf-8")]
    with output.open("w", encoding="utf-8") as answers:
        for answer in pipe(texts, truncation=True):
            answers.write(json.dumps(answer) + "\n")


_loaded: dict[str, Any] = {}
"""Predictors of the separate process that predicts files, by precision."""


def load(folder: Path) -> None:
    """Load the model in a separate process, as the command does.

    In one process, the threads of one side's batches would slow down the other side's matrix products.
    """
    from models.inference.predictor import load_predictor

    _loaded.update({name: load_predictor(folder, precision=name) for name in ("fp32", "fastest")})


def predict_with_command(file: Path, output: Path, precision: str) -> None:
    """Predict the file as our command does, from checking its rows to writing the output."""
    predictor = _loaded[precision]
    from models.batch.prediction import check, run
    from models.batch.rows import Source
    from models.batch.unfinished import Unfinished
    from training.staging.sources.data_files import find_data_files

    source = Source(files=find_data_files(str(file)), task=predictor.task)
    check(predictor, source.rows(), None, lambda _: None)
    with Unfinished(output, {}) as unfinished:
        run(predictor, source.rows(), None, unfinished, lambda _: None)
        unfinished.finish()


def alternate(sides: dict[str, Callable[[], None]], count: int) -> dict[str, list[float]]:
    """Return the rows/s of each side in `ROUNDS` alternating rounds. A warm-up round is not counted."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for round_number in range(ROUNDS + 1):
        for name, side in sides.items():
            started = time.perf_counter()
            side()
            if round_number:
                rates[name].append(count / (time.perf_counter() - started))
    return rates


def comparison_rows(kind: str, rates: dict[str, list[float]], targets: Mapping[str, float]) -> list[Row]:
    """Return the rates of all sides, and the ratios of ours to the pipeline's, the last, in each round."""
    rows = [median_row(f"{kind}: {name}", values, "rows/s") for name, values in rates.items()]
    *ours, theirs = rates
    for name in ours:
        ratios = [mine / other for mine, other in zip(rates[name], rates[theirs], strict=True)]
        target = targets.get(name)
        description = f"at least {target:g} x" if target else None
        met = statistics.median(ratios) >= target if target else None
        rows.append(median_row(f"{kind}: {name} ÷ {theirs}", ratios, "x", description, met))
    return rows


def file_rows(pipe: Any, answering: ProcessPoolExecutor, folder: Path) -> list[Row]:
    """Measure both sides on whole files. Return the rates and the agreement of the answers."""
    rows = []
    kinds = {"short": [row["text"] for row in emotion("test", SHORT)], "long": contexts(LONG)}
    for kind, texts in kinds.items():
        file = folder / f"{kind}.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        ours, theirs, fastest = (folder / f"{kind}.{side}.jsonl" for side in ("ours", "theirs", "fastest"))

        def predict(file: Path = file, output: Path = ours, precision: str = "fp32") -> None:
            output.unlink(missing_ok=True)
            answering.submit(predict_with_command, file, output, precision).result()

        def predict_fastest(file: Path = file, output: Path = fastest) -> None:
            predict(file, output, "fastest")

        def direct(file: Path = file, output: Path = theirs) -> None:
            predict_with_pipeline(pipe, file, output)

        rates = alternate({"predict": predict, "predict, fastest": predict_fastest, "pipeline": direct}, len(texts))
        rows += comparison_rows(f"file of {kind} texts", rates, TARGETS[kind])
        if kind == "long":
            rows.append(products_row(pipe, texts, statistics.median(rates["predict"])))
        rows += agreement_rows(f"file of {kind} texts", read_answers(ours), read_answers(theirs))
    return rows


def products_row(pipe: Any, texts: Sequence[str], rows_per_second: float) -> Row:
    """Return the part of this machine's speed of matrix products that predicting these texts in fp32 reaches."""
    tokens = sum(len(pipe.tokenizer(text, truncation=True)["input_ids"]) for text in texts)
    encoder = pipe.model.base_model.encoder
    flop = 2 * tokens * sum(weights.numel() for weights in encoder.parameters() if weights.ndim == 2)
    reached = flop / len(texts) * rows_per_second / peak_flops_per_second("fp32")
    return Row(name="file of long texts: matrix products in fp32", value=reached, unit="of the matmul peak")


def read_answers(file: Path) -> list[dict[str, Any]]:
    """Return the answers in a file."""
    return [json.loads(line) for line in file.open(encoding="utf-8")]


def agreement_rows(kind: str, ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the agreement between the answers of two sides."""
    pairs = list(zip(ours, theirs, strict=True))
    equal = sum(mine["label"] == other["label"] for mine, other in pairs) / len(pairs)
    difference = max(abs(mine["score"] - other["score"]) for mine, other in pairs if mine["label"] == other["label"])
    return [
        Row(name=f"{kind}: equal labels", value=100 * equal, unit="%", n=len(pairs)),
        Row(name=f"{kind}: largest difference of a score", value=difference, unit="", n=len(pairs)),
    ]


def single_text_rows(pipe: Any, predictor: Any) -> list[Row]:
    """Measure both sides on single texts, one after the other."""
    texts = [row["text"] for row in emotion("test", SHORT // 2)]

    def ours() -> None:
        for text in texts:
            predictor.answer(text)

    def theirs() -> None:
        for text in texts:
            pipe(text)

    return comparison_rows("one at a time", alternate({"predictor": ours, "pipeline": theirs}, len(texts)), {})


def precision_rows(predictor: Any, folder: Path) -> list[Row]:
    """Return the agreement of bf16 answers with fp32 answers, and the accuracy of each. The CPU must support bf16."""
    from models.inference.predictor import load_predictor

    rows = emotion("test", SHORT // 2)
    texts = [row["text"] for row in rows]
    predictions = {
        name: [answer for at in range(0, len(texts), 16) for answer in each.answer(texts[at : at + 16])]
        for name, each in {"fp32": predictor, "bf16": load_predictor(folder, precision="fastest")}.items()
    }
    labels = [row["label"] if isinstance(row["label"], str) else LABELS[row["label"]] for row in rows]
    scored = [
        Row(
            name=f"accuracy in {name}",
            value=100
            * sum(answer["label"] == label for answer, label in zip(answers, labels, strict=True))
            / len(labels),
            unit="%",
            n=len(labels),
        )
        for name, answers in predictions.items()
    ]
    return [*agreement_rows("bf16 against fp32", predictions["bf16"], predictions["fp32"]), *scored]


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
            rows = file_rows(pipe, answering, Path(name))
        rows += [*single_text_rows(pipe, predictor), *precision_rows(predictor, folder)]
    write("prediction", rows, NOTES)


if __name__ == "__main__":
    main()
