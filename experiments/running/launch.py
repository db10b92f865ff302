"""Launch the jobs of `train`, `compare` and `probe`: prepare their plan, then carry it out.

`train` is a comparison with one arm and one repeat. `probe` is a comparison in which every job ends early. A plan is
prepared in the same steps as a start: see `experiments.dry_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from experiments.planning.arms import Arm, check_token, probes, single_label, whole_trainings, without_pushes
from experiments.planning.budgets import budget_of, check_budget
from experiments.planning.inputs import Inputs, stage_inputs
from experiments.planning.load import arms, load
from experiments.planning.plan import design_of, group_key, plan
from experiments.running.options import read_fail_on, read_flag
from experiments.running.output import print_line
from experiments.schema.experiment import Experiment
from judging.design import Design
from state.home import home, home_id
from tracking.groups.planned_job import TRAINING, PlannedJob, with_recorded_labels
from training.contract.service import Echo, ServiceContext
from training.services.registry import SERVICES, traits_of


def launch(verb: str, overrides: Mapping[str, str]) -> int:
    """Run a verb with overrides of the experiment's fields; return the exit code, see `follow`."""
    plan = prepare_launch(verb, overrides, Preparation())
    assert plan  # an error has ended the command
    assert plan.context
    return _carry_out(plan, plan.context)


def _carry_out(plan: LaunchPlan, context: ServiceContext) -> int:
    from experiments.running.follow_group import follow, jobs_phrase
    from experiments.running.scheduler import start_jobs
    from tracking.budgets.ledger import set_budget
    from tracking.groups.group import child_runs, open_group
    from tracking.groups.plan_file import DESIGN, write_design, write_plan
    from tracking.recording.metrics import record_warm_pool_costs
    from tracking.server.store import open_store

    store, design, experiment = open_store(echo=print_line), plan.design, plan.experiment
    if plan.verb == "train" and (push := experiment.push_to_hub):
        from experiments.running.push_model import open_repository

        open_repository(push, experiment.aws.region, experiment.aws.profile)
    if context.service.traits.has_warm_pools:
        record_warm_pool_costs(store, context.service)
    group = open_group(
        store,
        experiment_name=plan.name,
        verb=plan.verb,
        key=plan.key,
        description=experiment.description,
        tags={DESIGN: write_design(design)} if design else {},
        prefix=experiment.aws.job_prefix or "",
    )
    jobs = [prepare(context, job) for job in plan.jobs(group.id)]
    if group.continued:
        runs = child_runs(store, group).items()
        jobs = with_recorded_labels(jobs, {name: run.data.tags["platform.arm"] for name, run in runs})
    print_line(f"{'Resuming' if group.continued else 'Running'} {group.id}: {jobs_phrase(jobs, design)}")
    for sentence in plan.budget_text:
        print_line(sentence)
    write_plan(store, group, jobs, plan.parallel, home(), design)
    set_budget(store, group, budget_of(experiment))
    if plan.wait:
        return follow(store, context.service, group, jobs, plan.parallel, design, plan.fail_on)
    first = [job for job in jobs if design is None or (job.repeat < design.looks[0] and not job.is_again)]
    left = start_jobs(store, context.service, group, first, parallel=plan.parallel, echo=print_line)
    print_line(f"Jobs keep running{f'; {left} more are not started yet' if left else ''}.")
    print_line(f"Follow them with the same command without --wait, or with `trainfare attach --group {group.id}`.")
    return 0


CHECK = "check"
"""Id of the group of jobs that are only checked."""
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Jobs of a command, checked and not started: what a start carries out, and what a plan shows."""

    verb: str
    name: str
    """Name of the experiment."""
    experiment: Experiment
    """Experiment with the fields about the service and the group, which are equal for all jobs."""
    arms: tuple[Arm, ...]
    """Arms with all inputs of the jobs."""
    parallel: int
    """Jobs to run at the same time."""
    design: Design | None
    """Looks of a comparison or at a sweep's repeats; None without looks."""
    fail_on: frozenset[str]
    """Results for which the command fails."""
    inputs: Sequence[Inputs | None] = ()
    """Inputs of each arm; None if they are refused."""
    context: ServiceContext | None = None
    """Service of the jobs; None if it is refused."""
    budget_text: Sequence[str] = ()
    """Sentences about the budget; empty without one."""

    @property
    def arm_inputs(self) -> list[tuple[Arm, Inputs]]:
        """Arms whose inputs are not refused."""
        return [(arm, each) for arm, each in zip(self.arms, self.inputs, strict=True) if each is not None]

    @property
    def is_complete(self) -> bool:
        """True if neither the service nor the inputs of any arm are refused."""
        return self.context is not None and None not in self.inputs


