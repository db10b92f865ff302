"""`predict` with a file: every row answered by a run's model, on this machine."""

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
    AnsweringModel,
    answering_model,
    digest_of,
    loaded_predictor,
)
from experiments.running.output import remark
from training.contract.errors import InputError, TrackingError, TrainfareError

if TYPE_CHECKING:
    from models.batch.rows import Source
    from models.batch.unfinished import Unfinished
    from models.inference.predictor import Predictor

FIELDS = ("run", "model", "file", "output", "task", "precision", "max_length", "parameters", "track")
COLUMNS = "columns."
INTERRUPTED = 130
"""Exit code of a command that was interrupted, as shells have it."""


def predict_file(given: Mapping[str, str]) -> int:
    """Answer every row of a file with the model of `run`, or that in the folder `model`, and return the exit code."""
    _check_fields(given)
    from training.staging.sources.files import check_file

    file = Path(given["file"]).expanduser()
    check_file(file)
    output = Path(given.get("output") or _beside(file)).expanduser()
    if output.exists():
        raise InputError(f"output {output} exists already: name another file, or delete it first")
    if not output.absolute().parent.is_dir():
        raise InputError(f"output {output}: the folder {output.absolute().parent} does not exist")
    parameters = _parameters(given)
    model = answering_model(given)
    predictor = loaded_predictor(model, given)
    from models.batch.rows import Source

    columns = {name.removeprefix(COLUMNS): value for name, value in given.items() if name.startswith(COLUMNS)}
    source = Source(path=file, task=predictor.task, columns=columns)
    source.check()
    return _predict(model, predictor, source, parameters, output)


def _check_fields(given: Mapping[str, str]) -> None:
    if "endpoint" in given:
        raise InputError("file goes with run or model, not with endpoint: the file is answered on this machine")
    plain = {name: value for name, value in given.items() if not name.startswith(COLUMNS)}
    read.known_only("predict with a file", plain, FIELDS)
    if ("run" in given) == ("model" in given):
        raise InputError("predict with a file needs run=RUN or model=FOLDER, and not both")


def _beside(file: Path) -> str:
    return str(file.with_name(f"{file.name.partition('.')[0] or file.name}.answers.jsonl"))


def _parameters(given: Mapping[str, str]) -> dict[str, Any] | None:
    if "parameters" not in given:
        return None
    try:
        found = json.loads(given["parameters"])
    except (ValueError, RecursionError) as error:
        raise InputError(f"parameters is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError('parameters must be a JSON object, such as {"top_k": 3}')
    return found


def _predict(
    model: AnsweringModel, predictor: Predictor, source: Source, parameters: dict[str, Any] | None, output: Path
) -> int:
    from models.batch.prediction import check
    from models.batch.progress import Progress
    from models.batch.unfinished import Unfinished

    with Progress("Checking", sys.stderr) as progress:
        rows = check(predictor, source.rows(), parameters, progress.saw)
    if not rows:
        raise InputError(f"{source.path} has no rows")
    told = _told(model, predictor, source, parameters)
    with Unfinished(output, told) as unfinished:
        return _finished(model, predictor, source, parameters, unfinished, rows, told)


def _finished(
    model: AnsweringModel,
    predictor: Predictor,
    source: Source,
    parameters: dict[str, Any] | None,
    unfinished: Unfinished,
    rows: int,
    told: Mapping[str, str],
) -> int:
    """Answer what is left, and return the exit code."""
    before = unfinished.done + len(unfinished.known)
    if before:
        remark(f"{before:,} of {rows:,} rows were answered before; the rest follows.")
    run_id = _begun(model, told, unfinished)
    started = time.monotonic()
    try:
        _run(predictor, source, parameters, unfinished, rows)
    except (KeyboardInterrupt, Exception) as error:
        is_killed = isinstance(error, KeyboardInterrupt)
        _end(model, run_id, "KILLED" if is_killed else "FAILED", {}, "Not finished: the same command goes on.")
        if not is_killed:
            raise
        remark(f"Stopped. The same command goes on with what is in {unfinished.folder}.")
        return INTERRUPTED
    unfinished.finish()
    _tell(model, run_id, rows, rows - before, time.monotonic() - started, unfinished.output)
    return 0


def _run(
    predictor: Predictor, source: Source, parameters: dict[str, Any] | None, unfinished: Unfinished, rows: int
) -> None:
    from models.batch.prediction import run
    from models.batch.progress import Progress

    with Progress("Predicting", sys.stderr) as progress:
        progress.of(rows, before=unfinished.done + len(unfinished.known))
        run(predictor, source.rows(), parameters, unfinished, progress.saw)


def _told(
    model: AnsweringModel, predictor: Predictor, source: Source, parameters: dict[str, Any] | None
) -> dict[str, str]:
    """Return what the answers depend on: no two of these may be mixed in one output."""
    from training.staging.sources.files import digest_file

    loaded = predictor.loaded
    return {
        "model": model.trained.run_id if model.trained else str(model.folder),
        "model_digest": digest_of(model.folder),
        "file": str(source.path),
        "file_digest": digest_file(source.path),
        "task": predictor.task,
        "columns": json.dumps(dict(source.columns), sort_keys=True),
        "parameters": json.dumps(parameters or {}, sort_keys=True),
        "precision": loaded.precision,
        "max_length": str(loaded.max_length),
        "device": loaded.device,
    }


def _begun(model: AnsweringModel, told: Mapping[str, str], unfinished: Unfinished) -> str | None:
    if model.store is None or not model.is_tracked:
        return None
    from models.batch.prediction_run import begin

    run_id = begin(model.store, model.trained, told, unfinished.note("run"))
    unfinished.set_note("run", run_id)
    return run_id


def _tell(model: AnsweringModel, run_id: str | None, rows: int, predicted: int, seconds: float, output: Path) -> None:
    rate = predicted / seconds if seconds > 0 else 0.0
    remark(f"Predicted {predicted:,} rows in {seconds:,.1f} s, {rate:,.1f} rows/s.")
    print(output, flush=True)
    figures = {
        "prediction/rows": float(rows),
        "prediction/predicted_rows": float(predicted),
        "prediction/seconds": seconds,
        "prediction/rows_per_second": rate,
    }
    _end(model, run_id, "FINISHED", figures, f"{rows:,} rows answered by {model.name}: `{output.absolute()}`.")


def _end(model: AnsweringModel, run_id: str | None, status: str, figures: Mapping[str, float], note: str) -> None:
    if run_id is None or model.store is None:
        return
    from models.batch.prediction_run import end

    with suppress(TrackingError, TrainfareError):
        end(model.store, run_id, status, figures, note)
