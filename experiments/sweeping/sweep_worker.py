"""Run a sweep: calibrate the batch sizes, search batch sizes and learning rates, repeat the winner, and report.

Every process that runs the same command on the same storage is a worker of the same sweep. One worker runs the
calibrations and the repeats; the others wait for it and use the results.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import optuna

from experiments.planning.costs import budget_of
from experiments.planning.load import variant, with_absolute_paths
from experiments.running.followed_job import FollowedJob, start_job
from experiments.running.launch import Preparation, log_trained, prepare, read_measurements, run_waves
from experiments.running.output import exit_code, print_line
from experiments.running.scheduler import run_jobs
from experiments.running.write_report import report_group
from experiments.schema.overrides import flat
from experiments.schema.yaml_document import as_yaml
from experiments.sweeping.sweep_plan import SweepJobs, SweepPlan, full_names, label, prepare_sweep
from judging.design import Design
from reports.model.report import Report
from reports.sweep.sweep import Sweep as RecordedSweep
from reports.sweep.sweep import sweep_of
from state.home import home
from sweeps.costs import CostModel, cost_model
from sweeps.early_stopping import finalists, rivals, settings
from sweeps.optuna_study import Limits, Part, PointSampler, open_study
from sweeps.search_space import Point
from sweeps.storage import Storage, hold_lease, open_storage, sqlite_url
from sweeps.trials import (
    CurvePoint,
    Objective,
    Search,
    TrialOutcome,
)
from sweeps.worker import Running, run_worker
from tracking.budgets.ledger import Ledger, end_sentence, set_budget
from tracking.groups.group import Group, close_group, open_group
from tracking.groups.plan_file import DESIGN, read_design, write_design, write_sweep
from tracking.groups.planned_job import PlannedJob
from tracking.queries import job_tables
from tracking.recorded.waves import repeat_rows
from tracking.recording.recorder import JobRun, Outcome, find_job_run
from tracking.recording.script_log import expression_of
from tracking.server.store import Store, open_store
from training.contract.errors import InputError, TrackingError
from training.contract.events import Event
from training.contract.plain_text import counted
from training.contract.price import instance_seconds
from training.contract.service import ServiceContext
from training.services.interruption import Detached

STORAGE_VARIABLE = "TRAINFARE_SWEEP_STORAGE"
"""Variable with the address of the workers' database. A variable keeps its password out of commands and runs."""
STOPPED = "Stopped. The same command resumes the sweep."
SETTING = ("compiler", "batch_size", "learning_rate_multiplier")
"""Fields that a command to train a setting always has. It has others if they differ from the experiment's."""
BestPoints = Mapping[str, tuple[Point, float]]
"""Best point of each compiler, with its cost."""


