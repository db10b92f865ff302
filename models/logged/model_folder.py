"""Fetch a trained model as a Transformers folder on this machine: once, and either completely or not at all."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import yaml
from mlflow.artifacts import download_artifacts
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from rich.filesize import decimal

from models.loading.answer_spans import answer_spans
from models.logged.checkpoint import is_needed
from models.lookup.artifact_location import deleted_reason, find_artifact_location
from models.lookup.trained_model import TrainedModel
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError
from training.services.artifact import unpack
from training.services.local.service import LocalService
from training.state import shared_folders
from training.state.system_errors import system_reason

MODELS_FOLDER = "models"
_UNFINISHED_PREFIX = ".unfinished-"
MANIFEST = ".files.json"
"""File with the name and size of every other file. It is written last."""
_MODEL, _TOKENIZER = "model", "components/tokenizer"
"""Folders of an MLflow model: one with weights and configuration, one with the tokenizer."""

Echo = Callable[[str], None]


def model_folder(store: Store, trained: TrainedModel, home: Path, echo: Echo = print) -> Path:
    """Return the folder with a model's configuration, weights and tokenizer: `<home>/models/<id>`.

    The first call fetches it from the MLflow model, or from the job's artifact if the run has no MLflow model. Later
    calls reuse it, unless a file is missing or has a different size. As long as this process runs, `jobs prune` does
    not delete the folder. Files are copied without reading them into memory as a whole.

    Raises `InputError` for a run without a model or a model that is not a Transformers folder, and `TrackingError`.
    """
    folder = folder_of(trained, home)
    folder.parent.mkdir(parents=True, exist_ok=True)
    while not (shared_folders.lock_for_use(home.absolute(), [folder]) and is_complete(folder)):
        check_has_model(trained)
        _fetch(store, trained, folder, echo)
    return folder


def folder_of(trained: TrainedModel, home: Path) -> Path:
    """Return the folder of `model_folder`, which may be missing. Raises InputError for a run without a model."""
    folder = home.absolute() / MODELS_FOLDER / (trained.model_id or trained.run_id)
    if not is_complete(folder):
        check_has_model(trained)
    return folder


def check_has_model(trained: TrainedModel) -> None:
    """Raise InputError for a run that has no model."""
    if not (trained.model_uri or trained.artifact_uri):
        raise InputError(f"run {trained.run_id} ({trained.job_name}) has no model: {_missing_reason(trained)}.")


def is_complete(folder: Path) -> bool:
    """Return whether a folder has all files of its manifest, each with its recorded size."""
    try:
        sizes: Mapping[str, int] = json.loads((folder / MANIFEST).read_text("utf-8"))
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def files_to_fetch(paths: Mapping[str, int]) -> dict[str, str]:
    """Return the files of an MLflow model that belong in the Transformers folder: path in the model to name.

    `paths` are all files of the MLflow model. Files of its folder `model` come first. Files of `components/tokenizer`
    are added if `model` has no file with the same name.
    """
    names: dict[str, str] = {}
    for location in (_TOKENIZER, _MODEL):
        for path in paths:
            inside = PurePosixPath(path)
            if inside.is_relative_to(location):
                names = {source: name for source, name in names.items() if name != str(inside.relative_to(location))}
                names[path] = str(inside.relative_to(location))
    return names


def _missing_reason(trained: TrainedModel) -> str:
    if trained.model_failure:
        return trained.model_failure.rstrip(".")
    if trained.artifact_deleted:
        return deleted_reason(trained)
    return "its job left no artifact" if trained.status == "FINISHED" else f"its job ended {trained.status}"


def _fetch(store: Store, trained: TrainedModel, folder: Path, echo: Echo) -> None:
    """Fetch the model into a temporary folder and rename it at the end."""
    with _renamed_on_success(folder) as unfinished:
        if trained.model_uri:
            _fetch_logged(store, trained, unfinished, echo)
        else:
            _fetch_artifact(str(trained.artifact_uri), unfinished, echo)
        _check_model(trained, [path.name for path in unfinished.iterdir()])
        sizes = {path.relative_to(unfinished).as_posix(): path.stat().st_size for path in _files(unfinished)}
        (unfinished / MANIFEST).write_text(json.dumps(sizes), "utf-8")


def _fetch_logged(store: Store, trained: TrainedModel, folder: Path, echo: Echo) -> None:
    """Download an MLflow model and arrange its files as Transformers expects them."""
    server = str(store.client.tracking_uri)
    store.subject = f"model {trained.model_uri}"
    location = find_artifact_location(store, trained)
    sizes = store.call(lambda: dict(_list_files(location, server)))
    names = files_to_fetch(sizes)
    _check_model(trained, list(names.values()))
    echo(f"Fetching model {trained.model_uri}, {decimal(sum(sizes[path] for path in names))}, from {store.uri}")
    raw = folder / "raw"
    raw.mkdir()
    arrived = Path(store.call(download_artifacts, artifact_uri=location, dst_path=str(raw), tracking_uri=server))
    for path, name in names.items():
        source, target = arrived / path, folder / name
        if not source.is_file() or source.stat().st_size != sizes[path]:
            raise TrackingError(
                f"The download of {trained.model_uri} is incomplete: {path} should be {sizes[path]} bytes. Try again."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    _write_answer_options(arrived / "MLmodel", folder)
    shutil.rmtree(raw)


def _write_answer_options(mlmodel: Path, folder: Path) -> None:
    """Copy the options for question answering from `MLmodel` to the file where endpoints read them."""
    flavors = yaml.safe_load(mlmodel.read_text("utf-8"))["flavors"] if mlmodel.is_file() else {}
    config = flavors.get("python_function", {}).get("config") or {}
    record = {name: config[name] for name in answer_spans.AnswerOptions._fields if name in config}
    if record:
        (folder / answer_spans.OPTIONS_FILE).write_text(json.dumps(record), "utf-8")


def _list_files(location: str, server: str, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield path and size in bytes of all files of an MLflow model."""
    repository = get_artifact_repository(location, tracking_uri=server)
    for each in repository.list_artifacts(path or None):
        if each.is_dir:
            yield from _list_files(location, server, str(each.path))
        else:
            yield str(each.path), int(each.file_size or 0)


