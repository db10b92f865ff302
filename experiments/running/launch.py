"""Launch the jobs of `train`, `compare` and `probe`: prepare their plan, then carry it out."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.planning.budgets import budget_of
from experiments.running.launch_plan import LaunchPlan, prepare_launch
from experiments.running.output import print_line
from experiments.running.preparation import Preparation
from experiments.running.service_context import ServiceContext
from training.state.home import home


def launch(verb: str, overrides: Mapping[str, str]) -> int:
    """Run a verb with overrides of the experiment's fields; return the exit code, see `follow`."""
    plan = prepare_launch(verb, overrides, Preparation())
    assert plan  # an error has ended the command
    assert plan.context
    return _carry_out(plan, plan.context)


def _carry_out(plan: LaunchPlan, context: ServiceContext) -> int:
    from experiments.running.follow_group import follow, jobs_phrase
    from reports.charts.class_charts import PngClassCharts
    from tracking.budgets.budget_tag import set_budget
    from tracking.following.group_session import start_jobs
    from tracking.groups.group import open_group
    from tracking.groups.plan_file import DESIGN, write_design, write_plan
    from tracking.recording.costs import record_warm_pool_costs
    from tracking.server.store import open_store

    store, design, experiment = open_store(echo=print_line), plan.design, plan.experiment
    if plan.verb == "train" and (push := experiment.push_to_hub):
        from experiments.running.push_model import open_repository

        open_repository(push, experiment.aws.region, experiment.aws.profile)
    if context.service.name == "sagemaker":
        record_warm_pool_costs(store, context.service)
    group = open_group(
        store,
        experiment_name=plan.name,
        verb=plan.verb,
        key=plan.key,
        description=experiment.description,
        tags={DESIGN: write_design(design)} if design else {},
        prefix=experiment.aws.job_prefix or "",
    )
    jobs = [context.prepare(job) for job in plan.jobs(group.id)]
    print_line(f"{'Resuming' if group.continued else 'Running'} {group.id}: {jobs_phrase(jobs, design)}")
    for sentence in plan.budget_text:
        print_line(sentence)
    write_plan(store, group, jobs, plan.parallel, home(), design)
    set_budget(store, group, budget_of(experiment))
    if plan.wait:
        return follow(store, context.service, group, jobs, plan.parallel, print_line, design, plan.fail_on)
    charts = PngClassCharts()
    first = [job for job in jobs if design is None or (job.repeat < design.looks[0] and not job.is_again)]
    left = start_jobs(store, context.service, group, first, parallel=plan.parallel, echo=print_line, charts=charts)
    print_line(f"Jobs keep running{f'; {left} more are not started yet' if left else ''}.")
    print_line(f"Follow them with the same command without --wait, or with `trainfare attach --group {group.id}`.")
    return 0
