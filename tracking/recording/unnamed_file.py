"""A temporary file without a name, which disappears with the process."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UnnamedFile:
    """Lines on disk, so that memory does not grow with them."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        weakref.finalize(self, self._file.close)

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines, without their line ends."""
        self._file.seek(0, 2)
        self._file.writelines(line + b"\n" for line in lines)

    def __iter__(self) -> Iterator[bytes]:
        position = 0
        while True:
            self._file.seek(position)  # another iteration, or an addition, may have moved it
            line = self._file.readline()
            if not line:
                return
            position = self._file.tell()
            yield line

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Yield the path of a file called `name` with all lines. It is deleted afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            self._file.seek(0)
            with path.open("wb") as file:
                shutil.copyfileobj(self._file, file)
            yield path
