"""Uploads to S3: each folder once, complete, under a key derived from its content; and the choice of the bucket."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from experiments.planning.inputs import stage_inputs
from experiments.planning.load import Arm, load
from experiments.planning.plan import plan
from experiments.running.launch import open_service_context
from tests.support.aws.account import ACCOUNT, BUCKET, REGION, ROLE, Account
from tests.support.aws.objects import Objects
from training.contract.errors import AccessError, InputError, ServiceError
from training.contract.job_spec import JobSpec
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.storage import Storage, UploadProgress, create_bucket, find_bucket, pack_source
from training.services.supervision.toolkit import local_path

AWS = {"service": "sagemaker", "machine.instance_type": "ml.g5.xlarge", "aws.role": ROLE}


@pytest.fixture
def storage(account: Account) -> Storage:
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    return Storage(Clients(), BUCKET)


def folder_of(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def keys(account: Account) -> dict[str, int]:
    contents = account.clients["s3"].list_objects_v2(Bucket=BUCKET).get("Contents", [])
    return {entry["Key"]: entry["LastModified"] for entry in contents}


def test_a_folder_is_uploaded_once(account: Account, storage: Storage, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "a", {"data.parquet": b"1" * 1000, "sub/ü": b"2"})
    messages: list[str] = []
    uri = storage.put_channel(folder, "data", messages.append)
    first = keys(account)
    prefix, name = uri.removeprefix(f"s3://{BUCKET}/"), uri.split("/")[-2]
    assert set(first) == {f"{prefix}data.parquet", f"{prefix}sub/ü", f"trainfare/complete/data/{name}"}
    # A slow upload also says how far it is.
    assert [each for each in messages if not each.startswith("  ")] == [f"Uploaded 1001 bytes to {uri.rstrip('/')}"]
    assert storage.put_channel(folder_of(tmp_path / "b", {"data.parquet": b"1" * 1000, "sub/ü": b"2"}), "data") == uri
    assert keys(account) == first
    for number, changed in enumerate(({"data.parquet": b"2"}, {"renamed": b"1" * 1000})):
        assert storage.put_channel(folder_of(tmp_path / f"changed-{number}", changed), "data") != uri


def test_a_long_upload_logs_its_progress() -> None:
    """The upload sends 1 MiB every 2 s; lines are at least 5 s apart."""
    now, messages = [0.0], []
    progress = UploadProgress(10 * 2**20, "s3://b/k", messages.append, lambda: now[0])
    progress.skip(3 * 2**20)
    for _ in range(7):
        now[0] += 2
        progress.add(2**20)
    progress.finish()
    assert messages == [
        "  6 MiB of 10 MiB uploaded",
        "  9 MiB of 10 MiB uploaded",
        "Uploaded 7 MiB to s3://b/k (3 MiB were already uploaded)",
    ]


def test_an_interrupted_upload_resumes(account: Account, storage: Storage, tmp_path: Path) -> None:
    files = {"a": b"1" * 10, "b": b"2" * 20, "c": b"3"}
    folder = folder_of(tmp_path / "a", files)
    uri = storage.put_channel(folder, "data")
    prefix = uri.removeprefix(f"s3://{BUCKET}/").rstrip("/")
    s3 = account.clients["s3"]
    # As after a kill: one file is missing, one is incomplete, and the last object does not exist.
    for name in (f"{prefix}/c", f"trainfare/complete/data/{uri.split('/')[-2]}"):
        s3.delete_object(Bucket=BUCKET, Key=name)
    s3.put_object(Bucket=BUCKET, Key=f"{prefix}/b", Body=b"2" * 5)
    uploaded = keys(account)[f"{prefix}/a"]
    assert storage.put_channel(folder, "data") == uri
    assert keys(account)[f"{prefix}/a"] == uploaded
    stored = {name: s3.get_object(Bucket=BUCKET, Key=f"{prefix}/{name}")["Body"].read() for name in files}
    assert stored == files


def test_a_refused_upload_is_one_sentence_and_continues_at_the_next_try(account: Account, tmp_path: Path) -> None:
    storage, folder = Storage(Clients(), BUCKET), folder_of(tmp_path / "a", {"data": b"1"})
    with pytest.raises(
        ServiceError, match=r"^s3://\S+/data: NoSuchBucket: The specified bucket does not exist\.$"
    ) as refused:
        storage.put_channel(folder, "data")
    account.clients["s3"].create_bucket(Bucket=BUCKET)
    assert f"{storage.put_channel(folder, 'data')}data" in str(refused.value)
    account.add_foreign_bucket("theirs")
    with pytest.raises(AccessError, match=r"^s3://theirs/trainfare/model: access is denied: "):
        Storage(Clients(), "theirs").put_file(folder / "data", "model")


def test_equal_sources_give_equal_archives(storage: Storage, tmp_path: Path) -> None:
    one = folder_of(tmp_path / "a", {"train.py": b"print(1)", "tasks/x.py": b"", "__pycache__/y.pyc": b"z"})
    two = folder_of(tmp_path / "b", {"tasks/x.py": b"", "train.py": b"print(1)"})
    os.utime(two / "train.py", (0, 0))
    assert pack_source(one) == pack_source(two)
    assert storage.put_source(one) == storage.put_source(two)
    with tarfile.open(fileobj=io.BytesIO(pack_source(one)), mode="r:gz") as tar:
        assert tar.getnames() == ["tasks/x.py", "train.py"]


def test_the_default_bucket_is_created_once_and_another_is_checked(account: Account) -> None:
    clients = Clients()
    assert find_bucket(clients, ACCOUNT) == (BUCKET, False)
    create_bucket(clients, BUCKET)
    assert find_bucket(clients, ACCOUNT) == (BUCKET, True)
    assert [each["Name"] for each in account.clients["s3"].list_buckets()["Buckets"]] == [BUCKET]
    with pytest.raises(InputError, match=r"Bucket mine does not exist: create it, or do not set aws\.bucket"):
        find_bucket(Clients(), ACCOUNT, "mine")
    account.clients["s3"].create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with pytest.raises(InputError, match=f"Bucket far is in eu-central-1, but the jobs run in {REGION}"):
        find_bucket(Clients(), ACCOUNT, "far")


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


def test_an_empty_channel_is_refused_before_an_upload(account: Account, tmp_path: Path, home: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "own.yaml").write_text("script: {source: code, channels: {data: folder}}\n")
    message = r"Channel 'data': .*/folder contains no file, and SageMaker starts no job with an empty channel\."
    with pytest.raises(InputError, match=message):
        uploaded(str(tmp_path / "own.yaml"), {}, home)
    assert account.clients["s3"].list_objects_v2(Bucket=BUCKET).get("Contents", []) == []


def test_a_job_with_an_adapter_brings_peft(account: Account, home: Path) -> None:
    rows = {"adapter.rank": 4, "data.train_rows": 64, "data.validation_rows": 16}
    assert requirements(account, uploaded("demo", rows, home)[1]) == b"peft==0.21.2\n"
    with pytest.raises(InputError, match=r"a network, but adapter\.method lora installs peft==0\.21\.2"):
        uploaded("demo", {**rows, "aws.isolate_network": "true"}, home)


def test_a_job_brings_the_packages_of_its_task(account: Account, home: Path, tmp_path: Path) -> None:
    rows = [{"text": f"row {at}", "target": str(at)} for at in range(200)]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    fields = {"data.hub": "null", "data.columns": "{}", "data.train": str(tmp_path / "rows.jsonl"), "num_beams": 1}
    assert requirements(account, uploaded("e2e", fields, home)[1]) == b"sacrebleu==2.6.0\n"


def requirements(account: Account, remote: JobSpec) -> bytes:
    """Return the `requirements.txt` of an uploaded source."""
    key = remote.source_uri.removeprefix(f"s3://{BUCKET}/")
    archive = account.clients["s3"].get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        lines = tar.extractfile("requirements.txt")
        assert lines is not None
        return lines.read()
