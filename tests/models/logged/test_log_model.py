"""The model of a run is logged once and completely, even after an interrupted attempt."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import LoggedModel, LoggedModelStatus
from mlflow.models import Model

from experiments.running.prune_state import UNFINISHED_PATTERN
from models.logged.log_model import log_model
from tests.conftest import TrackingServer
from tests.support.models.made_models import LABELS, packed, planned_job
from tests.support.models.place import Place
from tracking.server.store import open_store
from training.services.local.service import LocalService

ArchiveOf = Callable[[str], Path]
BERT = '{"architectures": ["BertForSequenceClassification"]'


def local(model: LoggedModel) -> Path:
    """Return the folder of a model with local artifacts."""
    return Path(unquote(urlsplit(model.artifact_location).path))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_logged_model_is_complete_and_linked_to_its_run(
    place: Place, archive_of: ArchiveOf, model_of: ArchiveOf
) -> None:
    run = place.run(archive_of("classification"))
    place.log(run)
    [message] = place.messages
    assert message.startswith("Model logged in MLflow (3 MiB, ")
    assert message.endswith(f"`mlflow models serve -m runs:/{run.info.run_id}/model`")
    run = place.again(run)
    [output] = run.outputs.model_outputs
    assert run.data.tags["platform.model_id"] == output.model_id
    assert "platform.model_failure" not in run.data.tags
    place.log(run)
    assert place.models == [("model", run.info.run_id, LoggedModelStatus.READY)]
    assert len(place.messages) == 1
    logged = place.client.get_logged_model(output.model_id)
    assert (logged.name, logged.source_run_id, logged.status) == ("model", run.info.run_id, LoggedModelStatus.READY)
    assert logged.params == {"hp.seed": "7"}

    folder = local(logged)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / "model" / name).read_bytes() == (model_of("classification") / name).read_bytes()
    assert {"components/tokenizer/tokenizer.json", "requirements.txt"} <= files(folder)
    model = Model.load(str(folder))
    assert (model.run_id, model.model_id) == (run.info.run_id, output.model_id)
    assert model.load_input_example(str(folder)) == "Winter is coming and it will be dark soon."
    assert json.loads(str(model.get_serving_input(str(folder)))) == {
        "inputs": "Winter is coming and it will be dark soon."
    }
    assert [column.name for column in model.signature.outputs] == ["label", "score"]
    assert model.metadata["label_names"] == list(LABELS)
    assert model.metadata["trained_with"] == "torch 1.0, transformers 4.21"
    assert model.flavors["transformers"]["pipeline_model_type"] == "BertForSequenceClassification"
    pinned = dict(line.split("==") for line in (folder / "requirements.txt").read_text().splitlines())
    assert set(pinned) >= {"mlflow", "torch", "transformers", "mlflow-skinny", "huggingface-hub", "sqlalchemy"}
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
    run = place.again(run)
    # By this name `jobs prune` would know it, had this process been killed.
    assert [re.fullmatch(UNFINISHED_PATTERN, name) is not None for name in meanwhile] == [True]
    model_id = run.data.tags["platform.model_id"]
    assert {each.path for each in client.list_logged_model_artifacts(model_id)} >= {"MLmodel", "model", "components"}
    from mlflow.artifacts import download_artifacts

    got = Path(
        download_artifacts(
            artifact_uri=f"{client.get_logged_model(model_id).artifact_location}/model",
            dst_path=str(tmp_path),
            tracking_uri=shared_tracking_server.uri,
        )
    )
    sent = model_of("classification") / "model.safetensors"
    assert (got / "model.safetensors").read_bytes() == sent.read_bytes()
    assert list(place.scratch.iterdir()) == []
    client.delete_experiment(place.experiment_id)


class TestNotServable:
    """A model that cannot be logged is reported in the output and in the run, and leaves nothing else."""

    def failure(self, place: Place, archive: Path) -> str:
        run = place.run(archive, "job-x")
        place.log(run)
        [message] = place.messages
        failure = place.again(run).data.tags["platform.model_failure"]
        assert message == f"The model of job job-x was not logged to MLflow: {failure}."
        assert place.models == []
        assert not [path for path in (place.folder / "ärtifacts 100%").rglob("*") if path.is_file()]
        return failure

    def changed(self, tmp_path: Path, model: Path, **files: str | None) -> Path:
        folder = tmp_path / "changed"
        shutil.copytree(model, folder)
        for name, content in files.items():
            path = folder / name.replace("__", ".")
            path.unlink() if content is None else path.write_text(content)
        return packed(folder, tmp_path / "changed.tar.gz")

    def test_a_folder_that_is_not_a_model_is_reported(self, place: Place, tmp_path: Path) -> None:
        (tmp_path / "loop").mkdir()
        (tmp_path / "loop" / "weights.pt").write_bytes(b"x" * 100)
        failure = self.failure(place, packed(tmp_path / "loop", tmp_path / "loop.tar.gz"))
        assert failure == (
            "the job's artifact is not a model that can be served: it has no config.json, "
            "so it is not a Transformers folder"
        )

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ({"config__json": "{"}, "its config.json is not that of a Transformers model: "),
            ({"config__json": "[]"}, "its config.json is not that of a Transformers model: "),
            (
                {"config__json": "{}"},
                "its config.json names no class; the class that it names must end in ForSequenceClassification, ",
            ),
            ({"config__json": '{"architectures": ["ViTForImageClassification"]}'}, "names ViTForImageClassification"),
            ({"config__json": '{"architectures": [null]}'}, "its config.json names None"),
            ({"config__json": '{"architectures": 5}'}, "is not that of a Transformers model: "),
            (
                {"config__json": f'{BERT}, "id2label": {{"neg": 0}}}}'},
                "is not that of a Transformers model: invalid literal",
            ),
            (
                {"config__json": '{"a":' * 100_000},
                "is not that of a Transformers model: maximum recursion depth exceeded",
            ),
            ({"model__safetensors": None}, "it has neither model.safetensors nor pytorch_model.bin"),
            (
                dict.fromkeys(
                    ("tokenizer__json", "tokenizer_config__json", "special_tokens_map__json", "vocab__txt"), None
                ),
                "it has no tokenizer",
            ),
        ],
    )
    def test_an_incomplete_model_folder_is_reported(
        self, place: Place, tmp_path: Path, model_of: ArchiveOf, files: dict[str, str | None], words: str
    ) -> None:
        assert words in self.failure(place, self.changed(tmp_path, model_of("classification"), **files))

    def test_a_missing_artifact_is_reported(self, place: Place, tmp_path: Path) -> None:
        failure = self.failure(place, tmp_path / "gone.tar.gz")
        assert failure == f"The model artifact {tmp_path}/gone.tar.gz cannot be read: No such file or directory"

    def test_a_truncated_artifact_is_reported(self, place: Place, tmp_path: Path, archive_of: ArchiveOf) -> None:
        half = tmp_path / "half.tar.gz"
        half.write_bytes(archive_of("classification").read_bytes()[:100_000])
        assert "is not a complete tar archive: " in self.failure(place, half)

    def test_a_later_success_removes_the_failure(self, place: Place, tmp_path: Path, archive_of: ArchiveOf) -> None:
        run = place.run(tmp_path / "late.tar.gz")
        place.log(run)
        assert "platform.model_failure" in place.again(run).data.tags
        shutil.copy(archive_of("classification"), tmp_path / "late.tar.gz")
        place.log(run)
        assert "platform.model_failure" not in place.again(run).data.tags
        assert "platform.model_id" in place.again(run).data.tags


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_artifact_store_is_reported(place: Place, tmp_path: Path, archive_of: ArchiveOf) -> None:
    (tmp_path / "ärtifacts 100%").mkdir(mode=0o500)
    place.log(place.run(archive_of("classification")))
    assert "Permission denied" in place.messages[0]


def test_jobs_that_saved_no_model_are_skipped(place: Place, archive_of: ArchiveOf) -> None:
    run = place.run(archive_of("classification"))
    place.client.delete_tag(run.info.run_id, "platform.model_uri")
    place.log(place.again(run))
    assert (place.messages, place.models) == ([], [])
