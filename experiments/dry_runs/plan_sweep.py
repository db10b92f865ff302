"""Plan `sweep` in the steps of `experiments.sweeping.run_sweep`, without changing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.dry_runs.history import History, open_history
from experiments.dry_runs.job_entries import input_plans, job_entry
from experiments.dry_runs.plan_launch import check_inputs
from experiments.dry_runs.planned_context import planned_context
from experiments.dry_runs.refusals import Refusals
from experiments.dry_runs.scratch_state import ScratchState
from experiments.dry_runs.search_plan import search_plan
from experiments.planning.arms import Arm
from experiments.planning.command_plan import CommandPlan, JobEntry, SearchPlan
from experiments.planning.inputs import Inputs
from experiments.planning.load import load
from experiments.planning.worst_case import WorstCase
from experiments.running.service_context import ServiceContext
from experiments.schema.overrides import is_field
from experiments.schema.sweep_fields import with_full_names
from experiments.sweeping.run_sweep import check_price, check_sweep_budget
from experiments.sweeping.sweep_jobs import SweepJobs
from experiments.sweeping.sweep_plan import SweepPlan, plan_sweep
from tracking.groups.group import placeholder_id
from tracking.groups.planned_job import PlannedJob
from training.contract.budget import Amount


def plan_sweep_command(fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a sweep with overrides of the experiment's fields."""
    refusals, notes = Refusals(), list[str]()
    name = fields.get("experiment", "demo")
    plan = CommandPlan(verb="sweep", name=Path(name).stem, service=fields.get("service", "local"))
    sweep = refusals.attempt(lambda: _read(name, fields))
    if sweep is None:
        check_inputs(name, {each: text for each, text in fields.items() if each != "experiment"}, state, refusals)
        return replace(plan, refusals=refusals.listed)
    jobs = SweepJobs(plan.name, sweep, notes.append, stage=_stage_in(state))
    staged = refusals.attempt(lambda: jobs.staged)
    history = open_history(plan.name, refusals)
    context = refusals.attempt(lambda: planned_context(sweep.experiment, notes.append, state))
    plan = replace(plan, service=sweep.experiment.service, search=search_plan(sweep), design=sweep.design)
    if staged is not None and context is not None:
        refusals.attempt(lambda: jobs.check(context))
        refusals.attempt(lambda: check_price(sweep, jobs, context))
        budget = refusals.attempt(lambda: check_sweep_budget(sweep, jobs, context)) or (None, [])
        plan = _with_jobs(plan, jobs, context, history, state, refusals)
        plan = replace(plan, budget=tuple(budget[1]))
    notes += state.notes([staged]) if staged is not None else []
    return replace(plan, refusals=refusals.listed, notes=tuple(dict.fromkeys(notes)))


def _read(name: str, overrides: Mapping[str, str]) -> SweepPlan:
    fields = with_full_names({key: text for key, text in overrides.items() if key != "experiment"}, is_field)
    return plan_sweep(load(name, fields))


def _stage_in(state: ScratchState) -> partial[list[Inputs]]:
    return partial(_inputs, state)


def _inputs(state: ScratchState, arms: Sequence[Arm], _: object) -> list[Inputs]:
    return [state.inputs(arm.experiment) for arm in arms]


def _with_jobs(
    plan: CommandPlan,
    jobs: SweepJobs,
    context: ServiceContext,
    history: History,
    state: ScratchState,
    refusals: Refusals,
) -> CommandPlan:
    group = refusals.attempt(lambda: history.open_group(jobs.key))
    earlier = refusals.attempt(lambda: history.earlier_jobs([jobs.sweep.experiment.machine.instance_type])) or []
    entries: list[JobEntry] = []
    for arm, planned in _first_jobs(
        jobs, group or placeholder_id(plan.name, jobs.sweep.experiment.aws.job_prefix or "")
    ):
        make = partial(job_entry, planned, arm, jobs.staged, context=context, state=state, earlier=earlier)
        entries += [entry] if (entry := refusals.attempt(make)) else []
    return replace(
        plan,
        resumes=group,
        inputs=input_plans([entry_arm for entry_arm, _ in _first_jobs(jobs, "x")][:1], [jobs.staged], state),
        jobs=tuple(entries),
        parallel=jobs.sweep.fields.max_parallel,
        uploads=dict(context.missing_bytes),
        new_bucket=context.missing_bucket,
        worst=_worst(entries, plan.search),
    )


def _first_jobs(jobs: SweepJobs, group_id: str) -> Iterator[tuple[Arm, PlannedJob]]:
    """Yield the jobs that are known before the search: calibrations, the baseline, and each compiler's first trial."""
    sweep, rows = jobs.sweep, jobs.staged.train_rows
    for compiler in sweep.fields.compilers if sweep.calibration_seconds else ():
        yield sweep.calibration(compiler), jobs.calibration(group_id, compiler)
    if sweep.fields.worse_by is not None:
        baseline = jobs.trial(group_id, *sweep.baseline)
        tags = {**baseline.tags, "platform.role": "baseline"}
        yield sweep.trial(*sweep.baseline, rows), replace(baseline, tags=tags)
    for compiler in sweep.fields.compilers:
        is_baseline = sweep.fields.worse_by is not None and compiler == sweep.baseline[0]
        if sweep.base_point in sweep.space.points and not is_baseline:  # the baseline is this trial
            yield sweep.trial(compiler, sweep.base_point, rows), jobs.trial(group_id, compiler, sweep.base_point)


def _worst(entries: Sequence[JobEntry], search: SearchPlan | None) -> WorstCase | None:
    """Return the most that the largest number of jobs can cost. All jobs of a sweep have the same machine."""
    if not entries or search is None:
        return None
    dearest: Amount = entries[0].worst
    for entry in entries[1:]:
        dearest = dearest.at_least(entry.worst)
    return WorstCase(jobs=search.max_jobs, again=0, amount=dearest.times(search.max_jobs))
