"""Send a request to an endpoint, or predict every row of a file on this machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.deployments.endpoints import named_service, read_model_folder
from experiments.running import options as read
from experiments.running.output import answer, print_error, print_line, shows_text
from state.regular_files import user_path
from training.contract.errors import InputError

if TYPE_CHECKING:
    from models.inference.predictor import Predictor
    from training.staging.formats.files import TextFormat


ENDPOINT_FIELDS = ("endpoint", "text", "inputs", "parameters", "file", "service")
ENCODING, DELIMITER = "data.encoding", "data.delimiter"
FILE_FIELDS = (
    *("run", "model", "file", "output", "task", "precision", "max_length", "parameters", ENCODING, DELIMITER),
)
COLUMNS = "data.columns."


def predict(fields: Mapping[str, str]) -> int:
    """Print the answer of an endpoint as JSON, or predict a file with `predict_file`."""
    if "file" in fields:
        return predict_file(fields)
    read.check_known("predict", fields, ENDPOINT_FIELDS)
    read.check_not_empty(fields)
    if "endpoint" not in fields:
        raise InputError("predict needs --endpoint NAME, or --file.")
    name = read.read_name("endpoint", fields["endpoint"])
    body = _body(fields)
    response = named_service(fields, print_error).predict(name, json.dumps(body).encode())
    answer({"answer": json.loads(response)})
    if shows_text():
        print_line(response.decode("utf-8", "replace"))
    return 0


def _body(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the request that the fields describe."""
    if "text" in fields and "inputs" in fields:
        raise InputError("--text and --inputs cannot be combined: use --text for one text and --inputs for JSON.")
    if "text" in fields:
        inputs: Any = fields["text"]
    else:
        text = fields.get("inputs")
        if text is None:
            text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
            if not text.strip():
                raise InputError("predict needs --text, --inputs (JSON), --file, or JSON on standard input.")
        inputs = _json("inputs", text)
    parameters = {"parameters": _json("parameters", fields["parameters"])} if "parameters" in fields else {}
    return {"inputs": inputs, **parameters}


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) < 60 else text[:60] + "…"
        raise InputError(f"--{name} is not JSON: {error} in {shown!r}. Use --text for plain text.") from error


def predict_file(fields: Mapping[str, str]) -> int:
    """Predict every row of a file with the model of `run`, or of the folder `model`; return the exit code.

    Raises `InputError` and `TrackingError`.
    """
    if "endpoint" in fields:
        raise InputError("--file needs --run or --model instead of --endpoint: a file is predicted on this machine.")
    columns = {name.removeprefix(COLUMNS): value for name, value in fields.items() if name.startswith(COLUMNS)}
    plain = {name: value for name, value in fields.items() if not name.startswith(COLUMNS)}
    read.check_known("predict --file", plain, FILE_FIELDS)
    read.check_not_empty(plain)
    if ("run" in fields) == ("model" in fields):
        raise InputError("predict --file needs either --run RUN or --model FOLDER.")
    from training.staging.sources.data_files import find_data_files

    text, files = _text_format(fields), find_data_files(fields["file"])
    output = _output(fields, Path(files.name))
    parameters = _json("parameters", fields["parameters"]) if "parameters" in fields else {}
    if not isinstance(parameters, dict):
        raise InputError('--parameters must be a JSON object, such as {"top_k": 3}.')
    predictor = _load_model(fields)
    from rich.console import Console
    from rich.progress import Progress

    from models.batch import check, new_file, predict, read_rows

    rows = partial(read_rows, files, predictor.task, columns, text)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        count = check(predictor, progress.track(rows(), description="Checking"), parameters)
        if not count:
            raise InputError(f"--file {files.name} has no rows.")
        started, bar = time.monotonic(), progress.add_task("Predicting", total=count)
        with new_file(output) as file:
            file.writelines(predict(predictor, rows(), parameters, partial(progress.advance, bar)))
    seconds = time.monotonic() - started
    print_error(f"Predicted {count:,} rows in {seconds:,.1f} s, {count / seconds:,.1f} rows/s.")
    answer({"output": str(output), "rows": count, "seconds": seconds})
    print_line(str(output))
    return 0


def _output(fields: Mapping[str, str], file: Path) -> Path:
    """Return the path of the answers. Raises `InputError` if it cannot be created."""
    if "output" not in fields and not file.exists():
        raise InputError(f"--file {file} is a pattern: name the answers with --output.")
    default = file.with_name(f"{file.name.partition('.')[0] or file.name}.answers.jsonl")
    output = user_path(fields.get("output", str(default)), "--output")
    if output.exists() or output.is_symlink():
        raise InputError(f"--output {output} exists already: choose a different file, or delete it.")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output is {output}, but the folder {output.absolute().parent} does not exist.")
    return output


def _text_format(fields: Mapping[str, str]) -> TextFormat:
    from training.staging.formats.files import UTF8, TextFormat, delimiter_character, encoding_name

    try:
        encoding = encoding_name(fields.get(ENCODING, UTF8))
        delimiter = delimiter_character(fields[DELIMITER]) if DELIMITER in fields else None
    except ValueError as error:
        raise InputError(f"predict --file: {error}") from error
    return TextFormat(encoding=encoding, delimiter=delimiter, prefix="--data.")


def _load_model(fields: Mapping[str, str]) -> Predictor:
    """Load the model with the settings of its evaluation, if known. Fields override precision and maximum length."""
    from models.inference.evaluation import UNKNOWN
    from models.inference.predictor import load_predictor
    from models.logged.model_folder import model_folder
    from models.trained_model import trained_model
    from state.home import home
    from tracking.server.store import open_store

    length = read.read_whole("max_length", fields["max_length"], 1, 1_000_000) if "max_length" in fields else None
    task, precision, evaluation = fields.get("task"), fields.get("precision"), UNKNOWN
    if "model" in fields:
        folder = read_model_folder(fields["model"])
    else:
        store = open_store(echo=print_error, retry_seconds=60.0, otherwise="Nothing was predicted.")
        trained = trained_model(store, fields["run"])
        if trained.chosen:
            print_error(trained.chosen)
        folder = model_folder(store, trained, home(), print_error)
        task, evaluation = task or trained.task or None, trained.evaluation
    predictor = load_predictor(folder, task=task, precision=precision, evaluation=evaluation, max_length=length)
    chosen, evaluated = predictor.loaded.precision, evaluation.precision
    reason = f"the evaluation was in {evaluated}" if evaluated else "the evaluation's is unknown"
    print_error(
        f"Precision: {chosen}, as in the evaluation." if chosen == evaluated else f"Precision: {chosen}; {reason}."
    )
    return predictor
