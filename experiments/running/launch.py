"""Launch the jobs of `train`, `compare`, `probe` and `check`: prepare a plan, follow the jobs wave by wave, and report.

`train` is a comparison with one arm and one repeat. `probe` is a comparison in which every job ends early. `check` runs
only the checks of a comparison. A plan is prepared in the same steps as a start: see `experiments.dry_runs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal, TypeVar

import pandas as pd

from experiments.planning.checks import checked_arms, require_checks
from experiments.planning.costs import budget_of, check_budget, expected_cost
from experiments.planning.equal_work import incomparable
from experiments.planning.inputs import Inputs, stage_inputs
from experiments.planning.load import (
    Arm,
    arms,
    load,
    probes,
    single_label,
    whole_trainings,
    with_batch_sizes,
    without_pushes,
)
from experiments.planning.memory_plan import check_memory
from experiments.planning.plan import calibration, check, design_of, group_key, plan
from experiments.running.options import read_fail_on, read_flag
from experiments.running.output import UNWANTED_RESULT, answer, exit_code, print_line, status_writer
from experiments.running.scheduler import ExpectedSeconds, GroupProgress, run_jobs, start_jobs, without_left_out
from experiments.schema.experiment import Experiment
from judging.design import Design
from judging.equivalence import DIFFERENT
from judging.waves import Progress
from reports.comparison.checks import CHECKS_FILE, TABLE_FILE, checks_of
from reports.comparison.tables import look_sentence
from reports.model.numbers import figure
from state.home import home, home_id
from sweeps.costs import FIGURES, Measurement, largest_useful, measurements
from tracking.budgets.ledger import Ledger, end_sentence, set_budget
from tracking.groups.group import Group, close_group, open_group
from tracking.groups.plan_file import DESIGN, write_design, write_plan
from tracking.groups.planned_job import CHOSEN_SIZE, TRAINING, PlannedJob
from tracking.queries import job_tables
from tracking.queries.job_tables import ended_jobs
from tracking.queries.metric_histories import histories
from tracking.recorded.arms import BILLABLE, arms_of
from tracking.recorded.recorded_job import Job, job_of
from tracking.recorded.waves import jobs_to_repeat, progress_of
from tracking.recording.metrics import record_warm_pool_costs
from tracking.recording.recorder import Outcome
from tracking.server.store import Store, open_store
from training.contract.errors import TrackingError, TrainfareError
from training.contract.plain_text import counted, without_markup
from training.contract.price import mean_price
from training.contract.service import Echo, Service, ServiceContext
from training.services.budget import budget_sentence
from training.services.interruption import Detached
from training.services.registry import SERVICES, traits_of


def launch(verb: str, overrides: Mapping[str, str]) -> int:
    """Run a verb with overrides of the experiment's fields; return the exit code, see `follow`."""
    plan = prepare_launch(verb, overrides, Preparation())
    assert plan  # an error has ended the command
    assert plan.context
    return _carry_out(plan, plan.context)


def _carry_out(plan: LaunchPlan, context: ServiceContext) -> int:
    store, design, experiment = open_store(echo=print_line), plan.design, plan.experiment
    if plan.verb == "train" and (push := experiment.push_to_hub):
        from experiments.running.push_model import open_repository

        open_repository(push)
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
    set_budget(store, group, budget_of(experiment))
    try:
        plan = choose_batch_sizes(replace(plan, seed_offset=group.seed_offset), store, context, group)
        code = run_checks(plan, store, context, group)
    except Detached:
        print_line("Running jobs keep running. The same command continues with their results.")
        return 130
    if code is not None:
        return code
    jobs = [prepare(context, job) for job in plan.jobs(group.id)]
    for sentence in incomparable(plan.arm_inputs, jobs) if plan.verb == "compare" else ():
        print_line(f"Note: {sentence}")
    print_line(f"{'Resuming' if group.continued else 'Running'} {group.id}: {jobs_phrase(jobs, design)}")
    for sentence in plan.budget_text:
        print_line(sentence)
    write_plan(store, group, jobs, plan.parallel, home(), design)
    if plan.wait:
        return follow(store, context.service, group, jobs, plan.parallel, design, plan.fail_on)
    first = [job for job in jobs if design is None or (job.repeat < design.looks[0] and not job.is_again)]
    left = start_jobs(store, context.service, group, first, parallel=plan.parallel, echo=print_line)
    answer({"group": group.id, "is_running": True})
    print_line(f"Jobs keep running{f'; {left} more are not started yet' if left else ''}.")
    print_line(f"Follow them with the same command without --wait, or with `trainfare attach --group {group.id}`.")
    return 0


