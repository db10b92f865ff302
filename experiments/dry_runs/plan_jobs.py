"""Plans of `train`, `compare`, `probe` and `sweep`: each is prepared without changing anything, and described."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial, reduce
from pathlib import Path

from experiments.dry_runs.scratch_state import ScratchState
from experiments.planning.arms import Arm
from experiments.planning.budgets import WorstCase, budget_of, worst_case_of
from experiments.planning.command_plan import CommandPlan, InputPlan, JobEntry, SearchPlan
from experiments.planning.expected_cost import ExpectedCost, JobSize, expected_cost, jobs_of_equal_steps, size_of
from experiments.planning.inputs import Inputs, notes_of
from experiments.planning.load import load_fields
from experiments.running.follow_group import earlier_jobs
from experiments.running.launch import LaunchPlan, prepare_launch
from experiments.running.service_context import prepare
from experiments.schema.compare_fields import METRICS_OF_TASKS
from experiments.schema.experiment import Experiment
from experiments.schema.script_fields import declared_scales
from experiments.sweeping.sweep_plan import PreparedSweep, SweepPlan, full_names, label, most_jobs, prepare_sweep
from judging.measures import choose_measure
from judging.summaries import typical
from reports.comparison.arms import Job
from reports.probe.spot import (
    SpotEstimate,
    Times,
    checkpoint_seconds,
    discounts_of,
    spot_estimate,
    startup_seconds,
    terms_of,
)
from state.home import home
from sweeps.optuna_study import automatic, first_points
from sweeps.trials import Search
from tracking.groups.group import existing_experiment_id, open_group_id, placeholder_id
from tracking.groups.planned_job import PlannedJob
from tracking.server.store import Store, open_existing_store
from training.contract.request import build
from training.contract.service import ServiceContext
from training.scripts.environments import requirement_lines
from training.scripts.runtime_description import runtime_description
from training.services.budget import Amount
from training.services.registry import DEFAULT, traits_of
from training.staging.tokens.description import lines
from training.staging.tokens.staged import Staged, describe

TIME_LIMIT = "StoppingCondition.MaxRuntimeInSeconds"
"""Field of a request that a budget lowers to what is left when the job starts."""
SAMPLED_FIELDS = ("HyperParameters.bucket_lengths",)
"""Fields of a request that a sample of the data only estimates."""
FIRST_POINTS = 3
"""Points that a plan shows."""
FROM_LOG = (
    "the first metric in the script's log whose unit and direction are known, such as eval_accuracy. To choose one, "
    "declare both in script.metrics, for example {f1: {unit: fraction, better: higher}}"
)
ANY_VALUE = (0.5,)
"""Values of a metric that the jobs will report. The measure of our own jobs does not depend on them."""


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
    return replace(plan, refusals=tuple(state.refused.values()), notes=tuple(dict.fromkeys(notes)))


def _refused(verb: str, fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a command whose fields are refused, with the errors of its data and its service."""
    name = fields.get("experiment", "demo")
    others = {each: text for each, text in fields.items() if each not in ("experiment", "wait", "fail-on")}
    experiment = state.attempt(lambda: load_fields(name, full_names(others) if verb == "sweep" else others))
    if experiment is not None:
        state.attempt(partial(state.inputs, experiment))
        state.attempt(partial(state.open_context, experiment))
        state.attempt(open_existing_store)
    service = experiment.service if experiment else fields.get("service", DEFAULT)
    return CommandPlan(verb=verb, name=Path(name).stem, service=service, refusals=tuple(state.refused.values()))


def _with_jobs(
    plan: CommandPlan,
    prepared: LaunchPlan | PreparedSweep,
    context: ServiceContext,
    store: Store | None,
    state: ScratchState,
) -> CommandPlan:
    group = state.attempt(lambda: _open_group(prepared, store)) if store else None
    known = prepared.known_jobs(group or placeholder_id(plan.name, prepared.experiment.aws.job_prefix or ""))
    planned = [job for _, _, job in known]
    experiment_id = state.attempt(lambda: existing_experiment_id(store, plan.name)) if store else None
    earlier = (
        state.attempt(lambda: earlier_jobs(store, experiment_id, planned)) if store and experiment_id else None
    ) or []
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
    is_keyed = isinstance(prepared, LaunchPlan) and traits_of(prepared.experiment.service).keeps_state_in_home
    if is_keyed and not (home() / "id").exists():
        return None  # without an id, this state folder has no group
    return open_group_id(store, prepared.name, prepared.key)


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
    prepared = prepare(context, planned)
    prepared = replace(prepared, spec=state.spec_at_home(prepared.spec))
    request = build(prepared.spec)
    experiment, size = arm.experiment, size_of(arm.experiment, inputs)
    expected, spot = planned_costs(prepared, experiment, inputs, size, earlier)
    runtime, estimated = list[str](), list[str]()
    if not isinstance(inputs, Staged):
        has_requirements = bool(requirement_lines(inputs.source.folder))
        runtime = list(runtime_description(prepared.spec, has_requirements=has_requirements))
    elif state.sample_rows(inputs) is not None:
        is_chosen = experiment.padding in {"auto", "buckets"} and experiment.bucket_lengths is None
        estimated += SAMPLED_FIELDS if is_chosen else ()
        estimated += ("InputDataConfig",) if context.service.traits.uploads_inputs else ()
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


