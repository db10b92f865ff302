"""Samplers over Optuna's own studies: no point is suggested twice, for any sampler, grid and number of workers."""

from __future__ import annotations

import random
from typing import get_args

import optuna
import pytest
from optuna.trial import TrialState

from experiments.schema.fields import SamplerName
from sweeps.costs import Measurement, cost_model
from sweeps.optuna_study import PointSampler, automatic, distributions
from sweeps.search_space import BatchGrid, Point, space
from sweeps.trials import Objective, Search, free_points, records
from tests.support.sweeps.trials import LOSS, ask, failed, reached, running, search, stopped, write_record


def study_of(spec: Search, name: str, seed: int = 0) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(directions=spec.objective.directions, sampler=PointSampler(name, spec, seed))


@pytest.mark.parametrize("name", get_args(SamplerName)[1:])
def test_every_point_is_trained_once_whatever_its_outcome(name: str) -> None:
    """The base comes first. When no point is free, one is repeated."""
    spec, chance = search(base=Point(16, 2.0)), random.Random(1)
    study = study_of(spec, name)
    suggested = []
    while free_points(spec, records(study.get_trials(), spec.space)):
        trial, point = ask(study, spec)
        suggested.append(point)
        values = [1.0, 0.8 - 0.01 * len(suggested), 0.5]
        end = chance.choice([reached, stopped, running, lambda point, _: failed(point, "Killed")])
        write_record(study, spec, trial, end(point, values))
    assert suggested[0] == Point(16, 2.0)
    assert sorted(suggested) == list(spec.space.points)
    assert ask(study, spec)[1] in suggested


@pytest.mark.parametrize("name", get_args(SamplerName)[1:])
def test_workers_that_share_a_study_share_its_points(name: str) -> None:
    spec = search()
    one = study_of(spec, name)
    other = optuna.load_study(study_name=one.study_name, storage=one._storage, sampler=PointSampler(name, spec, 0))
    points = [ask(study, spec)[1] for study in (one, other) * 4]
    assert len(set(points)) == 8


def test_every_point_can_be_suggested() -> None:
    for grid in get_args(BatchGrid):
        spec = search(space=space("8..64", "0.25..4", grid))
        study = study_of(spec, "random")
        assert {ask(study, spec)[1] for _ in spec.space.points} == set(spec.space.points)
    spec = search(space=space("8", None, "powers_of_two"))
    assert ask(study_of(spec, "tpe"), spec)[1] == Point(8)
    assert list(distributions(spec.space)) == ["log2_batch_size"]


def test_throughput_is_tried_in_the_order_of_the_calibration() -> None:
    steps = {8: 1.0, 16: 0.5, 32: 2.0}
    spec = search(
        objective=Objective(cost="steady_samples_per_second"),
        costs=cost_model(Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in steps.items()),
        space=space("8..32", None, "powers_of_two"),
    )
    study = study_of(spec, "auto")
    # The base first, then 32 a second, then 16.
    assert [ask(study, spec)[1].batch_size for _ in range(3)] == [8, 16, 32]


def test_the_automatic_sampler_depends_on_objective_and_space() -> None:
    front = Objective(cost="billable_seconds", quality=LOSS, is_front=True)
    for objective, sizes, expected in (
        (Objective(cost="billable_seconds", quality=LOSS, target=0.5), "8..32", "tpe"),
        (Objective(cost="steady_samples_per_second"), "8..4096", "grid"),
        (front, "8..32", "grid"),
        (front, "8..16384", "tpe"),
    ):
        assert automatic(search(objective=objective, space=space(sizes, "0.5..2", "powers_of_two"))) == expected


def test_two_objectives_are_sampled_by_tpe() -> None:
    spec = search(
        objective=Objective(cost="billable_seconds", quality=LOSS, is_front=True),
        space=space("8..1024", "0.25..4", "powers_of_two"),
    )
    study = study_of(spec, "tpe")
    suggested = []
    for _ in range(15):
        trial, point = ask(study, spec)
        suggested.append(point)
        trial.set_user_attr("batch_size", point.batch_size)
        study.tell(trial, [point.batch_size, 1 / point.batch_size], TrialState.COMPLETE)
    assert len(set(suggested)) == 15
