"""Data files that try to use all memory or time: each is refused with one sentence, or staged in little memory."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.hostile_files import HOSTILE_FILES, HostileFile
from benchmarks.support.peak_memory import run_measured
from benchmarks.support.results import Row

MAX_PEAK_MIB = 1_000_000_000 / 1024**2
MAX_REFUSAL_SECONDS = 10.0


def run(folder: Path) -> Result:
    """Stage every hostile file in its own process."""
    counts = Counts("hostile data file")
    peaks, refusals = {}, {}
    for hostile in HOSTILE_FILES:
        peaks[hostile.name], seconds = attempt(counts, hostile, folder)
        if hostile.message is not None:
            refusals[hostile.name] = seconds
    highest, slowest = max(peaks, key=peaks.__getitem__), max(refusals, key=refusals.__getitem__)
    peak, seconds = peaks[highest], refusals[slowest]
    rows = [
        Row(
            name=f"highest peak memory of a hostile data file ({highest})",
            value=peak,
            unit="MiB",
            target="954 MiB",
            met=peak < MAX_PEAK_MIB,
        ),
        Row(
            name=f"slowest refusal of a hostile data file ({slowest})",
            value=seconds,
            unit="s",
            target="10 s",
            met=seconds < MAX_REFUSAL_SECONDS,
        ),
    ]
    note = (
        f"Hostile data files: {len(HOSTILE_FILES)} files that are small and contain gigabytes, or large and malformed. "
        "Each is staged in a new process, and must be refused with the right sentence or be staged. The time counts "
        "from the start of staging."
    )
    return Result(counts=[counts], rows=rows, note=note)


def attempt(counts: Counts, hostile: HostileFile, folder: Path) -> tuple[float, float]:
    """Stage the file, and return (peak memory in MiB, seconds)."""
    path, home = folder / hostile.name, folder / "home"
    hostile.write(path)
    output, fault, peak, answer = "", "", 0.0, {"refused": None, "seconds": 0.0}
    try:
        measured = run_measured(
            "benchmarks.support.stage_file", [str(path), hostile.task, str(home)], {"HF_HUB_OFFLINE": "1"}
        )
        peak, answer = measured.peak_mib, json.loads(measured.stdout)
    except SystemExit as error:
        output = str(error)
    path.unlink()
    refused, seconds = answer["refused"], answer["seconds"]
    if hostile.message is None:
        fault = f"refused: {refused}" if refused else ""
    elif refused is None or hostile.message not in refused or "\n" in refused:
        fault = f"expected {hostile.message!r}, not {refused!r}"
    elif seconds > MAX_REFUSAL_SECONDS:
        fault = f"refused after {seconds:.1f} s"
    if peak > MAX_PEAK_MIB:
        fault = f"peak memory {peak:,.0f} MiB {fault}"
    print(
        f"{hostile.name:24} {peak:6,.0f} MiB {seconds:5.1f} s  {(refused or 'staged')[-150:]} {fault and 'FAULT ' + fault[:60]}"
    )
    counts.add(hostile.name, output=output, fault=fault)
    return peak, seconds
