"""What a report reads beside its table of jobs: where the server does not give it, the report is made without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run

from reports.comparison.arms import Job
from reports.comparison.missing_data import deleted
from tracking.queries import job_tables
from tracking.queries.metric_histories import histories
from tracking.server.errors import is_final
from training.contract.errors import TrackingError

Result = TypeVar("Result")
Otherwise = TypeVar("Otherwise")
Source = Literal["runs", "files"]


class Reader:
    """Reads from one tracking server, and notes what could not be read.

    A server that does not answer is not asked again: each question would take its time to fail.
    """

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self._asked: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._reasons: dict[str, TrackingError] = {}
        self._silent: dict[Source, TrackingError] = {}
        self._deleted: list[str] = []

    def histories(self, jobs: Iterable[Job], keys: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Return `histories.histories` by run id, without the jobs whose points cannot be read."""
        starts = {job.run_id: job.number("training_start_time") for job in jobs}
        if "runs" not in self._silent:
            try:
                return histories(self.client, starts, keys)
            except TrackingError as error:
                self._heed("runs", error)
        # Of one job at least they cannot be read: which ones is found one by one, unless nothing answers any more.
        told = {
            run: self._read("runs", "the curves", partial(self._history, run, at, keys), None)
            for run, at in starts.items()
        }
        return {run_id: table for run_id, table in told.items() if table is not None}

    def environment(self, run_id: str) -> dict[str, Any]:
        """Return `job_tables.environment` of a run; empty where it cannot be read."""
        return self._read("files", "versions and hardware", lambda: job_tables.environment(self.client, run_id), {})

    def artifact(self, run_id: str, name: str) -> dict[str, Any]:
        """Return `job_tables.json_artifact`; empty where it cannot be read."""
        return self._read(
            "files", f"what {name} tells", lambda: job_tables.json_artifact(self.client, run_id, name), {}
        )

    def parent_run(self, group: str) -> Run | None:
        """Return `job_tables.parent_run`, or None where it cannot be read; note which of its jobs' runs are deleted."""
        found = self._read("runs", "the run of the group", lambda: job_tables.parent_run(self.client, group), None)
        if found:
            self.note_deleted({group: found.info.experiment_id})
        return found

    def note_deleted(self, groups: Mapping[str, str]) -> None:
        """Note which jobs' runs are deleted of these groups, each with the id of its experiment."""
        asked = groups.items()
        self._deleted += self._read(
            "runs",
            "the list of deleted runs",
            lambda: [name for group, id in asked for name in job_tables.deleted_jobs(self.client, group, id)],
            [],
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each kind of thing that could not be read, or is deleted."""
        lost: dict[str, list[str]] = {}
        for what, why in self._reasons.items():
            lost.setdefault(str(why).rstrip("."), []).append(f"{what}{self._share(what)}")
        return (*deleted(self._deleted), *(f"Missing: {', '.join(whats)}. {why}." for why, whats in lost.items()))

    def _history(self, run_id: str, start: float, keys: Sequence[str]) -> pd.DataFrame:
        return histories(self.client, {run_id: start}, keys)[run_id]

    def _share(self, what: str) -> str:
        asked, lost = self._asked[what], self._lost[what]
        return "" if asked == 1 else f" of {lost} of {asked} jobs"

    def _read(self, source: Source, what: str, ask: Callable[[], Result], otherwise: Otherwise) -> Result | Otherwise:
        self._asked[what] += 1
        if source in self._silent:
            return self._without(what, self._silent[source], otherwise)
        try:
            return ask()
        except TrackingError as error:
            self._heed(source, error)
            return self._without(what, error, otherwise)

    def _heed(self, source: Source, error: TrackingError) -> None:
        """Note a server that does not answer, so that it is not asked again."""
        if not isinstance(error.__cause__, Exception) or not is_final(error.__cause__):
            # Files come through the server that keeps the runs; runs come without those that keep the files.
            self._silent |= {"files": error} if source == "files" else {"runs": error, "files": error}

    def _without(self, what: str, reason: TrackingError, otherwise: Otherwise) -> Otherwise:
        self._lost[what] += 1
        self._reasons.setdefault(what, reason)
        return otherwise
