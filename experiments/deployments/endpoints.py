"""Register and deploy a trained model, send requests to its endpoint, and predict files with it on this machine.

The imports at the top are light, so that a request to an endpoint answers at once.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from experiments.deployments.services import ENDPOINTS, open_endpoints
from experiments.running import options as read
from experiments.running.output import print_error, print_line
from models.endpoints.protocol import Echo, Endpoints, EndpointSpec, EndpointState
from reports.formats.terminal import PlainConsole
from state.home import home
from state.regular_files import user_path
from training.contract.errors import (
    EndpointNotFound,
    InputError,
    ServiceError,
    TrackingError,
    TrainfareError,
    nearest,
)
from training.contract.price import Price
from training.services.registry import DEFAULT, services_with, traits_of

if TYPE_CHECKING:
    from models.batch import OnRow, Source
    from models.inference.predictor import Predictor
    from models.registry import Registered
    from models.trained_model import TrainedModel
    from tracking.server.store import Store
    from training.staging.formats.files import TextFormat

WAIT_SECONDS = 1800.0
RETRY_SECONDS = 30.0
PENDING_NAME = "later"
"""Placeholder for the endpoint's name until the run has been read."""
Result = TypeVar("Result")
COLUMNS = ("endpoint", "service", "model", "status", "since", "USD/hour", "USD", "address")


def deploy(fields: Mapping[str, str]) -> int:
    """Deploy the model of `run`, or of the folder `model`; see `docs/models.md`."""
    spec, service, aws = read_request(fields)
    spec = with_run(fields, spec) if "run" in fields else spec
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that `deploy` undoes its work
    endpoints, is_billed = open_endpoints(service, aws, print_line), traits_of(service).has_prices
    cost = hourly(endpoints.price(spec.machine), spec.machines)
    if is_billed:
        print_line(f"Cost: {cost}, until it is undeployed")
    state = endpoints.deploy(spec, print_line)
    print_line(f"Endpoint: {state.name} ({state.service}, {state.status})")
    print_line(f"Address: {state.address}")
    options = [f"--{name} {fields[name]}" for name in ("service", "aws.region", "aws.profile") if name in fields]
    words = " ".join(["--endpoint", state.name, *options])
    print_line(f'Try it: trainfare predict {words} --text "..."')
    print_line(f"Delete it: trainfare undeploy {words}" + (f" (it costs {cost})" if is_billed else ""))
    return 0


def hourly(price: Price | None, machines: int) -> str:
    """Return the price of some machines by the hour, with its source, in words."""
    if price is None:
        return "an unknown price per hour"
    return f"{price.usd_per_hour * machines:.4g} USD per hour ({price.source}, {price.date})"


def read_request(fields: Mapping[str, str]) -> tuple[EndpointSpec, str, dict[str, Any]]:
    """Return the request without the model of a run, its service and the fields `aws.*`. Raises `InputError`."""
    read.check_not_empty(fields)
    service = read.read_service(fields, ENDPOINTS) or DEFAULT
    aws = read.read_aws(fields) | {name: fields[name] for name in ("image", "ami") if name in fields}
    spec = read_spec(fields, service)
    if aws and not traits_of(service).reads_aws:
        needed = services_with("reads_aws")
        raise InputError(f"--aws.*, --image and --ami need --service {needed}, but --service is {service}.")
    if "prices" in aws:
        from training.services.sagemaker.prices import table_price

        table_price(aws["prices"], spec.machine)  # fails before anything is created
    return spec, service, aws