def choose_batch_sizes(plan: LaunchPlan, store: Store, context: ServiceContext, group: Group) -> LaunchPlan:
    """Return the plan with a number in place of each `auto`: the one in the run of its calibration, which runs once.

    Closes the group and raises TrainfareError if a size cannot be chosen.
    """
    planned = {label: prepare(context, job) for label, job in plan.calibrations(group.id).items()}
    if not planned:
        return plan
    print_line(f"Group {group.id}: a calibration chooses the batch size of {', '.join(planned)}")
    ended = run_jobs(store, context.service, group, [*planned.values()], parallel=plan.parallel, echo=print_line)
    outcomes = {each.planned.spec.name: each for each in ended}
    try:
        sizes = {label: _chosen_size(store, outcomes.get(job.spec.name), label) for label, job in planned.items()}
    except TrainfareError as error:
        if not isinstance(error, TrackingError):  # the same command can read the figures later
            close_group(store, group, "FAILED", note=without_markup(str(error)))
        raise
    return replace(plan, arms=tuple(arm.with_batch_size(sizes.get(arm.label)) for arm in plan.arms))


def _chosen_size(store: Store, outcome: Outcome | None, label: str) -> int:
    """Return the batch size that an arm's calibration chose, or chooses now."""
    if outcome is None or outcome.failure:
        why = outcome.failure.text if outcome and outcome.failure else "stopped, or no room in the budget"
        raise TrainfareError(f"The batch size of “{label}” was not chosen: its calibration failed ({why.rstrip('.')}).")
    data = store.call(store.client.get_run, outcome.run_id).data
    if not (size := int(data.tags.get(f"platform.{CHOSEN_SIZE}", 0))):
        if not (rows := read_measurements(store, outcome.run_id)):
            raise TrackingError(f"The figures of calibration {outcome.planned.spec.name} have not arrived: try later.")
        size = largest_useful(rows, data.metrics.get("calibration/memory_limit_gib"))
        store.tag(outcome.run_id, {f"platform.{CHOSEN_SIZE}": str(size)})
    print_line(f"  {label}: batch size {size}")
    return size


def run_checks(plan: LaunchPlan, store: Store, context: ServiceContext, group: Group) -> int | None:
    """Run the remaining checks and print what they show. Return the exit code if the command ends with them.

    Closes the group and raises TrainfareError if an arm is different, unless `plan.check` is `report`.
    """
    arms, reasons = plan.checked
    jobs = {label: prepare(context, job) for label, job in plan.checks(group.id).items()}
    if not jobs:
        return None
    document = {"arms": {job.spec.name: arms[label] for label, job in jobs.items()}, "not_checked": reasons}
    store.call(store.client.log_text, group.run_id, json.dumps(document, ensure_ascii=False), CHECKS_FILE)
    print_line(f"Group {group.id}: checking {', '.join(jobs)}")
    outcomes = run_jobs(store, context.service, group, [*jobs.values()], parallel=plan.parallel, echo=print_line)
    table = job_tables.jobs(store.client, group.id)
    checks = checks_of(table, document, lambda job: job_tables.json_artifact(store.client, job.run_id, TABLE_FILE))
    for each in checks:
        billed = f", {figure(each.job.number(BILLABLE))} s billed" if each.job else ""
        print_line(f"  {', '.join(each.arms)}: {each.text}{billed}")
    different = [each.sentence for each in checks if each.answer == DIFFERENT]
    budget_end = Ledger(store, context.service, group).ended
    is_stopped = any(each.failure and each.failure.is_stop for each in outcomes)
    is_stopped |= len(outcomes) < len(jobs) and budget_end is None
    is_refused = plan.check == "refuse" and bool(different)
    if not (plan.verb == "check" or is_stopped or is_refused):
        return None
    from experiments.running.write_report import report_group

    report_group(store, group, group.experiment_name)
    if budget_end:
        print_line(end_sentence(budget_end))
    is_incomplete = sum(bool(each.findings[0].name) for each in checks) < len(jobs)
    refusal = f"{' '.join(different)} Remove what is different, or train it with --compare.check off."
    status = "KILLED" if is_stopped else "FAILED" if is_refused or is_incomplete else "FINISHED"
    close_group(store, group, status, note=without_markup(refusal) if is_refused else "")
    if is_refused and not is_stopped:
        error = TrainfareError(refusal)
        error.exit_code = UNWANTED_RESULT
        raise error
    return 130 if is_stopped else UNWANTED_RESULT if different else int(is_incomplete)


