"""Launch the jobs of `train`, `compare` and `probe`: check everything, run the jobs, report.

`train` is a comparison with one arm and one repeat. `probe` is a comparison in which every job ends early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.planning.arms import single_label
from experiments.planning.design import design_of
from experiments.planning.hub_push import check_token, without_pushes
from experiments.planning.load import Arm, Experiment, arms, load
from experiments.planning.plan import Inputs, group_key, plan
from experiments.planning.probe_arms import probes, whole_trainings
from experiments.planning.staged_inputs import stage_inputs
from experiments.running.fail_on import read_fail_on
from experiments.running.output import print_line
from experiments.running.service_context import open_service_context
from judging.design import Design
from training.contract.errors import InputError
from training.state.home import home, home_id

if TYPE_CHECKING:
    from tracking.server.store import Store


def launch(verb: str, overrides: Mapping[str, str]) -> int:
    """Run a verb with overrides of the experiment's fields; return the exit code, see `follow`."""
    fields = dict(overrides)
    name, wait = fields.pop("experiment", "demo"), _read_wait(fields.pop("wait", "true"))
    fail_on = read_fail_on(fields.pop("fail-on", "")) if verb == "compare" else frozenset[str]()
    experiment = load(name, fields)
    selected_arms, repeats = _select_arms(verb, experiment)
    # Data comes first: an error in it leaves nothing behind, not even an empty tracking database.
    staged = stage_inputs(selected_arms, print_line)
    from tracking.server.store import open_store

    store = open_store(echo=print_line)
    parallel = _parallel(verb, experiment, selected_arms)
    design = design_of(experiment.compare) if verb == "compare" and len(selected_arms) > 1 else None
    name = Path(name).stem
    return _run(store, verb, name, selected_arms, repeats, staged, parallel, design, wait=wait, fail_on=fail_on)


def _read_wait(text: str) -> bool:
    """Return whether to follow the jobs. `wait` is not a field of the experiment: it does not change the jobs."""
    if text not in {"true", "false"}:
        raise InputError(f"--wait is '{text}': it must be true or false.")
    return text == "true"


def _select_arms(verb: str, experiment: Experiment) -> tuple[tuple[Arm, ...], int]:
    if verb == "compare":
        return whole_trainings(without_pushes(arms(experiment), print_line)), experiment.compare.repeats
    if verb == "probe":
        return probes(arms(experiment)), 1
    check_token(experiment)
    return whole_trainings((Arm(label=single_label(experiment), experiment=experiment, is_baseline=True),)), 1


def _parallel(verb: str, experiment: Experiment, selected_arms: Sequence[Arm]) -> int:
    """Return the number of jobs to run at the same time. On SageMaker all probes run together."""
    if verb == "probe" and experiment.service != "local":
        return len(selected_arms)
    return experiment.compare.parallel


def _run(
    store: Store,
    verb: str,
    name: str,
    selected_arms: Sequence[Arm],
    repeats: int,
    staged: Sequence[Inputs],
    parallel: int,
    design: Design | None,
    *,
    wait: bool,
    fail_on: frozenset[str],
) -> int:
    from experiments.running.follow_group import follow, jobs_phrase
    from reports.charts.class_charts import PngClassCharts
    from tracking.following.group_session import start_jobs
    from tracking.groups.design_tag import DESIGN, write_design
    from tracking.groups.group import open_group
    from tracking.groups.plan_file import write_plan
    from tracking.groups.planned_job import as_training
    from tracking.recording.warm_pools import record_warm_pool_costs

    context = open_service_context(selected_arms[0].experiment, print_line)
    # Check a plan without a group first, before a run is opened or anything is uploaded.
    for job in plan("check", name, selected_arms, 1, staged, home()):
        context.check(job.spec)
    if context.service.name == "sagemaker":
        record_warm_pool_costs(store, context.service)
    place = home_id(home()) if context.service.name == "local" else ""
    key = group_key(verb, name, selected_arms, repeats, staged, design, place)
    group = open_group(
        store,
        experiment_name=name,
        verb=verb,
        key=key,
        description=selected_arms[0].experiment.description,
        tags={DESIGN: write_design(design)} if design else {},
    )
    planned = plan(group.id, name, selected_arms, repeats, staged, home(), design)
    jobs = [context.prepare(job) for job in (map(as_training, planned) if verb == "train" else planned)]
    print_line(f"{'Resuming' if group.continued else 'Running'} {group.id}: {jobs_phrase(jobs, design)}")
    write_plan(store, group, jobs, parallel, design)
    if not wait:
        charts = PngClassCharts()
        first = [job for job in jobs if design is None or (job.repeat < design.looks[0] and not job.is_again)]
        left = start_jobs(store, context.service, group, first, parallel=parallel, echo=print_line, charts=charts)
        print_line(f"Jobs keep running{f'; {left} more are not started yet' if left else ''}.")
        print_line(f"Follow them with the same command without --wait, or with `attach --group {group.id}`.")
        return 0
    return follow(store, context.service, group, jobs, parallel, print_line, design, fail_on)
