"""Follow planned jobs to the end, then report: shared by `train`, `compare`, `probe` and `attach`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from experiments.running.expected_seconds import expected_seconds
from experiments.running.fail_on import exit_code
from experiments.running.output import status_writer
from experiments.running.waves import run_waves
from judging.design import Design
from reports.charts.class_charts import PngClassCharts
from reports.model.numbers import counted
from tracking.budgets.budget_tag import end_sentence
from tracking.budgets.ledger import Ledger
from tracking.following.doomed_arms import without_left_out
from tracking.following.followed_job import Outcome
from tracking.following.group_progress import GroupProgress
from tracking.following.group_session import run_jobs
from tracking.following.interruption import Detached
from tracking.groups.group import Group, close_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.warm_pools import record_warm_pool_costs
from tracking.server.store import Store
from training.contract.budget_text import budget_sentence
from training.contract.errors import TrackingError
from training.contract.plain_text import without_markup
from training.contract.service import Service
from training.state.home import home

Echo = Callable[[str], None]


def follow(
    store: Store,
    service: Service,
    group: Group,
    jobs: Sequence[PlannedJob],
    parallel: int,
    echo: Echo,
    design: Design | None = None,
    fail_on: frozenset[str] = frozenset(),
) -> int:
    """Run the remaining jobs and report. With a `design`, the jobs run in waves, and arms stop by themselves.

    Returns the exit code: 0; 1 if a job failed, or all jobs of an arm of a comparison; 3 for a result that `fail_on`
    names; 130 if a person stopped jobs or detached.
    """
    ledger = Ledger(store, service, group)
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
    _raise_if_all_refused(store, group, jobs, outcomes)
    if service.name == "sagemaker":
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
    is_stopped, arms = len(outcomes) < len(jobs) and budget_end is None, {job.arm for job in jobs}
    code = _closed(store, group, outcomes, arms, echo, is_stopped=is_stopped, is_comparison=design is not None)
    return code or exit_code(report, fail_on)


def _raise_if_all_refused(store: Store, group: Group, jobs: Sequence[PlannedJob], outcomes: Sequence[Outcome]) -> None:
    """Close the group and raise the first refusal, if the service refused every job."""
    refusals = [outcome.refusal for outcome in outcomes if outcome.refusal]
    if refusals and len(refusals) == len(jobs):
        close_group(store, group, "FAILED", note=without_markup(str(refusals[0])))
        raise refusals[0]


def jobs_phrase(jobs: Sequence[PlannedJob], design: Design | None) -> str:
    """Return the number of jobs, such as `at most 18 jobs` for a comparison that may stop earlier."""
    most = "at most " if design and len(design.looks) > 1 else ""
    again = ", and one more for each that is disturbed" if any(job.is_again for job in jobs) else ""
    return f"{most}{counted(sum(not job.is_again for job in jobs), 'job')}{again}"


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
        from models.logged.group_models import delete_artifacts, log_models
        from models.logged.model_folder import MODELS_FOLDER

        try:
            log_models(store, service, group, outcomes, home() / MODELS_FOLDER, echo)
            if service.name == "local" and not keeps_artifacts:
                delete_artifacts(store, group, outcomes, home(), echo)
        except TrackingError as error:
            echo(f"No model artifact was deleted: {str(error).rstrip('.')}.")
        except KeyboardInterrupt as end:
            end.add_note(
                "All jobs have ended. The same command logs the remaining models, "
                f"and so does `trainfare attach --group {group.id}`."
            )
            raise


def _closed(
    store: Store,
    group: Group,
    outcomes: Sequence[Outcome],
    arms: set[str],
    echo: Echo,
    *,
    is_stopped: bool,
    is_comparison: bool,
) -> int:
    stopped = is_stopped or any(o.failure and o.failure[0] == "Stopped" for o in outcomes)
    failed = [outcome for outcome in outcomes if outcome.failure]
    close_group(store, group, "KILLED" if stopped else "FAILED" if failed else "FINISHED")
    # A comparison counts failed jobs in its verdict. An arm without a successful job has no verdict.
    trained = {outcome.planned.arm for outcome in outcomes if not outcome.failure}
    has_failed = bool(arms - trained) or (bool(failed) and not is_comparison)
    return 130 if stopped else 1 if has_failed else 0
