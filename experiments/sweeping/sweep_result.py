"""End of a sweep: repeats of the winner, metadata in MLflow, and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.running.follow_group import log_trained
from experiments.running.waves import run_waves
from experiments.running.write_report import report_group
from experiments.sweeping.open_sweep import OpenSweep
from experiments.sweeping.sweep_metadata import BestPoints, metadata, winner, winner_file
from judging.design import Design
from reports.model.report import Report
from reports.sweep.confirmation import repeat_rows
from sweeps.space.confirmation import settings
from sweeps.workers.trial_queue import Part
from tracking.following.followed_job import Outcome
from tracking.groups.group import close_group
from tracking.groups.plan_file import DESIGN, read_design, write_design, write_sweep
from tracking.groups.planned_job import PlannedJob
from tracking.queries import job_tables
from training.state.home import home


def confirm(opened: OpenSweep, best_points: BestPoints) -> list[Outcome]:
    """Repeat the winner and its controls with new seeds; return the outcomes."""
    sweep = opened.jobs.sweep
    chosen = settings(best_points, sweep.baseline, maximise=sweep.maximises)
    if not chosen or not sweep.fields.repeats or sweep.objective.is_front:
        return []  # a Pareto front has no single winner
    planned = opened.jobs.confirmation(opened.group.id, chosen)
    design = _design(opened)
    most = "at most " if design and len(design.looks) > 1 else ""
    opened.echo(f"Repeating the winner and its controls: {most}{len(planned)} jobs")
    if design:
        planned, outcomes = _run_waves(opened, planned, design)
    else:
        outcomes = opened.run(planned)
    if len(outcomes) < len(planned):
        opened.echo("Not all repeats ran: the budget is spent, or a person stopped them.")
    return outcomes


def _design(opened: OpenSweep) -> Design | None:
    """Return the looks at the repeats. They are stored before the first repeat, and do not change later.

    None for repeats that an earlier version began without looks.
    """
    store, group = opened.store, opened.group
    tags = store.call(store.client.get_run, group.run_id).data.tags
    if stored := read_design(tags):
        return stored
    has_begun = len(repeat_rows(job_tables.jobs(store.client, group.id))) > 0
    design = None if has_begun else opened.jobs.sweep.design
    if design:
        store.tag(group.run_id, {DESIGN: write_design(design)})
    return design


def _run_waves(
    opened: OpenSweep, planned: Sequence[PlannedJob], design: Design
) -> tuple[list[PlannedJob], list[Outcome]]:
    """Run the repeats wave by wave. Number 0 of a sweep's setting is its trial, but a comparison counts from 0."""
    by_name = {job.spec.name: job for job in planned}
    return run_waves(
        opened.store,
        opened.group,
        [replace(job, repeat=job.repeat - 1) for job in planned],
        design,
        lambda wave: opened.run([by_name[job.spec.name] for job in wave]),
        opened.echo,
        repeat_rows,
    )


def report(
    opened: OpenSweep,
    parts: Sequence[Part],
    best_points: BestPoints,
    reasons: Mapping[str, str],
    repeated: Sequence[Outcome],
) -> Report:
    """Store the metadata in the parent run, write the report, log the repeats' models, and close the group.

    Returns the report.
    """
    jobs = opened.jobs
    results = metadata(jobs.sweep, parts, jobs.samples, opened.overrides, best_points=best_points, reasons=reasons)
    write_sweep(opened.store, opened.group, results)
    rendered = report_group(opened.store, opened.group, jobs.name)
    if setting := winner(jobs.sweep, best_points):
        path = home() / "reports" / opened.group.id / "winner.yaml"
        path.write_text(winner_file(jobs.sweep, setting), encoding="utf-8")
        opened.echo(f"The winner as an experiment: {path}")
    log_trained(opened.store, opened.context.service, opened.group, repeated, opened.echo)
    close_group(opened.store, opened.group, "FINISHED" if best_points else "FAILED")
    return rendered
