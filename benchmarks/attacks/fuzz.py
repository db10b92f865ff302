"""Damaged experiment and data files: each is accepted or refused with a one-line error, and nothing half-made stays."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.fuzz_inputs import LIMIT_MEGABYTES, LIMIT_SECONDS, Fuzzed, fuzz, leftovers
from benchmarks.support.results import Row

FILES, SEED = 100_000, 20261121
NOTE = (
    f"Damaged input files: bit flips, cuts, splices and inserted tokens in experiments and data. Seed {SEED}. Time and "
    "memory are measured for each file, and the memory is the peak above that at its start. One data file in fifty is "
    "staged as a whole; the others are read and checked."
)


def run(folder: Path) -> Result:
    """Fuzz, and count the outcomes."""
    started = time.monotonic()
    results = fuzz(FILES, SEED, folder)
    seconds = time.monotonic() - started
    faults = len(results.faults)
    counts = Counts("damaged input file", tried=FILES, survived=FILES - faults, tracebacks=faults)
    counts.faults.extend(results.faults)
    rows = [
        Row(name=f"damaged {outcome}", value=count, unit="files") for outcome, count in sorted(results.outcomes.items())
    ]
    incomplete = len(leftovers(folder / "home"))
    return Result(counts=[counts], rows=[*rows, *_bounds(results, incomplete, seconds)], note=NOTE)


def _bounds(results: Fuzzed, incomplete: int, seconds: float) -> list[Row]:
    longest, largest = results.longest_seconds, results.largest_megabytes
    return [
        Row(name="incomplete stagings", value=incomplete, unit="folders", target="none", met=incomplete == 0),
        Row(name="longest time of a damaged file", value=longest, unit="s", n=FILES, target=f"< {LIMIT_SECONDS:g}",
            met=longest < LIMIT_SECONDS),
        Row(name="largest memory of a damaged file", value=largest, unit="MB", n=FILES,
            target=f"< {LIMIT_MEGABYTES:g}", met=largest < LIMIT_MEGABYTES),
        Row(name="damaged files per second", value=FILES / seconds, unit="files/s"),
    ]  # fmt: skip