def sweep(overrides: Mapping[str, str]) -> int:
    """Run or resume a sweep with overrides of the experiment's fields. Return the exit code, see `run`."""
    prepared = prepare_sweep(overrides, Preparation())
    assert prepared  # an error has ended the command
    assert prepared.context
    for sentence in prepared.budget_text:
        print_line(sentence)
    own = {name: text for name, text in full_names(overrides).items() if not name.startswith("sweep.")}
    own = {"experiment": overrides.get("experiment", "demo"), **own}
    try:
        return run(open_sweep(prepared.jobs, prepared.context, own), prepared.fail_on)
    except Detached:
        print_line(STOPPED)
        return 130


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep in the process of one worker."""

    jobs: SweepJobs
    context: ServiceContext
    store: Store
    group: Group
    storage: Storage
    studies: Mapping[str, optuna.Study]
    """Studies by compiler."""
    overrides: Mapping[str, str]
    """The experiment and the overrides of the command that also apply to a training."""

    @property
    def name(self) -> str:
        """Name of the studies in the storage."""
        return self.jobs.sweep.fields.name or self.group.id

    def prepared_trial(self, compiler: str, point: Point) -> PlannedJob:
        """Return the job of a point, with its inputs uploaded."""
        return prepare(self.context, self.jobs.trial(self.group.id, compiler, point))

    def run(self, planned: Sequence[PlannedJob]) -> list[Outcome]:
        """Run the jobs that have not run yet, within the budgets. Used for all jobs except trials."""
        return run_jobs(
            self.store,
            self.context.service,
            self.group,
            [prepare(self.context, job) for job in planned],
            parallel=self.jobs.sweep.fields.max_parallel,
            echo=print_line,
        )

    def find_run(self, planned: PlannedJob) -> JobRun | None:
        return find_job_run(self.store, self.group, planned.spec.name)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self.context.service, self.group)


def open_sweep(jobs: SweepJobs, context: ServiceContext, overrides: Mapping[str, str]) -> OpenSweep:
    """Open or resume a sweep.

    Raises TrainfareError if the storage or the tracking server does not answer, and InputError if a different sweep
    has the same name. In these cases no job is started and no run is opened.
    """
    storage = open_storage(storage_url(), echo=print_line)
    name = jobs.sweep.fields.name
    studies = _studies(storage, name, jobs) if name else {}
    experiment, key = jobs.sweep.experiment, jobs.key
    with hold_lease(storage, f"{key}/opening", print_line):  # workers that start together must share one group
        store = open_store(echo=print_line)
        group = open_group(
            store,
            experiment_name=jobs.name,
            verb="sweep",
            key=key,
            description=experiment.description,
            joins=True,
            prefix=experiment.aws.job_prefix or "",
        )
        set_budget(store, group, budget_of(experiment))
    return OpenSweep(
        jobs=replace(jobs, seed_offset=group.seed_offset),
        context=context,
        store=store,
        group=group,
        storage=storage,
        studies=studies or _studies(storage, group.id, jobs),
        overrides=overrides,
    )


def _studies(storage: Storage, name: str, jobs: SweepJobs) -> dict[str, optuna.Study]:
    sweep = jobs.sweep
    # The bound is known only after the baseline has run. Until then `worse_by` takes its place.
    objective = replace(sweep.objective, bound=sweep.fields.worse_by)
    return {
        compiler: open_study(
            storage, sweep=name, compiler=compiler, space=sweep.space, objective=objective, experiment=jobs.training_key
        )
        for compiler in sweep.fields.compilers
    }


def storage_url() -> str:
    """Return the address of the studies' database: `TRAINFARE_SWEEP_STORAGE`, or a file in the state folder."""
    if url := os.environ.get(STORAGE_VARIABLE):
        return url
    home().mkdir(parents=True, exist_ok=True)
    return sqlite_url(home() / "sweeps.db")


def run(opened: OpenSweep, fail_on: frozenset[str] = frozenset()) -> int:
    """Search, repeat the winner and report.

    Returns the exit code: 0, 1 if no best point was found, 3 for a result of the winner that `fail_on` names, 130 if
    stopped.
    """
    sweep = opened.jobs.sweep
    size = f"{len(sweep.space.points)} points for each compiler setting: {', '.join(sweep.fields.compilers)}"
    print_line(f"{'Resuming' if opened.group.continued else 'Sweeping'} {opened.group.id}: {size}")
    if (searches := prepare_searches(opened)) is None:
        print_line("Stopped. Not all batch sizes were timed. The same command resumes the sweep.")
        return 130
    parts = [_part(opened, compiler, search) for compiler, search in searches.items()]
    write_sweep(opened.store, opened.group, metadata(sweep, parts))
    limits = Limits(
        trials=sweep.fields.trials,
        parallel=sweep.fields.max_parallel,
        max_parallel=sweep.fields.max_parallel,
        no_room=partial(opened.ledger.why_no_room, opened.prepared_trial(*sweep.baseline)),  # all trials cost the same
    )
    runner = TrialJobs(opened, parts[0].search.objective)
    done = run_worker(opened.storage, opened.name, parts, runner, limits, echo=print_line)
    if done.is_stopped:
        print_line(STOPPED)
        return 130
    if done.is_over_budget:
        opened.ledger.end()
    print_line(f"The search ended: {done.reason.rstrip('.')}.")
    with hold_lease(opened.storage, f"{opened.name}/repeats of the winner", print_line):
        if not train_finalists(opened, parts):
            print_line(STOPPED)
            return 130
        best_points = find_best_points(opened, parts)
        repeated = confirm(opened, best_points)
        rendered = report(opened, parts, best_points, done.reasons, repeated)
        if end := opened.ledger.ended:
            print_line(end_sentence(end))
    return exit_code(rendered, fail_on) if best_points else 1


def _part(opened: OpenSweep, compiler: str, search: Search) -> Part:
    fields, study = opened.jobs.sweep.fields, opened.studies[compiler]
    study.sampler = PointSampler(fields.sampler, search, opened.jobs.sweep.experiment.seed)
    return Part(
        compiler=compiler,
        study=study,
        search=search,
        prunes=fields.pruning,
        ends_early=fields.sampler == "auto",
    )


