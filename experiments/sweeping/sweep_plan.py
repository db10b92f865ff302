"""Plan of a sweep: its space, its objective and its jobs (calibrations, trials, repeats of the winner), all checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from experiments.planning.costs import budget_of, check_budget, why_no_price
from experiments.planning.inputs import Inputs
from experiments.planning.job_source import source_digest
from experiments.planning.load import DEFAULT_BATCH_SIZES, Arm, load, variant
from experiments.planning.plan import design_of, job
from experiments.running.launch import Preparation, Prepared, priced
from experiments.running.options import read_fail_on
from experiments.schema.experiment import (
    HYPERPARAMETERS,
    SIGN,
    Experiment,
    check_script_metric,
    direction_of,
    referenced_fields,
)
from experiments.schema.fields import (
    BUDGET_FIELDS,
    INDUCTOR_OPTIONS,
    RANK,
    AutoBatchSize,
    ExperimentFields,
    Sweep,
    compiler_fields,
    reported_metrics,
)
from experiments.schema.overrides import is_field
from experiments.schema.sections import Script
from judging.design import Design
from judging.waves import round_order
from state.digests import key_of
from state.home import home
from sweeps.early_stopping import Setting
from sweeps.search_space import Point, Space, space
from sweeps.trials import CostName, Objective, Quality
from tracking.groups.planned_job import CALIBRATION, FINALIST, PlannedJob
from training.contract.errors import InputError
from training.contract.job_spec import short_name
from training.contract.service import ServiceContext
from training.job.tasks import LOSS

MAX_TIMED_SIZES = 12
"""Largest number of batch sizes in one calibration."""
PRECISION = 0.05
"""Relative precision of the throughput at which a throughput trial ends."""
CALIBRATION_SECONDS = 1.0
"""Seconds for which a calibration times each batch size, unless the experiment sets them."""
COSTS = get_args(CostName)
NOT_IN_TRIALS: Mapping[str, Any] = {"save_model": False, "push_to_hub": None, "best_metric": None, "probe": None}
"""Fields that trials override. A trial only measures cost and quality, and uploading its model would cost time. The
repeats of the winner and its controls keep their models if `save_model` is true: one of them is the sweep's result."""
CHANGEABLE_FIELDS = {
    "trials",
    "finalists",
    "repeats",
    "max_parallel",
    "pruning",
    "sampler",
}
"""Fields that may change when a sweep is resumed."""
FINALIST_SEED = 1_001
"""Added to the experiment's seed in a finalist's second training: more than the largest number of repeats."""
_SHORT = {"trcomp-off": "off"}
"""Abbreviations, because a job's name has at most 63 characters."""


