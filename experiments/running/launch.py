"""The verbs `train`, `compare` and `probe`: everything is checked first, then the jobs run, then the report is made.

`train` is a comparison of one arm and one repeat; `probe` is one of which every job ends early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.planning.arms import single_label
from experiments.planning.hub_push import check_token, without_pushes
from experiments.planning.load import Arm, Experiment, arms, load
from experiments.planning.plan import Inputs, group_key, plan
from experiments.planning.probe_arms import probes, whole_trainings
from experiments.planning.staged_inputs import inputs_of
from experiments.running.output import say
from experiments.running.service_context import open_where
from training.contract.errors import InputError
from training.state.home import home

if TYPE_CHECKING:
    from tracking.server.store import Store


def launch(verb: str, given: Mapping[str, str]) -> int:
    """Run a verb with `--field value` pairs; return 0, or 1 when a job failed."""
    fields = dict(given)
    name, wait = fields.pop("experiment", "demo"), _waits(fields.pop("wait", "true"))
    experiment = load(name, fields)
    chosen, repeats = _chosen(verb, experiment)
    # The data first: what is wrong with it leaves nothing behind, not even an empty tracking database.
    staged = inputs_of(chosen, say)
    from tracking.server.store import open_store

    store = open_store(say=say)
    parallel = _parallel(verb, experiment, chosen)
    return _run(store, verb, Path(name).stem, chosen, repeats, staged, parallel, wait=wait)


def _waits(text: str) -> bool:
    """Return whether the jobs are followed; no field of the experiment, since both commands mean the same jobs."""
    if text not in {"true", "false"}:
        raise InputError(f"wait is '{text}': it must be true or false.")
    return text == "true"


def _chosen(verb: str, experiment: Experiment) -> tuple[tuple[Arm, ...], int]:
    if verb == "compare":
        return whole_trainings(without_pushes(arms(experiment), say)), experiment.compare.repeats
    if verb == "probe":
        return probes(arms(experiment)), 1
    check_token(experiment)
    return whole_trainings((Arm(label=single_label(experiment), experiment=experiment, is_baseline=True),)), 1


def _parallel(verb: str, experiment: Experiment, chosen: Sequence[Arm]) -> int:
    """Return how many jobs run at a time: probes all, where each has machines of its own."""
    if verb == "probe" and experiment.service != "local":
        return len(chosen)
    return experiment.compare.parallel


def _run(
    store: Store,
    verb: str,
    name: str,
    chosen: Sequence[Arm],
    repeats: int,
    staged: Sequence[Inputs],
    parallel: int,
    *,
    wait: bool,
) -> int:
    from experiments.running.follow_group import follow
    from reports.charts.class_charts import PngClassCharts
    from tracking.following.group_session import start_jobs
    from tracking.groups.group import open_group
    from tracking.groups.plan_file import keep_plan
    from tracking.recording.warm_pools import settle

    where = open_where(chosen[0].experiment, say)
    # Once for nothing: what cannot run there is refused before a run is opened and before anything is uploaded.
    for job in plan("check", name, chosen, 1, staged, home()):
        where.checked(job.spec)
    if where.service.name == "sagemaker":
        settle(store, where.service)
    key = group_key(verb, name, chosen, repeats, staged)
    group = open_group(store, experiment_name=name, verb=verb, key=key, description=chosen[0].experiment.description)
    jobs = [where.made_ready(job) for job in plan(group.id, name, chosen, repeats, staged, home())]
    say(f"{'Taking up' if group.continued else 'Running'} {group.id}: {len(jobs)} jobs")
    keep_plan(store, group, jobs, parallel)
    if not wait:
        left = start_jobs(store, where.service, group, jobs, parallel=parallel, say=say, charts=PngClassCharts())
        say(f"Left running{f', {left} jobs not started yet' if left else ''}: the same command without wait follows,")
        say(f"and `attach --group {group.id}` does from any machine.")
        return 0
    return follow(store, where.service, group, jobs, parallel, say)