def prepare_searches(opened: OpenSweep) -> dict[str, Search] | None:
    """Run the calibrations and return the search of each compiler whose calibration succeeded.

    None if not all ended: the budget is spent, or a person stopped the sweep. Raises `InputError` if none succeeded.
    """
    planned = [job for _, job in opened.jobs.measurements(opened.group.id)]
    with hold_lease(opened.storage, f"{opened.name}/timing", print_line):
        if len(opened.run(planned)) < len(planned):
            return None
    sweep = opened.jobs.sweep
    baseline = opened.find_run(opened.jobs.trial(opened.group.id, *sweep.baseline))
    objective = replace(sweep.objective, bound=_bound(opened, baseline))
    # Of a script, the first training shows how many samples one takes.
    samples = opened.jobs.samples or int(baseline.metrics.get("samples", 0) if baseline else 0)
    searches: dict[str, Search] = {}
    for compiler in sweep.fields.compilers:
        model = _costs(opened, compiler) if sweep.calibration_seconds else None
        if model or not sweep.calibration_seconds:
            searches[compiler] = Search(
                space=sweep.space, objective=objective, samples=samples, base=sweep.base_point, costs=model
            )
    if not searches:
        raise InputError("the sweep cannot start, because the calibration of every compiler failed: see its jobs' logs")
    return searches


def _costs(opened: OpenSweep, compiler: str) -> CostModel | None:
    planned = opened.jobs.calibration(opened.group.id, compiler)
    run = opened.find_run(planned)
    if run is None or run.failure or not run.has_ended:
        why = f" ({run.failure.failure_class})" if run and run.failure else ""
        print_line(f"Skipping {compiler}: its calibration job {planned.spec.name} did not complete{why}.")
        return None
    try:
        return cost_model(read_measurements(opened.store, run.id))
    except ValueError as error:
        print_line(f"Skipping {compiler}: {error}.")
        return None


def _bound(opened: OpenSweep, run: JobRun | None) -> float | None:
    """Return the worst acceptable quality: the quality of the baseline's run, worsened by `sweep.worse_by`."""
    sweep = opened.jobs.sweep
    worse_by, quality = sweep.fields.worse_by, sweep.objective.quality
    if worse_by is None or quality is None:
        return None
    value = run.metrics.get(quality.metric, math.nan) if run else math.nan
    if not math.isfinite(value):
        way = f". Log it, or add an expression: {expression_of(quality.metric)}" if sweep.experiment.script else ""
        name = opened.jobs.name_of(opened.group.id, *sweep.baseline)
        raise InputError(f"sweep.worse_by needs the baseline's quality, but job {name} logged no {quality.metric}{way}")
    print_line(f"The baseline's {quality.metric} is {value:.4g}; a trial may be at most {worse_by:g} worse.")
    return value - worse_by if quality.higher_is_better else value + worse_by


def train_finalists(opened: OpenSweep, parts: Sequence[Part]) -> bool:
    """Train the finalists of every compiler a second time. Return False if a person stopped a job."""
    planned = [
        opened.jobs.second_training(opened.group.id, part.compiler, point)
        for part in parts
        for point in finalists(part.search, part.records, opened.jobs.sweep.fields.finalists)
    ]
    left = [job for job in planned if not ((run := opened.find_run(job)) and run.has_ended)]
    if not left:
        return True
    print_line(f"Training the best settings a second time: {counted(len(left), 'job')}")
    outcomes = opened.run(left)
    if any(outcome.failure and outcome.failure.is_stop for outcome in outcomes):
        return False
    if len(outcomes) < len(left):
        print_line("Not all second trainings ran: the budget is spent.")
    return True


def read_sweep(opened: OpenSweep, document: Mapping[str, Any]) -> RecordedSweep:
    """Return the sweep as its report reads it from the tracking server, so that both choose the same settings."""
    client, group = opened.store.client, opened.group
    table = opened.store.call(job_tables.jobs, client, group.id)
    design = read_design(opened.store.call(client.get_run, group.run_id).data.tags)
    return sweep_of(table, group.id, document, {}, design)


def find_best_points(opened: OpenSweep, parts: Sequence[Part]) -> BestPoints:
    """Return the best point of each compiler that has one: by both trainings of its finalists, else by the trials."""
    recorded = read_sweep(opened, metadata(opened.jobs.sweep, parts))
    best = {part.compiler: recorded.best_of(part.compiler) for part in parts}
    return {
        compiler: (trial.setting.point, trial.mean_cost)
        for compiler, trial in best.items()
        if trial and trial.setting.point
    }


