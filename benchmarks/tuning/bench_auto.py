"""Speed of `auto` on a CPU relative to the best fixed choice, on this machine and made to look like others."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.support.command import train
from benchmarks.support.results import Row, figure, write
from benchmarks.support.workloads import WORKLOADS, check_data

ROUNDS = int(os.environ.get("BENCH_ROUNDS", 3))
STEPS = {"emotion": 24, "squad": 12}
SCREENING_STEPS = 8
LEAST_OF_SHORT = 0.8
"""Share of the fastest rate in a short training below which a choice is not measured further."""
EMULATED = 0.25
"""Share of the fastest rate below which the CPU only emulates a number format. Its other combinations are not tried:
each takes minutes, and attention cannot make up for so much."""
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


def rate(folder: Path, fields: Mapping[str, str]) -> tuple[float, str]:
    """Train, and return the steady samples per second and the settings in use."""
    run = train(folder, fields)
    used = run.first("start")["hyperparameters"]
    return float(run.metrics["throughput/steady_samples_per_second"]), ", ".join(str(used[each]) for each in FIELDS)


def fixed_choices(folder: Path, fields: Mapping[str, str]) -> list[Choice]:
    """Return the combinations that a user could set, without those that are clearly slower in a short training."""
    measured: list[tuple[Choice, float]] = []
    fastest = 0.0
    for precision in ("fp32", "bf16"):
        for attention in ("blockwise", "eager", "sdpa"):
            choice = {"precision": precision, "attention": attention}
            measured.append((choice, rate(folder, {**fields, **choice, "max_steps": str(SCREENING_STEPS)})[0]))
            fastest = max(fastest, measured[-1][1])
            if measured[-1][1] < EMULATED * fastest:
                break
    return [choice for choice, each in measured if each > LEAST_OF_SHORT * fastest]


def result_rows(name: str, fields: Mapping[str, str], by_rule: Choice, folder: Path) -> tuple[list[Row], str]:
    """Measure `auto` and all fixed choices in turn. Return the rows and a note."""
    choices = fixed_choices(folder, fields)
    rates: dict[int, list[float]] = {at: [] for at in range(len(choices))}
    automatic: list[float] = []
    for number in range(ROUNDS):
        measured, chosen = rate(folder, {**fields, **by_rule})
        automatic.append(measured)
        for at in rates if number % 2 else reversed(rates):
            rates[at].append(rate(folder, {**fields, **choices[at]})[0])
        print(f"  {name}, round {number}: {measured:.1f}, {chosen}", file=sys.stderr, flush=True)
    best = max(rates, key=lambda at: statistics.median(rates[at]))
    ratio = statistics.median(automatic) / statistics.median(rates[best])
    rows = [
        figure(f"{name}: auto", automatic, "samples/s"),
        figure(f"{name}: best fixed choice", rates[best], "samples/s"),
        figure(f"{name}: auto / best", ratio, "x", least=0.95, n=ROUNDS),
    ]
    return rows, f"{name}: auto chose {chosen}. The best fixed choice was {', '.join(choices[best].values())}."


def main(names: Sequence[str]) -> None:
    """Measure the named workloads in the named views of the machine, or all of them if none is named."""
    check_data()
    rows: list[Row] = []
    notes: list[str] = []
    views = {view: change for view, change in VIEWS.items() if view in names} or VIEWS
    workloads = [name for name in names if name not in VIEWS] or list(STEPS)
    for workload in WORKLOADS:
        for view, (variables, cores, by_rule) in views.items() if workload.name in workloads else ():
            with tempfile.TemporaryDirectory() as folder, machine_view(variables, cores):
                fields = workload.fields(max_steps=str(STEPS.get(workload.name, 12)), compiler="none")
                more, note = result_rows(f"{workload.name}, {view}", fields, by_rule, Path(folder))
            rows += more
            notes.append(note)
    write("auto", rows, notes)


if __name__ == "__main__":
    main(sys.argv[1:])
