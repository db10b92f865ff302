"""Synchronise a container's checkpoints to S3 while the job runs, file by file, without deletions.

Therefore S3 may contain an incomplete checkpoint, and older ones that the job has deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.support.aws.objects import Objects


class SyncedFolder:
    """The checkpoint folder of one start of a job, and its prefix in S3."""

    def __init__(self, objects: Objects, uri: str, folder: Path) -> None:
        self._objects, self._uri, self._folder = objects, uri, folder
        objects.fetch_folder(uri, folder)
        self._uploaded = {path: state for path in self._files() if (state := _state(path))}

    def upload(self, cut_at: str | None = None) -> bool:
        """Upload the changed files. If a file matches `cut_at`, upload only half of it and return False."""
        for path in self._files():
            state, name = _state(path), path.relative_to(self._folder).as_posix()
            if state is None or self._uploaded.get(path) == state:
                continue
            try:
                content = path.read_bytes()
            except OSError:
                continue  # The job has just renamed or deleted it.
            is_cut = cut_at is not None and fnmatch(name, cut_at)
            self._objects.put(f"{self._uri}/{name}", content[: len(content) // 2] if is_cut else content)
            self._uploaded[path] = state
            if is_cut:
                return False
        return True

    def has(self, pattern: str) -> bool:
        """Return whether a file that matches the pattern has been uploaded."""
        return any(fnmatch(path.relative_to(self._folder).as_posix(), pattern) for path in self._uploaded)

    def _files(self) -> Iterator[Path]:
        """Return the files. `os.walk` skips a folder that the job has just deleted; `rglob` would raise an error."""
        folders = os.walk(self._folder)
        return iter(sorted(Path(folder, name) for folder, _, names in folders for name in names))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
