"""Damaged experiment and data files: each is accepted or refused with a one-line error, and nothing half-made stays."""

from __future__ import annotations

from pathlib import Path

from benchmarks.attacks.counts import Counts, Result
from benchmarks.support.fuzz_inputs import fuzz, leftovers
from benchmarks.support.results import Row

FILES, SEED = 100_000, 20261121


def run(folder: Path) -> Result:
    """Fuzz, and count the outcomes."""
    outcomes, faults = fuzz(FILES, SEED, folder)
    counts = Counts("damaged input file", tried=FILES, survived=FILES - len(faults), tracebacks=len(faults))
    counts.faults.extend(faults)
    incomplete = len(leftovers(folder / "home"))
    rows = [Row(name=f"damaged {outcome}", value=count, unit="files") for outcome, count in sorted(outcomes.items())]
    rows.append(Row(name="incomplete stagings", value=incomplete, unit="folders", target="none", met=incomplete == 0))
    note = f"Damaged input files: bit flips, cuts, splices and inserted tokens in experiments and data. Seed {SEED}."
    return Result(counts=[counts], rows=rows, note=note)
