"""Plan a command, print the plan, and return the exit code that the command would have.

A plan is prepared like a start, in a state folder of its own: it begins with links to what the real one has, and is
deleted at the end.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

from experiments.deployments.endpoints import read_request, with_trained
from experiments.deployments.services import open_endpoints
from experiments.dry_runs.command_plan import (
    CommandPlan,
    EndpointPlan,
    JobEntry,
    print_plan,
    summary,
)
from experiments.planning.costs import (
    ExpectedCost,
    JobSize,
    WorstCase,
    expected_cost,
    jobs_of_equal_steps,
    size_of,
    worst_case_of,
)
from experiments.planning.equal_work import incomparable
from experiments.planning.inputs import Echo, Inputs, inputs_in, is_metered, notes_of
from experiments.planning.load import Arm, load_fields
from experiments.planning.memory_plan import memory_of
from experiments.running.launch import (
    LaunchPlan,
    Preparation,
    Result,
    earlier_jobs,
    open_service_context,
    prepare,
    prepare_launch,
)
from experiments.running.output import answer, print_error, sentence, shows_text
from experiments.schema.experiment import Experiment
from experiments.schema.fields import reported_metrics
from experiments.schema.sections import declared_scales
from experiments.sweeping.sweep_plan import PreparedSweep, SweepPlan, full_names, label, most_jobs, prepare_sweep
from judging.measures import ACCURACY, COMMONEST, choose_measure
from judging.summaries import typical
from models.endpoints.protocol import EndpointSpec
from models.logged.model_folder import folder_of
from state.home import home
from state.locks import SHARED
from state.regular_files import user_path
from sweeps.optuna_study import automatic, first_points
from sweeps.trials import Search
from tracking.groups.group import existing_experiment_id, placeholder_id, planned_group
from tracking.groups.planned_job import CHECK, PlannedJob
from tracking.recorded.recorded_job import (
    CHECKPOINT,
    MEASURES,
    Job,
    SpotEstimate,
    Times,
    discounts_of,
    spot_estimate,
    startup_seconds,
    terms_of,
)
from tracking.server.store import Store, open_existing_store
from training.contract.errors import InputError, TrainfareError, messages_of
from training.contract.job_spec import JobSpec
from training.contract.request import build
from training.contract.service import ServiceContext
from training.scripts.runtime_description import runtime_description
from training.scripts.source import requirement_lines
from training.services.budget import Amount
from training.services.registry import DEFAULT, traits_of
from training.staging.sources.progress import Progress
from training.staging.sources.request import StagingRequest
from training.staging.stage import stage_or_estimate
from training.staging.tokens.staged import Staged, lines

FIRST_POINTS = 3
"""Points that a plan shows."""
FROM_LOG = (
    "the first metric in the script's log whose unit and direction are known, such as eval_accuracy. To choose one, "
    "declare both in script.metrics, for example {f1: {unit: fraction, better: higher}}"
)
ANY_VALUE = (0.5,)
"""Values of a metric that the jobs will report. The measure of our own jobs does not depend on them."""
AUTOTUNING = (
    "compile_mode max-autotune tunes kernels in the first job of a setting: with MiniLM on an H100 for more than 299 s "
    "(docs/benchmarks.md#gpu-paths). The compile cache keeps them. Their speed is not measured"
)
LINKED = (*SHARED, "docstrings", "tokenizers")
"""Folders of the state whose entries never change once they are complete."""
NOT_STAGED = "s3://not-staged-yet"
"""Placeholder for the S3 prefix of data that is not staged yet. The prefix is a hash of the staged files."""


def dry_run(verb: str, fields: Mapping[str, str]) -> int:
    """Print the plan of a verb with these fields, and change nothing.

    Returns 0 if the command would start, else the exit code with which it would end.
    """
    with scratch_state(home()) as state:
        plan = plan_deploy(fields, state) if verb == "deploy" else plan_jobs(verb, fields, state)
    answer(summary(plan))
    if shows_text():
        print_plan(plan)
    return plan.exit_code


def plan_deploy(fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    """Return the plan of a deployment, in the steps of `experiments.deployments.endpoints`."""
    plan = CommandPlan(verb="deploy", name=fields.get("name", ""), service=fields.get("service", DEFAULT))
    if request := state.attempt(lambda: read_request(fields)):
        spec, name, aws = request

        def with_model() -> EndpointSpec:
            store = open_existing_store(otherwise="Nothing was deployed.")
            if store is None:
                raise InputError(
                    f"--run is '{fields['run']}', but the tracking database does not exist yet: train a model first."
                )
            filled, trained = with_trained(fields, spec, store, state.echo)
            return replace(filled, model=folder_of(trained, home()))  # the folder may not be fetched yet

        filled = state.attempt(with_model) if "run" in fields else spec
        service = state.attempt(lambda: open_endpoints(name, aws, state.echo, is_read_only=True))
        if filled and service and (deployment := state.attempt(lambda: service.plan(filled))):
            state.notes.extend([deployment.note] if deployment.note else [])
            endpoint = EndpointPlan(
                spec=filled,
                model=fields.get("run") or str(filled.model),
                price=state.attempt(lambda: service.price(filled.machine)),
                deployment=deployment,
            )
            plan = replace(plan, endpoint=endpoint, uploads=deployment.uploads, new_bucket=deployment.missing_bucket)
        plan = replace(plan, name=filled.name if filled else plan.name)
    return replace(plan, refusals=state.refused, notes=tuple(dict.fromkeys(state.notes)))


def plan_jobs(verb: str, fields: Mapping[str, str], state: ScratchState) -> CommandPlan:
    prepared = prepare_sweep(fields, state) if verb == "sweep" else prepare_launch(verb, fields, state)
    if prepared is None:
        return _refused(verb, fields, state)
    store = state.attempt(open_existing_store)
    experiment, design = prepared.experiment, prepared.design
    inputs = next((each for _, each in prepared.arm_inputs if isinstance(each, Staged)), None)
    plan = CommandPlan(
        verb=verb,
        name=prepared.name,
        service=experiment.service,
        design=design,
        budget=tuple(prepared.budget_text),
        search=search_plan(prepared.sweep) if isinstance(prepared, PreparedSweep) else {},
        quality=quality_text(experiment, design.margin, inputs) if design and verb != "sweep" else "",
    )
    if prepared.is_complete and (context := prepared.context):
        plan = _with_jobs(plan, prepared, context, store, state)
    modes = [arm.experiment.compile_mode for arm in prepared.arms] + [*plan.search.get("compilers", ())]
    if any("max-autotune" in mode for mode in modes):
        state.notes.append(AUTOTUNING)
    notes = (*state.notes, *map(state.at_home, notes_of([inputs for _, inputs in prepared.arm_inputs])))
    return replace(plan, refusals=state.refused, notes=tuple(dict.fromkeys(notes)))


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
    return CommandPlan(verb=verb, name=Path(name).stem, service=service, refusals=state.refused)


def _with_jobs(
    plan: CommandPlan,
    prepared: LaunchPlan | PreparedSweep,
    context: ServiceContext,
    store: Store | None,
    state: ScratchState,
) -> CommandPlan:
    # Without an id, this state folder has no open group.
    is_keyed = isinstance(prepared, LaunchPlan) and traits_of(plan.service).keeps_state_in_home
    has_id = not is_keyed or (home() / "id").exists()
    find = partial(planned_group, experiment_name=prepared.name, verb=prepared.verb)
    found = state.attempt(lambda: find(store, key=prepared.key if has_id else None)) if store else None
    group, offset = found or (None, 0)
    group_id = group or placeholder_id(plan.name, prepared.experiment.aws.job_prefix or "")
    known = replace(prepared, seed_offset=offset).known_jobs(group_id)
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
    if plan.verb == "compare" and len(entries) == len(known):
        state.notes.extend(incomparable(prepared.arm_inputs, [entry.planned for entry in entries]))
    checks = [each for each in entries if plan.verb == "compare" and each.planned.tags.get("platform.role") == CHECK]
    worst: WorstCase | None = worst_case_of([entry.planned for entry in entries])
    if plan.search:  # all jobs of a sweep have the same machine
        jobs, amounts = plan.search["max_jobs"], [entry.worst for entry in entries]
        worst = WorstCase(jobs=jobs, again=0, amount=reduce(Amount.at_least, amounts).times(jobs)) if entries else None
    labels: dict[str, list[str]] = {}
    for arm, inputs in prepared.arm_inputs:
        labels.setdefault(inputs.key, []).append(arm.label)
    distinct = {inputs.key: inputs for _, inputs in prepared.arm_inputs}
    return replace(
        plan,
        resumes=group,
        inputs=tuple(input_plan(each, labels[key], state) for key, each in distinct.items()),
        jobs=tuple(entry for entry in entries if entry not in checks),
        checks=tuple(checks),
        parallel=prepared.parallel,
        uploads=dict(context.missing_bytes),
        new_bucket=context.missing_bucket,
        worst=worst,
    )


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
    prepared = prepare(context, replace(planned, spec=state.spec_in_scratch(planned.spec)))
    prepared = replace(prepared, spec=state.spec_at_home(prepared.spec))
    request = build(prepared.spec)
    experiment, size, expected, spot = arm.experiment, None, None, None
    if not arm.batch_sizes and planned.tags.get("platform.role") != CHECK:
        size = size_of(experiment, inputs)
        expected, spot = planned_costs(prepared, experiment, inputs, size, earlier)
    runtime = list[str]()
    if not isinstance(inputs, Staged):
        has_requirements = bool(requirement_lines(inputs.source.folder))
        runtime = list(
            runtime_description(prepared.spec, has_requirements=has_requirements, is_metered=is_metered(experiment))
        )
    return JobEntry(
        planned=prepared,
        experiment=experiment,
        size=size,
        expected=expected,
        spot=spot,
        request=request,
        runtime=tuple(runtime),
        memory=memory_of(planned, experiment, inputs, earlier),
    )


def input_plan(inputs: Inputs, labels: Sequence[str], state: ScratchState) -> dict[str, Any]:
    """Return the data of some arms, or their script, by the names in JSON. A script has no rows.

    `tokens` are those of a training row. `sample_rows` are the rows from which rows and tokens are estimated, or None.
    """
    folder = f"{state.home}/staged/{inputs.key}" if isinstance(inputs, Staged) else str(inputs.source.folder)
    known = {"key": inputs.key, "arms": labels, "is_staged": Path(state.at_home(folder)).exists()}
    if not isinstance(inputs, Staged):
        source = f"{inputs.source.description}; channels: {inputs.channels.description}"
        nothing: dict[str, Any] = {"rows": {}, "tokens": {}, "description": {}, "lines": (), "sample_rows": None}
        return {**known, "source": source, **nothing}
    lengths, described = inputs.lengths, inputs.description
    return {
        **known,
        "source": inputs.source,
        "rows": {"train": inputs.train_rows, "validation": described.validation.rows},
        "tokens": {
            "mean": lengths.mean_tokens,
            "median": lengths.median_tokens,
            "p95": lengths.p95_tokens,
            "max": lengths.max_tokens,
            "at_max_length_share": lengths.at_max_length_share,
        },
        "description": asdict(described),
        "lines": tuple(lines(described)),
        "sample_rows": inputs.sample_rows,
    }


def search_plan(sweep: SweepPlan) -> dict[str, Any]:
    """Return the search of a sweep by the names in JSON.

    `points`, `trials`, `finalists` and `calibration_seconds` are for each compiler, `repeats` for the winner and each
    control. A calibration of 0 s is none.
    """
    fields, space, objective = sweep.fields, sweep.space, sweep.objective
    has_finalists = not objective.is_front and objective.quality is not None and fields.finalists > 1
    search = Search(space=space, objective=objective, samples=0, base=sweep.base_point, costs=None)
    first = [] if sweep.calibration_seconds else first_points(fields.sampler, search, FIRST_POINTS)
    return {
        "compilers": fields.compilers,
        "batch_sizes": space.batch_sizes,
        "multipliers": space.multipliers,
        "scalings": space.scalings,
        "hyperparameters": dict(space.hyperparameters),
        "points": len(space.points),
        "objective": _objective(sweep),
        "sampler": automatic(search) if fields.sampler == "auto" else fields.sampler,
        "first_points": tuple(label("", point).removeprefix(", ") for point in first),
        "trials": min(fields.trials, len(space.points)),
        "calibration_seconds": sweep.calibration_seconds,
        "finalists": fields.finalists if has_finalists else 0,
        "repeats": 0 if objective.is_front else sweep.repeats,
        "max_parallel": fields.max_parallel,
        "max_jobs": most_jobs(sweep),
    }


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

    The expected cost of a spot job comes from its estimate, if it has one. Probes, scripts and jobs of this machine
    have no estimate.
    """
    on_demand = expected_cost(replace(job, spec=job.spec.model_copy(update={"spot": False})), size, earlier)
    alike = jobs_of_equal_steps(job, earlier)
    startups = [seconds for each in alike if (seconds := startup_seconds(each)) is not None]
    is_training = traits_of(experiment.service).can_be_interrupted and experiment.probe is None
    if not (is_training and on_demand and size and isinstance(inputs, Staged) and startups):
        return expected_cost(job, size, earlier), None
    writes = [seconds for each in alike if (seconds := each.number(CHECKPOINT)) > 0]
    # With the one at the end, as in training/job/estimating/probe.py.
    checkpoints = max(1, math.ceil(size.samples / inputs.train_rows))
    if experiment.save_strategy == "none":
        checkpoints = 0
    elif experiment.save_strategy == "steps" and experiment.save_steps:
        checkpoints = math.ceil(size.steps / experiment.save_steps)
    times = Times(
        total_seconds=on_demand.seconds / job.spec.billed_instances,
        startup_seconds=typical(startups),
        checkpoint_seconds=typical(writes) if writes else None,
        checkpoints=checkpoints,
        steps=size.steps,
    )
    machine, discount = experiment.machine, discounts_of(earlier).get(job.spec.instance_type)
    interruptions, percent = machine.interruptions_per_hour, machine.spot_discount_percent
    spot = spot_estimate(times, terms_of(interruptions, job.spec.billed_instances, percent, discount, job.price))
    if not job.spec.spot:
        return on_demand, spot
    if spot is None or not math.isfinite(spot.spot.seconds):
        return expected_cost(job, size, earlier), spot
    billable = spot.spot.billable_instance_seconds
    seconds = spot.spot.instance_seconds if billable is None else billable
    return ExpectedCost(seconds=seconds, usd=spot.spot.usd, source=on_demand.source), spot


