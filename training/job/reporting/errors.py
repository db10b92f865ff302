"""Exceptions that end a job, and the report of a failure: a failure class for programs and a message for people.

Imports nothing heavy, because it must work even if other imports fail.
"""

import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Optional

from training.job.processes import ranks
from training.job.reporting.events import Events

FILE_NAME = "failure"
FILE_CHARACTERS = 1024
"""SageMaker shows this many characters of the file as FailureReason."""
TRACEBACK_CHARACTERS = 8000

OUT_OF_MEMORY_TEXT = re.compile(
    r"out of memory|can(no|')t allocate memory|std::bad_alloc|\bbad_alloc\b|RESOURCE_EXHAUSTED|STATUS_ALLOC_FAILED",
    re.I,
)
OUT_OF_MEMORY_TYPES = {"MemoryError", "OutOfMemoryError"}

EXIT_FAILED = 1
EXIT_STOPPED = 143
"""128 + SIGTERM."""


class ArgumentError(Exception):
    """An argument or environment variable is unknown, missing or invalid."""


class BadData(Exception):
    """A channel cannot be read, or does not fit the task or the model."""


class Unsupported(Exception):
    """The hardware or a library version does not support the requested setting."""


class CheckpointNotWritten(Exception):
    """A checkpoint could not be written. Earlier checkpoints are unchanged."""


class Stopped(BaseException):
    """SIGTERM was received.

    A `BaseException`, so that no library catches it as an ordinary error and continues.
    """


def report(error: BaseException, events: Events, output: Optional[Path]) -> int:
    """Emit a `failure` event, write the `failure` file, and return the exit code.

    The process that fails first writes the file. The job's other processes then fail in an exchange with it, or their
    launcher stops them. Only rank 0 emits events, so it reports the file's content instead of its own error.
    """
    file = output / FILE_NAME if output is not None else None
    kind, message = failure_class(error), (str(error).strip().splitlines() or [type(error).__name__])[0]
    if file is not None and file.exists() and (kind == "Stopped" or ranks.count() > 1):
        kind, _, message = file.read_text("utf-8").partition(": ")
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    events.emit("failure", failure_class=kind, message=message, traceback=text[-TRACEBACK_CHARACTERS:])
    if kind == "Stopped":
        return EXIT_STOPPED
    print(text, end="", file=sys.stderr)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), file.open("x", encoding="utf-8") as stream:
            stream.write(f"{kind}: {message}"[:FILE_CHARACTERS])
    return EXIT_FAILED


def another_process_failed(output: Optional[Path]) -> bool:
    """Return True if another process of this job has failed."""
    return ranks.count() > 1 and output is not None and (output / FILE_NAME).exists()


def failure_class(error: BaseException) -> str:
    """Return OutOfMemory, BadData, Stopped or Error."""
    names = {cause.__name__ for cause in type(error).__mro__}
    if isinstance(error, (Stopped, KeyboardInterrupt)):
        return "Stopped"
    if isinstance(error, BadData):
        return "BadData"
    if OUT_OF_MEMORY_TYPES & names or (isinstance(error, RuntimeError) and OUT_OF_MEMORY_TEXT.search(str(error))):
        return "OutOfMemory"
    return "Error"
