"""The folder of a model, fetched once and completely from MLflow or from the job's artifact."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from models.logged.model_folder import model_folder
from models.trained_model import trained_model
from tests.conftest import ROOT
from tests.support.models.made_models import artifact, modelled, packed, tiny_folder
from tests.support.models.place import store_of
from tests.support.tracking.tracked import Tracked
from training.contract.errors import ArtifactError, InputError, TrackingError


def fetched(tracked: Tracked, run_id: str, home: Path) -> tuple[Path, list[str]]:
    """Return the folder of a run's model, and the logged messages."""
    store, messages = store_of(tracked.client), list[str]()
    return model_folder(store, trained_model(store, run_id), home, messages.append), messages


def check_is_the_model(folder: Path) -> None:
    """Check that all files are those of the job, and that Transformers can read them without a network."""
    for path in tiny_folder().iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name
    from transformers import AutoConfig, AutoTokenizer

    assert AutoConfig.from_pretrained(folder).id2label == {0: "calm", 1: "storm"}
    assert AutoTokenizer.from_pretrained(folder)("winter is coming")["input_ids"]


def test_an_mlflow_model_is_fetched_once(tracked: Tracked, tmp_path: Path) -> None:
    run_id = modelled(tracked, tmp_path, "job-1")
    folder, messages = fetched(tracked, run_id, tmp_path / "home")
    model_id = tracked.client.get_run(run_id).data.tags["platform.model_id"]
    assert folder == tmp_path / "home" / "models" / model_id
    assert len(messages) == 1
    assert messages[0].startswith(f"Fetching model models:/{model_id} from ")
    check_is_the_model(folder)
    # All that it was made of may go: it is here.
    shutil.rmtree(tmp_path / "artifacts")
    assert fetched(tracked, run_id, tmp_path / "home") == (folder, [])


def test_a_model_that_is_an_artifact_of_its_run_is_fetched(tracked: Tracked, tmp_path: Path) -> None:
    run_id = tracked.job("none")
    tracked.client.log_artifacts(run_id, str(tiny_folder()), "model/model")
    tracked.client.set_tag(run_id, "platform.model_artifact", f"runs:/{run_id}/model")
    folder, _ = fetched(tracked, run_id, tmp_path / "home")
    assert folder.name == run_id
    check_is_the_model(folder)


def test_the_jobs_artifact_is_used_without_an_mlflow_model(tracked: Tracked, tmp_path: Path) -> None:
    uri = artifact(tmp_path, "job-1", **{"optimizer.pt": "large", "model.safetensors": "a checkpoint's"})
    run_id = tracked.job("none", tags={"platform.model_uri": uri})
    folder, messages = fetched(tracked, run_id, tmp_path / "home")
    assert (folder.name, messages) == (run_id, [f"Fetching the model artifact {uri}"])
    check_is_the_model(folder)
    assert not list(folder.rglob("optimizer.pt"))


def test_concurrent_fetches_share_one_folder(tracked: Tracked, tmp_path: Path) -> None:
    run_id = modelled(tracked, tmp_path, "job-1")
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: fetched(tracked, run_id, tmp_path / "home")[0], range(4)))
    (folder,) = folders
    check_is_the_model(folder)
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


@pytest.mark.parametrize(
    ("tags", "status", "expected"),
    [
        ({}, "FINISHED", r"run \w+ \(demo-1-0\) has no model: its job saved none \(see save_model\)\.$"),
        ({}, "FAILED", r"has no model: its job ended FAILED\.$"),
        ({"platform.model_failure": "it is none."}, "FINISHED", "has no model: it is none.$"),
        (
            {"platform.model_id": "m-gone"},
            "FINISHED",
            "model m-gone of run .* no longer exists on the tracking server",
        ),
    ],
)
def test_a_run_without_a_model_is_refused(
    tracked: Tracked, tmp_path: Path, tags: dict[str, str], status: str, expected: str
) -> None:
    run_id = tracked.job("none", status=status, tags=tags)
    with pytest.raises(InputError, match=expected):
        fetched(tracked, run_id, tmp_path / "home")
    assert list((tmp_path / "home" / "models").glob("*/")) == []


def test_an_invalid_artifact_leaves_nothing(tracked: Tracked, tmp_path: Path) -> None:
    (tmp_path / "other.tar.gz").write_bytes(b"no archive")
    other = tracked.job("none", tags={"platform.model_uri": (tmp_path / "other.tar.gz").as_uri()})
    with pytest.raises(ArtifactError, match="is not a complete tar archive"):
        fetched(tracked, other, tmp_path / "home")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "README.md").write_text("No model.")
    bare = tracked.job(
        "none", tags={"platform.model_uri": packed(tmp_path / "bare", tmp_path / "bare.tar.gz").as_uri()}
    )
    with pytest.raises(
        InputError, match=r"of run \w+ \(.*\) cannot be served: it has no config\.json, so it is not a Tr"
    ):
        fetched(tracked, bare, tmp_path / "home")
    tags = {"platform.model_artifact": "runs:/x/model", "platform.model_uri": artifact(tmp_path, "job-1")}
    run_id = tracked.job("none", tags=tags)
    with pytest.raises(TrackingError, match="while downloading one or more artifacts from file://"):
        fetched(tracked, run_id, tmp_path / "home")
    assert list((tmp_path / "home" / "models").glob("*/")) == []


@pytest.mark.slow
def test_a_killed_fetch_leaves_no_folder(tracked: Tracked, tmp_path: Path) -> None:
    """Whenever the process is killed, a folder with the model's name is complete."""
    run_id = modelled(tracked, tmp_path, "job-1")
    code = (
        "import sys; from pathlib import Path; from tracking.server.store import open_store\n"
        "from models.logged.model_folder import model_folder; from models.trained_model import trained_model\n"
        "store = open_store(sys.argv[1]); print('ready', flush=True)\n"
        "model_folder(store, trained_model(store, sys.argv[2]), Path(sys.argv[3]))\n"
    )
    command = [sys.executable, "-c", code, str(tracked.client.tracking_uri), run_id, str(tmp_path / "home")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        models = tmp_path / "home" / "models"
        while process.poll() is None and not list(models.glob(".unfinished-*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    folder, _ = fetched(tracked, run_id, tmp_path / "home")
    check_is_the_model(folder)
