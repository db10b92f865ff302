"""Arms of which no further job is started, because it would fail like the earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mlflow.entities import Run

from judging.doomed import Death, doom_of
from tracking.following.followed_job import Outcome
from tracking.groups.planned_job import PlannedJob
from tracking.recording.deaths import recorded_death
from tracking.server.store import Store

LEFT_OUT = "platform.repeats_left_out"
"""Tag of the run of a job that died, if further repeats of its arm were not started for that reason."""


class DoomedArms:
    """Exceptions of which the jobs of a group died, from the runs on the tracking server."""

    def __init__(self, store: Store, runs: Iterable[Run], echo: Callable[[str], None]) -> None:
        """`echo` reports each arm of which jobs are left out, once."""
        self._store, self._echo = store, echo
        self._deaths: dict[str, dict[str, Death]] = {}
        """By arm and by the id of the job's run."""
        self._reported: set[str] = set()
        for run in runs:
            if death := recorded_death(run.data.tags):
                self._deaths.setdefault(run.data.tags.get("platform.arm", ""), {})[run.info.run_id] = death

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a job."""
        if outcome.death:
            self._deaths.setdefault(outcome.planned.arm, {})[outcome.run_id] = outcome.death

    def leaves_out(self, job: PlannedJob) -> bool:
        """Return True if the job must not be started. Report its arm, and record it for the report."""
        deaths = self._deaths.get(job.arm, {})
        doom = doom_of(list(deaths.values()))
        if doom and job.arm not in self._reported:
            self._reported.add(job.arm)
            self._echo(f"  {job.arm}: no further repeats are started: they would fail as well ({doom.exception})")
            self._store.tag(next(iter(deaths)), {LEFT_OUT: "true"})
        return doom is not None


def without_left_out(jobs: Sequence[PlannedJob], outcomes: Iterable[Outcome]) -> list[PlannedJob]:
    """Return the jobs without those that were left out because their arm is doomed."""
    deaths: dict[str, list[Death]] = {}
    ended = set()
    for outcome in outcomes:
        ended.add(outcome.planned.spec.name)
        if outcome.death:
            deaths.setdefault(outcome.planned.arm, []).append(outcome.death)
    doomed = {arm for arm, of_arm in deaths.items() if doom_of(of_arm)}
    return [job for job in jobs if job.spec.name in ended or job.arm not in doomed]