def plan_sweep(experiment: Experiment) -> SweepPlan:
    """Plan the sweep of an experiment. Raises InputError for contradictory fields."""
    if isinstance(experiment.batch_size, AutoBatchSize):
        raise InputError("batch_size 'auto' cannot be the base of a sweep, which itself searches: set it to a number")
    try:
        if experiment.script is not None:
            experiment = _with_own_compilers(experiment, experiment.script)
        _check_objective(experiment)
        fields = experiment.sweep
        if twice := next((name for name in fields.compilers if fields.compilers.count(name) > 1), None):
            raise ValueError(f"compilers names {twice} twice")
        sizes = fields.batch_sizes or DEFAULT_BATCH_SIZES
        unscaled, left = divmod(experiment.base_batch_size, experiment.global_batch_size // experiment.batch_size)
        searched = space(
            sizes,
            fields.learning_rate_multipliers,
            fields.batch_grid,
            tuple(dict.fromkeys(fields.learning_rate_scalings)),
            None if left else unscaled,
            _hyperparameters(experiment),
        )
    except ValueError as error:
        raise InputError(f"sweep.{error}") from error
    return SweepPlan(experiment=experiment, space=searched, objective=_objective(experiment))


def _with_own_compilers(experiment: Experiment, script: Script) -> Experiment:
    """Return the experiment of a script that can be swept. By default, it is swept with the compilers that it uses.

    Raises ValueError for fields that it lacks, or that only a task has.
    """
    fields, used = experiment.sweep, set(referenced_fields(script).values())
    for name in ("evaluations", "calibration_seconds"):
        if name in fields.model_fields_set:
            raise ValueError(f"{name} requires a task: a script evaluates and is timed as a whole. Remove it")
    if "batch_size" not in used:
        way = "such as {bs: $batch_size}. To search no batch size, set sweep.batch_sizes to the one number"
        raise ValueError(f"batch_sizes needs $batch_size in script.hyperparameters, {way}")
    for name in ("learning_rate_multipliers", "learning_rate_scalings"):
        if getattr(fields, name) and "learning_rate" not in used:
            raise ValueError(f"{name} needs $learning_rate in script.hyperparameters, such as {{lr: $learning_rate}}")
    if "compiler" in used or "compilers" in fields.model_fields_set:
        return experiment
    return experiment.model_copy(update={"sweep": fields.model_copy(update={"compilers": (experiment.compiler,)})})


def _hyperparameters(experiment: Experiment) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Return the searched hyperparameters of a script. Raises ValueError for one without a value to start at."""
    owned = experiment.script.hyperparameters if experiment.script else {}
    for name in experiment.sweep.hyperparameters:
        if owned.get(name) is None or str(owned[name]).startswith(SIGN):
            raise ValueError(f"hyperparameters.{name} starts at script.hyperparameters.{name}, which has no value")
    return tuple((name, each.with_own(name, owned[name])) for name, each in experiment.sweep.hyperparameters.items())


def _objective(experiment: Experiment) -> Objective:
    fields, target = experiment.sweep, experiment.target
    cost = cast(CostName, fields.objective[0])
    if len(fields.objective) == 2:
        return Objective(cost=cost, quality=_quality(experiment, fields.objective[1]), is_front=True)
    if fields.worse_by is not None:
        return Objective(cost=cost, quality=_quality(experiment, fields.quality))
    if cost == "steady_samples_per_second" or target is None:
        return Objective(cost=cost)
    return Objective(cost=cost, quality=_quality(experiment, target.metric), target=target.value)


def _quality(experiment: Experiment, metric: str) -> Quality:
    return Quality(metric=metric, higher_is_better=direction_of(experiment, metric) == "max")


def _check_objective(experiment: Experiment) -> None:
    fields = experiment.sweep
    cost, *others = fields.objective
    named = f"objective {','.join(fields.objective)}"
    if cost not in COSTS:
        raise ValueError(f"{named} must begin with a cost: {', '.join(COSTS)}")
    metrics = reported_metrics(experiment)
    for metric in [*others, *([fields.quality] if fields.worse_by is not None else [])]:
        if experiment.script is not None:
            check_script_metric(experiment, "objective" if metric in others else "quality", metric)
        elif metric == LOSS.name and metric not in metrics:
            raise ValueError(
                f"quality {metric} depends on the batch size with task {experiment.task}: use {metrics[0]}"
            )
        elif metric not in metrics:
            raise ValueError(f"{named}: task {experiment.task} does not log {metric}; it logs {', '.join(metrics)}")
    if fields.worse_by is None:
        if not others and cost != "steady_samples_per_second" and experiment.target is None:
            raise ValueError(
                f"{named} needs target or sweep.worse_by: without either, the largest batch would win at any quality"
            )
        return
    if others:
        raise ValueError(
            f"{named} and sweep.worse_by {fields.worse_by:g} cannot be combined: "
            "a search for a Pareto front has no limit on quality"
        )
    if experiment.target is not None and cost != "steady_samples_per_second":
        raise ValueError(
            f"worse_by {fields.worse_by:g} and target {experiment.target.metric} {experiment.target.value:g} cannot "
            f"be combined: train until the target, or all samples with the constraint (target=null removes the target)"
        )


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    experiment: Experiment
    space: Space
    objective: Objective
    """Objective without the bound of `worse_by`, which is known only after the baseline has run."""

    @property
    def fields(self) -> Sweep:
        return self.experiment.sweep

    @property
    def baseline(self) -> tuple[str, Point]:
        return self.fields.compilers[0], self.base_point

    @property
    def base_point(self) -> Point:
        """The experiment's own batch size, learning-rate multiplier and, if rules are searched, scaling rule."""
        experiment, script = self.experiment, self.experiment.script
        size, rule = experiment.batch_size, experiment.learning_rate_scaling if self.space.scalings else ""
        owned = script.hyperparameters if script else {}
        own = {name: values[values.index(owned[name])] for name, values in self.space.hyperparameters}
        others = self.space.scaling_at(size, rule), json.dumps(own) if own else ""
        return Point(size, experiment.learning_rate_multiplier, *others)

    def trial(self, compiler: str, point: Point, train_rows: int, *, is_whole: bool = False) -> Arm:
        """Return a point as an arm. Raises InputError if the experiment cannot be trained with this point.

        If throughput is the only objective, a trial is a probe, unless `is_whole`.
        """
        fields = {
            **self.setting(compiler, point),
            **({"target": None} if self.objective.target is None else {"target.stop": True}),
        }
        if self.experiment.script is None:
            fields |= {
                **NOT_IN_TRIALS,
                **({"save_model": self.experiment.save_model} if is_whole else {}),
                **self._evaluations(train_rows),
                **({"probe.precision": PRECISION} if self.objective.quality is None and not is_whole else {}),
                **({} if self.experiment.machine.spot else {"save_strategy": "none", "save_steps": None}),
            }
        experiment = variant(self.experiment, fields, f"the trial of {label(compiler, point)}")
        is_baseline = (compiler, point) == self.baseline
        return Arm(label=label(compiler, point), experiment=experiment, is_baseline=is_baseline)

    def setting(self, compiler: str, point: Point) -> dict[str, Any]:
        """Return the fields of the experiment that train a point."""
        script = self.experiment.script
        used = {"learning_rate", "eval_batch_size"} if script is None else {*referenced_fields(script).values()}
        evaluated = self.experiment.eval_batch_size or self.experiment.batch_size
        return {
            **self._compiler(compiler),
            "batch_size": point.batch_size,
            **({"learning_rate_multiplier": point.multiplier} if "learning_rate" in used else {}),
            **({"learning_rate_scaling": point.scaling} if point.scaling else {}),
            **({"eval_batch_size": evaluated} if "eval_batch_size" in used else {}),
            **self._length(point),
            **{f"{HYPERPARAMETERS}{name}": value for name, value in point.chosen.items()},
        }

    def calibration(self, compiler: str) -> Arm:
        """Return the arm that measures the step times of the batch sizes with a compiler."""
        timing = {"batch_sizes": timed_sizes(self.space.batch_sizes), "seconds": self.calibration_seconds}
        fields = {**self._compiler(compiler), "calibration": timing, "push_to_hub": None, "probe": None}
        experiment = variant(self.experiment, fields, f"the calibration of {compiler}")
        return Arm(label=f"{compiler}, calibration", experiment=experiment, is_baseline=False)

    def _compiler(self, setting: str) -> dict[str, Any]:
        """Return the fields of a compiler setting. A setting of inductor without options has the experiment's."""
        fields = compiler_fields(setting)
        if self.experiment.script is not None:
            return dict(fields)
        rank = {RANK: int(fields.pop(RANK))} if RANK in fields else {}
        none = {name: ExperimentFields.model_fields[name].default for name in INDUCTOR_OPTIONS}
        own = {name: getattr(self.experiment, name) for name in INDUCTOR_OPTIONS}
        options = own if fields == {"compiler": "inductor"} else none
        texts = {name: text == "true" if name == "compile_dynamic" else text for name, text in fields.items()}
        return {**options, **texts, **rank}

    def samples(self, train_rows: int) -> int:
        """Return the samples of a full training, the same for every batch size; 0 if the epochs of a script set it."""
        experiment = self.experiment
        if experiment.epochs is not None:
            return math.ceil(experiment.epochs * train_rows)
        return (experiment.max_steps or 0) * experiment.global_batch_size

    @property
    def calibration_seconds(self) -> float:
        """Seconds for which each batch size is timed before the trials; 0 without a calibration.

        Only the throughput depends on nothing else. In a search for a quality, a calibration would save no more than
        the trials that run out of memory, which cost about a job's start, as it does itself.
        """
        if self.fields.calibration_seconds is not None:
            return self.fields.calibration_seconds
        if self.experiment.script is not None:
            return 0.0
        return CALIBRATION_SECONDS if self._is_rate else 0.0

    @property
    def maximises(self) -> bool:
        return self.objective.directions[0] == "maximize"

    def evaluated_every(self, train_rows: int) -> int:
        """Return the samples between two evaluations of a trial."""
        samples = self.experiment.eval_samples if self.experiment.eval_strategy == "samples" else None
        return samples or max(1, self.samples(train_rows) // self.fields.evaluations)

    @property
    def repeats(self) -> int:
        """Most repeats of the winner and of each control. A throughput, which has no looks, takes the first look's."""
        repeats, first_look = self.fields.repeats, self.experiment.compare.looks[0]
        return min(repeats, first_look) if self._is_rate else repeats

    @property
    def design(self) -> Design | None:
        """Looks at the repeats, as of a comparison with the fields of `compare`; None if they do not run in waves."""
        if self._is_rate or not self.fields.repeats:
            return None
        changes = {"repeats": self.fields.repeats, "when_disturbed": "keep"}
        return design_of(self.experiment.compare.model_copy(update=changes))

    @property
    def _is_rate(self) -> bool:
        return self.objective.cost == "steady_samples_per_second"

    def _length(self, point: Point) -> dict[str, Any]:
        if self.experiment.max_steps is None:
            return {}
        samples = self.experiment.max_steps * self.experiment.global_batch_size
        batch = self.experiment.global_batch_size // self.experiment.batch_size * point.batch_size
        return {"max_steps": math.ceil(samples / batch)}

    def _evaluations(self, train_rows: int) -> dict[str, Any]:
        if self.experiment.eval_strategy == "samples":
            return {}
        every = self.evaluated_every(train_rows)
        return {"eval_strategy": "samples", "eval_samples": every, "eval_steps": None}


@dataclass(frozen=True)
class SweepJobs:
    """Planner of a sweep's jobs. The same setting always has the same job. Pure."""

    name: str
    """Name of the experiment."""
    sweep: SweepPlan
    staged: Inputs
    """Data or script that all jobs share."""
    seed_offset: int = 0
    """Seed offset of the group."""

    @property
    def key(self) -> str:
        """Hash of the sweep's name or, without a name, of all fields that must not change when it is resumed."""
        fields = self.sweep.fields
        named = {"verb": "sweep", "experiment": self.name, "name": fields.name}
        fixed = fields.model_dump(mode="json", exclude=CHANGEABLE_FIELDS)
        return key_of(named if fields.name else {**named, **fixed, "trains": self.training_key})

    @property
    def training_key(self) -> str:
        """Hash of everything that determines a training: the experiment, the data and the job's source."""
        experiment = self.sweep.experiment.model_dump(
            mode="json", exclude={"sweep", "compare", "log_model", *BUDGET_FIELDS}
        )
        return key_of({"experiment": experiment, "data": self.staged.key, "source": source_digest()})

    @property
    def samples(self) -> int:
        return self.sweep.samples(self.staged.train_rows)

    def trial(self, group_id: str, compiler: str, point: Point, repeat: int = 0) -> PlannedJob:
        """Return the job of a point. Each repeat has a different seed."""
        return self._job(group_id, compiler, point, repeat, "confirmation" if repeat else "trial")

    def second_training(self, group_id: str, compiler: str, point: Point) -> PlannedJob:
        """Return the second training of a finalist, with a seed that no repeat has."""
        return self._job(group_id, compiler, point, FINALIST_SEED, FINALIST)

    def _job(self, group_id: str, compiler: str, point: Point, repeat: int, role: str) -> PlannedJob:
        is_whole = role == "confirmation"
        arm = self.sweep.trial(compiler, point, self.staged.train_rows, is_whole=is_whole)
        tags = {
            "platform.role": role,
            "platform.batch_size": str(point.batch_size),
            "platform.multiplier": f"{point.multiplier:.17g}",
            **({"platform.scaling": point.scaling} if point.scaling else {}),
            **({"platform.hyperparameters": point.hyperparameters} if point.hyperparameters else {}),
            **_setting_tag(compiler),
        }
        name = self.name_of(group_id, compiler, point, repeat)
        planned = job(name, self.name, arm, repeat, self.staged, home(), self.seed_offset, group_id)
        return replace(planned, tags={**planned.tags, **tags})

    def calibration(self, group_id: str, compiler: str) -> PlannedJob:
        """Return the job that times a compiler's batch sizes."""
        arm = self.sweep.calibration(compiler)
        name = f"{group_id}-{_short(compiler)}-calibration"
        planned = job(name, self.name, arm, 0, self.staged, home(), group_id=group_id)
        return replace(planned, tags={"platform.role": CALIBRATION, **_setting_tag(compiler)})

    def measurements(self, group_id: str) -> list[tuple[Arm, PlannedJob]]:
        """Return the jobs before the trials: calibrations, and the training that measures the baseline's quality."""
        sweep = self.sweep
        timed = sweep.fields.compilers if sweep.calibration_seconds else ()
        jobs = [(sweep.calibration(compiler), self.calibration(group_id, compiler)) for compiler in timed]
        if sweep.fields.worse_by is not None:
            baseline = self.trial(group_id, *sweep.baseline)
            baseline = replace(baseline, tags={**baseline.tags, "platform.role": "baseline"})
            jobs.append((sweep.trial(*sweep.baseline, self.staged.train_rows), baseline))
        return jobs

    def confirmation(self, group_id: str, settings: Sequence[Setting]) -> list[PlannedJob]:
        """Return the repeats of the settings, in rounds of one job of each; see `round_order`."""
        return [
            self.trial(group_id, *settings[at], repeat + 1)
            for repeat in range(self.sweep.repeats)
            for at in round_order(len(settings), repeat, self.sweep.experiment.seed)
        ]

    def name_of(self, group_id: str, compiler: str, point: Point, repeat: int = 0) -> str:
        multipliers = self.sweep.space.multipliers
        at = multipliers.index(point.multiplier) if point.multiplier in multipliers else "x"
        rule = point.scaling.replace("_", "") + (key_of(point.chosen)[:6] if point.hyperparameters else "")
        name = f"{group_id}-{_short(compiler)}-b{point.batch_size}m{at}{rule}" + (f"s{repeat}" if repeat else "")
        return short_name(name)

    def check(self, context: ServiceContext) -> None:
        """Raise InputError for a sweep that cannot run on the service, before anything is uploaded."""
        points = self.sweep.space.points
        for compiler in self.sweep.fields.compilers:
            for point in {points[0], points[-1]}:
                context.check(self.trial("check", compiler, point).spec)


def _short(setting: str) -> str:
    """Return the part of a job's name that stands for a compiler setting."""
    compiler, *options = setting.split()
    name = _SHORT.get(compiler, compiler)
    return f"{name}-{key_of(options)[:6]}" if options else name


def _setting_tag(setting: str) -> dict[str, str]:
    """Return the tag of a compiler setting with options; the run has a tag for the compiler itself."""
    return {"platform.compiler_setting": setting} if " " in setting else {}


def timed_sizes(sizes: Sequence[int]) -> list[int]:
    """Return the batch sizes to calibrate, with the smallest and the largest. The others are interpolated."""
    if len(sizes) <= MAX_TIMED_SIZES:
        return list(sizes)
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    targets = [math.exp(low + (high - low) * at / (MAX_TIMED_SIZES - 1)) for at in range(MAX_TIMED_SIZES)]
    return sorted({min(sizes, key=lambda size: abs(math.log(size / each))) for each in targets})


def most_jobs(plan: SweepPlan) -> int:
    """Return the most jobs of a sweep if none fails: calibrations, trials, second trainings and repeats."""
    fields, compilers = plan.fields, len(plan.fields.compilers)
    calibrations = compilers if plan.calibration_seconds else 0
    trials = min(fields.trials, len(plan.space.points)) + (0 if plan.objective.is_front else fields.finalists)
    # Two compilers at two points, and the best point of each other compiler and of the factorial's second one: see
    # sweeps.early_stopping.
    settings = 2 if compilers == 1 else 3 + compilers
    repeats = 0 if plan.objective.is_front else plan.repeats * settings
    return calibrations + compilers * trials + repeats


def label(compiler: str, point: Point) -> str:
    """Return the label of a point, such as `inductor, batch 64, rate × 2, sqrt`."""
    return f"{compiler}, {point.label}"


@dataclass(frozen=True, kw_only=True)
class PreparedSweep(Prepared):
    sweep: SweepPlan

    @property
    def jobs(self) -> SweepJobs:
        """Jobs of the sweep, whose data is not refused."""
        [(_, staged)] = self.arm_inputs
        return SweepJobs(self.name, self.sweep, staged, self.seed_offset)

    @property
    def key(self) -> str:
        return self.jobs.key

    def known_jobs(self, group_id: str) -> list[tuple[Arm, Inputs, PlannedJob]]:
        """Return the jobs that are known before the search, with their arms: measurements and first trials."""
        sweep, jobs = self.sweep, self.jobs
        known = jobs.measurements(group_id)
        for compiler in sweep.fields.compilers:
            is_baseline = sweep.fields.worse_by is not None and compiler == sweep.baseline[0]
            if sweep.base_point in sweep.space.points and not is_baseline:  # the baseline is this trial
                trial = sweep.trial(compiler, sweep.base_point, jobs.staged.train_rows)
                known.append((trial, jobs.trial(group_id, compiler, sweep.base_point)))
        return [(arm, jobs.staged, job) for arm, job in known]


def prepare_sweep(overrides: Mapping[str, str], steps: Preparation) -> PreparedSweep | None:
    """Return the checked sweep, or None if its fields are refused.

    Every check is made before a run is opened or anything is uploaded.
    """
    request = steps.attempt(partial(_read, overrides))
    prepared = request and steps.with_inputs(request)
    if prepared is None or not prepared.is_complete or (context := prepared.context) is None:
        return prepared
    jobs, sweep = prepared.jobs, prepared.sweep
    steps.attempt(partial(jobs.check, context))
    sample = steps.attempt(partial(priced, context, jobs.trial("check", *sweep.baseline)))
    if sample is None:
        return prepared
    sentences = steps.attempt(partial(_check_budget, sweep, sample))
    return replace(prepared, budget_text=sentences or ())


def full_names(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides of fields of the experiment with their full names: `trials` becomes `sweep.trials`."""
    fields = {name: text for name, text in overrides.items() if name not in ("experiment", "fail-on")}
    return {
        f"sweep.{name}" if name in Sweep.model_fields and not is_field(name) else name: text
        for name, text in fields.items()
    }


def _read(overrides: Mapping[str, str]) -> PreparedSweep:
    fail_on = read_fail_on(overrides)  # no field of the experiment: it changes no job
    name = overrides.get("experiment", "demo")
    sweep = plan_sweep(load(name, full_names(overrides)))
    # Data that is smaller than the largest batch is refused.
    largest = sweep.trial(sweep.fields.compilers[0], Point(sweep.space.batch_sizes[-1]), 1)
    return PreparedSweep(
        verb="sweep",
        name=Path(name).stem,
        experiment=sweep.experiment,
        arms=(replace(largest, label=label(*sweep.baseline)),),
        parallel=sweep.fields.max_parallel,
        design=sweep.design,
        fail_on=fail_on,
        sweep=sweep,
    )


def _check_budget(sweep: SweepPlan, sample: PlannedJob) -> list[str]:
    if "usd" in sweep.fields.objective and sample.price is None:
        raise InputError(f"sweep.objective contains usd, but {why_no_price(sample.spec.instance_type)}")
    return check_budget([sample], budget_of(sweep.experiment), at_most=most_jobs(sweep))
