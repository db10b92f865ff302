"""The model that answers a file: a run's, or one in a folder, loaded as it was evaluated."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.deployments import arguments as read
from experiments.running.output import remark
from training.contract.errors import InputError, nearest

if TYPE_CHECKING:
    from models.inference.predictor import Predictor
    from models.lookup.trained_model import TrainedModel
    from tracking.server.store import Store


@dataclass(frozen=True, kw_only=True)
class AnsweringModel:
    """The model that answers."""

    folder: Path
    name: str
    """How people call it."""
    trained: TrainedModel | None
    """What the tracking server tells of it; None of a folder."""
    store: Store | None
    """The tracking server, where one was asked."""
    is_tracked: bool
    """Whether the prediction is recorded there."""


def answering_model(given: Mapping[str, str]) -> AnsweringModel:
    """Return the model that the fields name. Raises `InputError` and `TrackingError`."""
    is_tracked = read.one_of("track", given.get("track", "true"), ("true", "false")) == "true"
    if "run" not in given and not is_tracked:
        return AnsweringModel(
            folder=_folder(given["model"]), name=given["model"], trained=None, store=None, is_tracked=False
        )
    from tracking.server.store import open_store

    store = open_store(say=remark, retry_seconds=60.0, otherwise="Nothing was predicted.")
    if "model" in given:
        return AnsweringModel(
            folder=_folder(given["model"]), name=given["model"], trained=None, store=store, is_tracked=True
        )
    from models.logged.model_folder import model_folder
    from models.lookup.trained_model import trained_model
    from training.state.home import home

    trained = trained_model(store, given["run"])
    if trained.chosen:
        remark(trained.chosen)
    folder = model_folder(store, trained, home(), remark)
    return AnsweringModel(folder=folder, name=trained.job_name, trained=trained, store=store, is_tracked=is_tracked)


def _folder(model: str) -> Path:
    from training.staging.models.model_files import check_weights, locate

    source = locate(model)
    if source.folder is None:
        siblings = [path.name for path in Path.cwd().iterdir()]
        raise InputError(f"model folder {model!r} does not exist.{nearest(model, siblings)}")
    check_weights(source)
    return source.folder


def loaded_predictor(model: AnsweringModel, given: Mapping[str, str]) -> Predictor:
    """Return the model, loaded: as it was evaluated, where its run tells, and where nothing else is asked for."""
    precision, length = None, None
    if model.trained is not None and model.store is not None:
        from models.batch.prediction_run import evaluated

        known = evaluated(model.store, model.trained)
        precision, length = known.precision, known.max_length
    if "max_length" in given:
        length = read.whole("max_length", given["max_length"], 1, 1_000_000)
    from models.inference.predictor import load_predictor

    return load_predictor(
        model.folder,
        task=given.get("task") or (model.trained.task if model.trained else None) or None,
        precision=given.get("precision"),
        evaluated_precision=precision,
        max_length=length,
    )


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of all files of a model."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
