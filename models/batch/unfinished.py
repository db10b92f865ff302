"""Keep the answers of an unfinished prediction on disk, so that a killed prediction resumes where it stopped.

The folder `<output>.unfinished/` contains the prediction's identity, the lines of finished windows in input order, and
the answers of the current window in order of completion. At the end, one rename creates the output.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

from training.contract.errors import InputError
from training.state.locks import exclusive_lock
from training.state.safe_folder import reason_against_status
from training.state.system_errors import system_reason

Result = TypeVar("Result")


class Unfinished:
    """Folder of one prediction, locked by this process."""

    def __init__(self, output: Path, identity: Mapping[str, str]) -> None:
        """Resume an interrupted prediction, or begin a new one. `identity` is everything that the answers depend on.

        Raises `InputError` if the output exists, another process writes it, another user could write the folder, or the
        answers on disk have a different identity.
        """
        self.output = output
        self.folder = output.with_name(f"{output.name}.unfinished")
        if output.exists() or output.is_symlink():
            raise InputError(f"output {output} already exists: choose a different file, or delete it first")
        try:
            self.folder.mkdir(exist_ok=True)
            if reason := reason_against_status(self.folder):
                raise InputError(
                    f"{self.folder} cannot keep answers: {reason}. Delete it, or choose a different output"
                )
            with ExitStack() as opened:
                opened.callback(os.close, _lock(self.folder))
                self._check(identity)
                self._lines, self.done = _whole_lines(self.folder / "answers.jsonl")
                opened.enter_context(self._lines)
                self._window, _ = _whole_lines(self.folder / "window.jsonl")
                opened.enter_context(self._window)
                self.window_answers = self._read_window()
                self._opened = opened.pop_all()
        except OSError as error:
            reason = system_reason(error, variable="--output", place="a file")
            raise InputError(f"output {output} cannot be written: {reason}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder, so that another process can resume."""
        self._opened.close()

    def keep(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Write answers of the current window. Each comes with the position of its row in the file, from 0.

        Raises `ValueError` if a number is not finite. In that case, none of these answers is written.
        """
        lines = "".join(as_line({"at": at, "answer": answer}) for at, answer in answers)
        self._window.write(lines.encode())
        self._window.flush()

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Write the lines of a finished window and delete its individual answers."""
        self._lines.write("".join(map(as_line, lines)).encode())
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self.done += len(lines)
        self._window.truncate(0)

    def finish(self) -> None:
        """Move the answers to the output."""
        (self.folder / "answers.jsonl").replace(self.output)
        shutil.rmtree(self.folder)

    def note(self, name: str) -> str | None:
        """Return the note with this name; None if it does not exist."""
        path = self.folder / f"{name}.txt"
        return path.read_text("utf-8") if path.is_file() else None

    def set_note(self, name: str, text: str) -> None:
        """Write a note for the process that resumes."""
        (self.folder / f"{name}.txt").write_text(text, "utf-8")

    def _check(self, identity: Mapping[str, str]) -> None:
        path = self.folder / "identity.json"
        if not path.is_file():
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(identity, indent=1), "utf-8")
            fresh.replace(path)
            return
        stored = self._read(path.name, lambda text: dict(json.loads(text)))
        other = next((name for name in {**stored, **identity} if stored.get(name) != identity.get(name)), None)
        if other is not None:
            raise InputError(
                f"{self.folder} has answers for a different {other} ({stored.get(other)}, now {identity.get(other)}): "
                f"delete it, or choose a different output"
            )

    def _read(self, name: str, read: Callable[[bytes], Result]) -> Result:
        try:
            return read((self.folder / name).read_bytes())
        except (ValueError, TypeError, LookupError) as error:
            raise InputError(
                f"{self.folder / name} is damaged: delete {self.folder}, or choose a different output"
            ) from (error)

    def _read_window(self) -> dict[int, Any]:
        def read(text: bytes) -> dict[int, Any]:
            return {int(each["at"]): each["answer"] for each in map(json.loads, text.splitlines())}

        answers = self._read("window.jsonl", read)
        return {at: answer for at, answer in answers.items() if at >= self.done}


def _lock(folder: Path) -> int:
    """Lock the folder and return the lock's file descriptor. The kernel releases the lock when the process ends."""
    try:
        return exclusive_lock(folder)
    except BlockingIOError as error:
        raise InputError(f"{folder} is being written by another process: wait until it ends, or stop it") from error


def _whole_lines(path: Path) -> tuple[BinaryIO, int]:
    """Open a file for appending; return it and its number of lines. An incomplete last line is removed."""
    count, end = 0, 0
    with path.open("ab+") as file:
        file.seek(0)
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
        file.truncate(end)
    return path.open("ab"), count


def as_line(value: Mapping[str, Any]) -> str:
    """Return a value as a line of JSON. Raises `ValueError` if it contains a number that is not finite."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n"
