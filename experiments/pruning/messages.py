"""What `jobs prune` shows: what may go, and why the rest stays. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.filesize import decimal
from rich.table import Table

from experiments.pruning.rules import Judged


def table(going: Sequence[Judged]) -> Table:
    """Return a row for each folder that may go."""
    made = Table(box=None, header_style="bold")
    for name in ("what", "of", "experiment", "size", "age"):
        made.add_column(name, no_wrap=True, justify="right" if name in {"size", "age"} else "left")
    made.add_column("why it may go", overflow="ellipsis", no_wrap=True)
    for each in going:
        folder = each.folder
        size, age = decimal(folder.size_bytes), aged(each.age_seconds)
        made.add_row(folder.place, folder.name, each.experiment, size, age, each.why)
    return made


def stays(judged: Sequence[Judged]) -> list[str]:
    """Return a line for each reason why something stays, what takes most room first."""
    by_reason: dict[str, list[Judged]] = {}
    for each in judged:
        if not each.goes:
            by_reason.setdefault(each.why, []).append(each)
    ordered = sorted(by_reason.items(), key=lambda each: -bytes_of(each[1]))
    return [f"stays: {counted(found)}: {why}" for why, found in ordered]


def counted(judged: Sequence[Judged]) -> str:
    """Return how many folders there are, and how large they are together."""
    return f"{len(judged)} folder{'' if len(judged) == 1 else 's'}, {decimal(bytes_of(judged))}"


def bytes_of(judged: Sequence[Judged]) -> int:
    """Return the size of the folders together."""
    return sum(each.folder.size_bytes for each in judged)


def aged(seconds: float) -> str:
    """Return an age in its largest whole unit."""
    lengths_seconds = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    unit = next((unit for unit, length in lengths_seconds.items() if seconds >= length), "s")
    return f"{max(0.0, seconds) // lengths_seconds[unit]:.0f} {unit}"
