"""Run the paths and the workloads within a time limit, and return the rows of the result files."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gpu.cards import Cards
from benchmarks.gpu.expectations import Reported, differences
from benchmarks.gpu.models import model_without_dropout
from benchmarks.gpu.paths import GpuPath
from benchmarks.gpu.workload_sides import EQUAL_LOSS, MIN_GAIN, OURS, SIDES, WITHDRAWN, runnable, side_fields
from benchmarks.support.command import NoJob, attempt
from benchmarks.support.results import Row
from benchmarks.support.workloads import Workload

RATE = "_samples_per_second"
TRIAL_RATE = re.compile(f"trial/.+{RATE}")
NO_TIME = "because the time limit was reached"
LONGEST_JOB_SECONDS = 600
_CHECKED = (
    "Each path is a short training of the demo's model or of a small Llama. The device, the settings in use, the "
    "losses and the memory are checked; a job that does not complete is one failed check."
)
Echo = Callable[[str], None]


class Deadline:
    """The time until which jobs may run."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def limits(self) -> dict[str, str]:
        """Return the field that limits the next job's time; empty if less than a minute is left."""
        left = min(LONGEST_JOB_SECONDS, int(self._end - time.monotonic()))
        return {"machine.max_run_seconds": str(left)} if left >= 60 else {}


@dataclass
class Findings:
    """Rows and notes of one result file."""

    rows: list[Row]
    notes: list[str]

    @property
    def has_passed(self) -> bool:
        """True if all targets are met."""
        return all(row.met is not False for row in self.rows)


def try_paths(
    paths: Sequence[GpuPath], cards: Cards, folder: Path, deadline: Deadline, echo: Echo, parallel: int = 1
) -> Findings:
    """Run one job for each path, `parallel` at a time, and compare what it reports with the expectations.

    A path that this machine does not have the means for is named in a note. One without time counts as failed.
    """
    findings = Findings([], [f"{cards.count} x {cards.name}. {_CHECKED}"])
    if parallel > 1:
        findings.notes.append(f"{parallel} paths ran at a time, so their speeds are not reported.")
    model = str(model_without_dropout(folder))
    losses: dict[str, float] = {}

    def run(path: GpuPath) -> Reported | None:
        limits = {} if cards.reason_against(path) else deadline.limits()
        if not limits:
            return None
        own = folder / path.name
        own.mkdir()
        return _reported(own, {"model": model, **path.job_fields(), **limits}, slots=own / "slots")

    for path, reported in run_all(paths, run, parallel):
        if reported and (loss := reported.metrics.get("eval_loss")) is not None:
            losses[path.name] = loss
        lines = _judge(path, reported, cards, losses.get(path.reference), findings, with_speed=parallel == 1)
        for line in lines or [f"{path.name}: {_short(findings, path)}"]:
            echo(f"  {line}")
    return findings


def run_all(
    paths: Sequence[GpuPath], run: Callable[[GpuPath], Reported | None], parallel: int
) -> Iterator[tuple[GpuPath, Reported | None]]:
    """Run `parallel` paths at a time, then those that fill the memory, one by one. Yield what each reported."""
    together = [path for path in paths if not path.fills_memory]
    with ThreadPoolExecutor(parallel) as pool:
        yield from zip(together, pool.map(run, together), strict=True)
    for path in paths:
        if path.fills_memory:
            yield path, run(path)


def _judge(
    path: GpuPath,
    reported: Reported | None,
    cards: Cards,
    reference_loss: float | None,
    findings: Findings,
    *,
    with_speed: bool,
) -> list[str]:
    """Add the rows and notes of a path to the findings, and return its notes."""
    if reason := cards.reason_against(path):
        notes = [f"{path.name} was not run: {reason}."]
    elif reported is None:
        findings.rows.append(_outcome(path, [NO_TIME]))
        notes = [f"{path.name} was not run, {NO_TIME}."]
    else:
        sentences = differences(path, reported, cards, reference_loss)
        findings.rows += [_outcome(path, sentences), *(_speed(path.name, reported.metrics) if with_speed else [])]
        notes = [f"{path.name}: {sentence}." for sentence in sentences]
    findings.notes += notes
    return notes


def _outcome(path: GpuPath, sentences: Sequence[str]) -> Row:
    return Row(
        name=f"{path.name}: {path.title}",
        value=len(sentences),
        unit="failed checks",
        target="0",
        met=not sentences,
    )


