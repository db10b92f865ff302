"""Output of `jobs prune`: the folders to delete, and why the others are kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.filesize import decimal
from rich.table import Table

from experiments.pruning.rules import Decision


def table(deletable: Sequence[Decision]) -> Table:
    """Return a table with a row for each folder that can be deleted."""
    rows = Table(box=None, header_style="bold")
    for name in ("folder", "name", "experiment", "size", "age"):
        rows.add_column(name, no_wrap=True, justify="right" if name in {"size", "age"} else "left")
    rows.add_column("reason", overflow="ellipsis", no_wrap=True)
    for each in deletable:
        folder = each.folder
        size, age = decimal(folder.size_bytes), format_age(each.age_seconds)
        rows.add_row(folder.kind, folder.name, each.experiment, size, age, each.why)
    return rows


def kept_lines(decisions: Sequence[Decision]) -> list[str]:
    """Return a line for each reason why folders are kept, largest total size first."""
    by_reason: dict[str, list[Decision]] = {}
    for each in decisions:
        if not each.is_deletable:
            by_reason.setdefault(each.why, []).append(each)
    ordered = sorted(by_reason.items(), key=lambda each: -total_bytes(each[1]))
    return [f"kept: {count_and_size(folders)}: {why}" for why, folders in ordered]


def count_and_size(decisions: Sequence[Decision]) -> str:
    """Return the number of folders and their total size as text."""
    return f"{len(decisions)} folder{'' if len(decisions) == 1 else 's'}, {decimal(total_bytes(decisions))}"


def total_bytes(decisions: Sequence[Decision]) -> int:
    """Return the total size of folders, bytes."""
    return sum(each.folder.size_bytes for each in decisions)


def format_age(seconds: float) -> str:
    """Return an age in its largest whole unit."""
    lengths_seconds = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    unit = next((unit for unit, length in lengths_seconds.items() if seconds >= length), "s")
    return f"{max(0.0, seconds) // lengths_seconds[unit]:.0f} {unit}"
