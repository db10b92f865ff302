"""Test an overview's figures against values worked out by hand."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from mlflow import MlflowClient

from reports.overview import JobCosts
from tests.support.reports.made_experiments import Experiment
from tracking.queries.job_tables import experiment_named, experiment_runs
from training.contract.errors import InputError, TrackingError


def counts(costs: JobCosts) -> tuple[int, int, int, int]:
    return costs.finished, costs.failed, costs.stopped, costs.running


def test_groups_are_ordered_newest_first(made: Experiment) -> None:
    groups = made.overview().groups
    assert [group.id for group in groups] == ["d-1", None, "p-1", "s-1", "c-1"]
    assert [group.verb for group in groups] == ["", "", "probe", "sweep", "compare"]
    assert [group.headline for group in groups] == [None, None, None, None, "“inductor” is cheaper."]
    assert [group.arms for group in groups] == [
        ("none",), ("none",), (), ("batch 8", "batch 16", "batch 32"), ("none", "inductor"),
    ]  # fmt: skip
    assert groups[-1].started_at == datetime(2026, 1, 31, 23, 50, tzinfo=UTC)
    assert groups[0].started_at == datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert (groups[0].run_id, groups[1].run_id) == (None, None)


def test_costs_are_summed_for_each_group(made: Experiment) -> None:
    deleted, ungrouped, probe, sweep, compare = (group.costs for group in made.overview().groups)
    assert [counts(costs) for costs in (deleted, ungrouped, probe)] == [(1, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0)]
    assert (counts(sweep), counts(compare)) == ((0, 2, 1, 1), (2, 1, 0, 0))
    assert [costs.billable_instance_seconds for costs in (deleted, ungrouped, probe, sweep, compare)] == [
        9.5, 50.0, 0.0, 30.0, 200.5,
    ]  # fmt: skip
    assert compare.usd == 2.0
    assert math.isnan(sweep.usd)
    assert (sweep.unbilled, sweep.unpriced) == (2, 1)


def test_totals_are_summed_by_month_and_status(made: Experiment) -> None:
    overview = made.overview()
    total = overview.total
    assert (total.jobs, counts(total)) == (9, (4, 3, 1, 1))
    assert (total.billable_instance_seconds, total.usd) == (290.0, 2.0)
    assert (total.unbilled, total.unpriced) == (2, 3)
    assert [(m.label, m.jobs, m.billable_instance_seconds) for m in overview.months] == [
        ("2026-03", 2, 59.5), ("2026-02", 5, 50.0), ("2026-01", 2, 180.5),
    ]  # fmt: skip
    assert overview.months[2].usd == 1.75
    assert [(s.label, s.jobs, s.billable_instance_seconds) for s in overview.statuses] == [
        ("finished", 4, 240.0), ("failed", 3, 20.0), ("stopped", 1, 30.0), ("running", 1, 0.0),
    ]  # fmt: skip
    assert overview.wasted
    assert (overview.wasted.billable_instance_seconds, overview.wasted.usd) == (20.0, 0.25)
    assert overview.prices == ("AWS, 2026-02-01",)
    assert (overview.warm_pool_instance_seconds, overview.warm_pool_usd) == (7.0, 0.07)


@pytest.mark.parametrize("page_runs", [1, 2, 5])
def test_paging_does_not_change_the_overview(made: Experiment, page_runs: int) -> None:
    assert made.overview(page_runs) == made.overview()


def test_a_resumed_group_shows_its_last_launchers_run(empty: Experiment) -> None:
    first = empty.parent("g", "2026-01-01 00:00", "compare", "old", group_state="continued")
    second = empty.parent("g", "2026-01-01 02:00", "compare", "new", group_state="closed")
    third = empty.parent("g", "2026-01-01 03:00", "compare", "older", group_state="continued")
    [group] = empty.overview().groups
    assert (group.headline, group.run_id) == ("new", second)
    assert group.started_at == datetime(2026, 1, 1, tzinfo=UTC)
    empty.client.delete_run(second)
    [group] = empty.overview().groups
    assert group.run_id == third != first


def test_a_deleted_experiment_is_not_found(empty: Experiment) -> None:
    empty.client.delete_experiment(empty.id)
    with pytest.raises(InputError, match="which has Default"):
        experiment_named(empty.client, "demo")


def test_a_silent_server_is_an_error() -> None:
    client = MlflowClient("http://127.0.0.1:9")
    with pytest.raises(TrackingError, match="find experiment 'demo'"):
        experiment_named(client, "demo")
    with pytest.raises(TrackingError, match="did not list the runs of experiment"):
        list(experiment_runs(client, "1"))


def test_all_sums_are_finite(made: Experiment) -> None:
    """Infinities and NaN of single jobs are left out of the sums."""
    overview = made.overview()
    all_costs = [overview.total, *overview.months, *overview.statuses, *(group.costs for group in overview.groups)]
    json.dumps([costs.billable_instance_seconds for costs in all_costs], allow_nan=False)
