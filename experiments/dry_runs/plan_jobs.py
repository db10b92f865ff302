"""Plans of `train`, `compare`, `probe` and `sweep`: each is prepared without changing anything, and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from pathlib import Path

from experiments.dry_runs.quality_text import quality_text
from experiments.dry_runs.scratch_state import ScratchState
from experiments.dry_runs.search_plan import search_plan
from experiments.dry_runs.spot_plan import planned_costs
from experiments.planning.arms import Arm
from experiments.planning.budgets import WorstCase, budget_of, worst_case_of
from experiments.planning.command_plan import CommandPlan, InputPlan, JobEntry
from experiments.planning.expected_cost import size_of
from experiments.planning.inputs import Inputs, notes_of
from experiments.planning.load import load_fields
from experiments.running.expected_seconds import earlier_jobs
from experiments.running.launch_plan import LaunchPlan, prepare_launch
from experiments.running.service_context import ServiceContext
from experiments.sweeping.run_sweep import PreparedSweep, full_names, prepare_sweep
from reports.comparison.arms import Job
from tracking.groups.group import existing_experiment_id, open_group_id, placeholder_id
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store, open_existing_store
from training.contract.budget import Amount
from training.contract.request import build
from training.scripts.environments import requirement_lines
from training.scripts.runtime_description import runtime_description
from training.services.local.service import check_request
from training.staging.tokens.description import lines
from training.staging.tokens.staged import Staged, describe
from training.state.home import home

TIME_LIMIT = "StoppingCondition.MaxRuntimeInSeconds"
"""Field of a request that a budget lowers to what is left when the job starts."""
SAMPLED_FIELDS = ("HyperParameters.bucket_lengths",)
"""Fields of a request that a sample of the data only estimates."""


def plan_jobs(verb: str, fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a verb with overrides of the experiment's fields."""
    prepared = prepare_sweep(fields, state) if verb == "sweep" else prepare_launch(verb, fields, state)
    if prepared is None:
        return _refused(verb, fields, state)
    store = state.attempt(open_existing_store)
    experiment, design = prepared.experiment, prepared.design
    plan = CommandPlan(
        verb=verb,
        name=prepared.name,
        service=experiment.service,
        design=design,
        budget=tuple(prepared.budget_text),
        search=search_plan(prepared.sweep) if isinstance(prepared, PreparedSweep) else None,
        quality=quality_text(experiment, design.margin) if design and verb != "sweep" else "",
    )
    if prepared.is_complete and (context := prepared.context):
        plan = _with_jobs(plan, prepared, context, store, state)
    notes = (*state.notes, *map(state.at_home, notes_of([inputs for _, inputs in prepared.arm_inputs])))
    return replace(plan, refusals=state.refusals.listed, notes=tuple(dict.fromkeys(notes)))


