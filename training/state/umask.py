"""File mode creation mask of the programs that write state: data, runs and models are private by default."""

from __future__ import annotations

import os
import re

from training.contract.errors import InputError

VARIABLE = "TRAINFARE_UMASK"
"""Variable with the mask, in octal."""
PRIVATE = "077"


def set_umask() -> None:
    """Set this process's mask: files are private, unless TRAINFARE_UMASK has another mask, such as 007 for a group.

    Raises `InputError`.
    """
    mask = os.environ.get(VARIABLE, PRIVATE)
    if not re.fullmatch("0?[0-7]{3}", mask):
        raise InputError(f"{VARIABLE} is '{mask}'; it must be three octal digits, such as 077 or 007.")
    os.umask(int(mask, 8))


def shares_with_group() -> bool:
    """Return whether the variable lets the group write new files."""
    return re.fullmatch("0?[0-7][0145][0-7]", os.environ.get(VARIABLE, PRIVATE)) is not None
