"""From planned jobs to their report: what `train`, `compare`, `probe` and `attach` have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reports.charts.class_charts import PngClassCharts
from tracking.following.followed_job import Outcome
from tracking.following.group_session import run_jobs
from tracking.following.interruption import Detached
from tracking.groups.group import Group, close_group
from tracking.groups.planned_job import PlannedJob
from tracking.recording.warm_pools import record_warm_pool_costs
from tracking.server.store import Store
from training.contract.service import Service
from training.state.home import home

Say = Callable[[str], None]


def follow(store: Store, service: Service, group: Group, jobs: Sequence[PlannedJob], parallel: int, say: Say) -> int:
    """Run what is left of the jobs, report, and return 0, 1 when one failed, or 130 when a person stopped them."""
    try:
        outcomes = run_jobs(store, service, group, jobs, parallel=parallel, say=say, charts=PngClassCharts())
    except Detached:
        say(f"Left running; the same command attaches to it again, and so does `attach --group {group.id}` elsewhere.")
        return 130
    refusals = [outcome.refusal for outcome in outcomes if outcome.refusal]
    if refusals and len(refusals) == len(jobs):
        close_group(store, group, "FAILED", note=str(refusals[0]))
        raise refusals[0]
    if service.name == "sagemaker":
        record_warm_pool_costs(store, service)  # a job's machines may have gone to a later one
    # Only now: what draws the report takes as long to load as all the rest.
    from experiments.running.write_report import report_group

    report_group(store, group, group.experiment_name)
    log_trained(store, service, group, outcomes, say)
    return _closed(store, group, outcomes, len(jobs), say)


def log_trained(store: Store, service: Service, group: Group, outcomes: Sequence[Outcome], say: Say) -> None:
    """Log what was trained, last: it delays no job and no report, and a group stays open until it is through."""
    if any(outcome.planned.model for outcome in outcomes):
        from models.logged.group_models import log_models
        from models.logged.model_folder import PLACE

        try:
            log_models(store, service, group, outcomes, home() / PLACE, say)
        except KeyboardInterrupt as end:
            end.add_note(
                "All jobs are done. The same command logs the models that are missing, "
                f"and so does `attach --group {group.id}`."
            )
            raise


def _closed(store: Store, group: Group, outcomes: Sequence[Outcome], planned: int, say: Say) -> int:
    stopped = len(outcomes) < planned or any(o.failure and o.failure[0] == "Stopped" for o in outcomes)
    failed = [outcome for outcome in outcomes if outcome.failure]
    close_group(store, group, "KILLED" if stopped else "FAILED" if failed else "FINISHED")
    unpushed = [outcome for outcome in outcomes if outcome.push_failure]
    for outcome in unpushed:
        say(f"{outcome.planned.spec.name} trained, but its model was not pushed: {outcome.push_failure}")
    return 130 if stopped else 1 if failed or unpushed else 0