def read_spec(fields: Mapping[str, str], service: str) -> EndpointSpec:
    """Read and check the request; `with_run` adds the model of a run. Raises `InputError`."""
    from models.inference.evaluation import PRECISIONS

    if ("run" in fields) == ("model" in fields):
        raise InputError("deploy needs either --run (a run id, a job name or a group id) or --model (a folder).")
    traits = traits_of(service)
    machine = fields.get("machine", traits.instance_type)
    if machine is None:
        raise InputError(f"--service {service} needs --machine, an instance type such as ml.g4dn.xlarge.")
    if traits.instance_type not in (None, machine):
        raise InputError(f"--machine is '{machine}': --service {service} runs only on {traits.label}.")
    if not traits.runs_here and read.read_flag(fields, "replace"):
        raise InputError(
            f"--replace needs --service {services_with('runs_here')}: on {traits.label}, deploy under another --name "
            "and undeploy the old endpoint."
        )
    folder = user_path(fields.get("model", "."), "--model")
    if "model" in fields and not (folder / "config.json").is_file():
        raise InputError(f"--model is '{folder}': it must be a Transformers folder, with a config.json.")
    folder_name = re.sub(r"[^a-zA-Z0-9]+", "-", folder.resolve().name).strip("-")[:63].strip("-")
    name = fields.get("name") or folder_name or "model"
    return EndpointSpec(
        name=read.read_name("name", name) if "run" not in fields else PENDING_NAME,
        model=folder.resolve(),
        host=fields.get("host", "127.0.0.1"),
        token_file=_token_file(fields, service),
        machine=machine,
        machines=read.read_whole("machines", fields.get("machines", "1"), 1, 1 if traits.is_one_machine else 100),
        replace=read.read_flag(fields, "replace"),
        precision=read.one_of("precision", fields["precision"], PRECISIONS) if "precision" in fields else None,
        wait_seconds=read.read_seconds("wait", fields["wait"]) if "wait" in fields else WAIT_SECONDS,
    )


def _token_file(fields: Mapping[str, str], service: str) -> Path | None:
    """Return the path of the token's file. Raises `InputError` if the server would not accept host or token."""
    from models.server.access import access, read_token

    chosen = next((name for name in ("host", "token-file") if name in fields), None)
    if chosen and not traits_of(service).runs_here:
        raise InputError(
            f"--{chosen} needs --service {services_with('runs_here')}: endpoints on {traits_of(service).label} are "
            "protected by its permissions."
        )
    path = user_path(fields["token-file"], "--token-file").resolve() if "token-file" in fields else None
    access(fields.get("host", "127.0.0.1"), read_token(path) if path else None)
    return path


def with_run(fields: Mapping[str, str], spec: EndpointSpec) -> EndpointSpec:
    """Return the spec with the run's model filled in and fetched. The model must pass the quality gate.

    Raises `InputError`, `NotGoodEnough` and `TrackingError`.
    """
    from models.logged.model_folder import model_folder
    from tracking.server.store import open_store

    store = open_store(retry_seconds=RETRY_SECONDS, otherwise="Nothing was deployed.", echo=print_line)
    filled, trained = with_trained(fields, spec, store, print_line)
    return replace(filled, model=model_folder(store, trained, home(), print_line))


def with_trained(
    fields: Mapping[str, str], spec: EndpointSpec, store: Store, echo: Callable[[str], None]
) -> tuple[EndpointSpec, TrainedModel]:
    """Return the spec with the run's model filled in, except its folder, and the model. Reads only.

    Raises `InputError`, `NotGoodEnough` and `TrackingError`.
    """
    from models.registry import CHAMPION, GATE_CHECKS, Registry, check, checked_alias, registered_name
    from models.trained_model import model_name, trained_model

    allowed = read.read_choices("allow", fields.get("allow", ""), GATE_CHECKS)
    alias = checked_alias(fields.get("alias", CHAMPION))
    name = read.read_name("name", fields["name"]) if "name" in fields else None
    trained = trained_model(store, fields["run"])
    if trained.chosen:
        echo(f"Winner of group {trained.group}: {trained.chosen}")
    registered = model_name(fields["run"]) or registered_name(trained.experiment_name)
    check(trained, Registry(store).in_use(registered, alias), allowed)
    filled = replace(
        spec,
        evaluation=trained.evaluation,
        name=name or read.read_name("name", trained.job_name),
        task=trained.task or None,
        run_id=trained.run_id,
        model_id=trained.model_id,
        artifact_uri=trained.artifact_uri,
        versions=trained.versions,
    )
    return filled, trained