def search_plan(sweep: SweepPlan) -> SearchPlan:
    fields, space, objective = sweep.fields, sweep.space, sweep.objective
    has_finalists = not objective.is_front and objective.quality is not None and fields.finalists > 1
    search = Search(space=space, objective=objective, samples=0, base=sweep.base_point, costs=None)
    first = [] if sweep.calibration_seconds else first_points(fields.sampler, search, FIRST_POINTS)
    return SearchPlan(
        compilers=fields.compilers,
        batch_sizes=space.batch_sizes,
        multipliers=space.multipliers,
        objective=_objective(sweep),
        sampler=automatic(search) if fields.sampler == "auto" else fields.sampler,
        first_points=tuple(label("", point).removeprefix(", ") for point in first),
        trials=min(fields.trials, len(space.points)),
        calibration_seconds=sweep.calibration_seconds,
        finalists=fields.finalists if has_finalists else 0,
        repeats=0 if objective.is_front else sweep.repeats,
        max_parallel=fields.max_parallel,
        max_jobs=most_jobs(sweep),
    )


def _objective(sweep: SweepPlan) -> str:
    objective, fields = sweep.objective, sweep.fields
    quality = objective.quality
    if objective.is_front and quality:
        return f"front of {objective.cost} and {quality.metric}"
    if objective.target is not None and quality:
        return f"least {objective.cost} until {quality.metric} is {objective.target:g}"
    if quality and fields.worse_by is not None:
        return f"least {objective.cost} with {quality.metric} at most {fields.worse_by:g} worse than the baseline's"
    return f"{'largest' if sweep.maximises else 'least'} {objective.cost}"


def planned_costs(
    job: PlannedJob, experiment: Experiment, inputs: Inputs, size: JobSize | None, earlier: Sequence[Job]
) -> tuple[ExpectedCost | None, SpotEstimate | None]:
    """Return the expected cost of a job, and the estimate for spot capacity; each is None if it is not known.

    The expected cost of a spot job is that of its estimate, if there is one. Probes, scripts and jobs of this machine
    have no estimate.
    """
    on_demand = expected_cost(replace(job, spec=job.spec.model_copy(update={"spot": False})), size, earlier)
    spot = _spot(job, experiment, inputs, size, earlier, on_demand) if on_demand else None
    if not job.spec.spot:
        return on_demand, spot
    if spot is None or on_demand is None or not math.isfinite(spot.spot.seconds):
        return expected_cost(job, size, earlier), spot
    billable = spot.spot.billable_instance_seconds
    seconds = spot.spot.instance_seconds if billable is None else billable
    return ExpectedCost(seconds=seconds, usd=spot.spot.usd, source=on_demand.source), spot


def _spot(
    job: PlannedJob,
    experiment: Experiment,
    inputs: Inputs,
    size: JobSize | None,
    earlier: Sequence[Job],
    on_demand: ExpectedCost,
) -> SpotEstimate | None:
    is_training = traits_of(experiment.service).can_be_interrupted and experiment.probe is None
    if not is_training or size is None or not isinstance(inputs, Staged):
        return None
    alike = jobs_of_equal_steps(job, earlier)
    startups = [seconds for each in alike if (seconds := startup_seconds(each)) is not None]
    writes = [seconds for each in alike if (seconds := checkpoint_seconds(each))]
    if not startups:
        return None
    times = Times(
        total_seconds=on_demand.seconds / job.spec.instance_count,
        startup_seconds=typical(startups),
        checkpoint_seconds=typical(writes) if writes else None,
        checkpoints=_checkpoints(experiment, size, inputs.train_rows),
        steps=size.steps,
    )
    machine = experiment.machine
    discount = discounts_of(earlier).get(job.spec.instance_type)
    terms = terms_of(
        machine.interruptions_per_hour, job.spec.instance_count, machine.spot_discount_percent, discount, job.price
    )
    return spot_estimate(times, terms)


def _checkpoints(experiment: Experiment, size: JobSize, rows: int) -> int:
    """Return the number of checkpoints with the one at the end, as in training/job/estimating/probe.py."""
    if experiment.save_strategy == "none":
        return 0
    if experiment.save_strategy == "steps" and experiment.save_steps:
        return math.ceil(size.steps / experiment.save_steps)
    return max(1, math.ceil(size.samples / rows))


def quality_text(experiment: Experiment, margin: float | None) -> str:
    """Return the metric by which the arms' quality is judged, and the loss that is accepted.

    `margin` is that of the experiment, in the metric's unit; None takes the metric's own.
    """
    scales = declared_scales(experiment.script.metrics) if experiment.script else {}
    reported = scales if experiment.script else METRICS_OF_TASKS[experiment.task]

    def values(column: str) -> tuple[float, ...]:
        return ANY_VALUE if column in reported else ()

    def none(_: str) -> tuple[float, ...]:
        return ()

    measure = choose_measure(none, values, scales) if experiment.script else choose_measure(values, none, scales)
    if measure is None:
        return FROM_LOG
    if not measure.has_unit and margin is None:
        return f"{measure.label}, but its unit is not declared: add unit: fraction, percent or number to script.metrics"
    own = f"{100 * measure.margin:g} % of the baseline's value" if measure.is_relative else f"{measure.margin:g}"
    most = own if margin is None else f"{margin:g} (compare.quality_margin)"
    return f"{measure.label}; a cheaper arm may be worse by at most {most}"
