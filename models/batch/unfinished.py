"""The answers so far, on the disk: a prediction that was killed goes on, and nothing is predicted twice.

`<output>.unfinished/` holds what the answers are of, the lines that are done in the order of the input, and the answers
of the window that is being worked on in the order in which they came. The output appears at the end, at once.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

from training.contract.errors import InputError
from training.state.locks import exclusive_lock


class Unfinished:
    """The folder of one prediction, this process's alone."""

    def __init__(self, output: Path, identity: Mapping[str, str]) -> None:
        """Open what an earlier process left, or begin. `identity` says what the answers depend on.

        Raises `InputError` where the output is there, another process writes it, or the answers are of something else.
        """
        self.output = output
        self.folder = output.with_name(f"{output.name}.unfinished")
        if output.exists() or output.is_symlink():
            raise InputError(f"output {output} exists already: name another file, or delete it first")
        try:
            self.folder.mkdir(exist_ok=True)
            with ExitStack() as opened:
                opened.callback(os.close, _alone(self.folder))
                self._check(identity)
                self._lines, self.done = _whole_lines(self.folder / "answers.jsonl")
                opened.enter_context(self._lines)
                self._window, _ = _whole_lines(self.folder / "window.jsonl")
                opened.enter_context(self._window)
                self.known = self._read_window()
                self._opened = opened.pop_all()
        except OSError as error:
            raise InputError(f"output {output} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to whoever goes on; of one that is finished nothing is left."""
        self._opened.close()

    def keep(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Keep answers of the window, each with the row that it is of, from 0; a killed process has them again.

        Raises `ValueError` where one holds a number that is not finite; then none of these is kept.
        """
        told = "".join(as_line({"at": at, "answer": answer}) for at, answer in answers)
        self._window.write(told.encode())
        self._window.flush()

    def append(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add the lines of a whole window, whose answers need not be kept any more."""
        self._lines.write("".join(map(as_line, lines)).encode())
        self._lines.flush()
        os.fsync(self._lines.fileno())
        self.done += len(lines)
        self._window.truncate(0)

    def finish(self) -> None:
        """Let the output appear."""
        (self.folder / "answers.jsonl").replace(self.output)
        shutil.rmtree(self.folder)

    def note(self, name: str) -> str | None:
        """Return what was noted under a name, if anything was."""
        path = self.folder / f"{name}.txt"
        return path.read_text("utf-8") if path.is_file() else None

    def set_note(self, name: str, text: str) -> None:
        """Note something for the process that goes on."""
        (self.folder / f"{name}.txt").write_text(text, "utf-8")

    def _check(self, identity: Mapping[str, str]) -> None:
        path = self.folder / "identity.json"
        if not path.is_file():
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(identity, indent=1), "utf-8")
            fresh.replace(path)
            return
        found = json.loads(path.read_bytes())
        other = next((name for name in {**found, **identity} if found.get(name) != identity.get(name)), None)
        if other is not None:
            raise InputError(
                f"{self.folder} holds answers of another {other} ({found.get(other)}, now {identity.get(other)}): "
                f"delete it, or name another output"
            )

    def _read_window(self) -> dict[int, Any]:
        lines = (self.folder / "window.jsonl").read_bytes().splitlines()
        found = {each["at"]: each["answer"] for each in map(json.loads, lines)}
        return {at: answer for at, answer in found.items() if at >= self.done}


def _alone(folder: Path) -> int:
    """Return the descriptor that holds the folder's lock, which the kernel lets go of with the process."""
    try:
        return exclusive_lock(folder)
    except BlockingIOError as error:
        raise InputError(f"{folder} is being written by another process: wait for it") from error


def _whole_lines(path: Path) -> tuple[BinaryIO, int]:
    """Return a file open at its end, and its lines; a line that a killed process did not end is cut off."""
    count, end = 0, 0
    with path.open("ab+") as file:
        file.seek(0)
        for line in file:
            if line.endswith(b"\n"):
                count, end = count + 1, end + len(line)
        file.truncate(end)
    return path.open("ab"), count


def as_line(value: Mapping[str, Any]) -> str:
    """Return a value as a line of JSON. Raises `ValueError` where it holds a number that is not finite."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str) + "\n"
