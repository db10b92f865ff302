"""The course of a sweep: timing, search, repeats of the winner, report."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.inputs import Say
from experiments.reporting import report_group
from experiments.sweep_facts import decisions, facts
from experiments.sweep_jobs import SweepJobs
from experiments.where import Where
from sweeps.asking import Limits, Part
from sweeps.calibrations import costs
from sweeps.confirmation import Setting, settings
from sweeps.costs import CostModel
from sweeps.decisions import Decisions
from sweeps.jobs import Jobs
from sweeps.lease import alone
from sweeps.objective import Objective, cost_of
from sweeps.sampler import sampler_of
from sweeps.search import Search, best, records
from sweeps.space import Point
from sweeps.storage import Storage, open_storage
from sweeps.study import open_study, telling
from sweeps.worker import Done, run_worker
from tracking.followed import Outcome
from tracking.group import Group, close_group, open_group
from tracking.job_run import find_job_run, paid_so_far
from tracking.plan import PlannedJob
from tracking.session import run_jobs
from tracking.store import Store, open_store
from tracking.sweep_file import keep_sweep, show_figures
from training.errors import InputError
from training.home import home

STORAGE_VARIABLE = "TRAINFARE_SWEEP_STORAGE"
"""Names the database of all workers; a password in it stays out of commands and runs."""


class SweepStopped(Exception):
    """A sweep cannot go on now."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """A sweep under way in this worker."""

    jobs: SweepJobs
    where: Where
    store: Store
    group: Group
    storage: Storage
    command: Sequence[str]
    """Words that train the experiment."""
    say: Say

    @classmethod
    def begun(cls, jobs: SweepJobs, where: Where, key: str, command: Sequence[str], say: Say) -> Course:
        """Open what a sweep is kept in. Raises TrainfareError for what does not answer."""
        storage = open_storage(storage_url(), say=say)
        store = open_store(say=say)
        description = jobs.sweep.experiment.description
        group = open_group(store, experiment_name=jobs.name, verb="sweep", key=key, description=description, joins=True)
        return cls(jobs=jobs, where=where, store=store, group=group, storage=storage, command=command, say=say)

    def run(self) -> int:
        """Search, judge and report; return the exit code."""
        fields, space = self.jobs.sweep.fields, self.jobs.sweep.space
        told = f"{len(space.points)} points under each of {', '.join(fields.compilers)}"
        self.say(f"{'Going on with' if self.group.continued else 'Sweeping'} {self.group.id}: {told}")
        try:
            searches = self._measured()
        except SweepStopped as stopped:
            self.say(f"Stopped: {stopped}. The same command goes on with it.")
            return 130
        parts = [self._part(compiler, search) for compiler, search in searches.items()]
        self._count_other_jobs(parts)
        keep_sweep(self.store, self.group, facts(self.jobs.sweep, parts, self.jobs.samples, self.command))
        runner = Jobs(self.store, self.where.service, self.group, self._ready, self._objective(searches), self.say)
        limits = Limits(
            trials=fields.trials,
            parallel=fields.max_parallel,
            max_parallel=fields.max_parallel,
            max_billable_seconds=fields.max_billable_seconds,
            max_usd=fields.max_usd,
        )
        done = run_worker(self.storage, self.sweep_name, parts, runner, limits, say=self.say)
        if done.is_stopped:
            self.say("Stopped; the same command goes on with it.")
            return 130
        self.say(f"The search has ended: {done.reason}.")
        with alone(self.storage, f"{self.sweep_name}/repeats of the winner", self.say):
            self._confirm(parts)
            return self._report(parts, done)

    @property
    def sweep_name(self) -> str:
        """Under which the studies stand in the storage."""
        return self.jobs.sweep.fields.name or self.group.id

    def _measured(self) -> dict[str, Search]:
        """Return each compiler's question, once its batch sizes are timed and the baseline's quality is known."""
        jobs, fields = self.jobs, self.jobs.sweep.fields
        timed = fields.compilers if fields.calibration_seconds else ()
        planned = [jobs.calibration(self.group.id, compiler) for compiler in timed]
        if fields.worse_by is not None:
            baseline = jobs.trial(self.group.id, *jobs.sweep.baseline)
            planned.append(replace(baseline, tags={**baseline.tags, "platform.role": "baseline"}))
        with alone(self.storage, f"{self.sweep_name}/timing", self.say):
            if len(self._run([self.where.made_ready(job) for job in planned])) < len(planned):
                raise SweepStopped("the batch sizes are not all timed: the budget is spent, or somebody stopped it")
        objective = replace(jobs.sweep.objective, bound=self._bound())
        found: dict[str, Search] = {}
        for compiler in fields.compilers:
            model = self._costs(compiler) if fields.calibration_seconds else None
            if fields.calibration_seconds and model is None:
                continue
            search = Search(
                space=jobs.sweep.space,
                objective=objective,
                samples=jobs.samples,
                base=jobs.sweep.base_point,
                costs=model,
            )
            found[compiler] = search
        if not found:
            raise InputError("no compiler is left to sweep: the calibration of each has failed")
        return found

    def _costs(self, compiler: str) -> CostModel | None:
        name = self.jobs.calibration(self.group.id, compiler).spec.name
        run = find_job_run(self.store, self.group, name)
        if run is None or run.failure or not run.has_ended:
            why = f" ({run.failure[0]})" if run and run.failure else ""
            self.say(f"{compiler} is left out: its calibration {name} has not completed{why}")
            return None
        every = self.jobs.sweep.evaluated_every(self.jobs.staged.train_rows)
        machines = self.jobs.sweep.experiment.machine.instance_count
        try:
            return costs(self.store, run, samples_between_evaluations=every, instance_count=machines)
        except ValueError as error:
            self.say(f"{compiler} is left out: {error}")
            return None

    def _bound(self) -> float | None:
        """Return the worst quality that is let pass: the baseline's, and what it may be worse by."""
        sweep = self.jobs.sweep
        worse_by, quality = sweep.fields.worse_by, sweep.objective.quality
        if worse_by is None or quality is None:
            return None
        name = self.jobs.trial(self.group.id, *sweep.baseline).spec.name
        run = find_job_run(self.store, self.group, name)
        value = run.metrics.get(quality.metric, math.nan) if run else math.nan
        if not math.isfinite(value):
            raise InputError(f"sweep.worse_by has nothing to go by: the baseline's job {name} told no {quality.metric}")
        self.say(f"Baseline {quality.metric} {value:.4g}; let pass: {worse_by:g} worse")
        return value - worse_by if quality.higher_is_better else value + worse_by

    def _objective(self, searches: Mapping[str, Search]) -> Objective:
        return next(iter(searches.values())).objective

    def _part(self, compiler: str, search: Search) -> Part:
        fields = self.jobs.sweep.fields
        study = open_study(
            self.storage,
            sweep=self.sweep_name,
            compiler=compiler,
            space=search.space,
            objective=search.objective,
            experiment=self.jobs.trains,
            sampler=sampler_of(fields.sampler, search, self.jobs.sweep.experiment.seed),
        )
        strategy = Decisions(search=search, prunes=fields.pruning, ends_early=fields.sampler in {"auto", "model"})
        return Part(compiler=compiler, study=study, space=search.space, objective=search.objective, strategy=strategy)

    def _count_other_jobs(self, parts: Sequence[Part]) -> None:
        """Count what was paid beside the trials, failed calibrations and earlier repeats too, against the budgets."""
        seconds, usd = paid_so_far(self.store, self.group, self.jobs.trial_names(self.group.id))
        parts[0].study.set_user_attr("calibration_billable_seconds", seconds)
        parts[0].study.set_user_attr("calibration_usd", usd)

    def _ready(self, compiler: str, point: Point) -> PlannedJob:
        return self.where.made_ready(self.jobs.trial(self.group.id, compiler, point))

    def _run(self, planned: Sequence[PlannedJob]) -> list[Outcome]:
        """Run what is left of some jobs, within the budgets."""
        fields = self.jobs.sweep.fields
        return run_jobs(
            self.store,
            self.where.service,
            self.group,
            planned,
            parallel=fields.max_parallel,
            may_start=self._has_budget,
            say=self.say,
        )

    def _has_budget(self) -> bool:
        fields = self.jobs.sweep.fields
        if fields.max_billable_seconds is None and fields.max_usd is None:
            return True
        seconds, usd = paid_so_far(self.store, self.group)
        return seconds < (fields.max_billable_seconds or math.inf) and usd < (fields.max_usd or math.inf)

    def _confirm(self, parts: Sequence[Part]) -> None:
        """Repeat the winner and its controls."""
        chosen = self._settings(parts)
        if not chosen or not self.jobs.sweep.fields.repeats or self.jobs.sweep.objective.is_front:
            return  # of a front nobody has said yet which of its points is the winner
        planned = self.jobs.confirmation(self.group.id, chosen)
        self.say(f"Repeating the winner and its controls: {len(planned)} jobs")
        if len(self._run([self.where.made_ready(job) for job in planned])) < len(planned):
            self.say("Not all were repeated: the budget is spent, or somebody stopped them.")

    def _settings(self, parts: Sequence[Part]) -> list[Setting]:
        bests = self._bests(parts)
        return settings(bests, self.jobs.sweep.baseline, maximise=self.jobs.sweep.maximises)

    def _bests(self, parts: Sequence[Part]) -> dict[str, tuple[Point, float]]:
        """Return the best point of each compiler that has one, with its cost."""
        found = {}
        for part in parts:
            search = decisions(part).search
            record = best(search, records(telling(part.trials), part.space))
            if record is not None and record.ended is not None:
                found[part.compiler] = record.point, cost_of(search.objective, record.ended)
        return found

    def _report(self, parts: Sequence[Part], done: Done) -> int:
        """Report, close the group, and return 0 or 1."""
        bests = self._bests(parts)
        told = facts(self.jobs.sweep, parts, self.jobs.samples, self.command, bests=bests, reasons=done.reasons)
        keep_sweep(self.store, self.group, told)
        self._show_figures(bests)
        report_group(self.store, self.group, self.jobs.name)
        close_group(self.store, self.group, "FINISHED" if bests else "FAILED")
        return 0 if bests else 1

    def _show_figures(self, bests: Mapping[str, tuple[Point, float]]) -> None:
        """Write what sweeps compare by in MLflow's table to the parent run."""
        seconds, usd = paid_so_far(self.store, self.group)
        costs_found = [cost for _, cost in bests.values()]
        best_cost = (max if self.jobs.sweep.maximises else min)(costs_found, default=math.nan)
        cost = self.jobs.sweep.objective.cost
        figures = {
            "sweep/paid_billable_instance_seconds": seconds,
            "sweep/paid_usd": usd,
            f"sweep/best_{cost}": best_cost,
        }
        show_figures(self.store, self.group, figures)


def storage_url() -> str:
    """Return the address of the studies' database: `TRAINFARE_SWEEP_STORAGE`, or a file among the state."""
    if given := os.environ.get(STORAGE_VARIABLE):
        return given
    home().mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{Path(home()) / 'sweeps.db'}"
