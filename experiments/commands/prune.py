"""The verb `jobs prune`: look, show, ask, and delete."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from experiments.pruning.deletion import NOTHING_DELETED, delete, look
from experiments.pruning.inventory import inventory
from experiments.pruning.messages import counted, stays, table
from experiments.pruning.options import options
from experiments.pruning.rules import Judged
from tracking.server.store import open_store
from training.state.home import home

PATIENCE_SECONDS = 10.0
"""How long the tracking server may keep silent before it counts as out of reach."""


def prune(words: Sequence[str]) -> int:
    """Run `jobs prune` with its options; return 0, or 1 when something could not be deleted.

    Raises InputError for the options, and TrackingError where the tracking server cannot be asked.
    """
    choice, is_answered = options(words)
    root = home().resolve()
    found = inventory(root, time.time())
    for link in found.links:
        print(f"{link} is a link: it stays, with all that it leads to.")
    if not found.folders:
        print(f"There is nothing to prune in {root}.")
        return 0
    store = open_store(retry_seconds=PATIENCE_SECONDS, otherwise=NOTHING_DELETED)
    print(f"Looking at {root} and the runs of {store.uri}", flush=True)
    judged, _ = look(found, store, choice)
    going = [each for each in judged if each.goes]
    _show(judged, going)
    if not going or not (is_answered or _is_confirmed(going)):
        return 0
    return _told(going, *delete(going, root, store, choice))


def _show(judged: Sequence[Judged], going: Sequence[Judged]) -> None:
    if going:
        # A name that is cut cannot be looked for: whole lines where nobody looks at a terminal.
        Console(width=None if sys.stdout.isatty() else 200).print(table(going))
    print(f"{counted(going) if going else 'Nothing'} may go.")
    for line in stays(judged):
        print(line)


def _is_confirmed(going: Sequence[Judged]) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(f"{NOTHING_DELETED} There is no terminal to ask at: the same command with --yes deletes it.")
        return False
    answer = ""
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        answer = input(f"Delete {counted(going)}? [y/N] ")
    if answer.strip().lower() in {"y", "yes"}:
        return True
    print(NOTHING_DELETED)
    return False


def _told(going: Sequence[Judged], gone: Sequence[Judged], errors: Sequence[str]) -> int:
    """Say what is free again, and return the exit code."""
    print(f"Deleted {counted(gone)}, which are free again." if gone else NOTHING_DELETED)
    if needed := len(going) - len(gone) - len(errors):
        print(f"{needed} stay: something has begun to use them, or another prune was faster.")
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 1 if errors else 0