def _check_model(trained: TrainedModel, names: Sequence[str]) -> None:
    if "config.json" not in names:
        problem = "has no config.json, so it is not a Transformers folder"
        raise InputError(f"the model of run {trained.run_id} ({trained.job_name}) {problem}.")


def _fetch_artifact(uri: str, folder: Path, echo: Echo) -> None:
    """Unpack the job's artifact while it is read."""
    echo(f"Fetching the model artifact {uri}")
    with _open_artifact(uri, folder.parent.parent) as archive:
        unpack(archive, folder, archive_name=f"The model artifact {uri}", is_selected=is_needed)


def _open_artifact(uri: str, home: Path) -> AbstractContextManager[BinaryIO]:
    if uri.startswith("s3://"):
        from training.services.sagemaker.service import SageMakerService

        return SageMakerService().open_model(uri)
    return LocalService(home).open_model(uri)


def new_unfinished(location: Path) -> Path:
    """Return a new path for a temporary folder in `location`. `jobs prune` finds leftovers by this name pattern."""
    return location / f"{_UNFINISHED_PREFIX}{uuid.uuid4().hex}"


@contextmanager
def _renamed_on_success(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder. On success it is renamed to `folder`; otherwise it is deleted."""
    unfinished = new_unfinished(folder.parent)
    try:
        unfinished.mkdir()
        yield unfinished
        try:
            unfinished.rename(folder)
        except OSError:
            # `folder` exists: either a different process has just fetched it, or it is incomplete and must be replaced.
            if not is_complete(folder):
                shutil.rmtree(folder, ignore_errors=True)
                unfinished.rename(folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {system_reason(error)}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())
