"""Fuzz test with 100,000 damaged experiment and data files.

Each file must be accepted or refused with a one-line error. No incomplete staging may remain.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.support.fuzz_inputs import fuzz, leftovers
from benchmarks.support.results import Row, write

FILES, SEED = 100_000, 20261121


def main() -> int:
    """Fuzz, write the counts, and return 1 if there was a fault or an incomplete staging."""
    with tempfile.TemporaryDirectory() as name:
        counts, faults = fuzz(FILES, SEED, Path(name))
        incomplete = len(leftovers(Path(name) / "home"))
    faulty = len(faults)
    rows = [Row(name=outcome, value=count, unit="files") for outcome, count in sorted(counts.items())]
    rows.append(Row(name="tracebacks", value=faulty, unit="files", target="none", met=faulty == 0))
    rows.append(Row(name="incomplete stagings", value=incomplete, unit="folders", target="none", met=incomplete == 0))
    write("fuzz", rows, [f"Bit flips, cuts, splices and inserted tokens in experiment and data files. Seed {SEED}."])
    print(*faults[:5], sep="\n", file=sys.stderr)
    return 1 if faults or incomplete else 0


if __name__ == "__main__":
    sys.exit(main())
