"""Entries of a plan for jobs and their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from experiments.dry_runs.refusals import Refusals
from experiments.dry_runs.scratch_state import ScratchState
from experiments.dry_runs.spot_plan import planned_costs
from experiments.planning.arms import Arm
from experiments.planning.command_plan import InputPlan, JobEntry
from experiments.planning.inputs import Inputs
from experiments.planning.job_size import size_of
from experiments.planning.worst_case import worst_case_of_job
from experiments.running.service_context import ServiceContext
from reports.comparison.arms import Job
from tracking.groups.planned_job import PlannedJob
from training.contract.request import build
from training.scripts.requirements import requirement_lines
from training.scripts.runtime_description import runtime_description
from training.services.local import request_rules
from training.staging.tokens.description_lines import lines
from training.staging.tokens.staged import Staged, describe

SAMPLED_FIELDS = ("HyperParameters.bucket_lengths",)
"""Fields of a request that a sample of the data only estimates."""


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

    `context` is that of `planned_context`.
    """
    prepared = state.at_home(context.prepare(planned))
    request = build(prepared.spec)
    if context.service.name == "local":
        request_rules.check(request)
    experiment, size = arm.experiment, size_of(arm.experiment, inputs)
    expected, spot = planned_costs(prepared, experiment, inputs, size, earlier)
    seed = prepared.spec.hyperparameters.get("seed")
    return JobEntry(
        planned=prepared,
        seed=int(seed) if isinstance(seed, int) else experiment.seed + planned.repeat,
        batch_size=experiment.batch_size,
        global_batch_size=experiment.global_batch_size,
        learning_rate=experiment.optimiser.learning_rate,
        size=size,
        expected=expected,
        spot=spot,
        worst=worst_case_of_job(prepared),
        request=request,
        runtime=_runtime(prepared, inputs),
        estimated=_estimated(arm, inputs, context, state),
    )


def _runtime(prepared: PlannedJob, inputs: Inputs) -> tuple[str, ...]:
    if isinstance(inputs, Staged):
        return ()
    has_requirements = bool(requirement_lines(inputs.source.folder))
    return tuple(runtime_description(prepared.spec, has_requirements=has_requirements))


def _estimated(arm: Arm, inputs: Inputs, context: ServiceContext, state: ScratchState) -> tuple[str, ...]:
    if state.sample_rows(inputs) is None:
        return ()
    chosen = arm.experiment.padding in {"auto", "buckets"} and arm.experiment.bucket_lengths is None
    uploaded = ("InputDataConfig",) if context.service.name != "local" else ()
    return (*(SAMPLED_FIELDS if chosen else ()), *uploaded)


def input_plans(arms: Sequence[Arm], inputs: Sequence[Inputs], state: ScratchState) -> tuple[InputPlan, ...]:
    """Return the plan of all distinct inputs."""
    labels: dict[str, list[str]] = {}
    for arm, each in zip(arms, inputs, strict=True):
        labels.setdefault(each.key, []).append(arm.label)
    distinct = {each.key: each for each in inputs}
    return tuple(_input_plan(each, tuple(labels[key]), state) for key, each in distinct.items())


def _input_plan(inputs: Inputs, labels: tuple[str, ...], state: ScratchState) -> InputPlan:
    if not isinstance(inputs, Staged):
        source = f"{inputs.source.description}; channels: {inputs.channels.description}"
        return InputPlan(source=source, key=inputs.key, arms=labels, is_staged=state.is_in_home(inputs))
    lengths, described = inputs.lengths, describe(inputs)
    return InputPlan(
        source=inputs.source,
        key=inputs.key,
        arms=labels,
        is_staged=state.is_in_home(inputs),
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


def inputs_of_arms(arms: Sequence[Arm], state: ScratchState, refusals: Refusals) -> list[Inputs | None]:
    """Return the inputs of each arm, or None for those whose data is refused."""
    return [refusals.attempt(partial(state.inputs, arm.experiment)) for arm in arms]