def quality_text(experiment: Experiment, margin: float | None, data: Staged | None = None) -> str:
    """Return the metric by which the arms' quality is judged, and the loss that is accepted.

    `margin` is the experiment's, in the metric's unit; None takes the metric's own. `data` is None if it is not known.
    """
    scales = declared_scales(experiment.script.metrics) if experiment.script else {}
    values = dict.fromkeys(scales if experiment.script else reported_metrics(experiment), ANY_VALUE)
    by_jobs, by_scripts = ({}, values) if experiment.script else (values, {})
    if data and (counts := data.description.validation.class_counts):
        by_jobs[ACCURACY + COMMONEST] = (max(counts) / sum(counts),)
    chosen = (experiment.best_metric, experiment.target.metric if experiment.target else None)
    measure = choose_measure(
        MEASURES, lambda column: by_jobs.get(column, ()), lambda column: by_scripts.get(column, ()), scales, chosen
    )
    if measure is None:
        return FROM_LOG
    if not measure.has_unit and margin is None:
        return f"{measure.label}, but its unit is not declared: add unit: fraction, percent or number to script.metrics"
    label = f"score or error of {experiment.quality}" if experiment.quality else measure.label
    own = f"{100 * measure.margin:g} % of the baseline's value" if measure.is_relative else f"{measure.margin:g}"
    most = own if margin is None else f"{margin:g} (compare.quality_margin)"
    return f"{label}; a cheaper arm may be worse by at most {most}"


