"""Steps of one sweep worker: calibration, search, repeats of the winner, report."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.running.fail_on import exit_code
from experiments.sweeping.calibration_phase import CalibrationIncomplete, prepare_searches
from experiments.sweeping.finalists_phase import find_best_points, train_finalists
from experiments.sweeping.open_sweep import OpenSweep
from experiments.sweeping.sweep_metadata import metadata
from experiments.sweeping.sweep_result import confirm, report
from reports.charts.class_charts import PngClassCharts
from sweeps.cost_model.trials import Search
from sweeps.study.sampler import make_sampler
from sweeps.workers.decisions import Decisions
from sweeps.workers.lease import hold_lease
from sweeps.workers.trial_jobs import TrialJobs
from sweeps.workers.trial_queue import Limits, Part
from sweeps.workers.worker import run_worker
from tracking.budgets.budget_tag import end_sentence
from tracking.groups.plan_file import write_sweep


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
    done = run_worker(opened.storage, opened.name, parts, _runner(opened, parts), _limits(opened), echo=echo)
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
    study.sampler = make_sampler(fields.sampler, search, opened.jobs.sweep.experiment.seed)
    strategy = Decisions(search=search, prunes=fields.pruning, ends_early=fields.sampler == "auto")
    return Part(compiler=compiler, study=study, space=search.space, objective=search.objective, strategy=strategy)


def _runner(opened: OpenSweep, parts: Sequence[Part]) -> TrialJobs:
    service, objective = opened.context.service, parts[0].objective
    return TrialJobs(
        opened.store,
        service,
        opened.group,
        opened.prepared_trial,
        objective,
        opened.echo,
        PngClassCharts(),
        opened.jobs.sweep.fields.max_parallel,
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
