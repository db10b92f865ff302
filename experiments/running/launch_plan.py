"""Plan of `train`, `compare` and `probe`: their jobs, checked and not started.

`train` is a comparison with one arm and one repeat. `probe` is a comparison in which every job ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from experiments.planning.arms import Arm, check_token, probes, single_label, whole_trainings, without_pushes
from experiments.planning.budgets import budget_of, check_budget
from experiments.planning.inputs import Inputs
from experiments.planning.load import Experiment, arms, load
from experiments.planning.plan import design_of, group_key, plan
from experiments.running.fail_on import read_fail_on
from experiments.running.preparation import Preparation, Prepared
from tracking.groups.planned_job import PlannedJob, as_training
from training.contract.errors import InputError
from training.state.home import home, home_id

CHECK = "check"
"""Id of the group of jobs that are only checked."""


@dataclass(frozen=True, kw_only=True)
class LaunchPlan(Prepared):
    """Jobs of `train`, `compare` or `probe`."""

    repeats: int
    """Most jobs of each arm."""
    wait: bool
    """True to follow the jobs to their end."""

    @property
    def key(self) -> str:
        """Hash of the request. A state folder without an id gets one, which is part of the key of local jobs."""
        place = home_id(home()) if self.experiment.service == "local" else ""
        staged = [inputs for _, inputs in self.arm_inputs]
        return group_key(self.verb, self.name, self.arms, self.repeats, staged, self.design, place)

    def jobs(self, group_id: str) -> list[PlannedJob]:
        """Return the jobs of a group in the order of their starts."""
        staged = [inputs for _, inputs in self.arm_inputs]
        jobs = plan(group_id, self.name, self.arms, self.repeats, staged, home(), self.design)
        return [as_training(job) for job in jobs] if self.verb == "train" else jobs

    def known_jobs(self, group_id: str) -> list[tuple[Arm, Inputs, PlannedJob]]:
        """Return the jobs of a group with their arms and inputs."""
        arms = {arm.label: (arm, inputs) for arm, inputs in self.arm_inputs}
        return [(*arms[job.arm], job) for job in self.jobs(group_id)]


def prepare_launch(verb: str, overrides: Mapping[str, str], steps: Preparation) -> LaunchPlan | None:
    """Return the plan of a verb with overrides of the experiment's fields, or None if they are refused.

    Every check is made before a run is opened or anything is uploaded.
    """
    request = steps.attempt(partial(read_launch, verb, overrides, steps.echo))
    launch = request and steps.with_inputs(request)
    if launch is None or (context := launch.context) is None:
        return launch
    for arm, inputs in launch.arm_inputs:
        [job] = plan(CHECK, launch.name, [arm], 1, [inputs], home())
        steps.attempt(partial(context.check, job.spec))
    budget = budget_of(launch.experiment)
    if not launch.is_complete or not budget.budget.is_limited:
        return launch
    sentences = steps.attempt(lambda: check_budget([context.priced(job) for job in launch.jobs(CHECK)], budget))
    return replace(launch, budget_text=sentences or ())


def read_launch(verb: str, overrides: Mapping[str, str], echo: Callable[[str], None]) -> LaunchPlan:
    """Return what the options of a verb say about its jobs. Raises InputError."""
    fields = dict(overrides)
    name, wait = fields.pop("experiment", "demo"), _read_wait(fields.pop("wait", "true"))
    fail_on = read_fail_on(fields.pop("fail-on", "")) if verb == "compare" else frozenset[str]()
    experiment = load(name, fields)
    selected_arms, repeats = _select_arms(verb, experiment, echo)
    design = design_of(experiment.compare) if verb == "compare" and len(selected_arms) > 1 else None
    return LaunchPlan(
        verb=verb,
        name=Path(name).stem,
        experiment=selected_arms[0].experiment,
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
