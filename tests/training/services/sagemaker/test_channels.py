"""Channels of every workload and script, downloaded through S3 as SageMaker does, contain the files of this machine.

With S3DataType `S3Prefix`, SageMaker downloads every object whose key begins with the URI (CreateTrainingJob,
`S3DataSource.S3Uri`), and a file keeps the rest of its key as its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments.planning.arms import Arm
from experiments.planning.inputs import stage_inputs
from experiments.planning.load import load
from experiments.planning.plan import plan
from experiments.running.service_context import open_service_context
from tests.support.aws.account import BUCKET, ROLE, Account
from tests.support.aws.objects import Objects
from training.contract.errors import InputError
from training.contract.job_spec import JobSpec
from training.services.local.container import local_path
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.storage import Storage, session_bucket

AWS = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": ROLE}


def files(path: Path) -> dict[str, bytes]:
    """Return the files of a channel of this machine, with links followed, by their names in the channel."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    found = [Path(parent, name) for parent, _, names in os.walk(path, followlinks=True) for name in names]
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in found}


def uploaded(name: str, fields: Mapping[str, object], home: Path) -> tuple[JobSpec, JobSpec]:
    """Stage, plan and upload the job of an experiment, and return its spec before and after the upload."""
    experiment = load(name, {key: str(value) for key, value in {**fields, **AWS}.items()})
    arm = Arm(label="alone", experiment=experiment, is_baseline=True)
    inputs = stage_inputs([arm], lambda _: None)
    [job] = plan("group", "name", [arm], 1, inputs, home)
    return job.spec, open_service_context(experiment, lambda _: None).upload(job.spec)


def assert_container_sees(account: Account, local: JobSpec, remote: JobSpec, folder: Path) -> None:
    """Download each channel and compare names and bytes with the files of this machine."""
    assert remote.channels.keys() == local.channels.keys()
    for name, uri in remote.channels.items():
        Objects(account.clients["s3"]).fetch_folder(uri, folder / name)
        assert files(folder / name) == files(local_path(local.channels[name])) != {}, name


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINFARE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_container_sees_every_kind_of_channel(account: Account, tmp_path: Path, home: Path) -> None:
    """A single file, a folder with hidden, empty and nested files, a link to a file and one to a folder."""
    folder = tmp_path / "folder"
    for name, text in {"a.txt": "1", ".hidden": "2", "empty": "", "wörld/ü b%20.txt": "3", "wörld/x/y": "4"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link").symlink_to(folder / "a.txt")
    (folder / "linked").symlink_to(folder / "wörld", target_is_directory=True)
    (tmp_path / "rows.csv").write_text("text,label\n")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "own.yaml").write_text("script: {source: code, channels: {one: rows.csv, many: folder}}\n")
    local, remote = uploaded(str(tmp_path / "own.yaml"), {}, home)
    assert_container_sees(account, local, remote, tmp_path / "container")
    assert set(files(tmp_path / "container" / "one")) == {"rows.csv"}
    assert set(files(tmp_path / "container" / "many")) == {
        *("a.txt", ".hidden", "empty", "wörld/ü b%20.txt", "wörld/x/y"),
        *("link", "linked/ü b%20.txt", "linked/x/y"),
    }


def test_an_upload_of_an_earlier_version_is_used_without_its_marker(account: Account, tmp_path: Path) -> None:
    """Earlier versions wrote `<hash>.complete` beside the prefix `<hash>`, which matched it."""
    clients = Clients()
    storage = Storage(clients, session_bucket(clients, "123456789012"))
    (tmp_path / "rows.csv").write_text("text,label\n")
    uri = storage.put_channel(tmp_path / "rows.csv", "data")
    s3, key = account.clients["s3"], uri.removeprefix(f"s3://{BUCKET}/")
    s3.delete_object(Bucket=BUCKET, Key=f"trainfare/complete/{key.removeprefix('trainfare/').rstrip('/')}")
    s3.put_object(Bucket=BUCKET, Key=f"{key.rstrip('/')}.complete", Body=b"")
    before = s3.head_object(Bucket=BUCKET, Key=f"{key}rows.csv")["LastModified"]
    messages: list[str] = []
    assert storage.put_channel(tmp_path / "rows.csv", "data", messages.append) == uri
    assert messages == [f"Uploaded 0 bytes to {uri.rstrip('/')} (11 bytes were already uploaded)"]
    assert s3.head_object(Bucket=BUCKET, Key=f"{key}rows.csv")["LastModified"] == before
    Objects(s3).fetch_folder(uri, tmp_path / "container")
    assert files(tmp_path / "container") == {"rows.csv": b"text,label\n"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, r"Channel 'data': .*/folder contains no file, and SageMaker starts no job with an empty channel\."),
        (b"\xff", r"Channel 'data': .* contains a file whose name is not UTF-8, '\\udcff': rename it\."),
        ("/".join(["x" * 200] * 5).encode(), r"has 1004 bytes, 'x+'...: S3 allows 800 here\."),
    ],
    ids=["empty", "name", "long"],
)
def test_a_channel_that_s3_cannot_hold_is_refused_before_an_upload(
    account: Account, tmp_path: Path, home: Path, name: bytes | None, message: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if name is not None:
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "own.yaml").write_text("script: {source: code, channels: {data: folder}}\n")
    with pytest.raises(InputError, match=message):
        uploaded(str(tmp_path / "own.yaml"), {}, home)
    assert account.clients["s3"].list_objects_v2(Bucket=BUCKET).get("Contents", []) == []
