"""A group's jobs, from the first submission to the last record, in one loop of one thread.

What the tracking store holds decides what is left to do: a job whose run has ended is kept, one that runs is attached
to, one without a run is started. So the loop can be left at any moment and entered again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mlflow.entities import Run, RunStatus

from tracking.following.followed_job import Followed, Outcome, refused
from tracking.following.interruption import Interrupts
from tracking.groups.group import Group, child_runs
from tracking.groups.planned_job import PlannedJob
from tracking.recording.recorder import OpenRun, existing_run, open_run
from tracking.recording.run_tables import ClassCharts
from tracking.server.store import Store
from training.contract.errors import InputError, QuotaError, TrainfareError
from training.contract.events import FAILURE_CLASSES
from training.contract.service import Service
from training.services.launcher import stop_all

_TICK_SECONDS = 0.05
_FULL_SECONDS = 60.0
"""Until a job is tried again for which the account's quota had no room."""


def run_jobs(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    *,
    parallel: int = 1,
    may_start: Callable[[], bool] = lambda: True,
    say: Callable[[str], None] = print,
    charts: ClassCharts | None = None,
) -> list[Outcome]:
    """Run what is left of `planned`, at most `parallel` at a time, and return every outcome in the order planned.

    `may_start` is asked before each start; once it says no, nothing more is started, and the list is short. `charts`
    draws the class distribution and confusion matrix of each run; None logs their tables alone.

    Jobs that a person stopped, and those not started for that reason, leave the list short. An error that ends the
    following says, as a note, which jobs may run on.
    """
    jobs, waiting, outcomes = _taken_up(store, service, group, planned, say, charts)
    with Interrupts(jobs.stop) as interrupts, _leaving(service, group, jobs):
        while jobs.active or (waiting and not interrupts.stopping):
            # One start and one look in turn: starting hundreds keeps nobody from following those that run.
            started = False
            if waiting and len(jobs.active) < parallel and not interrupts.stopping:
                if not may_start():
                    waiting.clear()
                elif jobs.start(waiting[0]):
                    started, _ = True, waiting.popleft()
            if started and interrupts.stopping:  # asked between the submission and the line above
                jobs.stop()
            if not jobs.look() and not started:
                time.sleep(_TICK_SECONDS)
    return [outcomes[job.spec.name] for job in planned if job.spec.name in outcomes]


def start_jobs(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    *,
    parallel: int = 1,
    say: Callable[[str], None] = print,
    charts: ClassCharts | None = None,
) -> int:
    """Start what `run_jobs` would start first, and leave it running; return how many jobs are left for later."""
    jobs, waiting, _ = _taken_up(store, service, group, planned, say, charts)
    with _leaving(service, group, jobs):
        while waiting and len(jobs.active) < parallel and jobs.start(waiting[0]):
            waiting.popleft()
    return len(waiting)


@contextmanager
def _leaving(service: Service, group: Group, jobs: _Jobs) -> Iterator[None]:
    """Leave all running at the end; an error that brings it says which jobs may run on."""
    try:
        yield
    except TrainfareError as error:
        if unended := jobs.unended:
            error.add_note(_left(service, group, unended))
        raise
    finally:
        jobs.close()


def _taken_up(
    store: Store,
    service: Service,
    group: Group,
    planned: Sequence[PlannedJob],
    say: Callable[[str], None],
    charts: ClassCharts | None,
) -> tuple[_Jobs, deque[PlannedJob], dict[str, Outcome]]:
    """Return the group's jobs, those that run attached to; the ones that are left to start; the outcomes so far."""
    runs = child_runs(store, group)
    outcomes = {name: kept for job in planned if (kept := _kept(job, runs.get(name := job.spec.name)))}
    opened = {name: existing_run(run) for name, run in runs.items()}
    jobs = _Jobs(store, service, group, opened, outcomes, say, charts)
    waiting = deque(job for job in planned if job.spec.name not in outcomes and not jobs.attach(job))
    return jobs, waiting, outcomes


class _Jobs:
    """The jobs that are followed; of those that end the outcome is noted."""

    def __init__(
        self,
        store: Store,
        service: Service,
        group: Group,
        runs: dict[str, OpenRun],
        outcomes: dict[str, Outcome],
        say: Callable[[str], None],
        charts: ClassCharts | None,
    ) -> None:
        self._charts = charts
        self._store, self._service, self._group, self._say = store, service, group, say
        self._runs, self._outcomes = runs, outcomes
        self._full_until = 0.0
        self.active: dict[str, Followed] = {}

    def attach(self, job: PlannedJob) -> bool:
        """Follow a job that an earlier launcher submitted; return False of any other."""
        run = self._runs.get(job.spec.name)
        if run is None or not run.is_described:
            return False
        self.active[job.spec.name] = Followed(self._store, self._service, job, run, self._say, self._charts)
        return True

    def start(self, job: PlannedJob) -> bool:
        """Start a job; return False where the account has no room for it now."""
        if time.monotonic() < self._full_until:
            return False
        name = job.spec.name
        if name not in self._runs:
            self._runs[name] = open_run(self._store, self._group, job)
        try:
            self.active[name] = Followed(self._store, self._service, job, self._runs[name], self._say, self._charts)
        except (QuotaError, InputError) as error:
            if isinstance(error, QuotaError) and not error.is_final:
                self._say(f"  {job.run_name}: waits. {error}")
                self._full_until = time.monotonic() + _FULL_SECONDS
                return False
            self._outcomes[name] = refused(self._store, job, self._runs[name].id, error, self._say)
        return True

    def look(self) -> bool:
        """Look at the job whose turn it is; return False where no one's turn has come."""
        name = min(self.active, key=lambda each: self.active[each].due, default=None)
        if name is None or self.active[name].due > time.monotonic():
            return False
        if outcome := self.active[name].advance():
            self._outcomes[name] = outcome
            del self.active[name]
        return True

    def stop(self) -> None:
        """Ask all jobs to stop. Raises the first error."""
        stop_all([followed.job.stop for followed in self.active.values()])

    @property
    def unended(self) -> list[str]:
        """Names of the jobs whose run is open: they were started, or are just being started."""
        return [name for name in self._runs if name not in self._outcomes]

    def close(self) -> None:
        """Leave all running."""
        for followed in self.active.values():
            followed.close()


def _left(service: Service, group: Group, names: Sequence[str]) -> str:
    """Return what a person has to know of jobs that nobody follows now."""
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"Jobs that may run on: {some}. The same command goes on with them; "
        f"`{service.jobs_command} stop --group {group.id}` stops what runs."
    )


def _kept(job: PlannedJob, run: Run | None) -> Outcome | None:
    if run is None or not RunStatus.is_terminated(RunStatus.from_string(run.info.status)):
        return None
    tags = run.data.tags
    failure = None
    if run.info.status != "FINISHED":
        failure_class = tags.get("platform.failure_class", "Error")
        assert failure_class in FAILURE_CLASSES
        failure = failure_class, tags.get("platform.failure_message", "")
    push_failure = tags.get("platform.hub_failure")
    return Outcome(planned=job, run_id=run.info.run_id, failure=failure, push_failure=push_failure)
