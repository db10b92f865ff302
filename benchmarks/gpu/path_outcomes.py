"""Run the paths within a time limit, and return the rows of their result file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu.cards import Cards
from benchmarks.gpu.expectations import Reported, differences
from benchmarks.gpu.jobs import NO_TIME, Deadline, Echo, Findings, reported_by, speed_rows
from benchmarks.gpu.models import model_without_dropout
from benchmarks.gpu.paths import GpuPath
from benchmarks.support.results import Row

_CHECKED = (
    "Each path is a short training of the demo's model or of a small Llama. The device, the settings in use, the "
    "losses and the memory are checked; a job that does not complete is one failed check."
)


def try_paths(
    paths: Sequence[GpuPath], cards: Cards, folder: Path, deadline: Deadline, echo: Echo, parallel: int = 1
) -> Findings:
    """Run one job for each path, `parallel` at a time, and compare what it reports with the expectations.

    A path that this machine cannot run is only noted. A path for which no time is left counts as failed.
    """
    findings = Findings([], [f"{cards.count} x {cards.name}. {_CHECKED}"])
    parallel = min(parallel, len(paths))
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
        return reported_by(own, {"model": model, **path.job_fields(), **limits}, slots=own / "slots")

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
        findings.rows += [_outcome(path, sentences), *(speed_rows(path.name, reported.metrics) if with_speed else [])]
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


def _short(findings: Findings, path: GpuPath) -> str:
    rates = [row.value for row in findings.rows if row.name == f"{path.name}: steady samples"]
    return f"as expected, {rates[0]:,.0f} samples/s" if rates else "as expected"
