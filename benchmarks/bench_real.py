"""Real comparisons through the command line: a setting with itself, and with one that costs 15 % less.

    python -m benchmarks.bench_real [--folder FOLDER] [--only N]

Comparisons of the demo with itself alternate with comparisons of a small training that one arm slows down by a known
share. Half of each kind needs an idle machine and runs first; the other half runs beside other load. The command
resumes: comparisons in `recorded/real_comparisons.csv` are not repeated. Afterwards the rows of all recorded
comparisons are written.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from benchmarks.support.command import compare
from benchmarks.support.neighbour import neighbour
from benchmarks.support.results import Row, write

TABLE = Path(__file__).resolve().parent / "recorded" / "real_comparisons.csv"
SLOWED = Path(__file__).resolve().parent / "support" / "slowed_loop" / "slowed_loop.yaml"
SAME, GAIN = 20, 10
"""Comparisons of each kind."""
DEMO: Mapping[str, str] = {
    "experiment": "demo",
    "data.train_rows": "100",
    "data.validation_rows": "60",
    "precision": "fp32",
    "save_model": "false",
    "machine.cores": "1",
    # A field without effect, as the arms must differ: the training has fewer steps.
    "compare.arms": "[{logging_steps: 1000}, {logging_steps: 1001}]",
    "compare.baseline": "null",
}

Kind = Literal["same", "gain"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One comparison that ended."""

    kind: Kind
    number: int
    beside_neighbour: bool
    outcome: str
    reason: str
    ratio: float
    low: float
    high: float
    jobs: int
    disturbed: int
    """Jobs that were marked as disturbed; always 0 for the small training, a script."""


def planned() -> Iterator[tuple[Kind, int]]:
    """Yield the comparisons in their order: those that need an idle machine, then those beside other load."""
    for first in (0, 1):
        for number in range(first, SAME, 2):
            yield "same", number
            if number < GAIN:
                yield "gain", number


def run(kind: Kind, number: int, folder: Path) -> Comparison:
    """Run one comparison."""
    beside = number % 2 == 1
    # Another seed is another request, so the command does not resume an earlier comparison.
    chosen = DEMO if kind == "same" else {"experiment": str(SLOWED)}
    with neighbour(is_present=beside):
        group = compare(folder, {**chosen, "seed": str(1000 + 100 * number)})
    summary = json.loads((folder / "home" / "reports" / group / "summary.json").read_text())
    [contrast] = summary["contrasts"]
    ratio = contrast["ratio"] or {}
    return Comparison(
        kind=kind,
        number=number,
        beside_neighbour=beside,
        outcome=contrast["outcome"],
        reason=contrast["reason"],
        ratio=ratio.get("estimate", float("nan")),
        low=ratio.get("low", float("nan")),
        high=ratio.get("high", float("nan")),
        jobs=sum(arm["jobs"] for arm in summary["arms"]),
        disturbed=sum(arm["disturbed"] for arm in summary["arms"]),
    )


def read(path: Path = TABLE) -> list[Comparison]:
    """Return the recorded comparisons."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [_comparison(cells) for cells in csv.DictReader(file)]


def append(comparison: Comparison, path: Path = TABLE) -> None:
    """Add a comparison to the table."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Comparison)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(comparison))


def rows(comparisons: Sequence[Comparison]) -> Iterator[Row]:
    """Yield the figures of the recorded comparisons."""
    for beside in (False, True):
        place = "beside other load" if beside else "alone"
        chosen = [each for each in comparisons if each.beside_neighbour is beside]
        same = [each for each in chosen if each.kind == "same"]
        gain = [each for each in chosen if each.kind == "gain"]
        if same:
            false = sum(each.low > 1 or each.high < 1 for each in same)
            name = f"false verdicts on the demo against itself, {place}"
            yield Row(name=name, value=false, unit=f"of {len(same)}", n=len(same))
            yield _jobs_row(f"jobs until the demo against itself stops, {place}", same)
            marked = 100 * sum(each.disturbed for each in same) / sum(each.jobs for each in same)
            yield Row(name=f"jobs of the demo marked as disturbed, {place}", value=marked, unit="%", n=len(same))
        if gain:
            name = f"a gain of 15 % found, {place}"
            yield Row(name=name, value=sum(e.outcome == "cheaper" for e in gain), unit=f"of {len(gain)}", n=len(gain))
            yield _jobs_row(f"jobs until a gain of 15 % is found, {place}", gain)


def _jobs_row(name: str, comparisons: Sequence[Comparison]) -> Row:
    value = fmean(each.jobs for each in comparisons)
    return Row(name=name, value=value, unit="jobs on average", n=len(comparisons))


def _comparison(cells: Mapping[str, Any]) -> Comparison:
    return Comparison(
        kind=cells["kind"],
        number=int(cells["number"]),
        beside_neighbour=cells["beside_neighbour"] == "True",
        outcome=cells["outcome"],
        reason=cells["reason"],
        ratio=float(cells["ratio"]),
        low=float(cells["low"]),
        high=float(cells["high"]),
        jobs=int(cells["jobs"]),
        disturbed=int(cells["disturbed"]),
    )


def main(argv: Sequence[str]) -> None:
    """Run the comparisons that are missing, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("real-comparisons"), help="folder for jobs and database")
    parser.add_argument("--only", type=int, help="run at most this many comparisons")
    arguments = parser.parse_args(argv)
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    done = {(each.kind, each.number) for each in read()}
    left = [each for each in planned() if each not in done]
    for kind, number in left[: arguments.only]:
        append(run(kind, number, folder))
    write(
        "real",
        list(rows(read())),
        [
            "Real jobs through `trainfare compare` with its defaults. Same: the demo with 100 rows on one core; the "
            "arms differ in a field without effect. Gain: a small training whose baseline sleeps after every step, so "
            "that the other arm costs 15 % less in its script. Starting and ending the job is the same for both.",
            "All comparisons without other load, and the first two of each kind beside it, were judged by version 2 of "
            "the rules, and the others by version 3. The versions differ in the levels of the looks.",
            "The other load takes more than half of each core. Beside it, a gain of 15 % is within the spread of nine "
            "repeats, so the verdict is inconclusive.",
        ],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
