"""Several runs of one job count once, whatever the server holds."""

from __future__ import annotations

import pytest

from tests.support.tracking.tracked import Tracked
from tracking.groups.claim import KIND
from tracking.groups.group import Group, child_runs
from tracking.queries import job_tables
from tracking.queries.job_tables import counted_run, without_duplicates
from tracking.server.store import Store


def runs_of(tracked: Tracked, *run_ids: str) -> list[str]:
    runs = [tracked.client.get_run(run_id) for run_id in run_ids]
    return [str(run.info.run_id) for run in without_duplicates(runs)]


def test_an_ended_run_counts_before_an_open_one_and_then_the_oldest(tracked: Tracked) -> None:
    same = {"platform.job_name": "job"}
    opened = tracked.job("none", status=None, tags=same)
    first, second = (tracked.job("none", tags=same) for _ in range(2))
    runs = [tracked.client.get_run(each) for each in (second, opened, first)]
    assert counted_run(runs).info.run_id in (first, second)  # both may start in the same millisecond
    assert counted_run(runs[1:]).info.run_id == first
    assert counted_run([runs[1]]).info.run_id == opened


def test_other_jobs_groups_and_other_runs_are_kept_in_order(tracked: Tracked) -> None:
    same = {"platform.job_name": "job"}
    first = tracked.trained("none", 0, 10.0, tags=same)
    group = str(tracked.client.create_run(tracked.experiment_id, tags={"platform.kind": "group"}).info.run_id)
    copy = tracked.job("none", status=None, tags=same)
    other = tracked.trained("none", 1, 11.0)
    elsewhere = tracked.trained("none", 0, 12.0, tags={**same, "platform.group": "demo-2"})
    assert runs_of(tracked, copy, group, first, other, elsewhere) == [group, first, other, elsewhere]


def test_a_table_of_thirteen_runs_of_four_jobs_has_four_rows(tracked: Tracked) -> None:
    """An earlier version left this after two identical commands."""
    for number in range(13):
        tags = {"platform.job_name": f"demo-1-{number % 4}"}
        tracked.trained("none", number % 4, 100.0 + number % 4, tags=tags)
    table = job_tables.jobs(tracked.client, "demo-1")
    assert sorted(table["job_name"]) == [f"demo-1-{number}" for number in range(4)]
    assert sorted(table["cost_billable_seconds"]) == [100.0, 101.0, 102.0, 103.0]


def test_a_launcher_marks_the_duplicates_of_its_group(tracked: Tracked) -> None:
    same = {"platform.job_name": "job"}
    left = tracked.job("none", status=None, tags=same)
    ended = tracked.trained("none", 0, 10.0, tags=same)
    parent = str(tracked.client.create_run(tracked.experiment_id).info.run_id)
    group = Group("demo-1", parent, tracked.experiment_id, continued=True)
    runs = child_runs(Store(tracked.client), group)
    assert {name: str(run.info.run_id) for name, run in runs.items()} == {"job": ended}
    duplicate = tracked.client.get_run(left)
    assert (duplicate.data.tags[KIND], duplicate.info.status) == ("duplicate", "KILLED")
    assert duplicate.data.tags["mlflow.note.content"].startswith(f"Run `{ended}` is of the same job.")


def test_nothing_to_count_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        counted_run([])
