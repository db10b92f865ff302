"""Fetch a trained model as a Transformers folder on this machine: once, and either completely or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from mlflow.artifacts import download_artifacts

from models.logged.flavor import NotServable, check_loads, unpack_model
from models.trained_model import TrainedModel, find_artifact_location, missing_reason
from state import locks
from state.errors import system_reason
from state.folders import UNFINISHED_PREFIX
from tracking.server.store import Store
from training.contract.errors import InputError
from training.contract.service import Echo
from training.job.tasks import OPTIONS_FILE, TASKS
from training.services.local.service import LocalService

MODELS_FOLDER = "models"


def model_folder(store: Store, trained: TrainedModel, home: Path, echo: Echo = print) -> Path:
    """Return the folder with a model's configuration, weights and tokenizer: `<home>/models/<id>`.

    The first call fetches it from the MLflow model, or from the job's artifact if the run has no MLflow model. Later
    calls reuse it. As long as this process runs, `jobs prune` does not delete the folder. Files are copied without
    reading them into memory as a whole.

    Raises `InputError` for a run without a model or a model that is not a Transformers folder, and `TrackingError`.
    """
    folder = folder_of(trained, home)
    while not locks.lock_for_use(home.absolute(), [folder]):
        _fetch(store, trained, folder, echo)
    return folder


def folder_of(trained: TrainedModel, home: Path) -> Path:
    """Return the folder of `model_folder`, which may be missing. Raises InputError for a run without a model."""
    folder = home.absolute() / MODELS_FOLDER / (trained.model_id or trained.run_id)
    if not (folder.is_dir() or trained.model_uri or trained.artifact_uri):
        raise InputError(f"run {trained.run_id} ({trained.job_name}) has no model: {missing_reason(trained)}.")
    return folder


def unfinished_folder(location: Path) -> TemporaryDirectory[str]:
    """Return a temporary folder in `location`. `jobs prune` finds leftovers by the pattern of its name."""
    location.mkdir(parents=True, exist_ok=True)
    return TemporaryDirectory(prefix=UNFINISHED_PREFIX, dir=location, ignore_cleanup_errors=True)


def _fetch(store: Store, trained: TrainedModel, folder: Path, echo: Echo) -> None:
    try:
        with unfinished_folder(folder.parent) as name:
            fetch = _fetch_logged if trained.model_uri else _unpack
            made = fetch(store, trained, Path(name), echo)
            if not trained.task:
                check_loads(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # else a different process has just fetched it
                    raise
    except NotServable as error:
        title = f"the model of run {trained.run_id} ({trained.job_name})"
        raise InputError(f"{title} cannot be served: {error}.") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {system_reason(error)}") from error


def _fetch_logged(store: Store, trained: TrainedModel, scratch: Path, echo: Echo) -> Path:
    server = str(store.client.tracking_uri)
    store.subject = f"model {trained.model_uri}"
    location = find_artifact_location(store, trained)
    echo(f"Fetching model {trained.model_uri} from {store.uri}")
    got = Path(store.call(download_artifacts, artifact_uri=location, dst_path=str(scratch), tracking_uri=server))
    # Endpoints read the options of the training from a file of the folder.
    flavors = yaml.safe_load((got / "MLmodel").read_text("utf-8"))["flavors"] if (got / "MLmodel").is_file() else {}
    config = flavors.get("python_function", {}).get("config") or {}
    names = {name for task in TASKS.values() for name in task.answering_options}
    if record := {name: value for name, value in config.items() if name in names}:
        (got / "model" / OPTIONS_FILE).write_text(json.dumps(record), "utf-8")
    return got / "model"


def _unpack(_: Store, trained: TrainedModel, scratch: Path, echo: Echo) -> Path:
    uri, folder = str(trained.artifact_uri), scratch / "model"
    echo(f"Fetching the model artifact {uri}")
    folder.mkdir()
    if uri.startswith("s3://"):
        from training.services.sagemaker.service import SageMakerService

        opened = SageMakerService().open_model(uri)
    else:
        opened = LocalService(scratch.parent.parent).open_model(uri)
    with opened as archive:
        unpack_model(archive, folder, f"The model artifact {uri}")
    return folder
