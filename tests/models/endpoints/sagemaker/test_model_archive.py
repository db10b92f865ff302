"""A model's archive: packed with little memory, under a key derived from its content."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from models.endpoints.protocol import EndpointSpec
from models.endpoints.sagemaker.endpoints import SageMakerEndpoints
from models.endpoints.sagemaker.model_archive import archive_files, archive_key, pack
from tests.conftest import ROOT
from tests.support.aws.account import BUCKET, Account

MIB = 2**20
PACKS = """
import resource, sys
from pathlib import Path
from models.endpoints.sagemaker.model_archive import archive_files, archive_key, pack
files = archive_files(Path(sys.argv[1]), with_code=False)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
archive_key(files)
pack(files, Path(sys.argv[2]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
def test_packing_a_large_model_needs_little_memory(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(300 * MIB)
    command = [sys.executable, "-c", PACKS, str(folder), str(tmp_path / "model.tar.gz")]
    grown_mib = int(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout)
    assert grown_mib < 30
    with tarfile.open(tmp_path / "model.tar.gz") as tar:
        assert {each.name: each.size for each in tar} == {"config.json": 2, "model.safetensors": 300 * MIB}


def test_the_key_depends_on_the_content(folder: Path, tmp_path: Path) -> None:
    first = archive_key(archive_files(folder, with_code=False))
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").write_text("not the model's")
    assert archive_key(archive_files(folder, with_code=False)) == first
    assert archive_key(archive_files(folder, with_code=True)) != first
    (folder / "model.safetensors").write_bytes(b"others")
    assert archive_key(archive_files(folder, with_code=False)) != first


def test_a_model_is_uploaded_once_or_is_the_jobs_own(
    endpoints: SageMakerEndpoints, account: Account, spec: Callable[..., EndpointSpec]
) -> None:
    def archives() -> list[bytes]:
        requests = [account.hosting.request("Model", name) for name in account.hosting.names()["Model"]]
        return [account.hosting.model_archive(request) for request in requests]

    before = len(account.calls)
    for name in ("emotion", "emotion-2"):
        endpoints.deploy(spec(name=name), print)
    assert len([call for _, call in account.calls[before:] if call.startswith("PUT") and "model.tar.gz" in call]) == 1
    for archive in archives():
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            assert sorted(tar.getnames()) == ["config.json", "model.safetensors", "tokenizer.json"]
    account.hosting.clear()
    account.clients["s3"].put_object(Bucket=BUCKET, Key="job/output/model.tar.gz", Body=b"packed")
    endpoints.deploy(spec(artifact_uri=f"s3://{BUCKET}/job/output/model.tar.gz"), print)
    assert archives() == [b"packed"]
    # One that was deleted since is packed.
    endpoints.deploy(spec(name="again", artifact_uri=f"s3://{BUCKET}/job/deleted/model.tar.gz"), print)
    assert len(archives()[0]) > len(b"packed")


def test_links_are_followed(folder: Path, tmp_path: Path) -> None:
    """Folders of the Hub's cache contain only links."""
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    with tarfile.open(pack(archive_files(linked, with_code=False), tmp_path / "model.tar.gz")) as tar:
        assert all(each.isfile() for each in tar)
        assert len(tar.getmembers()) == 3
