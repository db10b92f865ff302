"""Launch the jobs of `train`, `compare` and `probe`: check everything, run the jobs, report.

`train` is a comparison with one arm and one repeat. `probe` is a comparison in which every job ends early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from experiments.planning.budgets import budget_of, check_budget
from experiments.planning.inputs import Inputs
from experiments.planning.plan import group_key
from experiments.planning.staged_inputs import stage_inputs
from experiments.running.launch_request import CHECK, LaunchRequest, read_launch
from experiments.running.output import print_line
from experiments.running.service_context import open_service_context
from training.state.home import home, home_id

if TYPE_CHECKING:
    from tracking.server.store import Store


def launch(verb: str, overrides: Mapping[str, str]) -> int:
    """Run a verb with overrides of the experiment's fields; return the exit code, see `follow`.

    `experiments.dry_runs.plan_launch` shows the same steps without making them.
    """
    request = read_launch(verb, overrides, print_line)
    # Data comes first: an error in it leaves nothing behind, not even an empty tracking database.
    staged = stage_inputs(request.arms, print_line)
    from tracking.server.store import open_store

    return _run(open_store(echo=print_line), request, staged)


def _run(store: Store, request: LaunchRequest, staged: Sequence[Inputs]) -> int:
    from experiments.running.follow_group import follow, jobs_phrase
    from reports.charts.class_charts import PngClassCharts
    from tracking.budgets.budget_tag import set_budget
    from tracking.following.group_session import start_jobs
    from tracking.groups.design_tag import DESIGN, write_design
    from tracking.groups.group import open_group
    from tracking.groups.plan_file import write_plan
    from tracking.recording.warm_pools import record_warm_pool_costs

    context, design = open_service_context(request.experiment, print_line), request.design
    # Check a plan without a group first, before a run is opened or anything is uploaded.
    for job in request.jobs_to_check(staged):
        context.check(job.spec)
    budget = budget_of(request.experiment)
    priced = [context.priced(job) for job in request.jobs(CHECK, staged)] if budget.budget.is_limited else []
    sentences = check_budget(priced, budget)
    if request.verb == "train" and (push := request.experiment.push_to_hub):
        from experiments.running.push_model import open_repository

        open_repository(push, request.experiment.aws.region, request.experiment.aws.profile)
    if context.service.name == "sagemaker":
        record_warm_pool_costs(store, context.service)
    place = home_id(home()) if context.service.name == "local" else ""
    key = group_key(request.verb, request.name, request.arms, request.repeats, staged, design, place)
    group = open_group(
        store,
        experiment_name=request.name,
        verb=request.verb,
        key=key,
        description=request.experiment.description,
        tags={DESIGN: write_design(design)} if design else {},
        prefix=request.experiment.aws.job_prefix or "",
    )
    jobs = [context.prepare(job) for job in request.jobs(group.id, staged)]
    print_line(f"{'Resuming' if group.continued else 'Running'} {group.id}: {jobs_phrase(jobs, design)}")
    for sentence in sentences:
        print_line(sentence)
    write_plan(store, group, jobs, request.parallel, home(), design)
    set_budget(store, group, budget)
    if not request.wait:
        charts = PngClassCharts()
        first = [job for job in jobs if design is None or (job.repeat < design.looks[0] and not job.is_again)]
        left = start_jobs(
            store, context.service, group, first, parallel=request.parallel, echo=print_line, charts=charts
        )
        print_line(f"Jobs keep running{f'; {left} more are not started yet' if left else ''}.")
        print_line(f"Follow them with the same command without --wait, or with `trainfare attach --group {group.id}`.")
        return 0
    return follow(store, context.service, group, jobs, request.parallel, print_line, design, request.fail_on)
