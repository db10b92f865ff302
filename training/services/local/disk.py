"""Recognise a full disk, and warn before a job's disk is full. Standard library only.

The free space is compared with what the job has yet to write. A saved model is on the disk twice while it is packed. A
checkpoint holds the weights and the optimizer's two moments, and a new one is written before the oldest is removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from training.contract.plain_text import size_text
from training.contract.service import Request
from training.services.local import toolkit
from training.services.local.toolkit import local_path

FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_BYTES = 16 * 1024
"""Free space below which a disk counts as full: less than a few blocks."""
_FULL_TEXT = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full")

PAUSE_SECONDS = 5.0
"""Pause between two looks at the disk."""
LOW_BYTES = 256 * 2**20
LOW_SHARE = 0.02
"""Free space that is low for any job: this many bytes, or this share of a smaller disk."""
MODEL_COPIES = 2
CHECKPOINT_COPIES = 3
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack")


def is_full(path: Path) -> bool:
    """Return whether the disk of an existing path has no space left for this user."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize < _FULL_BYTES


def names_full_disk(lines: Iterable[str]) -> bool:
    """Return whether a log contains the system's message about a full disk."""
    return any(_FULL_TEXT.search(line) for line in lines)


def full_reason(path: Path, needed_bytes: int | None = None) -> str:
    """Return the sentence about a full disk: the disk of `path`, or another one if there is space left.

    It states the free space, the needed space and what to do.
    """
    existing = next(each for each in (path, *path.parents) if each.exists())
    status = os.statvfs(existing)
    free, total = (size_text(blocks * status.f_frsize) for blocks in (status.f_bavail, status.f_blocks))
    needed = f", and {size_text(needed_bytes)} are needed" if needed_bytes else ""
    if is_full(existing) or needed_bytes:
        disk = f"the disk of {path} is full: {free} of {total} are free{needed}"
    else:
        disk = f"no space was left on a disk or in a quota. The disk of {path} now has {free} of {total} free"
    return (
        f"DiskFull: {disk}. Free some space, for example with `trainfare jobs prune`, then run the same command again"
    )


def missing_bytes(request: Request, base: Path) -> int:
    """Return the size of the files that a job has yet to write to its container folder `base`, as far as it is known.

    A user's script has no hyperparameters of ours: it may save a model, and its checkpoints are unknown.
    """
    hyperparameters = toolkit.decoded(request["HyperParameters"])
    copies = MODEL_COPIES * (hyperparameters.get("save_model") is not False)
    if hyperparameters.get("save_strategy", "none") != "none":  # the kept checkpoints, and the next one
        limit = hyperparameters.get("save_total_limit")
        copies += CHECKPOINT_COPIES * ((limit if isinstance(limit, int) else 1) + 1)
    staged = [each for each in request.get("InputDataConfig", []) if each["ChannelName"] == "model"]
    paths = [local_path(each["DataSource"]["S3DataSource"]["S3Uri"]) for each in staged]
    staged_bytes = sum(size for path in paths for _, size in _files(path))
    model, checkpoints = _files(base / "model"), _files(base / "checkpoints")
    weights = max((size for name, size in [*model, *checkpoints] if name.endswith(WEIGHTS)), default=0)
    saved_bytes = sum(size for _, size in model)
    total = copies * max(staged_bytes, weights, saved_bytes)
    return max(0, total - saved_bytes - sum(size for _, size in checkpoints))


def warning(path: Path, free_bytes: int, disk_bytes: int, needed_bytes: int) -> str:
    """Return the sentence about a disk that is about to be full, or an empty text."""
    low = min(LOW_BYTES, LOW_SHARE * disk_bytes)
    if free_bytes >= max(needed_bytes, low):
        return ""
    need = f", and the job has yet to write about {size_text(needed_bytes)}" if needed_bytes else ""
    return (
        f"the disk of {path} is almost full: {size_text(free_bytes)} of {size_text(disk_bytes)} are free{need}. Free "
        "some space now, for example with `trainfare jobs prune`, or the model may be lost"
    )


class DiskWatch:
    """Watch over the disk of one job. A warning stays as it is until there is enough space again."""

    def __init__(
        self,
        base: Path,
        request: Request,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`warn` receives the warning, and an empty text when it no longer applies."""
        self._base, self._request, self._warn, self._clock = base, request, warn, clock
        self._due = 0.0
        self._is_low = False

    def look(self) -> None:
        """Look at the disk, unless the last look was a moment ago."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + PAUSE_SECONDS
        status = os.statvfs(self._base.parents[1])  # the job may delete its own folders
        free, disk = (blocks * status.f_frsize for blocks in (status.f_bavail, status.f_blocks))
        text = warning(self._base.parents[1], free, disk, missing_bytes(self._request, self._base))
        if bool(text) != self._is_low:
            self._is_low = bool(text)
            self._warn(text)


def _files(folder: Path) -> list[tuple[str, int]]:
    """Return the names and sizes of all files below a folder. Files may vanish meanwhile."""
    files = []
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                files.append((name, (Path(root) / name).stat().st_size))
    return files