def confirm(opened: OpenSweep, best_points: BestPoints) -> list[Outcome]:
    """Repeat the winner and its controls with new seeds; return the outcomes."""
    sweep = opened.jobs.sweep
    chosen = settings(best_points, sweep.baseline, maximise=sweep.maximises)
    if not chosen or not sweep.fields.repeats or sweep.objective.is_front:
        return []  # a Pareto front has no single winner
    planned = opened.jobs.confirmation(opened.group.id, chosen)
    design = _design(opened)
    most = "at most " if design and len(design.looks) > 1 else ""
    print_line(f"Repeating the winner and its controls: {most}{len(planned)} jobs")
    if design:
        by_name = {job.spec.name: job for job in planned}
        planned, outcomes = run_waves(
            opened.store,
            opened.group,
            # Number 0 of a sweep's setting is its trial, but a comparison counts from 0.
            [replace(job, repeat=job.repeat - 1) for job in planned],
            design,
            lambda wave: opened.run([by_name[job.spec.name] for job in wave]),
            repeat_rows,
            [(label(*other), label(*best)) for other, best in rivals(best_points, sweep.baseline)],
        )
    else:
        outcomes = opened.run(planned)
    if len(outcomes) < len(planned):
        print_line("Not all repeats ran: the budget is spent, or a person stopped them.")
    return outcomes


def _design(opened: OpenSweep) -> Design | None:
    """Return the looks at the repeats. They are stored before the first repeat, and do not change later."""
    store, group = opened.store, opened.group
    tags = store.call(store.client.get_run, group.run_id).data.tags
    if stored := read_design(tags):
        return stored
    if design := opened.jobs.sweep.design:
        store.tag(group.run_id, {DESIGN: write_design(design)})
    return design


def report(
    opened: OpenSweep,
    parts: Sequence[Part],
    best_points: BestPoints,
    reasons: Mapping[str, str],
    repeated: Sequence[Outcome],
) -> Report:
    """Store the metadata in the parent run, write the report, log the repeats' models, and close the group.

    Returns the report.
    """
    jobs = opened.jobs
    results = metadata(jobs.sweep, parts, reasons)
    best = read_sweep(opened, results).best
    setting = {}
    if best and (compiler := best.setting.compiler) in best_points:
        setting = winner(jobs.sweep, compiler, best_points[compiler][0])
        results["train_command"] = train_command(opened.overrides, setting)
    write_sweep(opened.store, opened.group, results)
    rendered = report_group(opened.store, opened.group, jobs.name)
    if setting:
        path = home() / "reports" / opened.group.id / "winner.yaml"
        path.write_text(winner_file(jobs.sweep, setting), encoding="utf-8")
        print_line(f"The winner as an experiment: {path}")
    log_trained(opened.store, opened.context.service, opened.group, repeated)
    close_group(opened.store, opened.group, "FINISHED" if best_points else "FAILED")
    return rendered


