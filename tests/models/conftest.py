"""Tracking stores and small models that the rooms of `models` share."""

from tests.support.models.task_models import (
    classifier,
    classifier_folder,
    other_classifiers,
    other_model,
    reader,
    reader_folder,
    server,
    tiny_model,
    writer,
    writer_folder,
)
from tests.support.tracking.tracked import tracked, tracked_by_server

__all__ = [
    "classifier",
    "classifier_folder",
    "other_classifiers",
    "other_model",
    "reader",
    "reader_folder",
    "server",
    "tiny_model",
    "tracked",
    "tracked_by_server",
    "writer",
    "writer_folder",
]
