"""Recognise a full disk. Standard library only."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

from training.contract.plain_text import size_text

FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT})
_FULL_BYTES = 16 * 1024
"""Free space below which a disk counts as full: less than a few blocks."""
_FULL_TEXT = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full")


def is_full(path: Path) -> bool:
    """Return whether the disk of an existing path has no space left for this user."""
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize < _FULL_BYTES


def names_full_disk(lines: Iterable[str]) -> bool:
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
