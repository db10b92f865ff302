"""The model of a run is logged once and completely, even after an interrupted attempt."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModel, LoggedModelStatus
from mlflow.models import Model

from experiments.running.prune_state import UNFINISHED_PATTERN
from models.logged.log_model import log_model
from tests.conftest import TrackingServer
from tests.support.models.made_models import TOKENIZER_FILES, packed, planned_job
from tests.support.models.place import Place
from tracking.server.store import open_store
from training.services.local.service import LocalService

ArchiveOf = Callable[[str], Path]


def local(model: LoggedModel) -> Path:
    """Return the folder of a model with local artifacts."""
    return Path(unquote(urlsplit(model.artifact_location).path))


def test_a_logged_model_is_complete_and_linked_to_its_run(
    place: Place, archive_of: ArchiveOf, model_of: ArchiveOf
) -> None:
    run = place.run(archive_of("classification"))
    place.log(run)
    [message] = place.messages
    assert message.startswith("Model logged in MLflow (3 MiB, ")
    run = place.again(run)
    [output] = run.outputs.model_outputs
    assert message.endswith(f"`mlflow models serve -m models:/{output.model_id}`")
    assert run.data.tags["platform.model_id"] == output.model_id
    assert "platform.model_failure" not in run.data.tags
    place.log(run)
    assert place.models == [("inductor, lr_ 0_1", run.info.run_id, LoggedModelStatus.READY)]
    assert len(place.messages) == 1
    logged = place.client.get_logged_model(output.model_id)
    assert logged.params == {"hp.seed": "7"}

    folder = local(logged)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / "model" / name).read_bytes() == (model_of("classification") / name).read_bytes()
    model = Model.load(str(folder))
    assert (model.run_id, model.model_id) == (run.info.run_id, output.model_id)
    assert model.load_input_example(str(folder)) == "Winter is coming and it will be dark soon."
    assert json.loads(str(model.get_serving_input(str(folder)))) == {
        "inputs": "Winter is coming and it will be dark soon."
    }
    assert [column.name for column in model.signature.outputs] == ["label", "score"]
    assert model.metadata["trained_with"] == "torch 1.0, transformers 4.21"
    pinned = dict(line.split("==") for line in (folder / "requirements.txt").read_text().splitlines())
    assert set(pinned) >= {"mlflow", "torch", "transformers", "tokenizers"}
    assert pinned["torch"] == "2.13.0"
    assert yaml.safe_load((folder / "python_env.yaml").read_text())["dependencies"] == ["-r requirements.txt"]


def test_the_model_of_a_killed_launcher_is_logged_later(place: Place, archive_of: ArchiveOf) -> None:
    """Killed while it wrote the files, after it wrote them, and before it tagged the run."""
    client = place.client
    for stage in range(3):
        run = place.run(archive_of("classification"), f"job-{stage}")
        model = client.create_logged_model(place.experiment_id, name="model", source_run_id=run.info.run_id)
        half = local(model)
        (half / "model").mkdir(parents=True)
        (half / "model" / "model.safetensors").write_bytes(b"the first half")
        if stage:
            client.finalize_logged_model(model.model_id, "READY")
        if stage > 1:
            job = planned_job(place.folder, f"job-{stage}")
            log_model(place.store, place.service, job, run.info.run_id, place.scratch)
            client.delete_tag(run.info.run_id, "platform.model_id")
        place.log(place.again(run))
        assert place.again(run).data.tags["platform.model_id"] == model.model_id
        assert [each.model_id for each in place.again(run).outputs.model_outputs] == [model.model_id]
        assert (half / "model" / "model.safetensors").stat().st_size > 1_000_000
    assert [status for _, _, status in place.models] == [LoggedModelStatus.READY] * 3


@pytest.mark.slow
def test_artifacts_are_uploaded_and_no_local_copy_remains(
    shared_tracking_server: TrackingServer, tmp_path: Path, archive_of: ArchiveOf, model_of: ArchiveOf
) -> None:
    client = MlflowClient(shared_tracking_server.uri)
    name = f"models of {tmp_path.name}"
    place = Place(open_store(shared_tracking_server.uri), str(client.create_experiment(name)), tmp_path)
    meanwhile: list[str] = []

    class Watched(LocalService):
        def open_model(self, uri: str) -> AbstractContextManager[BinaryIO]:
            meanwhile.extend(path.name for path in place.scratch.iterdir() if path.is_dir())
            return super().open_model(uri)

    place.service = Watched(tmp_path / "home")
    run = place.run(archive_of("classification"))
    place.log(run)
    # By this name `jobs prune` would know it, had this process been killed.
    assert [re.fullmatch(UNFINISHED_PATTERN, name) is not None for name in meanwhile] == [True]
    model_id = place.again(run).data.tags["platform.model_id"]
    assert {each.path for each in client.list_logged_model_artifacts(model_id)} >= {"MLmodel", "model"}
    location = f"{client.get_logged_model(model_id).artifact_location}/model"
    got = Path(download_artifacts(location, dst_path=str(tmp_path), tracking_uri=shared_tracking_server.uri))
    sent = model_of("classification") / "model.safetensors"
    assert (got / "model.safetensors").read_bytes() == sent.read_bytes()
    assert list(place.scratch.iterdir()) == []
    client.delete_experiment(place.experiment_id)


def test_concurrent_logging_leaves_one_complete_model(place: Place, archive_of: ArchiveOf) -> None:
    """This happens if `compare` and `attach` follow one group in two terminals."""
    run = place.run(archive_of("classification"))
    both = Barrier(2)

    class Slow(LocalService):
        def open_model(self, uri: str) -> AbstractContextManager[BinaryIO]:
            time.sleep(0.5)  # in which the other would begin
            return super().open_model(uri)

    place.service = Slow(place.folder / "home")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: (both.wait(), place.log(run)), range(2)))
    [message] = place.messages
    assert message.startswith("Model logged in MLflow (3 MiB, ")
    assert place.models == [("inductor, lr_ 0_1", run.info.run_id, LoggedModelStatus.READY)]
    assert list(place.scratch.iterdir()) == []


def failure_of(place: Place, archive: Path, name: str) -> str:
    """Return why the model was not logged, which is in the output and in the run. Nothing else is left."""
    place.messages.clear()
    run = place.run(archive, name)
    place.log(run)
    [message] = place.messages
    failure = place.again(run).data.tags["platform.model_failure"]
    assert message == f"The model of job {name} was not logged to MLflow: {failure}."
    assert place.models == []
    assert not [path for path in (place.folder / "ärtifacts 100%").rglob("*") if path.is_file()]
    return str(failure)


def test_a_folder_that_is_not_a_whole_model_is_reported(place: Place, tmp_path: Path, model_of: ArchiveOf) -> None:
    folder = shutil.copytree(model_of("classification"), tmp_path / "changed")

    names = map("job-{}".format, count())

    def failure() -> str:
        return failure_of(place, packed(folder, tmp_path / "changed.tar.gz"), next(names))

    for name in TOKENIZER_FILES:
        (folder / name).unlink()
    assert "it has no tokenizer" in failure()
    (folder / "model.safetensors").unlink()
    assert "it has neither model.safetensors nor pytorch_model.bin" in failure()
    (folder / "weights.pt").write_bytes(b"x" * 100)
    (folder / "config.json").write_text('{"architectures": ["ViTForImageClassification"]}')
    assert "names ViTForImageClassification" in failure()
    (folder / "config.json").unlink()
    start = "the job's artifact is not a model that can be served: "
    assert failure().startswith(
        f"{start}it has no config.json, so it is not a Transformers folder, but has weights.pt: "
    )


def test_a_missing_or_damaged_artifact_is_reported_until_it_can_be_read(
    place: Place, tmp_path: Path, archive_of: ArchiveOf
) -> None:
    late = tmp_path / "late.tar.gz"
    assert failure_of(place, late, "a") == f"The model artifact {late} cannot be read: No such file or directory"
    late.write_bytes(archive_of("classification").read_bytes()[:100_000])
    assert "is not a complete tar archive: " in failure_of(place, late, "b")
    run = place.run(late)
    place.log(run)
    shutil.copy(archive_of("classification"), late)
    place.log(run)
    assert "platform.model_failure" not in place.again(run).data.tags
    assert "platform.model_id" in place.again(run).data.tags
    # A job that saved no model has no failure.
    place.messages.clear()
    run = place.run(late, "c")
    place.client.delete_tag(run.info.run_id, "platform.model_uri")
    place.log(place.again(run))
    assert place.messages == []
