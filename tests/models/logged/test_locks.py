"""Concurrent logging of the model of one run on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import BinaryIO

from mlflow.entities import LoggedModelStatus

from tests.support.models.place import Place
from training.services.local.service import LocalService

ArchiveOf = Callable[[str], Path]


def test_concurrent_logging_leaves_one_complete_model(place: Place, archive_of: ArchiveOf) -> None:
    """This happens if `compare` and `attach` follow one group in two terminals."""
    run = place.run(archive_of("classification"))
    both = Barrier(2)

    class Slow(LocalService):
        @contextmanager
        def open_model(self, uri: str) -> Iterator[BinaryIO]:
            time.sleep(0.5)  # in which the other would begin
            with super().open_model(uri) as archive:
                yield archive

    place.service = Slow(place.folder / "home")

    def log(_: int) -> None:
        both.wait()
        place.log(run)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(log, range(2)))
    [message] = place.messages
    assert message.startswith("Model logged in MLflow (3 MiB, ")
    model_id = place.again(run).data.tags["platform.model_id"]
    assert place.models == [("model", run.info.run_id, LoggedModelStatus.READY)]
    assert {each.path for each in place.client.list_logged_model_artifacts(model_id)} >= {"MLmodel", "model"}
    assert list(place.scratch.iterdir()) == []
