"""Data files that try to use all memory or time: each is refused with one sentence, or staged in little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.peak_memory import run_measured
from tests.support.attacks.counts import Counts
from tests.support.attacks.hostile_files import HostileFile

MAX_PEAK_MIB = 1_000_000_000 / 1024**2
MAX_REFUSAL_SECONDS = 10.0


def attempt(counts: Counts, hostile: HostileFile, folder: Path) -> tuple[float, float]:
    """Stage the file, and return (peak memory in MiB, seconds)."""
    path = folder / hostile.name
    hostile.write(path)
    arguments = [str(path), hostile.task, str(folder / "home")]
    try:
        measured = run_measured("benchmarks.support.stage_file", arguments, {"HF_HUB_OFFLINE": "1"})
    except SystemExit as error:
        counts.add(hostile.name, output=str(error), fault="ended with an error")
        return 0.0, 0.0
    finally:
        path.unlink()
    answer = Answer(**json.loads(measured.stdout))
    counts.add(hostile.name, fault=", ".join(_faults(hostile, answer, measured.peak_mib)))
    return measured.peak_mib, answer.seconds


@dataclass(frozen=True)
class Answer:
    """Answer of staging."""

    refused: str | None
    """The error message; None if the file was staged."""
    seconds: float
    first_line_seconds: float | None
    """Seconds until the first line of progress; None if there was none."""
    rows: int
    """Rows that were staged."""


def _faults(hostile: HostileFile, answer: Answer, peak_mib: float) -> Iterator[str]:
    if hostile.message is None:
        if answer.refused is not None:
            yield f"refused: {answer.refused}"
    elif answer.refused is None or hostile.message not in answer.refused or "\n" in answer.refused:
        yield f"expected {hostile.message!r}, not {answer.refused!r}"
    elif answer.seconds > MAX_REFUSAL_SECONDS:
        yield f"refused after {answer.seconds:.1f} s"
    if peak_mib > MAX_PEAK_MIB:
        yield f"peak memory {peak_mib:,.0f} MiB"
