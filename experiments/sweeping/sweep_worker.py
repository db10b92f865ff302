"""Steps of one sweep worker: calibration, search, second trainings of the finalists, repeats of the winner, report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.running.follow_group import log_trained, run_waves
from experiments.running.output import exit_code
from experiments.running.write_report import report_group
from experiments.sweeping.open_sweep import OpenSweep
from experiments.sweeping.sweep_metadata import BestPoints, metadata, winner, winner_file
from experiments.sweeping.trial_jobs import TrialJobs, calibrated_costs, outcome_of
from judging.design import Design
from judging.summaries import geometric_mean
from reports.charts.class_charts import PngClassCharts
from reports.comparison.arms import NOT_OF_THE_SETTING
from reports.model.numbers import counted
from reports.model.report import Report
from reports.sweep.sweep import repeat_rows
from state.home import home
from sweeps.cost_model.costs import CostModel
from sweeps.cost_model.ending import choose, finalists, settings
from sweeps.cost_model.trials import Search, best_trial, cost, eligible_trials
from sweeps.space.grid import Point
from sweeps.space.objective import cost_of, excess, values_of
from sweeps.study.sampler import PointSampler
from sweeps.study.storage import hold_lease
from sweeps.workers.trial_queue import Limits, Part
from sweeps.workers.worker import run_worker
from tracking.budgets.ledger import end_sentence
from tracking.groups.group import close_group
from tracking.groups.plan_file import DESIGN, read_design, write_design, write_sweep
from tracking.queries import job_tables
from tracking.recording.recorder import Outcome
from training.contract.errors import InputError


class CalibrationIncomplete(Exception):
    """Not all batch sizes were timed: the budget is spent, or a person stopped the sweep."""


def run(opened: OpenSweep, fail_on: frozenset[str] = frozenset()) -> int:
    """Search, repeat the winner and report.

    Returns the exit code: 0, 1 if no best point was found, 3 for a result of the winner that `fail_on` names, 130 if
    stopped.
    """
    sweep, echo = opened.jobs.sweep, opened.echo
    size = f"{len(sweep.space.points)} points for each compiler setting: {', '.join(sweep.fields.compilers)}"
    echo(f"{'Resuming' if opened.group.continued else 'Sweeping'} {opened.group.id}: {size}")
    try:
        parts = [_part(opened, compiler, search) for compiler, search in prepare_searches(opened).items()]
    except CalibrationIncomplete as stopped:
        echo(f"Stopped. {stopped.__doc__} The same command resumes it.")
        return 130
    write_sweep(opened.store, opened.group, metadata(sweep, parts, opened.jobs.samples, opened.overrides))
    runner = TrialJobs(
        opened.store,
        opened.context.service,
        opened.group,
        opened.prepared_trial,
        parts[0].search.objective,
        echo,
        PngClassCharts(),
        sweep.fields.max_parallel,
    )
    done = run_worker(opened.storage, opened.name, parts, runner, _limits(opened), echo=echo)
    if done.is_stopped:
        return _stopped(opened)
    if done.is_over_budget:
        opened.ledger.end()
    echo(f"The search ended: {done.reason.rstrip('.')}.")
    with hold_lease(opened.storage, f"{opened.name}/repeats of the winner", echo):
        if not train_finalists(opened, parts):
            return _stopped(opened)
        best_points = find_best_points(opened, parts)
        repeated = confirm(opened, best_points)
        rendered = report(opened, parts, best_points, done.reasons, repeated)
        if end := opened.ledger.ended:
            echo(end_sentence(end))
    return exit_code(rendered, fail_on) if best_points else 1


def _stopped(opened: OpenSweep) -> int:
    opened.echo("Stopped. The same command resumes the sweep.")
    return 130


def _part(opened: OpenSweep, compiler: str, search: Search) -> Part:
    fields, study = opened.jobs.sweep.fields, opened.studies[compiler]
    study.sampler = PointSampler(fields.sampler, search, opened.jobs.sweep.experiment.seed)
    return Part(
        compiler=compiler,
        study=study,
        search=search,
        prunes=fields.pruning,
        ends_early=fields.sampler == "auto",
    )


def _limits(opened: OpenSweep) -> Limits:
    fields = opened.jobs.sweep.fields
    ledger, (compiler, point) = opened.ledger, opened.jobs.sweep.baseline
    planned = opened.prepared_trial(compiler, point)  # all trials have the same worst case
    return Limits(
        trials=fields.trials,
        parallel=fields.max_parallel,
        max_parallel=fields.max_parallel,
        no_room=lambda names: ledger.why_no_room(planned, names),
    )


def prepare_searches(opened: OpenSweep) -> dict[str, Search]:
    """Run the calibrations and return the search of each compiler whose calibration succeeded.

    Raises `CalibrationIncomplete`, and `InputError` if no compiler is left.
    """
    planned = [job for _, job in opened.jobs.measurements(opened.group.id)]
    with hold_lease(opened.storage, f"{opened.name}/timing", opened.echo):
        if len(opened.run(planned)) < len(planned):
            raise CalibrationIncomplete
    sweep = opened.jobs.sweep
    objective = replace(sweep.objective, bound=_bound(opened))
    searches: dict[str, Search] = {}
    for compiler in sweep.fields.compilers:
        model = _costs(opened, compiler) if sweep.calibration_seconds else None
        if model or not sweep.calibration_seconds:
            searches[compiler] = Search(
                space=sweep.space, objective=objective, samples=opened.jobs.samples, base=sweep.base_point, costs=model
            )
    if not searches:
        raise InputError("the sweep cannot start, because the calibration of every compiler failed: see its jobs' logs")
    return searches


def _costs(opened: OpenSweep, compiler: str) -> CostModel | None:
    planned = opened.jobs.calibration(opened.group.id, compiler)
    run = opened.find_run(planned)
    if run is None or run.failure or not run.has_ended:
        why = f" ({run.failure[0]})" if run and run.failure else ""
        opened.echo(f"Skipping {compiler}: its calibration job {planned.spec.name} did not complete{why}.")
        return None
    try:
        return calibrated_costs(opened.store, run)
    except ValueError as error:
        opened.echo(f"Skipping {compiler}: {error}.")
        return None


def _bound(opened: OpenSweep) -> float | None:
    """Return the worst acceptable quality: the baseline's quality, worsened by `sweep.worse_by`."""
    sweep = opened.jobs.sweep
    worse_by, quality = sweep.fields.worse_by, sweep.objective.quality
    if worse_by is None or quality is None:
        return None
    planned = opened.jobs.trial(opened.group.id, *sweep.baseline)
    run = opened.find_run(planned)
    value = run.metrics.get(quality.metric, math.nan) if run else math.nan
    if not math.isfinite(value):
        named = f"job {planned.spec.name} logged no {quality.metric}"
        raise InputError(f"sweep.worse_by needs the baseline's quality, but {named}")
    opened.echo(f"The baseline's {quality.metric} is {value:.4g}; a trial may be at most {worse_by:g} worse.")
    return value - worse_by if quality.higher_is_better else value + worse_by


