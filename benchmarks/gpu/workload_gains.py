"""Train the workloads with the settings of each side within a time limit, and compare the speeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gpu.expectations import Reported
from benchmarks.gpu.jobs import NO_TIME, Deadline, Echo, Findings, reported_by, speed_rows
from benchmarks.gpu.workload_losses import compare_losses
from benchmarks.gpu.workload_sides import OURS, SIDES, least_gain, side_fields
from benchmarks.support.results import Row
from benchmarks.support.workloads import Workload


def measure_workloads(
    workloads: Sequence[Workload], has_rows: bool, folder: Path, deadline: Deadline, echo: Echo, parallel: int = 1
) -> Findings:
    """Train each workload once with the settings of each side, and compare the speeds.

    Then compare the losses over several seeds, if they can be equal: those of question answering depend on the padding.
    Of these trainings, up to `parallel` run at a time.
    """
    weights = "Weights are random" if has_rows else "Weights and rows are the published ones, from the Hub"
    note = (
        "Each workload trains with the published recipe, and with our defaults once for each compiler setting. "
        f"{weights}; rows, batch size and seed are the same on all sides. Losses are compared over several seeds."
    )
    findings = Findings([], [note])
    trained = []
    for workload in workloads:
        completed = _sides(workload, has_rows, folder, deadline, echo, findings.notes)
        findings.rows += workload_rows(workload.name, {side: each.metrics for side, each in completed.items()})
        trained.append((workload, completed))
    for workload, completed in trained:
        if workload.quality == "eval_loss":
            findings.add(compare_losses(workload, completed, has_rows, folder, deadline, echo, parallel))
    return findings


def _sides(
    workload: Workload, has_rows: bool, folder: Path, deadline: Deadline, echo: Echo, notes: list[str]
) -> dict[str, Reported]:
    """Train each side. Return the reports of those that completed, and add notes about the others."""
    completed = {}
    for side in SIDES:
        if not (limits := deadline.limits()):
            notes.append(f"{workload.name}, {side}: not run, {NO_TIME}.")
            continue
        reported = reported_by(folder, {**side_fields(workload, side, has_rows), **limits}, offline=has_rows)
        if reported.failure:
            notes.append(f"{workload.name}, {side} failed: {': '.join(reported.failure)}.")
        else:
            completed[side] = reported
        echo(f"  {workload.name}, {side}: {'failed' if reported.failure else 'completed'}")
    return completed


def workload_rows(name: str, results: Mapping[str, Mapping[str, float]]) -> list[Row]:
    """Return the speed of each side that completed, our gains, and the differences of the losses of this one seed."""
    rows = [row for side, result in results.items() for row in speed_rows(f"{name}, {side}", result)]
    recipe = results.get("recipe", {})
    for side in OURS:
        rates, losses = (
            [each.get(metric, math.nan) for each in (recipe, results.get(side, {}))]
            for metric in ("throughput/steady_samples_per_second", "eval_loss")
        )
        measured = sum(map(math.isfinite, rates))
        if measured < len(rates):
            label = f"{name}, {side}: measured speeds, ours and the recipe's"
            rows.append(Row(name=label, value=measured, unit="", target="2", met=False))
            continue
        gain, least = rates[1] / rates[0], least_gain(name, side)
        target = f"at least {least:g} x"
        rows.append(Row(name=f"{name}, {side}: gain", value=gain, unit="x", target=target, met=gain >= least))
        difference = losses[1] - losses[0]
        rows.append(Row(name=f"{name}, {side}: eval_loss minus the recipe's", value=difference, unit="nats"))
    return rows