def metadata(
    sweep: SweepPlan, parts: Sequence[Part], reasons: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the metadata of a running or ended sweep, without the command that trains its winner."""
    compiler, base = sweep.baseline
    objective = asdict(parts[0].search.objective)
    quality = objective.pop("quality") or {"metric": None, "higher_is_better": None}
    return {
        "objective": {**objective, **quality},
        "compilers": [part.compiler for part in parts],
        "base": {
            "compiler": compiler,
            "batch_size": base.batch_size,
            "multiplier": base.multiplier,
            **({"scaling": base.scaling} if base.scaling else {}),
            **({"hyperparameters": base.hyperparameters} if base.hyperparameters else {}),
        },
        "stopped_because": dict(reasons),
        "train_command": None,
    }


def winner(sweep: SweepPlan, compiler: str, point: Point) -> dict[str, Any]:
    """Return the fields that train a compiler's best point."""
    fields = sweep.setting(compiler, point)
    before = dict(flat(sweep.experiment.model_dump()))
    return {name: value for name, value in fields.items() if name in SETTING or value != before.get(name)}


def train_command(overrides: Mapping[str, str], setting: Mapping[str, Any]) -> str:
    """Return the command that trains a setting in the folder in which the sweep was started."""
    own = {name: value if isinstance(value, str) else json.dumps(value) for name, value in setting.items()}
    words = (word for name, text in {**overrides, **own}.items() for word in (f"--{name}", text))
    return shlex.join(["trainfare", "train", *words])


def winner_file(sweep: SweepPlan, setting: Mapping[str, Any]) -> str:
    """Return the sweep's experiment with a setting, as an experiment file for any folder."""
    experiment = variant(sweep.experiment, setting, "the winner")
    return as_yaml(with_absolute_paths(experiment.model_dump(mode="json", exclude_unset=True)))


class TrialJobs:
    """Implementation of `Runner` with the jobs of a sweep."""

    def __init__(self, opened: OpenSweep, objective: Objective) -> None:
        self._opened, self._objective = opened, objective
        # Each job is planned only once, because planning uploads its inputs.
        self._job = cache(opened.prepared_trial)

    def job_name(self, compiler: str, point: Point) -> str:
        return self._job(compiler, point).spec.name

    def start(self, compiler: str, point: Point, trial_number: int) -> Running | TrialOutcome:
        """Start the job of this point of the search space, or attach to it if it exists.

        Raises `QuotaError` if the account has no room for the job, `BudgetFull` if the budget has none, and
        `InputError` if the service refuses it. A permanent refusal is recorded in the job's run.
        """
        opened, planned, tags = self._opened, self._job(compiler, point), {"platform.trial": str(trial_number)}
        planned, ledger = replace(planned, tags={**planned.tags, **tags}), opened.ledger
        jobs_at_once = opened.jobs.sweep.fields.max_parallel  # they share what is left of the budget
        run = opened.find_run(planned) or ledger.open_run(planned, jobs_at_once)
        if run.has_ended:
            opened.store.tag(run.id, {**tags, "platform.role": "trial"})
            return outcome_of(run, self._objective)
        started = start_job(ledger, planned, run, print_line, jobs_at_once)
        if not isinstance(started, Outcome):
            return _RunningJob(started, self._read, self._objective)
        assert started.refusal
        raise started.refusal

    def conclude(self, job_name: str, end: str) -> None:
        self._opened.store.tag(self._read(job_name).id, {"platform.end": end})

    def _read(self, job_name: str) -> JobRun:
        store = self._opened.store
        if (run := find_job_run(store, self._opened.group, job_name)) is None:
            raise TrackingError(f"The tracking server {store.uri} no longer has the run of job {job_name}.")
        return run


class _RunningJob:
    def __init__(self, followed: FollowedJob, read: Callable[[str], JobRun], objective: Objective) -> None:
        self._followed, self._read, self._objective = followed, read, objective
        self.job_name = followed.planned.spec.name

    @property
    def due(self) -> float:
        return self._followed.due

    @property
    def curve(self) -> Sequence[CurvePoint]:
        quality, started = self._objective.quality, self._followed.training_started
        if quality is None or started is None:
            return ()
        return curve(self._followed.events, quality.metric, started, self._followed.planned.spec.billed_instances)

    @property
    def billable_instance_seconds(self) -> float:
        return self._followed.cost_so_far.seconds

    def look(self) -> TrialOutcome | None:
        if self._followed.advance() is None:
            return None
        return outcome_of(self._read(self.job_name), self._objective)

    def stop(self) -> None:
        self._followed.stop()

    def close(self) -> None:
        self._followed.close()


def curve(events: Iterable[Event], metric: str, started: float, instances: int) -> list[CurvePoint]:
    """Return the evaluations of a job; `started` is the start of its billed time, in seconds since the epoch."""
    points, samples = [], 0
    for each in events:
        if each.kind != "metric":
            continue
        samples = int(each.fields.get("samples") or samples)  # the meter of a script reports them apart
        if metric in each.fields.get("values", {}):
            seconds = instance_seconds(each.time - started, instances)
            value = float(each.fields["values"][metric])
            points.append(CurvePoint(samples=samples, value=value, billable_instance_seconds=seconds))
    return points


def outcome_of(run: JobRun, objective: Objective) -> TrialOutcome:
    """Return the outcome of an ended job under the objective."""
    metrics = run.metrics
    billed, to_target = (metrics.get(f"{of}/billable_seconds", 0.0) for of in ("cost", "target"))
    share = to_target / billed if 0 < to_target < billed else 1.0
    return TrialOutcome(
        failure=run.failure,
        death=run.death,
        # A cost that has not arrived is unknown: with 0 the trial would be the best one.
        billable_instance_seconds=share
        * metrics.get("cost/billable_instance_seconds", 0.0 if run.failure else math.nan),
        usd=metrics.get("target/usd", metrics.get("cost/usd")),
        samples=int(metrics.get("samples", 0)),
        steady_samples_per_second=metrics.get("throughput/steady_samples_per_second", math.nan),
        quality=metrics.get(objective.quality.metric, math.nan) if objective.quality else math.nan,
        reached=None if objective.target is None else bool(metrics.get("target/reached")),
        run_id=run.id,
    )