@dataclass(frozen=True, kw_only=True)
class ScratchState(Preparation):
    """State folder of one plan. Data is staged in it if that takes seconds, and else estimated from its first rows."""

    home: Path
    """The real state folder."""
    folder: Path
    """The temporary one."""
    _estimates: dict[str, Staged] = field(default_factory=dict)
    """Estimates so far by their request. Arms often share one."""
    refused: dict[str, int] = field(default_factory=dict)
    """Errors with which the command would end, in the order in which it would meet them, and their exit codes."""
    notes: list[str] = field(default_factory=list)

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step, or None if it raises an error of a user, which the plan lists."""
        try:
            return step()
        except TrainfareError as error:
            for message in messages_of(error):
                self.refused.setdefault(message, error.exit_code)
        except Exception as error:
            if (text := sentence(error)) is None:
                raise
            self.refused.setdefault(text, 1)
        return None

    def echo(self, text: str) -> None:
        self.notes.append(text)

    def stage(self, arms: Sequence[Arm]) -> list[Inputs | None]:
        """Return the inputs of each arm, or None for those that are refused."""
        return [self.attempt(partial(self.inputs, arm.experiment)) for arm in arms]

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the read-only service of the experiment's jobs. Raises InputError, AccessError."""
        return open_service_context(experiment, self.echo, is_read_only=True)

    def inputs(self, experiment: Experiment) -> Inputs:
        """Return the inputs of an experiment, staged here or estimated. Raises InputError."""

        def stage(request: StagingRequest, folder: Path, _: Echo, progress: Progress) -> Staged:
            key = request.model_dump_json()
            if key not in self._estimates:  # standard output may be JSON, so lines go to standard error
                self._estimates[key] = stage_or_estimate(request, folder, print_error, progress)
            return self._estimates[key]

        inputs = inputs_in(self.folder, experiment, stage, lambda _: None, is_planned=True)
        reads_staged = traits_of(experiment.service).keeps_state_in_home
        if reads_staged or not isinstance(inputs, Staged) or inputs.sample_rows is None:
            return inputs
        missing = (self.folder / "staged").as_uri()
        uris = {
            name: f"{NOT_STAGED}/{name}" if uri.startswith(missing) else uri for name, uri in inputs.channels.items()
        }
        return replace(inputs, channels=uris)

    def at_home(self, text: str) -> str:
        """Return a text with the paths that its files would have in the real state folder."""
        return text.replace(self.folder.as_uri(), self.home.as_uri()).replace(str(self.folder), str(self.home))

    def spec_in_scratch(self, spec: JobSpec) -> JobSpec:
        """Return a job's spec with the source in the temporary folder: the real one may not have it yet."""
        return spec.model_copy(update={"source_uri": spec.source_uri.replace(self.home.as_uri(), self.folder.as_uri())})

    def spec_at_home(self, spec: JobSpec) -> JobSpec:
        """Return a job's spec with the paths of the real state folder."""
        channels = {name: self.at_home(uri) for name, uri in spec.channels.items()}
        variables = {name: self.at_home(value) for name, value in spec.environment.items()}
        changes = {"channels": channels, "source_uri": self.at_home(spec.source_uri), "environment": variables}
        return spec.model_copy(update=changes)


@contextmanager
def scratch_state(home: Path) -> Iterator[ScratchState]:
    """Yield a temporary state folder with links to the entries of `home`, which it does not change.

    Hugging Face's libraries, which read the variable when they are imported, store new files in it, too.
    """
    base = user_path(os.environ.get("HF_HOME") or "~/.cache/huggingface", "HF_HOME")
    hub = user_path(os.environ.get("HF_HUB_CACHE") or str(base / "hub"), "HF_HUB_CACHE")
    before = os.environ.get("HF_HUB_CACHE")
    with tempfile.TemporaryDirectory(prefix="trainfare-plan-") as name:
        folder = Path(name).resolve()
        for source, target in [(hub, folder / "hub"), *((home / each, folder / each) for each in LINKED)]:
            target.mkdir()
            for entry in source.iterdir() if source.is_dir() else ():
                if not entry.name.startswith("."):  # records, locks and unfinished entries belong to the real folder
                    (target / entry.name).symlink_to(entry)
        os.environ["HF_HUB_CACHE"] = str(folder / "hub")
        try:
            yield ScratchState(home=home.absolute(), folder=folder)
        finally:
            del os.environ["HF_HUB_CACHE"]
            os.environ |= {} if before is None else {"HF_HUB_CACHE": before}
