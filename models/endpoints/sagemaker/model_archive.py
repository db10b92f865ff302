"""Pack a model's folder as `model.tar.gz`, which SageMaker unpacks into /opt/ml/model, and upload it once."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from models.endpoints.protocol import Echo
from models.loading.answer_spans import PATH as ANSWER_SPANS
from training.contract.errors import InputError
from training.services.sagemaker.storage import Storage

CODE = Path(__file__).with_name("container") / "inference.py"
"""Code that answers questions in the container."""


def archive_files(model: Path, *, with_code: bool) -> dict[str, Path]:
    """Return the archive's files: name in the archive to path. Raises InputError if the folder is not a model."""
    if not (model / "config.json").is_file():
        raise InputError(f"{model} is not a Transformers folder: it has no config.json.")
    paths = {path.relative_to(model): path for path in sorted(model.rglob("*")) if path.is_file()}
    files = {name.as_posix(): path for name, path in paths.items() if not any(part[0] == "." for part in name.parts)}
    return files | ({f"code/{path.name}": path for path in (CODE, ANSWER_SPANS)} if with_code else {})


def archive_key(files: Mapping[str, Path]) -> str:
    """Return the archive's key in S3, a digest of its files' names and contents. Equal files have the same key."""
    listing = "\n".join(f"{name} {_digest(path)}" for name, path in sorted(files.items()))
    return f"models/{hashlib.sha256(listing.encode()).hexdigest()[:32]}/model.tar.gz"


def upload(storage: Storage, files: Mapping[str, Path], key: str, folder: Path, echo: Echo) -> None:
    """Pack the files in `folder` and upload the archive, unless it exists in S3.

    The archive has no name in the folder, so a command that is killed leaves nothing.
    """
    if files and not storage.has(key):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            storage.put_file(pack(files, Path(f"/proc/self/fd/{file.fileno()}")), key, echo)


def pack(files: Mapping[str, Path], archive: Path) -> Path:
    """Write the archive, with the files at its root, and return its path."""
    # Higher levels of compression hardly make weights smaller.
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name, path in sorted(files.items()):
            tar.add(path.resolve(), arcname=name, recursive=False)
    return archive


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