def search(
    fields: Mapping[str, str], echo: Echo, look: Callable[[Endpoints], Result]
) -> Iterator[tuple[Endpoints, Result]]:
    """Yield the service that the fields name with what `look` returns for it.

    Without a name, these are all services, as far as an AWS region is set: an error of any but the first is a note.
    """
    aws = read.read_aws(fields)
    chosen = read.read_service(fields, ENDPOINTS)
    for name in [chosen] if chosen else [each for each in ENDPOINTS if traits_of(each).reads_aws or not aws]:
        try:
            service = open_endpoints(name, aws, echo)
            yield service, look(service)
        except (InputError, ServiceError) as error:
            if chosen or aws or name == DEFAULT:
                raise
            if not isinstance(error, InputError):  # else, no region is set
                echo(f"Note: {traits_of(name).label} was not searched for endpoints: {error}")


def find_service(name: str, fields: Mapping[str, str], echo: Echo) -> Endpoints:
    """Return the service that has the endpoint `name`; this machine comes first. Raises `EndpointNotFound`."""
    missing: list[str] = []

    def has(service: Endpoints) -> bool:
        try:
            return bool(service.describe(name))
        except EndpointNotFound as error:
            missing.append(str(error))
            return False

    for service, is_found in search(fields, echo, has):
        if is_found:
            return service
    raise EndpointNotFound(" ".join(missing))


def endpoints(fields: Mapping[str, str]) -> int:
    """List the endpoints of this machine, and those with our tags in the AWS account and region."""
    read.check_not_empty(fields)
    states = {
        state: None if state.ended else service.price(state.machine)
        for service, found in search(fields, print_error, lambda service: service.endpoints())
        for state in found
    }
    # A truncated address is useless: print whole addresses if the output is not a terminal.
    PlainConsole(width=300).print(_table(states, datetime.now(UTC)))
    for state in states:
        if state.reason:
            print_line(f"{state.name}: {state.reason}")
    if prices := {f"{price.source}, {price.date}" for price in states.values() if price}:
        print_line(f"USD are those so far, at today's price and machines ({'; '.join(sorted(prices))}); times are UTC.")
    if any(traits_of(state.service).reads_aws for state in states):
        print_line("Endpoints on SageMaker are listed for one region: --aws.region lists another.")
    return 0


def _table(states: Mapping[EndpointState, Price | None], now: datetime) -> Table:
    table = Table(box=None, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if "USD" in column else "left", overflow="fold")
    for state, price in states.items():
        machines = "" if traits_of(state.service).instance_type else f", {state.machines} x {state.machine}"
        table.add_row(
            state.name,
            f"{state.service}{machines}",
            state.identity,
            state.status,
            f"{state.created:%Y-%m-%d %H:%M}",
            f"{price.usd_per_hour * state.machines:.4g}" if price else "-",
            f"{state.usd(price, now):.2f}" if price else "-",
            state.address or "-",
        )
    return table


def undeploy(fields: Mapping[str, str]) -> int:
    """Delete the endpoint `--endpoint`, or with `--all true` all that `endpoints` lists."""
    read.check_not_empty(fields)
    is_all = read.read_flag(fields, "all")
    if is_all == ("endpoint" in fields):
        raise InputError("undeploy needs either --endpoint NAME or --all true.")
    if not is_all:
        name = read.read_name("endpoint", fields["endpoint"])
        find_service(name, fields, print_line).undeploy(name, print_line)
        return 0
    deleted, failed = 0, 0
    for service, found in search(fields, print_line, lambda service: service.endpoints()):
        for state in found:
            try:
                service.undeploy(state.name, print_line)
                deleted += 1
            except TrainfareError as error:
                print_line(f"error: {error}")
                failed += 1
    print_line(f"Deleted: {deleted}" + (f", not deleted: {failed}" if failed else ""))
    return 1 if failed else 0