def read_measurements(store: Store, run_id: str) -> tuple[Measurement, ...]:
    """Return the figures of a calibration, from its run."""
    points = store.call(lambda: histories(store.client, {run_id: 0.0}, list(FIGURES)))[run_id]
    return measurements(zip(points["step"], points["key"], points["value"], strict=True))


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
    design: Design | None
    """Looks of a comparison or at a sweep's repeats; None without looks."""
    fail_on: frozenset[str]
    inputs: Sequence[Inputs | None] = ()
    """Inputs of each arm; None if they are refused."""
    context: ServiceContext | None = None
    """Service of the jobs; None if it is refused."""
    budget_text: Sequence[str] = ()
    seed_offset: int = 0

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
        return open_service_context(experiment, self.echo)

    def with_inputs(self, prepared: AnyPrepared) -> AnyPrepared:
        """Return jobs with their inputs and their service.

        Data comes first: an error in it leaves nothing behind, not even an empty tracking database.
        """
        inputs = self.stage(prepared.arms)
        return replace(prepared, inputs=inputs, context=self.attempt(partial(self.open_context, prepared.experiment)))


@dataclass(frozen=True, kw_only=True)
class LaunchPlan(Prepared):
    """Jobs of `train`, `compare`, `probe` or `check`."""

    repeats: int
    """Most jobs of each arm."""
    check: Literal["refuse", "report", "off"]
    """The field `compare.check`."""
    wait: bool
    """True to follow the jobs to their end."""

    @property
    def key(self) -> str:
        """Hash of the request. A state folder without an id gets one, which is part of the key of local jobs."""
        place = home_id(home()) if traits_of(self.experiment.service).keeps_state_in_home else ""
        staged = [inputs for _, inputs in self.arm_inputs]
        return group_key(self.verb, self.name, self.arms, self.repeats, staged, self.design, place)

    def jobs(self, group_id: str) -> list[PlannedJob]:
        if self.verb == "check":
            return []
        staged = [inputs for _, inputs in self.arm_inputs]
        jobs = plan(group_id, self.name, self.arms, self.repeats, staged, home(), self.design, self.seed_offset)
        if self.verb != "train":
            return jobs
        aws, reads_aws = self.experiment.aws, traits_of(self.experiment.service).reads_aws
        folder = {"checkpoint_uri": aws.checkpoint_uri} if reads_aws and aws.exact_checkpoint_uri else {}
        return [
            replace(
                job,
                spec=job.spec.model_copy(update=folder if job.spec.checkpoint_uri else {}),
                tags={**job.tags, "platform.role": TRAINING},
            )
            for job in jobs
        ]

    def calibrations(self, group_id: str) -> dict[str, PlannedJob]:
        """Return the job that chooses the batch size of each arm with `batch_size: auto`, by the arm's label."""
        return {
            arm.label: calibration(group_id, self.name, arm, number, inputs, home())
            for number, (arm, inputs) in enumerate(self.arm_inputs)
            if arm.batch_sizes
        }

    @property
    def checked(self) -> tuple[dict[str, list[str]], dict[str, str]]:
        """See `checked_arms`."""
        return ({}, {}) if self.check == "off" else checked_arms(self.arm_inputs)

    def checks(self, group_id: str) -> dict[str, PlannedJob]:
        """Return the job of each check, by the label of its first arm."""
        arms = self.checked[0]
        return {
            arm.label: check(group_id, self.name, arm, number, inputs, home())
            for number, (arm, inputs) in enumerate(self.arm_inputs)
            if arm.label in arms
        }

    def known_jobs(self, group_id: str) -> list[tuple[Arm, Inputs, PlannedJob]]:
        arms = {arm.label: (arm, inputs) for arm, inputs in self.arm_inputs}
        before = [*self.calibrations(group_id).items(), *self.checks(group_id).items()]
        first = [(*arms[label], job) for label, job in before]
        return [*first, *((*arms[job.arm], job) for job in self.jobs(group_id))]


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
        steps.attempt(partial(check_memory, job, arm.experiment, inputs))
    if verb == "check" and launch.is_complete:
        steps.attempt(lambda: require_checks(*launch.checked))
    budget = budget_of(launch.experiment)
    if not launch.is_complete or not budget.budget.is_limited:
        return launch
    jobs = [job for _, _, job in launch.known_jobs(CHECK)]
    sentences = steps.attempt(lambda: check_budget([priced(context, job) for job in jobs], budget))
    return replace(launch, budget_text=sentences or ())


