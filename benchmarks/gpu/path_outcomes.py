"""Run the paths within a time limit, and return the rows of their result file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu.expectations import Reported, differences
from benchmarks.gpu.jobs import NO_TIME, Deadline, Echo, Findings, reported_by, speed_rows
from benchmarks.gpu.paths import Cards, GpuPath
from benchmarks.support.data import MINILM
from benchmarks.support.results import figure
from training.staging.models.model_files import locate


def try_paths(
    paths: Sequence[GpuPath], cards: Cards, folder: Path, deadline: Deadline, echo: Echo, parallel: int = 1
) -> Findings:
    """Run one job for each path, `parallel` at a time, and compare what it reports with the expectations.

    A path that this machine cannot run is only noted. A path for which no time is left counts as failed.
    """
    parallel = min(parallel, len(paths))
    findings = Findings([], [f"{cards.count} x {cards.name}."])
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
        if reason := cards.reason_against(path):
            notes = [f"{path.name} was not run: {reason}."]
        else:
            if reported and (loss := reported.metrics.get("eval_loss")) is not None:
                losses[path.name] = loss
            reference = losses.get(path.reference)
            wrong = differences(path, reported, cards, reference) if reported else [f"it was not run, {NO_TIME}"]
            findings.rows.append(figure(f"{path.name}: {path.title}", len(wrong), "failed checks", most=0))
            if reported and parallel == 1:
                findings.rows += speed_rows(path.name, [reported.metrics])
            notes = [f"{path.name}: {sentence}." for sentence in wrong]
        findings.notes += notes
        for line in notes or [f"{path.name}: as expected"]:
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


def model_without_dropout(folder: Path) -> Path:
    """Copy the demo's model into a new folder under `folder` and set its dropout to 0. Return the new folder.

    Compiled and uncompiled programs draw different random numbers for dropout, so their losses would differ.
    """
    copy = folder / "model"
    shutil.copytree(locate(MINILM["model"]).location, copy)
    file = copy / "config.json"
    config = json.loads(file.read_text())
    config |= {name: 0.0 for name in config if name.endswith("dropout_prob")}
    file.write_text(json.dumps(config))
    return copy
