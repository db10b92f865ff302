"""Predict every row of a file with a model, on this machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.deployments import arguments as read
from experiments.deployments.prediction_model import (
    PredictionModel,
    hash_files,
    load_model,
    open_model,
)
from experiments.running.output import print_error, print_line
from training.contract.errors import InputError, TrackingError, TrainfareError
from training.state.regular_files import user_path

if TYPE_CHECKING:
    from models.batch.rows import Source
    from models.batch.unfinished import Unfinished
    from models.inference.predictor import Predictor
    from training.staging.formats.text_format import TextFormat
    from training.staging.sources.data_files import DataFiles

FIELDS = (
    "run",
    "model",
    "file",
    "output",
    "task",
    "precision",
    "max_length",
    "parameters",
    "track",
    "encoding",
    "delimiter",
)
COLUMNS = "columns."
INTERRUPTED = 130
"""Exit code of an interrupted command, as in shells."""


def predict_file(fields: Mapping[str, str]) -> int:
    """Predict every row of a file with the model of `run`, or of the folder `model`; return the exit code.

    Raises `InputError` and `TrackingError`.
    """
    _check_fields(fields)

    from training.staging.sources.data_files import find_data_files

    text, files = _text_format(fields), find_data_files(fields["file"])
    output = user_path(fields.get("output") or _default_output(files), "--output")
    if output.exists():
        raise InputError(f"--output {output} exists already: choose a different file, or delete it.")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output is {output}, but the folder {output.absolute().parent} does not exist.")
    parameters = _parameters(fields)
    model = open_model(fields)
    predictor = load_model(model, fields)
    from models.batch.rows import Source

    columns = {name.removeprefix(COLUMNS): value for name, value in fields.items() if name.startswith(COLUMNS)}
    source = Source(files=files, task=predictor.task, columns=columns, text=text)
    source.check()
    return _predict(model, predictor, source, parameters, output)


def _check_fields(fields: Mapping[str, str]) -> None:
    if "endpoint" in fields:
        raise InputError("--file needs --run or --model instead of --endpoint: a file is predicted on this machine.")
    plain = {name: value for name, value in fields.items() if not name.startswith(COLUMNS)}
    read.check_known("predict --file", plain, FIELDS)
    read.check_not_empty(plain)
    if ("run" in fields) == ("model" in fields):
        raise InputError("predict --file needs either --run RUN or --model FOLDER.")


def _text_format(fields: Mapping[str, str]) -> TextFormat:
    from training.staging.formats.text_format import UTF8, TextFormat, delimiter_character, encoding_name

    try:
        encoding = encoding_name(fields.get("encoding", UTF8))
        delimiter = delimiter_character(fields["delimiter"]) if "delimiter" in fields else None
    except ValueError as error:
        raise InputError(f"predict --file: {error}") from error
    return TextFormat(encoding=encoding, delimiter=delimiter, prefix="--")


def _default_output(files: DataFiles) -> str:
    file = Path(files.name)
    if not file.exists():
        raise InputError(f"--file {files.name} is a pattern: name the answers with --output.")
    return str(file.with_name(f"{file.name.partition('.')[0] or file.name}.answers.jsonl"))


def _parameters(fields: Mapping[str, str]) -> dict[str, Any] | None:
    if "parameters" not in fields:
        return None
    try:
        parameters = json.loads(fields["parameters"])
    except (ValueError, RecursionError) as error:
        raise InputError(f"--parameters is not JSON: {error}.") from error
    if not isinstance(parameters, dict):
        raise InputError('--parameters must be a JSON object, such as {"top_k": 3}.')
    return parameters


def _predict(
    model: PredictionModel, predictor: Predictor, source: Source, parameters: dict[str, Any] | None, output: Path
) -> int:
    from models.batch.prediction import check
    from models.batch.progress import Progress
    from models.batch.unfinished import Unfinished

    with Progress("Checking", sys.stderr) as progress:
        rows = check(predictor, source.rows(), parameters, progress.update)
    if not rows:
        raise InputError(f"--file {source.files.name} has no rows.")
    inputs = _inputs(model, predictor, source, parameters)
    with Unfinished(output, inputs) as unfinished:
        return _finish(model, predictor, source, parameters, unfinished, rows, inputs)


def _finish(
    model: PredictionModel,
    predictor: Predictor,
    source: Source,
    parameters: dict[str, Any] | None,
    unfinished: Unfinished,
    rows: int,
    inputs: Mapping[str, str],
) -> int:
    """Predict the remaining rows, and return the exit code."""
    before = unfinished.done + len(unfinished.window_answers)
    if before:
        print_error(f"{before:,} of {rows:,} rows were predicted before; continuing with the rest.")
    run_id = _start_run(model, inputs, unfinished)
    started = time.monotonic()
    try:
        _run(predictor, source, parameters, unfinished, rows)
        if _digest(source) != inputs["file_digest"]:
            raise InputError(
                f"--file {source.files.name} changed while its rows were predicted: delete {unfinished.folder} and run "
                "the same command again."
            )
    except (KeyboardInterrupt, Exception) as error:
        is_killed = isinstance(error, KeyboardInterrupt)
        _end(model, run_id, "KILLED" if is_killed else "FAILED", {}, "Not finished: run the same command to continue.")
        if not is_killed:
            raise
        print_error(f"Stopped. The same command continues from {unfinished.folder}.")
        return INTERRUPTED
    unfinished.finish()
    _record_result(model, run_id, rows, rows - before, time.monotonic() - started, unfinished.output)
    return 0


def _run(
    predictor: Predictor, source: Source, parameters: dict[str, Any] | None, unfinished: Unfinished, rows: int
) -> None:
    from models.batch.prediction import run
    from models.batch.progress import Progress

    with Progress("Predicting", sys.stderr) as progress:
        progress.set_total(rows, done_before=unfinished.done + len(unfinished.window_answers))
        run(predictor, source.rows(), parameters, unfinished, progress.update)


def _inputs(
    model: PredictionModel, predictor: Predictor, source: Source, parameters: dict[str, Any] | None
) -> dict[str, str]:
    """Return all that predictions depend on, so that a resumed output never mixes those of two requests."""
    from training.staging.sources.data_files import describe_files

    loaded = predictor.loaded
    return {
        "model": model.trained.run_id if model.trained else str(model.folder),
        "model_digest": hash_files(model.folder),
        "file": describe_files(source.files, list(source.columns_by_role.values()), source.text),
        "file_digest": _digest(source),
        "task": predictor.task,
        "columns": json.dumps(dict(source.columns), sort_keys=True),
        "parameters": json.dumps(parameters or {}, sort_keys=True),
        "precision": str(loaded.precision),
        "batch_size": str(loaded.batch_size or "any"),
        "max_length": str(loaded.max_length),
        "device": loaded.device,
    }


def _digest(source: Source) -> str:
    from training.staging.formats.files import digest_file
    from training.staging.sources.data_files import digest_files

    if len(source.files.paths) == 1 and not source.text.identity:
        return digest_file(source.files.paths[0])
    return digest_files(source.files, source.text)


def _start_run(model: PredictionModel, inputs: Mapping[str, str], unfinished: Unfinished) -> str | None:
    if model.store is None or not model.is_tracked:
        return None
    from models.batch.prediction_run import begin

    run_id = begin(model.store, model.trained, inputs, unfinished.note("run"))
    unfinished.set_note("run", run_id)
    return run_id


def _record_result(
    model: PredictionModel, run_id: str | None, rows: int, predicted: int, seconds: float, output: Path
) -> None:
    rate = predicted / seconds if seconds > 0 else 0.0
    print_error(f"Predicted {predicted:,} rows in {seconds:,.1f} s, {rate:,.1f} rows/s.")
    print_line(str(output))
    figures = {
        "prediction/rows": float(rows),
        "prediction/predicted_rows": float(predicted),
        "prediction/seconds": seconds,
        "prediction/rows_per_second": rate,
    }
    _end(model, run_id, "FINISHED", figures, f"{rows:,} rows predicted by {model.name}: `{output.absolute()}`.")


def _end(model: PredictionModel, run_id: str | None, status: str, figures: Mapping[str, float], note: str) -> None:
    if run_id is None or model.store is None:
        return
    from models.batch.prediction_run import end

    with suppress(TrackingError, TrainfareError):
        end(model.store, run_id, status, figures, note)
