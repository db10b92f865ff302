"""Attacks: kills, damage, hostile files and hostile clients, each tried many times and counted.

Each file of `benchmarks/attacks` has results of its own, so that one can be repeated; `--only NAME` runs it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks.attacks.counts import Result
from benchmarks.support.results import write

FOLDER = Path(__file__).parent / "attacks"


def main() -> int:
    """Run the attacks, write what became of them, and return 1 if any attempt was not survived."""
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "counts"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=known, action="append")
    names = parser.parse_args().only or known
    faults = []
    for name in names:
        attack = importlib.import_module(f"benchmarks.attacks.{name}")
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
            result: Result = attack.run(Path(folder))
        faults += [fault for counts in result.counts for fault in counts.faults]
        write(f"attacks_{name}", result.all_rows(), [result.note])
    print(*faults[:20], sep="\n", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
