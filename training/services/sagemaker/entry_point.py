"""Entry point of the containers: `container_entry.py`, as a request passes it to an image of AWS.

AWS's images start `bash -m start_with_right_hostname.sh train`. This bash is process 1, has no trap and does not
forward signals, so the training never gets the SIGTERM of a stop (sagemaker-training-toolkit#125 and #173,
deep-learning-containers#632). `AlgorithmSpecification.ContainerEntrypoint` replaces the image's entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from training.services.sagemaker.images.table import aws_image

PROGRAM = Path(__file__).with_name("container_entry.py")
ENTRY_POINT = ("python", "-c", 'import sys; exec("\\n".join(sys.argv[1:]))')
"""Command that runs its arguments as lines of a Python program. One argument can have only 256 characters."""


def entry_point(image: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (entry point, arguments) of a container. Both are empty for an image that is not one of AWS's families.

    Only these are known to have the entry point that this one replaces.
    """
    return (ENTRY_POINT, arguments()) if aws_image(image) else ((), ())


@cache
def arguments() -> tuple[str, ...]:
    """Return the lines of `container_entry.py` without empty lines, comments and docstrings."""
    return tuple(_code(PROGRAM.read_text(encoding="utf-8")))


def _code(text: str) -> Iterator[str]:
    in_docstring = False
    for line in text.splitlines():
        bare = line.strip()
        if '"""' in bare:
            in_docstring ^= bare.count('"""') == 1
        elif bare and not bare.startswith("#") and not in_docstring:
            yield line
