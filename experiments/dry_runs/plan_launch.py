"""Plan `train`, `compare` and `probe` in the steps of `experiments.running.launch`, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from experiments.dry_runs.history import History, open_history
from experiments.dry_runs.job_entries import input_plans, inputs_of_arms, job_entry
from experiments.dry_runs.planned_context import planned_context
from experiments.dry_runs.quality_text import quality_text
from experiments.dry_runs.refusals import Refusals
from experiments.dry_runs.scratch_state import ScratchState
from experiments.planning.budgets import budget_of, check_budget
from experiments.planning.command_plan import CommandPlan, JobEntry
from experiments.planning.inputs import Inputs
from experiments.planning.load import Experiment, load_fields
from experiments.planning.plan import group_key
from experiments.planning.worst_case import worst_case_of
from experiments.running.launch_request import LaunchRequest, read_launch
from experiments.running.service_context import ServiceContext, open_service_context
from tracking.groups.group import placeholder_id
from training.state.home import home, home_id

TIME_LIMIT = "StoppingCondition.MaxRuntimeInSeconds"
"""Field of a request that a budget lowers to what is left when the job starts."""


def plan_launch(verb: str, fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a verb with overrides of the experiment's fields."""
    refusals, notes = Refusals(), list[str]()
    request = refusals.attempt(lambda: read_launch(verb, fields, notes.append))
    if request is None:
        return _refused(verb, fields, state, refusals)
    staged = inputs_of_arms(request.arms, state, refusals)
    history = open_history(request.name, refusals)
    context = refusals.attempt(lambda: planned_context(request.experiment, notes.append, state))
    if context is not None:
        _check(request, staged, context, refusals)
    design = request.design
    quality = quality_text(request.arms[0].experiment, design.margin) if design else ""
    plan = CommandPlan(verb=verb, name=request.name, service=request.experiment.service, design=design, quality=quality)
    complete = [inputs for inputs in staged if inputs is not None]
    if context is not None and len(complete) == len(staged):
        plan = _with_jobs(plan, request, complete, context, history, state, refusals)
    notes += state.notes(complete)
    return replace(plan, refusals=refusals.listed, notes=tuple(dict.fromkeys(notes)))


def _with_jobs(
    plan: CommandPlan,
    request: LaunchRequest,
    staged: Sequence[Inputs],
    context: ServiceContext,
    history: History,
    state: ScratchState,
    refusals: Refusals,
) -> CommandPlan:
    group = refusals.attempt(lambda: _open_group(request, staged, history))
    types = {job.spec.instance_type for job in request.jobs_to_check(staged)}
    earlier = refusals.attempt(lambda: history.earlier_jobs(types)) or []
    arms = {arm.label: (arm, inputs) for arm, inputs in zip(request.arms, staged, strict=True)}
    entries: list[JobEntry] = []
    new_id = placeholder_id(request.name, request.experiment.aws.job_prefix or "")
    for planned in request.jobs(group or new_id, staged):
        arm, inputs = arms[planned.arm]
        make = partial(job_entry, planned, arm, inputs, context=context, state=state, earlier=earlier)
        entries += [entry] if (entry := refusals.attempt(make)) else []
    budget = budget_of(request.experiment)
    worst = worst_case_of([entry.planned for entry in entries])
    sentences = refusals.attempt(lambda: check_budget([entry.planned for entry in entries], budget))
    if not budget.budget.allows(worst.amount):
        entries = [replace(entry, estimated=(*entry.estimated, TIME_LIMIT)) for entry in entries]
    return replace(
        plan,
        budget=tuple(sentences or ()),
        resumes=group,
        inputs=input_plans(request.arms, staged, state),
        jobs=tuple(entries),
        parallel=request.parallel,
        uploads=dict(context.missing_bytes),
        new_bucket=context.missing_bucket,
        worst=worst,
    )


def _check(
    request: LaunchRequest, staged: Sequence[Inputs | None], context: ServiceContext, refusals: Refusals
) -> None:
    """Check a job of every arm whose inputs are right."""
    for arm, inputs in zip(request.arms, staged, strict=True):
        if inputs is not None:
            [job] = replace(request, arms=(arm,)).jobs_to_check([inputs])
            refusals.attempt(partial(context.check, job.spec))


def _open_group(request: LaunchRequest, staged: Sequence[Inputs], history: History) -> str | None:
    """Return the open group that the command would continue, or None."""
    is_local = request.experiment.service == "local"
    if is_local and not (home() / "id").exists():
        return None  # without an id, this state folder has no group
    place = home_id(home()) if is_local else ""
    return history.open_group(
        group_key(request.verb, request.name, request.arms, request.repeats, staged, request.design, place)
    )


def _refused(verb: str, fields: Mapping[str, str], state: ScratchState, refusals: Refusals) -> CommandPlan:
    """Return the plan of a command whose fields are refused, with the errors of its data and its service."""
    name = fields.get("experiment", "demo")
    others = {name: text for name, text in fields.items() if name not in ("experiment", "wait", "fail-on")}
    experiment = check_inputs(name, others, state, refusals)
    service = experiment.service if experiment else fields.get("service", "local")
    return CommandPlan(verb=verb, name=Path(name).stem, service=service, refusals=refusals.listed)


def check_inputs(name: str, overrides: Mapping[str, str], state: ScratchState, refusals: Refusals) -> Experiment | None:
    """Return the experiment of a refused command, and check its data and its service; None for invalid fields."""
    experiment: Experiment | None = refusals.attempt(lambda: load_fields(name, overrides))
    if experiment is not None:
        refusals.attempt(lambda: state.inputs(experiment))
        open_history(Path(name).stem, refusals)
        refusals.attempt(lambda: open_service_context(experiment, lambda _: None, is_read_only=True))
    return experiment