def read_launch(verb: str, overrides: Mapping[str, str], echo: Callable[[str], None]) -> LaunchPlan:
    """Return what the options of a verb say about its jobs. Raises InputError."""
    fields = dict(overrides)
    name = fields.pop("experiment", "demo")
    wait = read_flag(fields, "wait", "true")
    fail_on = read_fail_on(fields) if verb == "compare" else frozenset[str]()
    own = {"compare": ("wait", "fail-on"), "check": ()}
    for option in own.get(verb, ("wait",)):  # no fields: they do not change the jobs
        fields.pop(option, None)
    experiment = load(name, fields)
    parallel = experiment.compare.parallel
    selected_arms, repeats = _select_arms(verb, experiment, echo)
    is_comparison = verb == "compare" and len(selected_arms) > 1
    design = design_of(experiment.compare) if is_comparison else None
    return LaunchPlan(
        verb=verb,
        name=Path(name).stem,
        experiment=selected_arms[0].experiment,
        arms=selected_arms,
        repeats=repeats,
        check="report" if verb == "check" else experiment.compare.check if is_comparison else "off",
        # Probes run together, unless they would share this machine.
        parallel=parallel if verb != "probe" or traits_of(experiment.service).runs_here else len(selected_arms),
        design=design,
        wait=wait,
        fail_on=fail_on,
    )


def _select_arms(verb: str, experiment: Experiment, echo: Callable[[str], None]) -> tuple[tuple[Arm, ...], int]:
    if verb in ("compare", "check"):
        return whole_trainings(without_pushes(arms(experiment), echo)), experiment.compare.repeats
    if verb == "probe":
        return probes(arms(experiment)), 1
    if experiment.push_to_hub:
        from experiments.running.push_model import find_token

        find_token()
    arm = Arm(label=single_label(experiment), experiment=experiment, is_baseline=True)
    return whole_trainings((with_batch_sizes(arm, experiment.sweep.batch_sizes),)), 1


def open_service_context(experiment: Experiment, echo: Echo, *, is_read_only: bool = False) -> ServiceContext:
    """Open the service of the experiment's jobs; see `Room.open_context`. Raises InputError, AccessError."""
    room = SERVICES[experiment.service]
    section = getattr(experiment, room.TRAITS.section).given() if room.TRAITS.section else {}
    return room.open_context(section, echo, is_read_only=is_read_only)


