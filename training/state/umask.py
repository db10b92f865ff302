"""File mode creation mask of the programs that write state: data, runs and models are private by default."""

from __future__ import annotations

import os
import re
import stat

from training.contract.errors import InputError

VARIABLE = "TRAINFARE_UMASK"
"""Variable with the mask, in octal."""
PRIVATE = "077"


def set_umask() -> None:
    """Set this process's mask: files are private, unless TRAINFARE_UMASK has another mask, such as 007 for a group.

    Raises `InputError`.
    """
    os.umask(_mask())


def shares_with_group() -> bool:
    """Return whether the variable lets the group write new files. Raises `InputError`."""
    return not _mask() & stat.S_IWGRP


def private_mode(mode: int) -> int:
    """Return the mode of a copy of a file: its owner can read and write it, and others have no more than new files.

    Raises `InputError`.
    """
    return (stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR) & ~_mask()


def _mask() -> int:
    mask = os.environ.get(VARIABLE, PRIVATE)
    if not re.fullmatch("0?[0-7]{3}", mask):
        raise InputError(f"{VARIABLE} is '{mask}'; it must be three octal digits, such as 077 or 007.")
    return int(mask, 8)
