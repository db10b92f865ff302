"""Record the repeats from which the benchmarks draw their noise: three workloads, quiet and beside other load.

    python -m benchmarks.recorded.record_workloads [--repeats 30] [--only NAME ...] [--folder FOLDER]

Run it while nothing else runs on the machine. It adds a few repeats to each table in turn, so that all tables cover the
whole time. The same command resumes an interrupted recording, and adds only what is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.recorded import repeats_table
from benchmarks.recorded.record_repeats import next_recording, record
from benchmarks.support.data import SQUAD, SST2_TEXT, check_data

BATCH = 5
"""Repeats added to a table before the next table's turn."""
COMMON = {
    # Fixed, so that the recordings stay valid if `auto` chooses differently.
    "precision": "fp32",
    # One thread: beside other load, two on two cores wait for each other, and a job takes up to 14 times as long.
    "machine.cores": "1",
    "compiler": "none",
    "save_model": "false",
    "eval_strategy": "end",
}
WORKLOADS: Mapping[str, Mapping[str, str]] = {
    "demo-short": {"experiment": "demo", "data.train_rows": "160", "data.validation_rows": "100", **COMMON},
    "sst2-gpt2-small": {
        "experiment": "sst2-gpt2",
        **SST2_TEXT,
        **COMMON,
        "model_overrides": "{n_layer: 2, n_embd: 128, n_head: 2}",
        "data.train_rows": "800",
        "data.validation_rows": "200",
        "max_length": "128",
        "base_batch_size": "8",
        "batch_size": "8",
        "base_learning_rate": "1e-3",
        "epochs": "1",
        "logging_steps": "10",
    },
    "squad-minilm-short": {
        "experiment": "squad-minilm",
        **SQUAD,
        **COMMON,
        "data.train_rows": "40",
        "data.validation_rows": "20",
        "max_length": "128",
        "doc_stride": "48",
        "warmup_samples": "16",
        "epochs": "1",
        "logging_steps": "5",
    },
}


@dataclass(frozen=True)
class Part:
    """Repeats to add to one table."""

    workload: str
    is_disturbed: bool
    repeats: int

    @property
    def table(self) -> str:
        """Name of the table."""
        return table_name(self.workload, is_disturbed=self.is_disturbed)


def table_name(workload: str, *, is_disturbed: bool) -> str:
    """Return the name of a workload's table."""
    return f"{workload}-beside-load" if is_disturbed else workload


def parts(workloads: Sequence[str], repeats: int, recorded: Mapping[str, int]) -> Iterator[Part]:
    """Yield the parts of the recording that are missing. `recorded` is the number of repeats by table."""
    for begin, end in pairwise([*range(0, repeats, BATCH), repeats]):
        for workload in workloads:
            for is_disturbed in (False, True):
                before = max(begin, recorded.get(table_name(workload, is_disturbed=is_disturbed), 0))
                if before < end:
                    yield Part(workload, is_disturbed, end - before)


def _recorded(workloads: Sequence[str]) -> dict[str, int]:
    return {name: len(table.rows) for name in _tables(workloads) if (table := repeats_table.read(name))}


def _tables(workloads: Iterable[str]) -> list[str]:
    return [table_name(workload, is_disturbed=each) for workload in workloads for each in (False, True)]


def main(argv: Sequence[str]) -> None:
    """Train the jobs that are missing, and write the tables after each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30, help="repeats of each table")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="workloads")
    parser.add_argument("--folder", type=Path, default=Path("repeats"), help="folder for jobs and tracking database")
    arguments = parser.parse_args(argv)
    check_data()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    number = next_recording(_tables(WORKLOADS))
    for part in parts(arguments.only, arguments.repeats, _recorded(arguments.only)):
        print(f"{part.table}: {part.repeats} repeats", flush=True)
        record(part.table, folder, WORKLOADS[part.workload], part.repeats, number, is_disturbed=part.is_disturbed)


if __name__ == "__main__":
    main(sys.argv[1:])