def prepare(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    """Upload the inputs of a job, and add the prices of its instance types."""
    return priced(context, replace(job, spec=context.upload(job.spec)))


def priced(context: ServiceContext, job: PlannedJob) -> PlannedJob:
    spec = job.spec
    fallback_prices = {each: price for each in spec.fallback_instance_types if (price := context.price(each))}
    return replace(job, price=mean_price(spec.resources, context.price), fallback_prices=fallback_prices)


RunJobs = Callable[[Sequence[PlannedJob]], list[Outcome]]
"""Runs the remaining ones of these jobs, and returns the outcomes of all that have ended."""


def follow(
    store: Store,
    service: Service,
    group: Group,
    jobs: Sequence[PlannedJob],
    parallel: int,
    design: Design | None = None,
    fail_on: frozenset[str] = frozenset(),
) -> int:
    """Run the remaining jobs and report. With a `design`, the jobs run in waves, and arms stop by themselves.

    Returns the exit code: 0; 1 if a job failed, or all jobs of an arm of a comparison; 3 for a result that `fail_on`
    names; 130 if a person stopped jobs or detached.
    """
    ledger = Ledger(store, service, group)
    if ledger.is_limited:
        print_line(f"{budget_sentence(ledger.spending())}.")

    is_most_certain = design is None or len(design.looks) == 1
    expected = expected_seconds(store, group, jobs)
    progress = GroupProgress(print_line, status_writer(), expected, is_most_certain=is_most_certain)

    def run(planned: Sequence[PlannedJob]) -> list[Outcome]:
        names, arms = {job.spec.name for job in planned}, {job.arm for job in planned}
        # Arms that have stopped run no more jobs, so no wave contains them. Jobs run again only if it is needed.
        progress.plan([job for job in jobs if job.spec.name in names or (job.arm in arms and not job.is_again)])
        return run_jobs(store, service, group, planned, parallel=parallel, echo=print_line, progress=progress)

    try:
        jobs, outcomes = run_waves(store, group, jobs, design, run) if design else (jobs, run(jobs))
        jobs = without_left_out(jobs, outcomes)
    except Detached:
        print_line(
            "Running jobs keep running. Continue with the same command, or elsewhere with "
            f"`trainfare attach --group {group.id}`."
        )
        return 130
    refusals = [outcome.refusal for outcome in outcomes if outcome.refusal]
    if refusals and len(refusals) == len(jobs):
        close_group(store, group, "FAILED", note=without_markup(str(refusals[0])))
        raise refusals[0]
    if service.traits.has_warm_pools:
        record_warm_pool_costs(store, service)  # a later job may have reused the instances of an earlier job
    # Imported late, because importing the charts takes as long as all other imports together.
    from experiments.running.push_model import push_models
    from experiments.running.write_report import report_group

    report = report_group(store, group, group.experiment_name)
    is_pushed = push_models(store, service, group, outcomes)
    log_trained(store, service, group, outcomes, keeps_artifacts=not is_pushed)
    if not is_pushed:
        return 1  # the group stays open
    if budget_end := ledger.ended:
        print_line(end_sentence(budget_end))
    failed = [outcome for outcome in outcomes if outcome.failure]
    is_cut_short = len(outcomes) < len(jobs) and budget_end is None
    is_stopped = is_cut_short or any(outcome.failure and outcome.failure.is_stop for outcome in failed)
    close_group(store, group, "KILLED" if is_stopped else "FAILED" if failed else "FINISHED")
    if is_stopped:
        return 130
    # A comparison counts failed jobs in its verdict. An arm without a successful job has no verdict.
    trained = {outcome.planned.arm for outcome in outcomes if not outcome.failure}
    if {job.arm for job in jobs} - trained or (failed and design is None):
        return 1
    return exit_code(report, fail_on)


def run_waves(
    store: Store,
    group: Group,
    jobs: Sequence[PlannedJob],
    design: Design,
    run: RunJobs,
    rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table,
    pairs: Sequence[tuple[str, str]] = (),
) -> tuple[list[PlannedJob], list[Outcome]]:
    """Run the waves of a comparison with `run`. Return the jobs of all waves so far, and the outcomes of ended jobs.

    The tracking server's records alone decide which jobs come next, so all launchers of a group agree. `rows` selects
    the comparison's jobs from the table of the group's jobs. The second arm of each of the `pairs` is also compared
    with the first.
    """
    baselines = {job.arm for job in jobs if job.is_baseline}
    labels = sorted(dict.fromkeys(job.arm for job in jobs), key=lambda label: label not in baselines)
    reported: list[Progress | None] = [None] * (1 + len(pairs))
    outcomes: dict[str, Outcome] = {}
    while True:
        arms = arms_of(rows(job_tables.jobs(store.client, group.id)))
        again = jobs_to_repeat(design, arms)
        states = [progress_of(design, labels, arms)]
        states += [progress_of(replace(design, families=len(pairs)), pair, arms) for pair in pairs]
        for state, before, other in zip(states, reported, ["", *(first for first, _ in pairs)], strict=True):
            _print_progress(state, before, design, f" against {other}" if other else "")
        reported = [*states]
        started = {job for state in states for job in state.begun}
        begun = [job for job in jobs if (job.arm, job.repeat) in (again if job.is_again else started)]
        left = [job for job in begun if job.spec.name not in outcomes]
        if left:
            outcomes |= {outcome.planned.spec.name: outcome for outcome in run(left)}
        begun = without_left_out(begun, outcomes.values())
        # Nothing is left although jobs are due if a run was deleted while its job ran. The report lists it as missing.
        if not (any(state.due for state in states) and left) or len(outcomes) < len(begun):
            return begun, list(outcomes.values())


def _print_progress(state: Progress, reported: Progress | None, design: Design, against: str = "") -> None:
    """Print the looks and the stopped arms that were not `reported` yet."""
    for number in range(len(reported.looks) if reported else 0, len(state.looks)):
        print_line(f"After {counted(design.looks[number], 'repeat')}{against}:")
        for arm, look in state.looks[number].items():
            print_line(f"  {arm}: {look_sentence(look)}")
    for arm, reason in state.stopped.items():
        if reason == "too few jobs succeeded" and not (reported and arm in reported.stopped):
            print_line(f"  {arm}: stops: too few jobs to compare")


def expected_seconds(store: Store, group: Group, jobs: Sequence[PlannedJob]) -> ExpectedSeconds:
    """Return a function from a job to its expected billable instance seconds, or None if they are unknown.

    The earlier jobs are read once, when the first job is asked about. A server that does not answer then does not
    disturb the jobs that are followed.
    """

    @cache
    def earlier() -> list[Job]:
        try:
            return earlier_jobs(store, group.experiment_id, jobs, but=group.id)
        except TrackingError:
            return []

    known: dict[tuple[str, bool], float | None] = {}

    def seconds(job: PlannedJob) -> float | None:
        # Repeats of an arm differ only in their seed.
        key = job.arm, job.is_again
        if key not in known:
            cost = expected_cost(job, None, earlier())
            known[key] = cost.seconds if cost else None
        return known[key]

    return seconds


def earlier_jobs(store: Store, experiment_id: str, jobs: Sequence[PlannedJob], but: str | None = None) -> list[Job]:
    """Return the successful jobs of an experiment on the machines of planned jobs, except jobs of the group `but`."""
    table = ended_jobs(store.client, *{(experiment_id, job.spec.instance_type) for job in jobs})
    return [job_of(row) for row in table.to_dict("records") if but is None or row.get("group") != but]


def log_trained(
    store: Store,
    service: Service,
    group: Group,
    outcomes: Sequence[Outcome],
    *,
    keeps_artifacts: bool = False,
) -> None:
    """Log the trained models, and delete artifacts that are no longer needed unless `keeps_artifacts`.

    This comes last, so that it delays no job and no report. The group stays open until it is done.
    """
    if any(outcome.planned.model for outcome in outcomes):
        from models.logged.log_model import delete_artifacts, log_models
        from models.logged.model_folder import MODELS_FOLDER

        try:
            log_models(store, service, group, outcomes, home() / MODELS_FOLDER, print_line)
            if service.traits.keeps_state_in_home and not keeps_artifacts:
                delete_artifacts(store, group, outcomes, home(), print_line)
        except TrackingError as error:
            print_line(f"No model artifact was deleted: {str(error).rstrip('.')}.")
        except KeyboardInterrupt as end:
            end.add_note(
                "All jobs have ended. The same command logs the remaining models, "
                f"and so does `trainfare attach --group {group.id}`."
            )
            raise


def jobs_phrase(jobs: Sequence[PlannedJob], design: Design | None) -> str:
    """Return the number of jobs, such as `at most 18 jobs` for a comparison that may stop earlier."""
    most = "at most " if design and len(design.looks) > 1 else ""
    again = ", and one more for each that is disturbed" if any(job.is_again for job in jobs) else ""
    return f"{most}{counted(sum(not job.is_again for job in jobs), 'job')}{again}"
