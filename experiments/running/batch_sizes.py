"""Choose the batch size of each arm with `batch_size: auto`, once for its group, before any training.

A calibration job of each such arm times the sizes. The choice is recorded in the job's run: a launcher that continues
the group finds it there, and starts no second calibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from experiments.running.launch import LaunchPlan, prepare
from experiments.running.output import print_line
from experiments.running.scheduler import run_jobs
from sweeps.costs import FIGURES, largest_useful, measurements
from tracking.budgets.ledger import Ledger, end_sentence
from tracking.groups.group import Group, close_group, search_runs
from tracking.groups.planned_job import CALIBRATION, CHOSEN_SIZE
from tracking.queries.job_tables import tagged
from tracking.queries.metric_histories import histories
from tracking.recording.recorder import Outcome
from tracking.server.store import Store
from training.contract.errors import InputError, TrackingError
from training.contract.plain_text import without_markup
from training.contract.service import ServiceContext
from training.services.interruption import Detached

TAG = f"platform.{CHOSEN_SIZE}"


def with_chosen_sizes(plan: LaunchPlan, store: Store, context: ServiceContext, group: Group) -> LaunchPlan | int:
    """Return the plan with a number in place of each `auto`, or the command's exit code if the user stopped it.

    Raises InputError, and closes the group, if a size cannot be chosen.
    """
    planned = {label: prepare(context, job) for label, job in plan.calibrations(group.id).items()}
    print_line(f"Group {group.id}: a calibration chooses the batch size of {', '.join(planned)}")
    try:
        outcomes = run_jobs(store, context.service, group, [*planned.values()], parallel=plan.parallel, echo=print_line)
    except Detached:
        print_line("The calibration keeps running. The same command continues with its result.")
        return 130
    by_name = {outcome.planned.spec.name: outcome for outcome in outcomes}
    if len(outcomes) < len(planned) or any(each.failure and each.failure.is_stop for each in outcomes):
        end = Ledger(store, context.service, group).ended
        print_line(end_sentence(end) if end else "Stopped, before all batch sizes were chosen.")
        close_group(store, group, "FAILED" if end else "KILLED")
        return 1 if end else 130
    try:
        sizes = {label: _chosen(store, by_name[job.spec.name], label) for label, job in planned.items()}
    except InputError as error:
        close_group(store, group, "FAILED", note=without_markup(str(error)))
        raise
    return _with_sizes(plan, sizes)


def with_recorded_sizes(plan: LaunchPlan, store: Store, experiment_id: str, group_id: str) -> LaunchPlan:
    """Return the plan of an open group with the batch sizes that its calibrations have chosen so far."""
    query = tagged(kind="job", group=group_id, role=CALIBRATION)
    tags = [run.data.tags for run in search_runs(store, experiment_id, query)]
    chosen = {each["platform.job_name"]: int(each[TAG]) for each in tags if TAG in each}
    sizes = {label: chosen.get(job.spec.name) for label, job in plan.calibrations(group_id).items()}
    return _with_sizes(plan, sizes)


def _with_sizes(plan: LaunchPlan, sizes: Mapping[str, int | None]) -> LaunchPlan:
    return replace(plan, arms=tuple(arm.with_batch_size(sizes.get(arm.label)) for arm in plan.arms))


def _chosen(store: Store, outcome: Outcome, label: str) -> int:
    """Return the batch size of an arm, as its calibration's run records it, or as its figures decide it now.

    Raises InputError if the calibration failed, or if no size leaves enough memory, and TrackingError without figures.
    """
    name = outcome.planned.spec.name
    if outcome.failure:
        raise InputError(
            f"the batch size of “{label}” cannot be chosen, because its calibration {name} failed: "
            f"{outcome.failure.text.rstrip('.')}. Set batch_size to a number, or remove the cause and try again"
        )
    data = store.call(store.client.get_run, outcome.run_id).data
    if recorded := data.tags.get(TAG):
        return int(recorded)
    points = store.call(histories, store.client, {outcome.run_id: 0.0}, list(FIGURES))[outcome.run_id]
    rows = measurements(zip(points["step"], points["key"], points["value"], strict=True))
    if not rows:
        raise TrackingError(f"The figures of calibration {name} have not arrived. Run the same command again later.")
    size = largest_useful(rows, data.metrics.get("calibration/memory_limit_gib", math.nan))
    if size is None:
        raise InputError(
            f"the batch size of “{label}” cannot be chosen, because not even {rows[0].batch_size} leaves a tenth of "
            "the memory: set sweep.batch_sizes to a lower range, or reduce max_length"
        )
    print_line(f"  {label}: batch size {size} of {rows[0].batch_size}..{rows[-1].batch_size}")
    store.tag(outcome.run_id, {TAG: str(size)})
    return size
