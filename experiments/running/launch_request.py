"""Request of `train`, `compare` and `probe`: everything about their jobs that follows from the options alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.planning.arms import Arm, single_label
from experiments.planning.design import design_of
from experiments.planning.hub_push import check_token, without_pushes
from experiments.planning.inputs import Inputs
from experiments.planning.load import Experiment, arms, load
from experiments.planning.plan import plan
from experiments.planning.probe_arms import probes, whole_trainings
from experiments.running.fail_on import read_fail_on
from judging.design import Design
from tracking.groups.planned_job import PlannedJob, as_training
from training.contract.errors import InputError
from training.state.home import home

VERBS = ("train", "compare", "probe")
CHECK = "check"
"""Id of the group of jobs that are only checked."""


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """A checked request. Nothing is staged or started yet."""

    verb: str
    name: str
    """Name of the experiment."""
    arms: tuple[Arm, ...]
    repeats: int
    """Most jobs of each arm."""
    parallel: int
    """Jobs to run at the same time."""
    design: Design | None
    """Looks of a comparison; None for commands without a verdict."""
    wait: bool
    """True to follow the jobs to their end."""
    fail_on: frozenset[str]
    """Results for which a comparison fails."""

    @property
    def experiment(self) -> Experiment:
        """Experiment of the first arm. The fields of the service and of the group are the same in all arms."""
        return self.arms[0].experiment

    def jobs(self, group_id: str, staged: Sequence[Inputs]) -> list[PlannedJob]:
        """Return the jobs of a group in the order of their starts. `staged` has the inputs of each arm."""
        jobs = plan(group_id, self.name, self.arms, self.repeats, staged, home(), self.design)
        return [as_training(job) for job in jobs] if self.verb == "train" else jobs

    def jobs_to_check(self, staged: Sequence[Inputs]) -> list[PlannedJob]:
        """Return a job of each arm, without a group. A service checks them before a run is opened."""
        return plan(CHECK, self.name, self.arms, 1, staged, home())


def read_launch(verb: str, overrides: Mapping[str, str], echo: Callable[[str], None]) -> LaunchRequest:
    """Return the request for a verb with overrides of the experiment's fields. Raises InputError."""
    fields = dict(overrides)
    name, wait = fields.pop("experiment", "demo"), _read_wait(fields.pop("wait", "true"))
    fail_on = read_fail_on(fields.pop("fail-on", "")) if verb == "compare" else frozenset[str]()
    experiment = load(name, fields)
    selected_arms, repeats = _select_arms(verb, experiment, echo)
    design = design_of(experiment.compare) if verb == "compare" and len(selected_arms) > 1 else None
    return LaunchRequest(
        verb=verb,
        name=Path(name).stem,
        arms=selected_arms,
        repeats=repeats,
        parallel=_parallel(verb, experiment, selected_arms),
        design=design,
        wait=wait,
        fail_on=fail_on,
    )


def _read_wait(text: str) -> bool:
    """Return whether to follow the jobs. `wait` is not a field of the experiment: it does not change the jobs."""
    if text not in {"true", "false"}:
        raise InputError(f"--wait is '{text}': it must be true or false.")
    return text == "true"


def _select_arms(verb: str, experiment: Experiment, echo: Callable[[str], None]) -> tuple[tuple[Arm, ...], int]:
    if verb == "compare":
        return whole_trainings(without_pushes(arms(experiment), echo)), experiment.compare.repeats
    if verb == "probe":
        return probes(arms(experiment)), 1
    check_token(experiment)
    return whole_trainings((Arm(label=single_label(experiment), experiment=experiment, is_baseline=True),)), 1


def _parallel(verb: str, experiment: Experiment, selected_arms: Sequence[Arm]) -> int:
    """Return the number of jobs to run at the same time. On SageMaker all probes run together."""
    if verb == "probe" and experiment.service != "local":
        return len(selected_arms)
    return experiment.compare.parallel
