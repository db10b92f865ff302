"""All that a job reports: events, and the failure that ends it, with a class for programs and a message for people.

Imports nothing heavy, because it must work even if other imports fail. `training/contract/events.py` documents the
events and reads them.
"""

import json
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from training.job.processes import ranks


class ArgumentError(Exception):
    """An argument or environment variable is unknown, missing or invalid."""


class BadData(Exception):
    """A channel cannot be read, or does not fit the task or the model."""


class Unsupported(Exception):
    """The hardware or a library version does not support the requested setting."""


class Diverged(Exception):
    """A loss is NaN or infinite, so the model is of no use."""


class CheckpointNotWritten(Exception):
    """A checkpoint could not be written. Earlier checkpoints are unchanged."""


class Stopped(BaseException):
    """SIGTERM was received.

    A `BaseException`, so that no library catches it as an ordinary error and continues.
    """


EVENT_PREFIX = "trainfare-event "
PART_PREFIX = "trainfare-part "
MAX_CHARACTERS = 4000
"""Longest event on one line; a longer event is split into parts. With its prefix and in ASCII, a line is at most 4096
bytes long. Linux writes that many (PIPE_BUF) into a pipe at once or waits, so no other process writes into the line,
and SageMaker's toolkit, which prints whatever the pipe holds as lines, does not break it. The limits of Docker (16 KiB
per line) and CloudWatch (256 KiB) are higher."""
EVENTS_FILE = "events.jsonl"


class Events:
    """Writer of numbered events, as lines on standard output and with the same JSON in `events.jsonl`.

    Only a job's first process should enable it.
    """

    def __init__(
        self,
        folder: Path | None = None,
        enabled: bool = True,
        descriptor: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._file: int | None = None
        if folder and enabled:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(str(folder / EVENTS_FILE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._enabled, self._descriptor, self._clock = enabled, descriptor, clock
        self._sequence = 0
        self._inside_a_line = False
        self._lock = threading.Lock()

    def emit(self, kind: str, **fields: object) -> None:
        """Write one event, unless a failure was written: it is the last event, although another thread may still train.

        Values that JSON cannot represent are converted: NumPy's numbers to numbers, others (such as paths) to text.
        """
        with self._lock:
            if self._enabled:
                self._write({"event": kind, "seq": self._sequence, "time": self._clock(), **fields})
                self._enabled = kind != "failure"

    def _write(self, event: dict[str, object]) -> None:
        self._sequence += 1
        # In ASCII, a character is a byte, and all white space is blanks. Without blanks between them, values alone have
        # blanks.
        text = json.dumps(
            event,
            default=lambda value: value.item() if hasattr(value, "item") else str(value),
            separators=(",", ":"),
        )
        # Buffered output of earlier `print` calls must come first.
        sys.stdout.flush()
        for line in _lines(event, text):
            self._write_line(line + "\n")
        if self._file is not None:
            os.write(self._file, (text + "\n").encode("utf-8"))

    def _write_line(self, line: str) -> None:
        """Write the line with one system call, so that lines of several processes do not mix.

        An interrupt can end a write halfway. The next event then starts on a new line.
        """
        rest = (("\n" if self._inside_a_line else "") + line).encode("utf-8")
        self._inside_a_line = True
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._inside_a_line = False


def _lines(event: dict[str, object], text: str) -> Iterator[str]:
    """Yield the event as one line, or as parts of the form `sequence time number/count text`."""
    if len(text) <= MAX_CHARACTERS:
        yield EVENT_PREFIX + text
        return
    count = -(-len(text) // MAX_CHARACTERS)
    for at in range(count):
        piece = text[at * MAX_CHARACTERS : (at + 1) * MAX_CHARACTERS]
        if piece.endswith(" "):  # The toolkit strips blanks from the end of what it reads.
            piece = piece[:-1] + "\\u0020"
        yield "{}{} {!r} {}/{} {}".format(PART_PREFIX, event["seq"], event["time"], at + 1, count, piece)


FAILURE_FILE = "failure"
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


def report(error: BaseException, events: Events, output: Path | None) -> int:
    """Emit a `failure` event, write the `failure` file, and return the exit code.

    The process that fails first writes the file. The job's other processes then fail in an exchange with it, or their
    launcher stops them. Only rank 0 emits events, so it reports the file's content instead of its own error.
    """
    file = output / FAILURE_FILE if output is not None else None
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


def another_process_failed(output: Path | None) -> bool:
    return ranks.count() > 1 and output is not None and (output / FAILURE_FILE).exists()


def failure_class(error: BaseException) -> str:
    """Return OutOfMemory, BadData, Diverged, Stopped or Error."""
    names = {cause.__name__ for cause in type(error).__mro__}
    if isinstance(error, (Stopped, KeyboardInterrupt)):
        return "Stopped"
    if isinstance(error, BadData):
        return "BadData"
    if isinstance(error, Diverged):
        return "Diverged"
    if OUT_OF_MEMORY_TYPES & names or (isinstance(error, RuntimeError) and OUT_OF_MEMORY_TEXT.search(str(error))):
        return "OutOfMemory"
    return "Error"
