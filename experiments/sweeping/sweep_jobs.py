"""The jobs of a sweep, planned: calibrations, trials, and the repeats of its winner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from experiments.planning.plan import job, source_digest
from experiments.planning.staged_inputs import Say, inputs_of
from experiments.running.service_context import Where
from experiments.sweeping.sweep_plan import Sweeping
from sweeps.space.confirmation import Setting
from sweeps.space.grid import Point
from tracking.groups.planned_job import PlannedJob
from training.contract.job_spec import Compiler
from training.staging.tokens.staged import Staged
from training.state.home import home

KEPT_WHEN_CONTINUED = {"trials", "repeats", "max_parallel", "max_billable_seconds", "max_usd", "pruning", "sampler"}
"""Fields of a sweep that may be others when it goes on."""


@dataclass(frozen=True)
class SweepJobs:
    """Plans a sweep's jobs; the same setting has always the same job."""

    name: str
    """The experiment's."""
    sweep: Sweeping
    say: Say

    @cached_property
    def staged(self) -> Staged:
        """The data, which all jobs share. Raises InputError, also where the largest batch is larger than the data."""
        largest = Point(self.sweep.space.batch_sizes[-1])
        (found,) = inputs_of([self.sweep.trial(self.sweep.fields.compilers[0], largest, 1)], self.say)
        return cast(Staged, found)

    @property
    def key(self) -> str:
        """Hash of all that the sweep asks for, but for how long it goes on; or of its name, where it has one."""
        fields = self.sweep.fields
        named = {"verb": "sweep", "experiment": self.name, "name": fields.name}
        return _hash(named if fields.name else {**named, **self._asked, "trains": self.trains})

    @property
    def trains(self) -> str:
        """Hash of all that is trained."""
        experiment = self.sweep.experiment.model_dump(mode="json", exclude={"sweep", "compare", "log_model"})
        return _hash({"experiment": experiment, "data": self.staged.key, "source": source_digest()})

    @property
    def samples(self) -> int:
        """Samples of a whole training."""
        return self.sweep.samples(self.staged.train_rows)

    def trial(self, group_id: str, compiler: str, point: Point, repeat: int = 0) -> PlannedJob:
        """Return the job of a point; repeats have other seeds."""
        arm = self.sweep.trial(cast(Compiler, compiler), point, self.staged.train_rows, is_whole=repeat > 0)
        tags = {
            "platform.role": "confirmation" if repeat else "trial",
            "platform.batch_size": str(point.batch_size),
            "platform.multiplier": f"{point.multiplier:.6g}",
        }
        return replace(
            job(self.name_of(group_id, compiler, point, repeat), self.name, arm, repeat, self.staged, home()), tags=tags
        )

    def calibration(self, group_id: str, compiler: str) -> PlannedJob:
        """Return the job that times a compiler's batch sizes."""
        arm = self.sweep.calibration(cast(Compiler, compiler))
        planned = job(
            f"{group_id}-{_SHORT.get(compiler, compiler)}-calibration", self.name, arm, 0, self.staged, home()
        )
        return replace(planned, tags={"platform.role": "calibration"})

    def confirmation(self, group_id: str, settings: Sequence[Setting]) -> list[PlannedJob]:
        """Return the repeats of the settings, in turn, so that a drifting machine drifts for all of them."""
        repeats = range(1, self.sweep.fields.repeats + 1)
        return [self.trial(group_id, compiler, point, repeat) for repeat in repeats for compiler, point in settings]

    def trial_names(self, group_id: str) -> set[str]:
        """Return the names of all jobs that are trials."""
        sweep = self.sweep
        return {self.name_of(group_id, each, point) for each in sweep.fields.compilers for point in sweep.space.points}

    def name_of(self, group_id: str, compiler: str, point: Point, repeat: int = 0) -> str:
        """Return the name of a point's job."""
        multipliers = self.sweep.space.multipliers
        at = multipliers.index(point.multiplier) if point.multiplier in multipliers else "x"
        return f"{group_id}-{_SHORT.get(compiler, compiler)}-b{point.batch_size}m{at}" + (
            f"s{repeat}" if repeat else ""
        )

    def check(self, where: Where) -> None:
        """Refuse, before anything is uploaded, what cannot run there."""
        points = self.sweep.space.points
        for compiler in self.sweep.fields.compilers:
            for point in {points[0], points[-1]}:
                where.checked(self.trial("check", compiler, point).spec)

    @property
    def _asked(self) -> dict[str, object]:
        return self.sweep.fields.model_dump(mode="json", exclude=KEPT_WHEN_CONTINUED)


_SHORT = {"trcomp-off": "off"}
"""A job's name has 63 characters."""


def _hash(asked: object) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]
