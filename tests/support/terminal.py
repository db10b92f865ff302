"""Run a program at a pseudo-terminal, read its output and type keys."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_SECONDS = 240
REACTION_SECONDS = 2.0


def start_at_terminal(command: Sequence[str], folder: Path) -> tuple[int, int]:
    """Start the program in a folder; return its process ID and the terminal's descriptor."""
    pid, terminal = pty.fork()
    if pid == 0:
        # Tests that a script starts in the background ignore Ctrl-C, and what they start would too.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(folder)
        os.execv(command[0], list(command))
    return pid, terminal


def read_until(terminal: int, text: str) -> str:
    """Return the terminal's output, up to the text."""
    shown = ""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"'{text}' was never shown, but this: {shown}"
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


def type_keys(terminal: int, keys: str) -> None:
    """Type as a person does, a moment after the prompt.

    `input` misses a Ctrl-C between the prompt and its first wait for a key, and then waits for another key.
    """
    time.sleep(REACTION_SECONDS)
    os.write(terminal, keys.encode())
