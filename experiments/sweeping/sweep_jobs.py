"""Planned jobs of a sweep: calibrations, trials, and repeats of the winner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.planning.arms import Arm
from experiments.planning.plan import job, source_digest
from experiments.running.service_context import ServiceContext
from experiments.schema.fields import BUDGET_FIELDS
from experiments.sweeping.sweep_plan import SweepPlan
from judging.round_order import round_order
from sweeps.space.confirmation import Setting
from sweeps.space.grid import Point
from tracking.groups.planned_job import FINALIST, PlannedJob
from training.staging.tokens.staged import Staged
from training.state.home import home

CHANGEABLE_FIELDS = {
    "trials",
    "finalists",
    "repeats",
    "max_parallel",
    "max_billable_seconds",
    "max_usd",
    "pruning",
    "sampler",
}
"""Fields that may change when a sweep is resumed."""

FINALIST_SEED = 1_001
"""Added to the experiment's seed in a finalist's second training: more than the largest number of repeats."""


@dataclass(frozen=True)
class SweepJobs:
    """Planner of a sweep's jobs. The same setting always has the same job. Pure."""

    name: str
    """Name of the experiment."""
    sweep: SweepPlan
    staged: Staged
    """Data that all jobs share."""

    @property
    def key(self) -> str:
        """Hash of the sweep's name or, without a name, of all fields that must not change when it is resumed."""
        fields = self.sweep.fields
        named = {"verb": "sweep", "experiment": self.name, "name": fields.name}
        return _hash(named if fields.name else {**named, **self._fixed_fields, "trains": self.training_key})

    @property
    def training_key(self) -> str:
        """Hash of everything that determines a training: the experiment, the data and the job's source."""
        experiment = self.sweep.experiment.model_dump(
            mode="json", exclude={"sweep", "compare", "log_model", *BUDGET_FIELDS}
        )
        return _hash({"experiment": experiment, "data": self.staged.key, "source": source_digest()})

    @property
    def samples(self) -> int:
        """Samples of a full training."""
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
            "platform.multiplier": f"{point.multiplier:.6g}",
            **_setting_tag(compiler),
        }
        return replace(
            job(self.name_of(group_id, compiler, point, repeat), self.name, arm, repeat, self.staged, home()), tags=tags
        )

    def calibration(self, group_id: str, compiler: str) -> PlannedJob:
        """Return the job that times a compiler's batch sizes."""
        arm = self.sweep.calibration(compiler)
        planned = job(f"{group_id}-{_short(compiler)}-calibration", self.name, arm, 0, self.staged, home())
        return replace(planned, tags={"platform.role": "calibration", **_setting_tag(compiler)})

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
        """Return the name of a point's job."""
        multipliers = self.sweep.space.multipliers
        at = multipliers.index(point.multiplier) if point.multiplier in multipliers else "x"
        return f"{group_id}-{_short(compiler)}-b{point.batch_size}m{at}" + (f"s{repeat}" if repeat else "")

    def check(self, context: ServiceContext) -> None:
        """Raise InputError for a sweep that cannot run on the service, before anything is uploaded."""
        points = self.sweep.space.points
        for compiler in self.sweep.fields.compilers:
            for point in {points[0], points[-1]}:
                context.check(self.trial("check", compiler, point).spec)

    @property
    def _fixed_fields(self) -> dict[str, object]:
        return self.sweep.fields.model_dump(mode="json", exclude=CHANGEABLE_FIELDS)


_SHORT = {"trcomp-off": "off"}
"""Abbreviations, because a job's name has at most 63 characters."""


def _short(setting: str) -> str:
    """Return the part of a job's name that stands for a compiler setting."""
    compiler, *options = setting.split()
    name = _SHORT.get(compiler, compiler)
    return f"{name}-{_hash(options)[:6]}" if options else name


def _setting_tag(setting: str) -> dict[str, str]:
    """Return the tag of a compiler setting with options; the run has a tag for the compiler itself."""
    return {"platform.compiler_setting": setting} if " " in setting else {}


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]