def train_finalists(opened: OpenSweep, parts: Sequence[Part]) -> bool:
    """Train the finalists of every compiler a second time. Return False if a person stopped a job."""
    planned = [
        opened.jobs.second_training(opened.group.id, part.compiler, point)
        for part in parts
        for point in finalists(part.search, part.records, opened.jobs.sweep.fields.finalists)
    ]
    left = [job for job in planned if not ((run := opened.find_run(job)) and run.has_ended)]
    if not left:
        return True
    opened.echo(f"Training the best settings a second time: {counted(len(left), 'job')}")
    outcomes = opened.run(left)
    if any(outcome.failure and outcome.failure[0] == "Stopped" for outcome in outcomes):
        return False
    if len(outcomes) < len(left):
        opened.echo("Not all second trainings ran: the budget is spent.")
    return True


def find_best_points(opened: OpenSweep, parts: Sequence[Part]) -> BestPoints:
    """Return the best point of each compiler that has one: by both trainings if it has finalists, else by the trials.

    The report chooses by the same rule, see `reports.sweep.sweep.Sweep.best_of`.
    """
    best_points: dict[str, tuple[Point, float]] = {}
    for part in parts:
        search, known = part.search, part.records
        both = {
            record.point: [cost(search, record), second]
            for record in eligible_trials(search, known)
            if (second := _second_cost(opened, part, record.point)) is not None
        }
        best = best_trial(search, known)
        if chosen := choose(both):
            best_points[part.compiler] = chosen, geometric_mean(both[chosen])
        elif best:
            best_points[part.compiler] = best.point, cost(search, best)
    return best_points


def _second_cost(opened: OpenSweep, part: Part, point: Point) -> float | None:
    """Return the cost of a point's second training, infinite without success.

    None if it has not ended, or if its end says nothing about the setting.
    """
    objective = part.search.objective
    run = opened.find_run(opened.jobs.second_training(opened.group.id, part.compiler, point))
    if run is None or not run.has_ended or (run.failure and run.failure[0] in NOT_OF_THE_SETTING):
        return None
    outcome = outcome_of(run, objective)
    is_good = values_of(objective, outcome) is not None and (excess(objective, outcome) or 0.0) <= 0
    return cost_of(objective, outcome) if is_good else math.inf


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
        by_name = {job.spec.name: job for job in planned}
        planned, outcomes = run_waves(
            opened.store,
            opened.group,
            # Number 0 of a sweep's setting is its trial, but a comparison counts from 0.
            [replace(job, repeat=job.repeat - 1) for job in planned],
            design,
            lambda wave: opened.run([by_name[job.spec.name] for job in wave]),
            opened.echo,
            repeat_rows,
        )
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
