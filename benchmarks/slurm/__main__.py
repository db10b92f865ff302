"""`python -m benchmarks.slurm [PART ...]`: start a real Slurm cluster on this machine, and measure jobs on it."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.slurm.kills import KINDS, kill_at_random
from benchmarks.slurm.overhead import measure
from benchmarks.support.results import write
from tests.support.services.slurm_cluster import SlurmCluster, slurm_is_installed

OVERHEAD = "overhead"


def main(arguments: Sequence[str]) -> int:
    """Measure the parts. Return 0, 1 if a target is missed, or 2 without Slurm."""
    parser = argparse.ArgumentParser(prog="benchmarks.slurm", description="Jobs on a real Slurm cluster.")
    parts = [*KINDS, OVERHEAD]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(parts)}; by default all")
    parser.add_argument("--kills", type=int, default=20, help="kills, or requeues, of each kind (20)")
    parser.add_argument("--pairs", type=int, default=10, help="jobs on each side of the overhead (10)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (1)")
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in parts]:
        parser.error(f"unknown part '{unknown[0]}': it must be one of {', '.join(parts)}.")
    if not slurm_is_installed():
        print("error: Slurm is not installed: run `make .slurm/.installed`.", file=sys.stderr)
        return 2
    is_met = True
    for part in options.parts or parts:
        print(part, flush=True)
        # Slurm must remember all jobs of a part.
        with tempfile.TemporaryDirectory() as name, SlurmCluster(nodes=2, minimum_job_age_seconds=3600) as cluster:
            if part == OVERHEAD:
                rows, notes = measure(options.pairs, Path(name), cluster)
            else:
                faults = kill_at_random(part, options.kills, options.seed, Path(name), cluster)
                rows, notes = list(faults.rows(part)), list(faults.sentences(part))
        print("".join(f"  {note}\n" for note in notes), end="", flush=True)
        write("slurm", rows, notes)
        is_met = is_met and all(row.met is not False for row in rows)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
