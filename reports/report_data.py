"""Data of a report beside its table of jobs; a report is made without the parts that cannot be read."""

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
Default = TypeVar("Default")
Source = Literal["runs", "files"]


class Reader:
    """Reads from one tracking server and notes what could not be read.

    A server that does not answer is not asked again, because each request would run into its timeout.
    """

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self._requests: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
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
                self._note_silence("runs", error)
        # At least one job cannot be read. Unless the server is silent, read them one by one to find out which.
        tables = {
            run: self._read("runs", "the curves", partial(self._history, run, at, keys), None)
            for run, at in starts.items()
        }
        return {run_id: table for run_id, table in tables.items() if table is not None}

    def environment(self, run_id: str) -> dict[str, Any]:
        """Return `job_tables.environment` of a run; empty if it cannot be read."""
        return self._read("files", "versions and hardware", lambda: job_tables.environment(self.client, run_id), {})

    def artifact(self, run_id: str, name: str) -> dict[str, Any]:
        """Return `job_tables.json_artifact`; empty if it cannot be read."""
        return self._read("files", name, lambda: job_tables.json_artifact(self.client, run_id, name), {})

    def parent_run(self, group: str) -> Run | None:
        """Return `job_tables.parent_run`, or None if it cannot be read; note the deleted runs of the group's jobs."""
        parent = self._read("runs", "the run of the group", lambda: job_tables.parent_run(self.client, group), None)
        if parent:
            self.note_deleted({group: parent.info.experiment_id})
        return parent

    def note_deleted(self, groups: Mapping[str, str]) -> None:
        """Note the deleted runs of the jobs of these groups, given with the ids of their experiments."""
        pairs = groups.items()
        self._deleted += self._read(
            "runs",
            "the list of deleted runs",
            lambda: [name for group, id in pairs for name in job_tables.deleted_jobs(self.client, group, id)],
            [],
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """A sentence for each kind of data that could not be read, and one for deleted runs."""
        by_reason: dict[str, list[str]] = {}
        for what, why in self._reasons.items():
            by_reason.setdefault(str(why).rstrip("."), []).append(f"{what}{self._share(what)}")
        unread = (f"Missing: {', '.join(whats)}. {why}." for why, whats in by_reason.items())
        return (*deleted(self._deleted), *unread)

    def _history(self, run_id: str, start: float, keys: Sequence[str]) -> pd.DataFrame:
        return histories(self.client, {run_id: start}, keys)[run_id]

    def _share(self, what: str) -> str:
        requests, failures = self._requests[what], self._failures[what]
        return "" if requests == 1 else f" of {failures} of {requests} jobs"

    def _read(self, source: Source, what: str, request: Callable[[], Result], default: Default) -> Result | Default:
        self._requests[what] += 1
        if source in self._silent:
            return self._failed(what, self._silent[source], default)
        try:
            return request()
        except TrackingError as error:
            self._note_silence(source, error)
            return self._failed(what, error, default)

    def _note_silence(self, source: Source, error: TrackingError) -> None:
        """Note a server that does not answer, so that it is not asked again."""
        if not isinstance(error.__cause__, Exception) or not is_final(error.__cause__):
            # Files come through the server of the runs; runs do not need the store of the files.
            self._silent |= {"files": error} if source == "files" else {"runs": error, "files": error}

    def _failed(self, what: str, reason: TrackingError, default: Default) -> Default:
        self._failures[what] += 1
        self._reasons.setdefault(what, reason)
        return default
