"""Earlier jobs and open groups on the tracking server, read without changing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.dry_runs.refusals import Refusals
from reports.comparison.arms import Job, job_of
from tracking.groups.group import existing_experiment_id, open_group_id
from tracking.queries.similar_jobs import ended_jobs
from tracking.server.store import Store, open_existing_store


@dataclass(frozen=True)
class History:
    """Records of one experiment; none without a tracking database."""

    store: Store | None
    name: str
    """Name of the experiment."""

    def earlier_jobs(self, instance_types: Iterable[str]) -> list[Job]:
        """Return the successful jobs of the experiment on these instance types."""
        experiment_id = existing_experiment_id(self.store, self.name) if self.store else None
        if self.store is None or experiment_id is None:
            return []
        table = ended_jobs(self.store.client, experiment_id, instance_types)
        return [job_of(row) for row in table.to_dict("records")]

    def open_group(self, key: str) -> str | None:
        """Return the id of the open group with this key, or None."""
        return open_group_id(self.store, self.name, key) if self.store else None


def open_history(name: str, refusals: Refusals) -> History:
    """Return the history of an experiment. A server that does not answer is a refusal, as for the command."""
    return History(refusals.attempt(open_existing_store), name)
