"""Uploads to S3: each folder once, complete, under a key derived from its content; and the choice of the bucket."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.support.aws.account import ACCOUNT, BUCKET, REGION, Account
from training.contract.errors import AccessError, InputError, ServiceError
from training.services.sagemaker.clients import Clients
from training.services.sagemaker.storage import Storage, UploadProgress, pack_source, session_bucket, size


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
        "  6.0 MiB of 10.0 MiB uploaded",
        "  9.0 MiB of 10.0 MiB uploaded",
        "Uploaded 7.0 MiB to s3://b/k (3.0 MiB were already uploaded)",
    ]
    assert [size(count) for count in (0, 1023, 1536, 5 * 2**30)] == ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 GiB"]


@pytest.mark.parametrize("changed", [{"data": b"2"}, {"renamed": b"1"}, {"data": b"1", "more": b""}])
def test_different_content_has_a_different_prefix(storage: Storage, tmp_path: Path, changed: dict[str, bytes]) -> None:
    before = storage.put_channel(folder_of(tmp_path / "a", {"data": b"1"}), "data")
    assert storage.put_channel(folder_of(tmp_path / "b", changed), "data") != before


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


def test_a_large_file_is_uploaded_in_parts(account: Account, storage: Storage, tmp_path: Path) -> None:
    content = os.urandom(2**20) * 65
    uri = storage.put_channel(folder_of(tmp_path / "a", {"model.bin": content}), "data")
    key = f"{uri.removeprefix(f's3://{BUCKET}/')}model.bin"
    response = account.clients["s3"].get_object(Bucket=BUCKET, Key=key)
    assert response["ETag"].strip('"').endswith("-2")
    assert response["Body"].read() == content


def test_equal_sources_give_equal_archives(storage: Storage, tmp_path: Path) -> None:
    one = folder_of(tmp_path / "a", {"train.py": b"print(1)", "tasks/x.py": b"", "__pycache__/y.pyc": b"z"})
    two = folder_of(tmp_path / "b", {"tasks/x.py": b"", "train.py": b"print(1)"})
    os.utime(two / "train.py", (0, 0))
    assert pack_source(one) == pack_source(two)
    assert storage.put_source(one) == storage.put_source(two)
    with tarfile.open(fileobj=io.BytesIO(pack_source(one)), mode="r:gz") as tar:
        assert tar.getnames() == ["tasks/x.py", "train.py"]


def test_the_default_bucket_is_created_once(account: Account) -> None:
    clients = Clients()
    assert session_bucket(clients, ACCOUNT) == session_bucket(clients, ACCOUNT) == BUCKET
    assert [each["Name"] for each in account.clients["s3"].list_buckets()["Buckets"]] == [BUCKET]


def test_a_named_bucket_is_not_created(account: Account) -> None:
    with pytest.raises(InputError, match=r"Bucket mine does not exist: create it, or do not set aws\.bucket"):
        session_bucket(Clients(), ACCOUNT, "mine")


def test_a_bucket_in_a_different_region_is_rejected(account: Account) -> None:
    account.clients["s3"].create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with pytest.raises(InputError, match=f"Bucket far is in eu-central-1, but the jobs run in {REGION}"):
        session_bucket(Clients(), ACCOUNT, "far")