AnyPrepared = TypeVar("AnyPrepared", bound=Prepared)


class Preparation:
    """The steps before a start. A plan's steps change nothing, and collect errors: see `ScratchState`."""

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step. A plan collects a user's error, and the result is None."""
        return step()

    def echo(self, text: str) -> None:
        """Print a line. A plan collects it as a note."""
        print_line(text)

    def stage(self, arms: Sequence[Arm]) -> Sequence[Inputs | None]:
        """Return the inputs of each arm; in a plan, None for those that are refused."""
        return stage_inputs(arms, self.echo)

    def open_context(self, experiment: Experiment) -> ServiceContext:
        """Open the service of the experiment's jobs. Raises InputError, AccessError."""
        return open_service_context(experiment, self.echo)

    def with_inputs(self, prepared: AnyPrepared) -> AnyPrepared:
        """Return jobs with their inputs and their service.

        Data comes first: an error in it leaves nothing behind, not even an empty tracking database.
        """
        inputs = self.stage(prepared.arms)
        return replace(prepared, inputs=inputs, context=self.attempt(partial(self.open_context, prepared.experiment)))


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
        place = home_id(home()) if traits_of(self.experiment.service).keeps_state_in_home else ""
        staged = [inputs for _, inputs in self.arm_inputs]
        return group_key(self.verb, self.name, self.arms, self.repeats, staged, self.design, place)

    def jobs(self, group_id: str) -> list[PlannedJob]:
        """Return the jobs of a group in the order of their starts."""
        staged = [inputs for _, inputs in self.arm_inputs]
        jobs = plan(group_id, self.name, self.arms, self.repeats, staged, home(), self.design)
        role = {"platform.role": TRAINING} if self.verb == "train" else {}
        return [replace(job, tags={**job.tags, **role}) for job in jobs]

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
    sentences = steps.attempt(lambda: check_budget([priced(context, job) for job in launch.jobs(CHECK)], budget))
    return replace(launch, budget_text=sentences or ())


def read_launch(verb: str, overrides: Mapping[str, str], echo: Callable[[str], None]) -> LaunchPlan:
    """Return what the options of a verb say about its jobs. Raises InputError."""
    fields = dict(overrides)
    name = fields.pop("experiment", "demo")
    wait = read_flag(fields, "wait", "true")
    fail_on = read_fail_on(fields) if verb == "compare" else frozenset[str]()
    for option in ("wait", "fail-on") if verb == "compare" else ("wait",):  # no fields: they do not change the jobs
        fields.pop(option, None)
    experiment = load(name, fields)
    parallel = experiment.compare.parallel
    selected_arms, repeats = _select_arms(verb, experiment, echo)
    design = design_of(experiment.compare) if verb == "compare" and len(selected_arms) > 1 else None
    return LaunchPlan(
        verb=verb,
        name=Path(name).stem,
        experiment=selected_arms[0].experiment,
        arms=selected_arms,
        repeats=repeats,
        # Probes run together, unless they would share this machine.
        parallel=parallel if verb != "probe" or traits_of(experiment.service).runs_here else len(selected_arms),
        design=design,
        wait=wait,
        fail_on=fail_on,
    )


def _select_arms(verb: str, experiment: Experiment, echo: Callable[[str], None]) -> tuple[tuple[Arm, ...], int]:
    if verb == "compare":
        return whole_trainings(without_pushes(arms(experiment), echo)), experiment.compare.repeats
    if verb == "probe":
        return probes(arms(experiment)), 1
    check_token(experiment)
    return whole_trainings((Arm(label=single_label(experiment), experiment=experiment, is_baseline=True),)), 1


def open_service_context(experiment: Experiment, echo: Echo, *, is_read_only: bool = False) -> ServiceContext:
    """Open the service of the experiment's jobs; see `Room.open_context`. Raises InputError, AccessError."""
    return SERVICES[experiment.service].open_context(experiment.aws.given(), echo, is_read_only=is_read_only)


def prepare(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    """Upload the inputs of a job, and add the prices of its instance types."""
    return priced(context, replace(job, spec=context.upload(job.spec)))


def priced(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    """Return a job with the prices of its instance types."""
    spec = job.spec
    fallback_prices = {each: price for each in spec.fallback_instance_types if (price := context.price(each))}
    return replace(job, price=context.price(spec.instance_type), fallback_prices=fallback_prices)