def register(fields: Mapping[str, str]) -> int:
    """Register the model of `run`, or the winner of `group` or of the latest group of `experiment`. Set its alias."""
    from models.mlflow_records import note_command
    from models.registry import CHAMPION, GATE_CHECKS, Registry, check, checked_alias, checked_name, registered_name
    from models.trained_model import trained_model
    from tracking.groups.group import find_group
    from tracking.server.store import open_store

    read.check_not_empty(fields)
    if "run" in fields and "group" in fields:
        raise InputError("--run and --group cannot be combined: --run also accepts the id of a group.")
    chosen_name = checked_name(fields["name"]) if "name" in fields else None
    alias = checked_alias(fields.get("alias", CHAMPION))
    allowed = read.read_choices("allow", fields.get("allow", ""), GATE_CHECKS)
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise="Nothing was registered.")
    run = fields.get("run")
    if run is None:
        experiment = Path(fields.get("experiment", "demo")).stem
        run = find_group(store, group_id=fields.get("group"), experiment_name=experiment).id
    trained = trained_model(store, run)
    if trained.chosen:
        print_line(f"Winner of group {trained.group}: {trained.chosen}")
    name = chosen_name or registered_name(trained.experiment_name)
    registry = Registry(store)
    store.subject = f"registered model '{name}'"
    check(trained, registry.in_use(name, alias), allowed)
    summary = _summary(trained, registry.register(trained, name, alias, allowed=allowed), alias)
    print_line(summary)
    print_line(f"Model: models:/{name}@{alias}")
    note_command(store, "register", name, summary)
    return 0


def _summary(trained: TrainedModel, registered: Registered, alias: str) -> str:
    from models.registry import evaluation_sentence

    version = str(registered.version)
    run = f"run {trained.run_id} ({trained.job_name})"
    first = f"Registered {run} as {version}" if registered.is_new else f"R{run[1:]} is already {version}"
    if registered.had_alias:
        second = f"and has the alias {alias}"
    else:
        before = f", which was {registered.replaced}'s" if registered.replaced else ""
        verb = "gave it" if registered.is_new else "now has"
        second = f"and {verb} the alias {alias}{before}"
    return f"{first}, {second}. {evaluation_sentence(trained)}"


ENDPOINT_FIELDS = ("endpoint", "text", "inputs", "parameters", "file", "service", "trace")
FILE_FIELDS = (
    *("run", "model", "file", "output", "task", "precision", "max_length", "parameters", "track"),
    *("encoding", "delimiter"),
)


def predict(fields: Mapping[str, str]) -> int:
    """Print the answer of an endpoint as JSON, or predict a file with `predict_file`."""
    if "file" in fields:
        return predict_file(fields)
    read.check_known("predict", fields, ENDPOINT_FIELDS)
    read.check_not_empty(fields)
    is_traced = read.read_flag(fields, "trace", "true")
    names = (
        [fields["endpoint"]]
        if "endpoint" in fields
        else [each.name for each in open_endpoints(DEFAULT, {}, print_error).endpoints()]
    )
    if len(names) != 1:
        has = f"has the endpoints {', '.join(sorted(names))}" if names else "has no endpoint"
        raise InputError(f"predict needs --endpoint NAME: this machine {has}.")
    name = read.read_name("endpoint", names[0])
    body = _body(fields)
    service = find_service(name, fields, print_error)
    started_ns = time.time_ns()
    answer = service.predict(name, json.dumps(body).encode())
    ended_ns = time.time_ns()
    print_line(answer.decode("utf-8", "replace"))
    if is_traced and (state := service.describe(name)).run_id:
        _trace(state, body, answer, started_ns, ended_ns)
    return 0


