"""Run `jobs prune`: list what can be deleted, ask, and delete it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from experiments.pruning.deletion import NOTHING_DELETED, decide_all, delete
from experiments.pruning.inventory import inventory
from experiments.pruning.messages import count_and_size, kept_lines, table
from experiments.pruning.rules import Decision, PruneOptions
from experiments.running.output import confirm, has_terminal, print_error, print_line
from reports.formats.terminal import PlainConsole
from tracking.server.store import open_store
from training.state.home import home

RETRY_SECONDS = 10.0
"""Time without an answer after which the tracking server counts as unreachable."""


def prune(options: PruneOptions, *, is_confirmed: bool) -> int:
    """List the selected folders and delete them once confirmed. Return 0, or 1 if a folder could not be deleted.

    Raises TrackingError if the tracking server does not answer.
    """
    root = home().resolve()
    local = inventory(root, time.time())
    for link in local.links:
        print_line(f"{link} is a symbolic link: it and its target are kept.")
    if not local.folders:
        print_line(f"{root} contains nothing to prune.")
        return 0
    store = open_store(echo=print_line, retry_seconds=RETRY_SECONDS, otherwise=NOTHING_DELETED)
    print_line(f"Comparing {root} with the runs of {store.uri}")
    decisions, _ = decide_all(local, store, options)
    deletable = [each for each in decisions if each.is_deletable]
    _print_lists(decisions, deletable)
    if not deletable or not (is_confirmed or _ask(deletable)):
        return 0
    deleted, errors = delete(deletable, root, store, options)
    return _print_result(deletable, deleted, errors)


def _print_lists(decisions: Sequence[Decision], deletable: Sequence[Decision]) -> None:
    if deletable:
        # A truncated name cannot be searched for: print whole lines if the output is not a terminal.
        PlainConsole(width=200).print(table(deletable))
    print_line(f"{count_and_size(deletable) if deletable else 'Nothing'} can be deleted.")
    for line in kept_lines(decisions):
        print_line(line)


def _ask(deletable: Sequence[Decision]) -> bool:
    if not has_terminal():
        print_line(f"{NOTHING_DELETED} Without a terminal, confirm the deletion with --yes.")
        return False
    if confirm(f"Delete {count_and_size(deletable)}?"):
        return True
    print_line(NOTHING_DELETED)
    return False


def _print_result(deletable: Sequence[Decision], deleted: Sequence[Decision], errors: Sequence[str]) -> int:
    """Print what was deleted, and return the exit code."""
    print_line(f"Deleted {count_and_size(deleted)}." if deleted else NOTHING_DELETED)
    if kept := len(deletable) - len(deleted) - len(errors):
        print_line(f"Kept {kept}: another process started to use them, or another prune deleted them first.")
    for error in errors:
        print_error(f"error: {error}")
    return 1 if errors else 0
