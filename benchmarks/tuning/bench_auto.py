"""Speed of `auto` on a CPU relative to the best fixed choice, on this machine and made to look like others."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from benchmarks.support.command import CommandRun, train
from benchmarks.support.data import check_data
from benchmarks.support.results import Row, median_row, write
from benchmarks.support.workloads import WORKLOADS

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
STEPS = {"emotion": 24, "squad": 12}
SCREENING_STEPS = 8
LEAST_OF_SHORT = 0.8
"""Share of the fastest rate in a short training below which a choice is not measured further."""
EMULATED = 0.25
"""Share of the fastest rate below which the CPU only emulates a number format. Its other combinations are not tried:
each takes minutes, and attention cannot make up for so much."""
LEAST = 0.95
FIELDS = ("precision", "attention")

Choice = Mapping[str, str]


@contextmanager
def machine_view(variables: Mapping[str, str], cores: int | None) -> Iterator[None]:
    """Make this machine look different to all processes that are started in the context."""
    before, affinity = dict(os.environ), os.sched_getaffinity(0)
    os.environ.update(variables)
    os.sched_setaffinity(0, sorted(affinity)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, affinity)
        os.environ.clear()
        os.environ.update(before)


VIEWS: Mapping[str, tuple[Mapping[str, str], int | None, Choice]] = {
    "this machine": ({}, None, {}),
    "AVX-512 without bf16": ({"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, None, {"precision": "fp32"}),
    "AVX2": ({"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}, None, {"precision": "fp32"}),
    "one core": ({}, 1, {}),
}
"""Variables and cores of each view, and what `auto` chooses on such a machine: its rule reads the CPU's own flags."""


def rate(run: CommandRun) -> float:
    """Return the steady samples per second of a job."""
    return float(run.result()["throughput/steady_samples_per_second"])


def fixed_choices(folder: Path, fields: Mapping[str, str]) -> list[Choice]:
    """Return the combinations that a user could set, without those that are clearly slower in a short training."""
    measured: list[tuple[Choice, float]] = []
    emulated: set[str] = set()
    for combination in product(("fp32", "bf16"), ("blockwise", "eager", "sdpa")):
        choice = dict(zip(FIELDS, combination, strict=True))
        if choice["precision"] in emulated:
            continue
        measured.append((choice, rate(train(folder, {**fields, **choice, "max_steps": str(SCREENING_STEPS)}))))
        fastest = max(each for _, each in measured)
        if measured[-1][1] < EMULATED * fastest:
            emulated.add(choice["precision"])
    return [choice for choice, each in measured if each > LEAST_OF_SHORT * fastest]


def result_rows(name: str, fields: Mapping[str, str], by_rule: Choice, folder: Path) -> tuple[list[Row], str]:
    """Measure `auto` and all fixed choices in turn. Return the rows and a note."""
    choices = fixed_choices(folder, fields)
    rates: dict[int, list[float]] = {at: [] for at in range(len(choices))}
    automatic: list[float] = []
    chosen = ""
    for number in range(ROUNDS):
        run = train(folder, {**fields, **by_rule})
        automatic.append(rate(run))
        values = run.first("start").fields["hyperparameters"]
        chosen = ", ".join(str(values[field]) for field in FIELDS)
        for at in rates if number % 2 else reversed(rates):
            rates[at].append(rate(train(folder, {**fields, **choices[at]})))
        print(f"  {name}, round {number}: {automatic[-1]:.1f}, {chosen}", file=sys.stderr, flush=True)
    best = max(rates, key=lambda at: statistics.median(rates[at]))
    ratio = statistics.median(automatic) / statistics.median(rates[best])
    rows = [
        median_row(f"{name}: auto", automatic, "samples/s"),
        median_row(f"{name}: best fixed choice", rates[best], "samples/s"),
        Row(name=f"{name}: auto / best", value=ratio, unit="x", n=ROUNDS, target="at least 0.95", met=ratio >= LEAST),
    ]
    best_text = ", ".join(choices[best].values())
    return rows, f"{name}: auto chose {chosen}. The best fixed choice was {best_text}."


def main(names: Sequence[str]) -> None:
    """Measure the named workloads in the named views of the machine, or all of them if none is named."""
    check_data()
    rows: list[Row] = []
    notes = [
        f"Steady samples per second, MiniLM, {ROUNDS} rounds. The fixed choices are the combinations of precision "
        f"and attention that reach at least {LEAST_OF_SHORT:g} times the rate of the fastest one in "
        f"{SCREENING_STEPS} steps. “AVX-512 without bf16”, “AVX2” and “one core” are this machine with fewer "
        "instructions or cores. Without bf16, `auto` stands for the fp32 that it chooses on such a CPU."
    ]
    views = {view: change for view, change in VIEWS.items() if view in names} or VIEWS
    workloads = [name for name in names if name not in VIEWS] or list(STEPS)
    for workload in WORKLOADS:
        if workload.name in workloads:
            steps = str(STEPS.get(workload.name, 12))
            for view, (variables, cores, by_rule) in views.items():
                with tempfile.TemporaryDirectory() as folder, machine_view(variables, cores):
                    fields = workload.fields(max_steps=steps, compiler="none")
                    more, note = result_rows(f"{workload.name}, {view}", fields, by_rule, Path(folder))
                rows += more
                notes.append(note)
    write("auto", rows, notes, is_part=bool(names))


if __name__ == "__main__":
    main(sys.argv[1:])
