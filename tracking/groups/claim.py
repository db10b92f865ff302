"""Open the one run of a job or a group, however many launchers open it at the same time.

MLflow has no unique names for runs, so each launcher first creates a claim: a run that no table shows. Then it looks
for other claims. The launcher whose claim has the lowest run id makes its claim the run; all others mark theirs as
duplicates and use that run. Clocks do not matter. This is mutual exclusion by reads and writes, as in Lamport's bakery
(Communications of the ACM 17(8), 1974): a launcher decides only after a search that began after its claim was active,
so of two launchers at least one sees the other.

Launchers with the same state folder take turns, by a lock, and never see each other's claims.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from mlflow.entities import Run
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

from state.home import home, home_id
from state.locks import held_lock
from tracking.queries.job_tables import counted_run, has_ended, quoted
from tracking.server.store import Store

KIND = "platform.kind"
CLAIM = "claim"
"""Kind of a run that is not opened yet."""
DUPLICATE = "duplicate"
"""Kind of a run that is not used, because another launcher opened the run of the same job or group."""
DEAD_SECONDS = 30.0
"""A claim of another machine that does not change for so long was left by a launcher that died."""

_STATE = "platform.claim"
_ACTIVE, _WAITING = "active", "waiting"
_CLAIMED_BY = "platform.claimed_by"
_CLAIM_ID = "platform.claim_id"
_PAUSE_SECONDS = 0.2


def launch_lock() -> AbstractContextManager[None]:
    """Keep other launchers with the same state folder from opening a run during a `with` block."""
    return held_lock(home() / "launch.lock")


@dataclass(frozen=True)
class Subject:
    """Job or group for which a run is opened."""

    experiment_id: str
    """MLflow experiment of its run."""
    identity: Mapping[str, str]
    """Tags that all of its runs share, and no other run has."""
    tags: Mapping[str, str]
    """All tags of a new run, with its kind."""

    @property
    def kind(self) -> str:
        return self.tags[KIND]


def find_or_open(
    store: Store, subject: Subject, own_run_id: str | None = None, *, claimed_by: str | None = None
) -> Run:
    """Return the run of `subject`, or open it.

    The caller holds the lock of `claimed_by`, which is the `launch_lock` of this state folder unless specified.
    `own_run_id` is a run to open instead of a new one. It becomes a duplicate if another launcher was faster.
    """
    opened = [run for run in _search(store, subject) if run.data.tags.get(KIND) == subject.kind]
    if opened and not own_run_id:
        return counted_run(opened)
    claimed_by = claimed_by or home_id(home())
    return _Claim(store, subject, _create(store, subject, own_run_id, claimed_by), claimed_by).settle()


def mark_duplicate(store: Store, run: Run, counted: str) -> None:
    """Take a run out of all tables, because the run `counted` is of the same job or group."""
    note = f"Run `{counted}` is of the same job. This one does not count: launchers opened both."
    store.tag(run.info.run_id, {KIND: DUPLICATE, MLFLOW_RUN_NOTE: note})
    if not has_ended(run):
        store.call(store.client.set_terminated, run.info.run_id, "KILLED")


@dataclass
class _Claim:
    """A launcher's own claim."""

    store: Store
    subject: Subject
    run_id: str
    claimed_by: str
    clock: Callable[[], float] = time.monotonic
    unchanged_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """First time at which a claim of another launcher had a state, by run id and state."""

    def settle(self) -> Run:
        """Return the subject's run: this claim, or another launcher's."""
        is_active = True
        while True:
            runs = {run.info.run_id: run for run in _search(self.store, self.subject)}
            own = runs.pop(self.run_id, None) or self.store.call(self.store.client.get_run, self.run_id)
            if opened := [run for run in runs.values() if run.data.tags.get(KIND) == self.subject.kind]:
                winner = counted_run(opened)
                mark_duplicate(self.store, own, winner.info.run_id)
                return winner
            rivals = [run for run in runs.values() if run.data.tags.get(KIND) == CLAIM]
            alive = [run for run in rivals if not self._is_dead(run)]
            if any(run.info.run_id < self.run_id for run in alive):
                is_active = is_active and not self._set(_WAITING)
            elif not is_active:
                is_active = self._set(_ACTIVE)
                continue
            elif not any(run.data.tags.get(_STATE) == _ACTIVE for run in alive):
                self.store.tag(self.run_id, {KIND: self.subject.kind})
                for run in rivals:
                    mark_duplicate(self.store, run, self.run_id)
                return own
            time.sleep(_PAUSE_SECONDS)

    def _set(self, state: str) -> bool:
        self.store.tag(self.run_id, {_STATE: state})
        return True

    def _is_dead(self, run: Run) -> bool:
        tags = run.data.tags
        if tags.get(_CLAIMED_BY) == self.claimed_by:
            return True  # its launcher had the lock that is held here
        since = self.unchanged_since.setdefault((run.info.run_id, tags.get(_STATE, "")), self.clock())
        return self.clock() - since > DEAD_SECONDS


def _create(store: Store, subject: Subject, own_run_id: str | None, claimed_by: str) -> str:
    claim = {KIND: CLAIM, _STATE: _ACTIVE, _CLAIMED_BY: claimed_by, _CLAIM_ID: uuid.uuid4().hex}
    tags = {**subject.tags, **claim}
    if own_run_id:
        store.tag(own_run_id, tags)
        return own_run_id

    def existing() -> Run | None:
        query = f'tags."{_CLAIM_ID}" = {quoted(tags[_CLAIM_ID])}'
        return next(iter(store.client.search_runs([subject.experiment_id], query, max_results=1)), None)

    run = store.create(store.client.create_run, subject.experiment_id, tags=tags, existing=existing)
    return str(run.info.run_id)


def _search(store: Store, subject: Subject) -> list[Run]:
    query = " and ".join(f'tags."{name}" = {quoted(value)}' for name, value in subject.identity.items())
    return list(store.call(store.client.search_runs, [subject.experiment_id], query))
