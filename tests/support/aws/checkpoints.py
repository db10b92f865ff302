"""A container's checkpoints, kept in step with S3 while the job runs: file by file, as they are at that moment, nothing
ever deleted. So S3 may hold half a checkpoint, and older ones that the job has removed."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.support.aws.objects import Objects


class Synced:
    """A folder of one start of a job, and the prefix that holds it."""

    def __init__(self, objects: Objects, uri: str, folder: Path) -> None:
        self._objects, self._uri, self._folder = objects, uri, folder
        objects.fetch_folder(uri, folder)
        self._brought = {path: found for path in self._files() if (found := _state(path))}

    def bring(self, cut_at: str | None = None) -> bool:
        """Bring what has changed; of the first file whose name fits `cut_at` only half, and return False."""
        for path in self._files():
            state, name = _state(path), path.relative_to(self._folder).as_posix()
            if state is None or self._brought.get(path) == state:
                continue
            try:
                content = path.read_bytes()
            except OSError:
                continue  # renamed or removed meanwhile
            cut = cut_at is not None and fnmatch(name, cut_at)
            self._objects.put(f"{self._uri}/{name}", content[: len(content) // 2] if cut else content)
            self._brought[path] = state
            if cut:
                return False
        return True

    def has(self, name: str) -> bool:
        """Return whether a file whose name fits has been brought."""
        return any(fnmatch(path.relative_to(self._folder).as_posix(), name) for path in self._brought)

    def _files(self) -> Iterator[Path]:
        return iter(sorted(path for path in self._folder.rglob("*") if path.is_file()))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
