"""Mode of new files: private by default, or shared with a group by TRAINFARE_UMASK."""

from __future__ import annotations

import os
import re

from training.contract.errors import InputError

UMASK_VARIABLE = "TRAINFARE_UMASK"
"""Variable with the file mode creation mask of all files, in octal: data and runs are private by default."""


def umask() -> int:
    """Return the mask of TRAINFARE_UMASK, or 077. Raises InputError if it is not an octal number."""
    mask = os.environ.get(UMASK_VARIABLE, "077")
    if not re.fullmatch("0?[0-7]{3}", mask):
        raise InputError(f"{UMASK_VARIABLE} is '{mask}'; it must be three octal digits, such as 077 or 007.")
    return int(mask, 8)


def file_mode() -> int:
    """Return the mode of a new file, for files that a library creates with a mode of its own."""
    return 0o666 & ~umask()