def _body(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the request; `--inputs` may be the whole request or only the value of its key `inputs`."""
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
    body = inputs if isinstance(inputs, dict) and "inputs" in inputs else {"inputs": inputs}
    if "parameters" in fields:
        if "parameters" in body:
            raise InputError("parameters are set twice: by --parameters and within --inputs.")
        body = {**body, "parameters": _json("parameters", fields["parameters"])}
    return body


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) < 60 else text[:60] + "…"
        raise InputError(f"--{name} is not JSON: {error} in {shown!r}. Use --text for plain text.") from error


def _trace(state: EndpointState, body: Mapping[str, Any], answer: bytes, started_ns: int, ended_ns: int) -> None:
    """Log request and answer to MLflow. A failure is only reported, because the answer has already been printed."""
    from models.mlflow_records import trace
    from tracking.server.store import open_store

    try:
        store = open_store(retry_seconds=10.0, otherwise="The answer is valid.", echo=print_error)
        print_error(f"Trace: {trace(store, state, body, json.loads(answer), started_ns, ended_ns)}")
    except TrackingError as error:
        print_error(f"The request was not logged to MLflow: {error}")


def predict_file(fields: Mapping[str, str]) -> int:
    """Predict every row of a file with the model of `run`, or of the folder `model`; return the exit code.

    Raises `InputError` and `TrackingError`.
    """
    if "endpoint" in fields:
        raise InputError("--file needs --run or --model instead of --endpoint: a file is predicted on this machine.")
    columns = {name[8:]: value for name, value in fields.items() if name.startswith("columns.")}
    plain = {name: value for name, value in fields.items() if not name.startswith("columns.")}
    read.check_known("predict --file", plain, FILE_FIELDS)
    read.check_not_empty(plain)
    if ("run" in fields) == ("model" in fields):
        raise InputError("predict --file needs either --run RUN or --model FOLDER.")
    from training.staging.sources.data_files import digest_files, find_data_files

    text, files = _text_format(fields), find_data_files(fields["file"])
    own = Path(files.name)
    if "output" not in fields and not own.exists():
        raise InputError(f"--file {own} is a pattern: name the answers with --output.")
    default = own.with_name(f"{own.name.partition('.')[0] or own.name}.answers.jsonl")
    output = user_path(fields.get("output", str(default)), "--output")
    if output.exists() or output.is_symlink():
        raise InputError(f"--output {output} exists already: choose a different file, or delete it.")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output is {output}, but the folder {output.absolute().parent} does not exist.")
    parameters = _json("parameters", fields["parameters"]) if "parameters" in fields else {}
    if not isinstance(parameters, dict):
        raise InputError('--parameters must be a JSON object, such as {"top_k": 3}.')
    store, trained, folder = _open_model(fields)
    predictor = _load_model(store, trained, folder, fields)
    from models.batch import Source, check

    source = Source(files=files, task=predictor.task, columns=columns, text=text)
    source.check()
    with _progress("Checking") as on_row:
        rows = check(predictor, source.rows(), parameters, on_row)
    if not rows:
        raise InputError(f"--file {source.files.name} has no rows.")
    run: AbstractContextManager[dict[str, float]] = nullcontext({})
    digest = digest_files(files, text)
    if store is not None and read.read_flag(fields, "track", "true"):
        from models.mlflow_records import recorded

        settings = {"model": trained.run_id if trained else str(folder), "file_digest": digest}
        name = trained.job_name if trained else fields["model"]
        note = f"{rows:,} rows predicted by {name}: `{output.absolute()}`."
        run = recorded(store, trained, settings | _description(predictor, source, parameters), note)
    with run as figures:
        seconds = _predict(predictor, source, parameters, output, rows, digest)
        rate = rows / seconds
        figures |= {"rows": float(rows), "seconds": seconds, "rows_per_second": rate}
    print_error(f"Predicted {rows:,} rows in {seconds:,.1f} s, {rate:,.1f} rows/s.")
    print_line(str(output))
    return 0


def _text_format(fields: Mapping[str, str]) -> TextFormat:
    from training.staging.formats.files import UTF8, TextFormat, delimiter_character, encoding_name

    try:
        encoding = encoding_name(fields.get("encoding", UTF8))
        delimiter = delimiter_character(fields["delimiter"]) if "delimiter" in fields else None
    except ValueError as error:
        raise InputError(f"predict --file: {error}") from error
    return TextFormat(encoding=encoding, delimiter=delimiter, prefix="--")


def _open_model(fields: Mapping[str, str]) -> tuple[Store | None, TrainedModel | None, Path]:
    """Return the tracking server, if it is needed, the model's record there, if it has one, and its folder."""
    from models.logged.model_folder import model_folder
    from models.trained_model import trained_model
    from tracking.server.store import open_store
    from training.staging.models.model_files import check_weights, locate

    store = None
    if read.read_flag(fields, "track", "true") or "run" in fields:
        store = open_store(echo=print_error, retry_seconds=60.0, otherwise="Nothing was predicted.")
    if store is None or "model" in fields:
        source = locate(fields["model"])
        if source.folder is None:
            hint = nearest(fields["model"], [path.name for path in Path.cwd().iterdir()])
            raise InputError(f"--model is {fields['model']!r}, but this folder does not exist.{hint}")
        check_weights(source)
        return store, None, source.folder
    trained = trained_model(store, fields["run"])
    if trained.chosen:
        print_error(trained.chosen)
    return store, trained, model_folder(store, trained, home(), print_error)


def _load_model(
    store: Store | None, trained: TrainedModel | None, folder: Path, fields: Mapping[str, str]
) -> Predictor:
    """Load the model with the settings of its evaluation, if known. Fields override precision and maximum length."""
    from models.inference.evaluation import UNKNOWN, precision_message
    from models.inference.predictor import load_predictor

    evaluation = trained.evaluation if trained else UNKNOWN
    length = read.read_whole("max_length", fields["max_length"], 1, 1_000_000) if "max_length" in fields else None
    task, precision = fields.get("task") or (trained.task if trained else None) or None, fields.get("precision")
    predictor = load_predictor(folder, task=task, precision=precision, evaluation=evaluation, max_length=length)
    print_error(precision_message(precision, evaluation.precision, predictor.loaded.device))
    return predictor


def _description(predictor: Predictor, source: Source, parameters: dict[str, Any]) -> dict[str, str]:
    from training.staging.sources.data_files import describe_files

    loaded = predictor.loaded
    return {
        "file": describe_files(source.files, list(source.columns_by_role.values()), source.text),
        "task": predictor.task,
        "columns": json.dumps(dict(source.columns), sort_keys=True),
        "parameters": json.dumps(parameters, sort_keys=True),
        "precision": str(loaded.precision),
        "batch_size": str(loaded.batch_size or "any"),
        "max_length": str(loaded.max_length),
        "device": loaded.device,
    }


def _predict(
    predictor: Predictor, source: Source, parameters: dict[str, Any], output: Path, rows: int, digest: str
) -> float:
    """Write the output, and return the seconds that it took. `digest` is the digest of the files before."""
    from models.batch import predict, private_output
    from training.staging.sources.data_files import digest_files

    started = time.monotonic()
    try:
        with private_output(output) as file:
            with _progress("Predicting", rows) as on_row:
                file.writelines(predict(predictor, source.rows(), parameters, on_row))
            if digest_files(source.files, source.text) != digest:
                name = source.files.name
                raise InputError(f"--file {name} changed while its rows were predicted: run the same command again.")
    except KeyboardInterrupt as end:
        end.add_note("No output was written.")
        raise
    return time.monotonic() - started


@contextmanager
def _progress(what: str, total: int | None = None) -> Iterator[OnRow]:
    """Show the rows done and the remaining time on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)
