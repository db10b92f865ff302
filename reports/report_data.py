"""Data that a report needs besides its table of jobs. Parts that cannot be read are left out of the report."""

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
from tracking.queries.job_tables import similar_jobs
from tracking.queries.metric_histories import histories
from tracking.server.errors import is_final
from training.contract.errors import TrackingError

Result = TypeVar("Result")
Default = TypeVar("Default")
Source = Literal["runs", "files"]


class Reader:
    """Reader of one tracking server that records which data could not be read.

    Once the server has failed to answer, no further request is sent, because each would wait for its timeout.
    """

    def __init__(self, client: MlflowClient) -> None:
        self.client = client
        self._requests: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._reasons: dict[str, TrackingError] = {}
        self._unreachable: dict[Source, TrackingError] = {}
        self._deleted: list[str] = []

    def histories(self, jobs: Iterable[Job], keys: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Return the histories of these metrics by run id, without the jobs whose points cannot be read."""
        starts = {job.run_id: job.number("training_start_time") for job in jobs}
        if "runs" not in self._unreachable:
            try:
                return histories(self.client, starts, keys)
            except TrackingError as error:
                self._record_unreachable("runs", error)
        # At least one job cannot be read. If the server still answers, read the jobs one by one to find out which.
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

    def similar_jobs(self, jobs: Sequence[Job]) -> pd.DataFrame:
        """Return the table of all successful jobs with the models and instance types of these jobs, in their
        experiments; empty if it cannot be read."""
        read = partial(similar_jobs, self.client, [job.text for job in jobs])
        return self._read("runs", "the repeats of similar jobs", read, pd.DataFrame())

    def parent_run(self, group: str) -> Run | None:
        """Return `group_run`. Also record the group's deleted runs."""
        parent = self.group_run(group)
        if parent:
            self.note_deleted({group: parent.info.experiment_id})
        return parent

    def group_run(self, group: str) -> Run | None:
        """Return the group's own run, or None if it cannot be read."""
        return self._read("runs", "the run of the group", lambda: job_tables.parent_run(self.client, group), None)

    def note_deleted(self, groups: Mapping[str, str]) -> None:
        """Record the deleted runs of these groups' jobs; `groups` maps a group to its experiment's id."""
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
        for subject, reason in self._reasons.items():
            by_reason.setdefault(str(reason).rstrip("."), []).append(f"{subject}{self._share(subject)}")
        unread = (f"Missing: {', '.join(subjects)}. {reason}." for reason, subjects in by_reason.items())
        return (*deleted(self._deleted), *unread)

    def _history(self, run_id: str, start: float, keys: Sequence[str]) -> pd.DataFrame:
        return histories(self.client, {run_id: start}, keys)[run_id]

    def _share(self, subject: str) -> str:
        requests, failures = self._requests[subject], self._failures[subject]
        return "" if requests == 1 else f" of {failures} of {requests} jobs"

    def _read(self, source: Source, subject: str, request: Callable[[], Result], default: Default) -> Result | Default:
        self._requests[subject] += 1
        if source in self._unreachable:
            return self._record_failure(subject, self._unreachable[source], default)
        try:
            return request()
        except TrackingError as error:
            self._record_unreachable(source, error)
            return self._record_failure(subject, error, default)

    def _record_unreachable(self, source: Source, error: TrackingError) -> None:
        """Record a source that did not answer, to send it no further requests."""
        if not isinstance(error.__cause__, Exception) or not is_final(error.__cause__):
            # Files are read through the server of the runs. Runs are read without the file store.
            self._unreachable |= {"files": error} if source == "files" else {"runs": error, "files": error}

    def _record_failure(self, subject: str, reason: TrackingError, default: Default) -> Default:
        self._failures[subject] += 1
        self._reasons.setdefault(subject, reason)
        return default
