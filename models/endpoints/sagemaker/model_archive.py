"""Pack a model's folder as `model.tar.gz`, which SageMaker unpacks into /opt/ml/model, and upload it once."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from models.endpoints.protocol import Echo
from models.loading.answer_spans import PATH as ANSWER_SPANS
from training.contract.errors import InputError
from training.services.sagemaker.storage import Storage

CODE = Path(__file__).with_name("container")
"""Folder with the code that answers questions in the container."""
OLD_SECONDS = 86_400
"""Age after which a temporary folder belongs to no running command."""
COMPRESSION = 1
"""Compression level. Higher levels hardly make weights smaller."""


def archive_files(model: Path, *, with_code: bool) -> dict[str, Path]:
    """Return the archive's files: name in the archive to path. Raises InputError if the folder is not a model."""
    if not (model / "config.json").is_file():
        raise InputError(f"{model} is not a Transformers folder: it has no config.json.")
    files = dict(_files(model))
    if with_code:
        files |= {f"code/{name}": path for name, path in _files(CODE) if path.suffix == ".py"}
        files[f"code/{ANSWER_SPANS.name}"] = ANSWER_SPANS
    return files


def archive_key(files: Mapping[str, Path]) -> str:
    """Return the archive's key in S3, a digest of its files' names and contents. Equal files have the same key."""
    listing = "\n".join(f"{name} {_digest(path)}" for name, path in sorted(files.items()))
    return f"models/{hashlib.sha256(listing.encode()).hexdigest()[:32]}/model.tar.gz"


def upload(storage: Storage, files: Mapping[str, Path], scratch: Path, echo: Echo) -> str:
    """Pack and upload the files, unless the archive exists in S3, and return its URI.

    The archive is written to a temporary folder in `scratch`. Only a few blocks of it are in memory at a time.
    """
    key = archive_key(files)
    if not storage.has(key):
        scratch.mkdir(parents=True, exist_ok=True)
        _delete_old(scratch)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="model-") as folder:
            archive = pack(files, Path(folder) / "model.tar.gz")
            storage.put_file(archive, key, echo)
    return storage.uri(key)


def pack(files: Mapping[str, Path], archive: Path) -> Path:
    """Write the archive, with the files at its root, and return its path."""
    with tarfile.open(archive, "w:gz", compresslevel=COMPRESSION) as tar:
        for name, path in sorted(files.items()):
            tar.add(path.resolve(), arcname=name, recursive=False)
    return archive


def _delete_old(scratch: Path) -> None:
    """Delete temporary folders of commands that were killed while packing."""
    for folder in scratch.glob("model-*"):
        if time.time() - folder.stat().st_mtime > OLD_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _files(folder: Path) -> list[tuple[str, Path]]:
    names = [(path.relative_to(folder), path) for path in sorted(folder.rglob("*")) if path.is_file()]
    hidden = {name for name, _ in names if any(part.startswith((".", "__pycache__")) for part in name.parts)}
    return [(name.as_posix(), path) for name, path in names if name not in hidden]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