def _speed(name: str, metrics: Mapping[str, float]) -> list[Row]:
    rate, utilisation = (metrics.get(f"throughput/{metric}") for metric in ("steady_samples_per_second", "mfu"))
    rows = [] if rate is None else [Row(name=f"{name}: steady samples", value=rate, unit="samples/s")]
    if utilisation is not None:
        rows.append(Row(name=f"{name}: utilisation", value=utilisation, unit="of the card's 16-bit peak"))
    return rows


def _reported(folder: Path, fields: Mapping[str, str], *, offline: bool = True, slots: Path | None = None) -> Reported:
    try:
        run = attempt(folder, fields, offline=offline, slots=slots)
    except NoJob as error:
        return Reported(failure=("Refused", str(error).strip().rpartition("\n")[2]), events=())
    return Reported(failure=run.failure, events=run.events)


def _short(findings: Findings, path: GpuPath) -> str:
    rates = [row.value for row in findings.rows if row.name == f"{path.name}: steady samples"]
    return f"as expected, {rates[0]:,.0f} samples/s" if rates else "as expected"


def measure_workloads(
    workloads: Sequence[Workload], has_rows: bool, folder: Path, deadline: Deadline, echo: Echo
) -> Findings:
    """Train each workload once with the settings of each side. Compare their speeds, and losses after equal steps."""
    weights = "Weights are random" if has_rows else "Weights and rows are the published ones, from the Hub"
    note = (
        "Each workload trains once with the published recipe, and with our defaults once for each compiler setting. "
        f"{weights}; rows, batch size and seed are the same on all sides."
    )
    findings = Findings([], [note])
    if not has_rows:
        findings.notes += [f"{name} was not run: its data is no longer on the Hub." for name in sorted(WITHDRAWN)]
    for workload in runnable(workloads, has_rows):
        results = {}
        for side in SIDES:
            if not (limits := deadline.limits()):
                findings.notes.append(f"{workload.name}, {side}: not run, {NO_TIME}.")
                continue
            reported = _reported(folder, {**side_fields(workload, side, has_rows), **limits}, offline=has_rows)
            if reported.failure:
                findings.notes.append(f"{workload.name}, {side} failed: {': '.join(reported.failure)}.")
            else:
                results[side] = reported.metrics
            echo(f"  {workload.name}, {side}: {'failed' if reported.failure else 'completed'}")
        findings.rows += workload_rows(workload.name, results, has_equal_loss=workload.quality == "eval_loss")
    return findings


def workload_rows(name: str, results: Mapping[str, Mapping[str, float]], *, has_equal_loss: bool = True) -> list[Row]:
    """Return the speed of each side that completed, our gains, and the differences of the losses.

    The differences have no target if the losses cannot be equal: those of question answering depend on the padding.
    """
    rows = [row for side, result in results.items() for row in _speed(f"{name}, {side}", result)]
    if uncompiled := results.get("ours uncompiled"):
        rows += trial_rows(name, uncompiled)
    for side in OURS:
        sides = [results.get("recipe"), results.get(side)]
        rates, losses = (
            [each[metric] if each else math.nan for each in sides]
            for metric in ("throughput/steady_samples_per_second", "eval_loss")
        )
        gain, difference = rates[1] / rates[0], losses[1] - losses[0]
        if math.isnan(gain):
            label = f"{name}, {side}: completed trainings, ours and the recipe's"
            completed = sum(each is not None for each in sides)
            rows.append(Row(name=label, value=completed, unit="", target="2", met=False))
            continue
        target = f"at least {MIN_GAIN:g} x"
        rows.append(Row(name=f"{name}, {side}: gain", value=gain, unit="x", target=target, met=gain >= MIN_GAIN))
        row = Row(name=f"{name}, {side}: eval_loss minus the recipe's", value=difference, unit="nats")
        is_equal = abs(difference) <= EQUAL_LOSS
        rows.append(replace(row, target=f"within {EQUAL_LOSS:g}", met=is_equal) if has_equal_loss else row)
    return rows


def trial_rows(name: str, metrics: Mapping[str, float]) -> list[Row]:
    """Return the speed of each attention implementation in the trial of `auto`, whose steps have no optimizer."""
    rates = {metric: metrics[metric] for metric in metrics if TRIAL_RATE.fullmatch(metric)}
    return [
        Row(name=f"{name}, trial of {metric[len('trial/') : -len(RATE)]} attention", value=rate, unit="samples/s")
        for metric, rate in sorted(rates.items())
    ]
