"""Follow planned jobs to the end, wave by wave, then report and log the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pandas as pd

from experiments.planning.expected_cost import expected_cost
from experiments.running.output import exit_code, print_line, status_writer
from experiments.running.progress import ExpectedSeconds, GroupProgress
from experiments.running.scheduler import run_jobs, without_left_out
from judging.design import Design
from judging.waves import Progress
from reports.charts.class_charts import PngClassCharts
from reports.comparison.tables import look_sentence
from state.home import home
from tracking.budgets.ledger import Ledger, end_sentence
from tracking.groups.group import Group, close_group
from tracking.groups.planned_job import PlannedJob
from tracking.queries import job_tables
from tracking.queries.job_tables import ended_jobs
from tracking.recorded.arms import arms_of
from tracking.recorded.recorded_job import Job, job_of
from tracking.recorded.waves import jobs_to_repeat, progress_of
from tracking.recording.metrics import record_warm_pool_costs
from tracking.recording.recorder import Outcome
from tracking.server.store import Store
from training.contract.errors import TrackingError
from training.contract.plain_text import counted, without_markup
from training.contract.service import Service
from training.services.budget import budget_sentence
from training.services.interruption import Detached

Echo = Callable[[str], None]
RunJobs = Callable[[Sequence[PlannedJob]], list[Outcome]]
"""Runs the remaining ones of these jobs, and returns the outcomes of all that have ended."""


def follow(
    store: Store,
    service: Service,
    group: Group,
    jobs: Sequence[PlannedJob],
    parallel: int,
    design: Design | None = None,
    fail_on: frozenset[str] = frozenset(),
) -> int:
    """Run the remaining jobs and report. With a `design`, the jobs run in waves, and arms stop by themselves.

    Returns the exit code: 0; 1 if a job failed, or all jobs of an arm of a comparison; 3 for a result that `fail_on`
    names; 130 if a person stopped jobs or detached.
    """
    echo, ledger = print_line, Ledger(store, service, group)
    if ledger.is_limited:
        echo(f"{budget_sentence(ledger.spending())}.")

    is_most_certain = design is None or len(design.looks) == 1
    expected = expected_seconds(store, group, jobs)
    progress = GroupProgress(echo, status_writer(), expected, is_most_certain=is_most_certain)

    def run(planned: Sequence[PlannedJob]) -> list[Outcome]:
        names, arms = {job.spec.name for job in planned}, {job.arm for job in planned}
        # Arms that have stopped run no more jobs, so no wave contains them. Jobs run again only if it is needed.
        progress.plan([job for job in jobs if job.spec.name in names or (job.arm in arms and not job.is_again)])
        return run_jobs(
            store, service, group, planned, parallel=parallel, echo=echo, charts=PngClassCharts(), progress=progress
        )

    try:
        jobs, outcomes = run_waves(store, group, jobs, design, run, echo) if design else (jobs, run(jobs))
        jobs = without_left_out(jobs, outcomes)
    except Detached:
        echo(
            "Jobs keep running. Follow them with the same command, or elsewhere with "
            f"`trainfare attach --group {group.id}`."
        )
        return 130
    refusals = [outcome.refusal for outcome in outcomes if outcome.refusal]
    if refusals and len(refusals) == len(jobs):
        close_group(store, group, "FAILED", note=without_markup(str(refusals[0])))
        raise refusals[0]
    if service.traits.has_warm_pools:
        record_warm_pool_costs(store, service)  # a later job may have reused the instances of an earlier job
    # Imported late, because importing the charts takes as long as all other imports together.
    from experiments.running.push_model import push_models
    from experiments.running.write_report import report_group

    report = report_group(store, group, group.experiment_name)
    is_pushed = push_models(store, service, group, outcomes, echo)
    log_trained(store, service, group, outcomes, echo, keeps_artifacts=not is_pushed)
    if not is_pushed:
        return 1  # the group stays open
    if budget_end := ledger.ended:
        echo(end_sentence(budget_end))
    failed = [outcome for outcome in outcomes if outcome.failure]
    is_cut_short = len(outcomes) < len(jobs) and budget_end is None
    is_stopped = is_cut_short or any(outcome.failure and outcome.failure.is_stop for outcome in failed)
    close_group(store, group, "KILLED" if is_stopped else "FAILED" if failed else "FINISHED")
    if is_stopped:
        return 130
    # A comparison counts failed jobs in its verdict. An arm without a successful job has no verdict.
    trained = {outcome.planned.arm for outcome in outcomes if not outcome.failure}
    if {job.arm for job in jobs} - trained or (failed and design is None):
        return 1
    return exit_code(report, fail_on)


def run_waves(
    store: Store,
    group: Group,
    jobs: Sequence[PlannedJob],
    design: Design,
    run: RunJobs,
    echo: Callable[[str], None],
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
) -> tuple[list[PlannedJob], list[Outcome]]:
    """Run the waves of a comparison with `run`. Return the jobs of all waves so far, and the outcomes of ended jobs.

    The tracking server's records alone decide which jobs come next, so all launchers of a group agree. `rows` selects
    the comparison's jobs from the table of the group's jobs.
    """
    baselines = {job.arm for job in jobs if job.is_baseline}
    labels = sorted(dict.fromkeys(job.arm for job in jobs), key=lambda label: label not in baselines)
    reported: Progress | None = None
    outcomes: dict[str, Outcome] = {}
    while True:
        arms = arms_of(rows(job_tables.jobs(store.client, group.id)))
        state, again = progress_of(design, labels, arms), jobs_to_repeat(design, arms)
        _print_progress(state, reported, design, echo)
        reported = state
        begun = [job for job in jobs if (job.arm, job.repeat) in (again if job.is_again else state.begun)]
        left = [job for job in begun if job.spec.name not in outcomes]
        if left:
            outcomes |= {outcome.planned.spec.name: outcome for outcome in run(left)}
        begun = without_left_out(begun, outcomes.values())
        # Nothing is left although jobs are due if a run was deleted while its job ran. The report lists it as missing.
        if not (state.due and left) or len(outcomes) < len(begun):
            return begun, list(outcomes.values())


def _print_progress(state: Progress, reported: Progress | None, design: Design, echo: Callable[[str], None]) -> None:
    """Print the looks and the stopped arms that were not `reported` yet."""
    for number in range(len(reported.looks) if reported else 0, len(state.looks)):
        echo(f"After {counted(design.looks[number], 'repeat')}:")
        for arm, look in state.looks[number].items():
            echo(f"  {arm}: {look_sentence(look)}")
    for arm, reason in state.stopped.items():
        if reason == "too few jobs succeeded" and not (reported and arm in reported.stopped):
            echo(f"  {arm}: stops: too few jobs to compare")


def expected_seconds(store: Store, group: Group, jobs: Sequence[PlannedJob]) -> ExpectedSeconds:
    """Return a function from a job to its expected billable instance seconds, or None if they are unknown.

    The earlier jobs are read once, when the first job is asked about. A server that does not answer then does not
    disturb the jobs that are followed.
    """

    @cache
    def earlier() -> list[Job]:
        try:
            return earlier_jobs(store, group.experiment_id, jobs, but=group.id)
        except TrackingError:
            return []

    known: dict[tuple[str, bool], float | None] = {}

    def seconds(job: PlannedJob) -> float | None:
        # Repeats of an arm differ only in their seed.
        key = job.arm, job.is_again
        if key not in known:
            cost = expected_cost(job, None, earlier())
            known[key] = cost.seconds if cost else None
        return known[key]

    return seconds


def earlier_jobs(store: Store, experiment_id: str, jobs: Sequence[PlannedJob], but: str | None = None) -> list[Job]:
    """Return the successful jobs of an experiment on the machines of planned jobs, except jobs of the group `but`."""
    table = ended_jobs(store.client, experiment_id, {job.spec.instance_type for job in jobs})
    return [job_of(row) for row in table.to_dict("records") if but is None or row.get("group") != but]


def log_trained(
    store: Store,
    service: Service,
    group: Group,
    outcomes: Sequence[Outcome],
    echo: Echo,
    *,
    keeps_artifacts: bool = False,
) -> None:
    """Log the trained models, and delete artifacts that are no longer needed unless `keeps_artifacts`.

    This comes last, so that it delays no job and no report. The group stays open until it is done.
    """
    if any(outcome.planned.model for outcome in outcomes):
        from models.logged.log_model import delete_artifacts, log_models
        from models.logged.model_folder import MODELS_FOLDER

        try:
            log_models(store, service, group, outcomes, home() / MODELS_FOLDER, echo)
            if service.traits.keeps_state_in_home and not keeps_artifacts:
                delete_artifacts(store, group, outcomes, home(), echo)
        except TrackingError as error:
            echo(f"No model artifact was deleted: {str(error).rstrip('.')}.")
        except KeyboardInterrupt as end:
            end.add_note(
                "All jobs have ended. The same command logs the remaining models, "
                f"and so does `trainfare attach --group {group.id}`."
            )
            raise


def jobs_phrase(jobs: Sequence[PlannedJob], design: Design | None) -> str:
    """Return the number of jobs, such as `at most 18 jobs` for a comparison that may stop earlier."""
    most = "at most " if design and len(design.looks) > 1 else ""
    again = ", and one more for each that is disturbed" if any(job.is_again for job in jobs) else ""
    return f"{most}{counted(sum(not job.is_again for job in jobs), 'job')}{again}"
