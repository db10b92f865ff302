"""Folders known by their content: digests, and copies that nobody changes any more."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from training.contract.errors import InputError

LEFT_OUT = (".*", "__pycache__", "mlruns", "mlartifacts", "mlflow.db*")
"""Never part of a script: hidden files (a repository, an environment, secrets) and what tracking leaves."""


def is_left_out(name: str) -> bool:
    """Tell whether a file or folder of this name is no part of a script."""
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def files_of(folder: Path, *, all_files: bool) -> Iterator[Path]:
    """Yield the files under a folder in a fixed order, links followed; without those left out unless `all_files`."""
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if all_files or not is_left_out(name))
        yield from (Path(place) / name for name in sorted(names) if all_files or not is_left_out(name))


def digest_of(folder: Path, *, all_files: bool) -> str:
    """Return the SHA-256 of the names and contents of a folder's files. Raises InputError where one cannot be read."""
    digest = hashlib.sha256()
    for path in files_of(folder, all_files=all_files):
        try:
            with path.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").digest()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
        digest.update(os.fsencode(path.relative_to(folder)) + b"\0" + content)
    return digest.hexdigest()


@contextmanager
def renamed_when_whole(folder: Path) -> Iterator[Path]:
    """Give an empty folder of another name to fill; it takes its name when all is there, and goes when not."""
    unfinished = folder.parent / f".unfinished-{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        if not folder.exists():
            unfinished.rename(folder)
    except (OSError, shutil.Error) as error:
        if not folder.exists():  # else somebody else made the same just now
            raise InputError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
