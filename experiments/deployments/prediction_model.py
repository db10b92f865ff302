"""Model for predicting a file: from a run or a folder, loaded with the settings of its evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.deployments import arguments as read
from experiments.running.output import print_error
from training.contract.errors import InputError, nearest

if TYPE_CHECKING:
    from models.inference.predictor import Predictor
    from models.lookup.trained_model import TrainedModel
    from tracking.server.store import Store


@dataclass(frozen=True, kw_only=True)
class PredictionModel:
    """Model to predict with: its files, and its run if known."""

    folder: Path
    name: str
    """Name in messages."""
    trained: TrainedModel | None
    """Record on the tracking server; None for a folder."""
    store: Store | None
    """Tracking server; None if neither the model nor the prediction needs it."""
    is_tracked: bool
    """True if the prediction is logged there."""


def open_model(fields: Mapping[str, str]) -> PredictionModel:
    """Find the model that the fields name, and fetch its files. Raises `InputError` and `TrackingError`."""
    is_tracked = read.one_of("track", fields.get("track", "true"), ("true", "false")) == "true"
    if "run" not in fields and not is_tracked:
        return PredictionModel(
            folder=_folder(fields["model"]), name=fields["model"], trained=None, store=None, is_tracked=False
        )
    from tracking.server.store import open_store

    store = open_store(echo=print_error, retry_seconds=60.0, otherwise="Nothing was predicted.")
    if "model" in fields:
        return PredictionModel(
            folder=_folder(fields["model"]), name=fields["model"], trained=None, store=store, is_tracked=True
        )
    from models.logged.model_folder import model_folder
    from models.lookup.trained_model import trained_model
    from training.state.home import home

    trained = trained_model(store, fields["run"])
    if trained.chosen:
        print_error(trained.chosen)
    folder = model_folder(store, trained, home(), print_error)
    return PredictionModel(folder=folder, name=trained.job_name, trained=trained, store=store, is_tracked=is_tracked)


def _folder(model: str) -> Path:
    from training.staging.models.model_files import check_weights, locate

    source = locate(model)
    if source.folder is None:
        siblings = [path.name for path in Path.cwd().iterdir()]
        raise InputError(f"--model is {model!r}, but this folder does not exist.{nearest(model, siblings)}")
    check_weights(source)
    return source.folder


def load_model(model: PredictionModel, fields: Mapping[str, str]) -> Predictor:
    """Load the model with the settings of its evaluation, if known. Fields override precision and maximum length."""
    from models.batch.prediction_run import evaluation_settings
    from models.inference.predictor import load_predictor
    from models.loading.evaluation import UNKNOWN
    from models.loading.precision import precision_message

    evaluation = evaluation_settings(model.store, model.trained) if model.store and model.trained else UNKNOWN
    length = read.read_whole("max_length", fields["max_length"], 1, 1_000_000) if "max_length" in fields else None
    predictor = load_predictor(
        model.folder,
        task=fields.get("task") or (model.trained.task if model.trained else None) or None,
        precision=fields.get("precision"),
        evaluation=evaluation,
        max_length=length,
    )
    print_error(precision_message(fields.get("precision"), evaluation.precision, predictor.loaded.device))
    return predictor


def hash_files(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a model's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