def _refused(verb: str, fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a command whose fields are refused, with the errors of its data and its service."""
    name = fields.get("experiment", "demo")
    others = {each: text for each, text in fields.items() if each not in ("experiment", "wait", "fail-on")}
    experiment = state.attempt(lambda: load_fields(name, full_names(others) if verb == "sweep" else others))
    if experiment is not None:
        state.attempt(partial(state.inputs, experiment))
        state.attempt(partial(state.open_context, experiment))
        state.attempt(open_existing_store)
    service = experiment.service if experiment else fields.get("service", "local")
    return CommandPlan(verb=verb, name=Path(name).stem, service=service, refusals=state.refusals.listed)


def _with_jobs(
    plan: CommandPlan,
    prepared: LaunchPlan | PreparedSweep,
    context: ServiceContext,
    store: Store | None,
    state: ScratchState,
) -> CommandPlan:
    group = state.attempt(lambda: _open_group(prepared, store)) if store else None
    known = prepared.known_jobs(group or placeholder_id(plan.name, prepared.experiment.aws.job_prefix or ""))
    earlier = (state.attempt(lambda: _earlier_jobs(store, plan.name, known)) if store else None) or []
    attempts = (
        state.attempt(partial(job_entry, job, arm, inputs, context=context, state=state, earlier=earlier))
        for arm, inputs, job in known
    )
    entries = [entry for entry in attempts if entry]
    worst: WorstCase | None = worst_case_of([entry.planned for entry in entries])
    if plan.search:  # all jobs of a sweep have the same machine
        jobs, amounts = plan.search.max_jobs, [entry.worst for entry in entries]
        worst = WorstCase(jobs=jobs, again=0, amount=reduce(Amount.at_least, amounts).times(jobs)) if entries else None
    elif worst and not budget_of(prepared.experiment).budget.allows(worst.amount):
        entries = [replace(entry, estimated=(*entry.estimated, TIME_LIMIT)) for entry in entries]
    return replace(
        plan,
        resumes=group,
        inputs=_input_plans(prepared.arm_inputs, state),
        jobs=tuple(entries),
        parallel=prepared.parallel,
        uploads=dict(context.missing_bytes),
        new_bucket=context.missing_bucket,
        worst=worst,
    )


def _open_group(prepared: LaunchPlan | PreparedSweep, store: Store) -> str | None:
    """Return the open group that the command would continue, or None."""
    is_local = isinstance(prepared, LaunchPlan) and prepared.experiment.service == "local"
    if is_local and not (home() / "id").exists():
        return None  # without an id, this state folder has no group
    return open_group_id(store, prepared.name, prepared.key)


def _earlier_jobs(store: Store, name: str, known: Sequence[tuple[Arm, Inputs, PlannedJob]]) -> list[Job]:
    experiment_id = existing_experiment_id(store, name)
    return earlier_jobs(store, experiment_id, [job for _, _, job in known]) if experiment_id else []


def job_entry(
    planned: PlannedJob,
    arm: Arm,
    inputs: Inputs,
    *,
    context: ServiceContext,
    state: ScratchState,
    earlier: Sequence[Job],
) -> JobEntry:
    """Return the entry of a job as the service would get it. Raises InputError for a request that it refuses.

    `context` is read-only.
    """
    prepared = context.prepare(planned)
    prepared = replace(prepared, spec=state.spec_at_home(prepared.spec))
    request = build(prepared.spec)
    if context.service.name == "local":
        check_request(request)
    experiment, size = arm.experiment, size_of(arm.experiment, inputs)
    expected, spot = planned_costs(prepared, experiment, inputs, size, earlier)
    runtime, estimated = list[str](), list[str]()
    if not isinstance(inputs, Staged):
        has_requirements = bool(requirement_lines(inputs.source.folder))
        runtime = list(runtime_description(prepared.spec, has_requirements=has_requirements))
    elif state.sample_rows(inputs) is not None:
        is_chosen = experiment.padding in {"auto", "buckets"} and experiment.bucket_lengths is None
        estimated += SAMPLED_FIELDS if is_chosen else ()
        estimated += () if context.service.name == "local" else ("InputDataConfig",)
    return JobEntry(
        planned=prepared,
        experiment=experiment,
        size=size,
        expected=expected,
        spot=spot,
        request=request,
        runtime=tuple(runtime),
        estimated=tuple(estimated),
    )


def _input_plans(arm_inputs: Sequence[tuple[Arm, Inputs]], state: ScratchState) -> tuple[InputPlan, ...]:
    """Return the plan of all distinct inputs."""
    labels: dict[str, list[str]] = {}
    for arm, inputs in arm_inputs:
        labels.setdefault(inputs.key, []).append(arm.label)
    distinct = {inputs.key: inputs for _, inputs in arm_inputs}
    return tuple(_input_plan(each, tuple(labels[key]), state) for key, each in distinct.items())


def _input_plan(inputs: Inputs, labels: tuple[str, ...], state: ScratchState) -> InputPlan:
    is_staged = state.is_in_home(inputs)
    if not isinstance(inputs, Staged):
        source = f"{inputs.source.description}; channels: {inputs.channels.description}"
        return InputPlan(source=source, key=inputs.key, arms=labels, is_staged=is_staged)
    lengths, described = inputs.lengths, describe(inputs)
    return InputPlan(
        source=inputs.source,
        key=inputs.key,
        arms=labels,
        is_staged=is_staged,
        rows={"train": inputs.train_rows, "validation": inputs.validation_rows},
        tokens={
            "mean": lengths.mean_tokens,
            "median": lengths.median_tokens,
            "p95": lengths.p95_tokens,
            "max": lengths.max_tokens,
            "at_max_length_share": lengths.at_max_length_share,
        },
        description=asdict(described),
        lines=tuple(lines(described)),
        sample_rows=state.sample_rows(inputs),
    )
