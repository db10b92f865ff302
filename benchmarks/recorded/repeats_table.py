"""Repeated jobs of one setting, recorded as a table: the noise for testing verdicts.

A table has two files: `NAME.csv` with a row for each job, in the order in which the jobs ran, and `NAME.json` with the
setting.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "repeats"


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """One job."""

    seed: int
    started_seconds: float
    """Start time, in seconds since the table's first job."""
    cache_state: str
    """State of the compile cache at the start: off, cold, warm or partial."""
    billable_seconds: float
    steady_samples_per_second: float
    compile_seconds: float
    warmup_seconds: float
    samples: float
    """Training samples seen."""
    eval_loss: float
    eval_accuracy: float
    disturbed: str = ""
    """Why the job's measurement was disturbed, or `no`; empty if it is unknown."""
    recording: int = 1
    """Number of the recording that the job belongs to. The machine may be faster or slower in the next one."""

    @property
    def is_disturbed(self) -> bool:
        """True if the job was marked as disturbed. The mark does not depend on the job's time."""
        return self.disturbed not in ("", "no")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The setting that all jobs of a table share."""

    fields: Mapping[str, str]
    """The experiment's name and its overridden fields. Files of the shared data are named without their folder."""
    machine: str
    commit: str
    """Commit of the newest rows."""
    is_disturbed: bool = False
    """True if other processes loaded the machine in spells, which makes the jobs slower and differ more."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """A table of repeated jobs."""

    setting: Setting
    rows: Sequence[Repeat]

    @property
    def recordings(self) -> dict[int, Repeats]:
        """The table's recordings by their number. Only times of the same recording can be compared."""
        numbers = sorted({row.recording for row in self.rows})
        return {each: replace(self, rows=[row for row in self.rows if row.recording == each]) for each in numbers}


def write(name: str, repeats: Repeats, folder: Path = FOLDER) -> None:
    """Write the two files."""
    folder.mkdir(exist_ok=True, parents=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Repeat)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in repeats.rows)
    (folder / f"{name}.json").write_text(json.dumps(asdict(repeats.setting), indent=1) + "\n")


def read(name: str, folder: Path = FOLDER) -> Repeats | None:
    """Return the named table, or None if it does not exist."""
    if not (folder / f"{name}.json").exists():
        return None
    with (folder / f"{name}.csv").open(newline="") as file:
        rows = [_row(cells) for cells in csv.DictReader(file)]
    return Repeats(setting=Setting(**json.loads((folder / f"{name}.json").read_text())), rows=rows)


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of all tables."""
    return sorted(path.stem for path in folder.glob("*.json"))


def _row(cells: Mapping[str, str]) -> Repeat:
    texts: dict[str, Any] = {"cache_state": cells["cache_state"], "disturbed": cells.get("disturbed", "")}
    whole: dict[str, Any] = {"seed": int(cells["seed"]), "recording": int(cells.get("recording", 1))}
    numbers: dict[str, Any] = {name: float(text) for name, text in cells.items() if name not in {*whole, *texts}}
    return Repeat(**whole, **texts, **numbers)
