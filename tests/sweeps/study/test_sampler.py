"""Samplers over Optuna's own studies: no point twice, whatever the sampler, the grid and the workers."""

from __future__ import annotations

import random

import optuna
import pytest
from optuna.trial import TrialState

from sweeps.cost_model.costs import Measurement, cost_model
from sweeps.cost_model.trials import Search, free_points, records
from sweeps.space.grid import Point, space
from sweeps.space.objective import Objective
from sweeps.study.sampler import SAMPLERS, automatic, make_sampler
from sweeps.study.study import distributions
from tests.support.sweeps.trials import LOSS, ask, failed, reached, running, search, stopped, tell


def study_of(asked: Search, name: str, seed: int = 0) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(directions=asked.objective.directions, sampler=make_sampler(name, asked, seed))


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_point_is_trained_once_whatever_becomes_of_it(name: str) -> None:
    asked, chance = search(), random.Random(1)
    study = study_of(asked, name)
    seen = []
    while free_points(asked, records(study.get_trials(), asked.space)):
        trial, point = ask(study, asked)
        seen.append(point)
        values = [1.0, 0.8 - 0.01 * len(seen), 0.5]
        end = chance.choice([reached, stopped, running, lambda point, _: failed(point, "Killed")])
        tell(study, asked, trial, end(point, values))
    assert sorted(seen) == list(asked.space.points)


@pytest.mark.parametrize("name", SAMPLERS)
def test_when_all_are_taken_a_sampler_still_answers(name: str) -> None:
    asked = search(space=space("8", "1..2", "powers_of_two", 1))
    study = study_of(asked, name)
    points = [ask(study, asked)[1] for _ in range(3)]
    assert set(points) == set(asked.space.points)
    assert not free_points(asked, records(study.get_trials(), asked.space))


@pytest.mark.parametrize("name", SAMPLERS)
def test_workers_that_share_a_study_share_its_points(name: str) -> None:
    asked = search()
    one = study_of(asked, name)
    other = optuna.load_study(study_name=one.study_name, storage=one._storage, sampler=make_sampler(name, asked, 0))
    points = [ask(study, asked)[1] for study in (one, other) * 4]
    assert len(set(points)) == 8


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_is_too_large_is_not_suggested_again(name: str) -> None:
    asked = search()
    study = study_of(asked, name)
    tell(study, asked, study.ask(), failed(Point(16), "OutOfMemory"))
    assert {ask(study, asked)[1] for _ in range(3)} == {Point(8, 0.5), Point(8), Point(8, 2.0)}


@pytest.mark.parametrize("per_octave", [1, 2, 3, 5])
@pytest.mark.parametrize("grid", ["powers_of_two", "multiples_of_eight"])
def test_every_point_can_be_suggested(grid: str, per_octave: int) -> None:
    asked = search(space=space("8..64", "0.25..4", grid, per_octave))  # type: ignore[arg-type]
    study = study_of(asked, "random")
    points = {ask(study, asked)[1] for _ in asked.space.points}
    assert points == set(asked.space.points)


def test_a_space_of_one_point_has_no_question() -> None:
    asked = search(space=space("8", None, "powers_of_two", 1))
    assert ask(study_of(asked, "tpe"), asked)[1] == Point(8)
    assert list(distributions(asked.space)) == ["log2_batch_size"]


def test_tpe_learns_from_trials_beyond_its_first_ten() -> None:
    asked = search(space=space("8..1024", "0.0625..16", "powers_of_two", 1))
    near = []
    for seed in range(3):
        study = study_of(asked, "tpe", seed)
        for _ in range(40):
            trial, point = ask(study, asked)
            cost = 10 + abs(point.batch_size - 64) + 100 * abs(point.multiplier - 1)
            tell(study, asked, trial, reached(point, [0.5], seconds=cost))
        late = [each.user_attrs["batch_size"] for each in study.get_trials()[20:]]
        near.append(sum(16 <= size <= 128 for size in late) / len(late))
    # Half of the batch sizes are near; they are few of a random search's twenty, most of one that learns.
    assert sum(near) / 3 > 0.6


def test_throughput_is_tried_in_the_order_of_the_calibration() -> None:
    rows = [
        Measurement(batch_size=size, fits=True, step_seconds=step) for size, step in ((8, 1.0), (16, 0.5), (32, 2.0))
    ]
    asked = search(
        objective=Objective(cost="steady_samples_per_second"),
        costs=cost_model(rows),
        space=space("8..32", None, "powers_of_two", 1),
    )
    study = study_of(asked, "auto")
    # The base first, then 32 a second, then 16.
    assert [ask(study, asked)[1].batch_size for _ in range(3)] == [8, 16, 32]


@pytest.mark.parametrize(
    ("objective", "points", "expected"),
    [
        (Objective(cost="billable_seconds", quality=LOSS, target=0.5), "8..32", "model"),
        (Objective(cost="usd", quality=LOSS, bound=0.5), "8..4096", "model"),
        (Objective(cost="steady_samples_per_second"), "8..4096", "grid"),
        (Objective(cost="billable_seconds", quality=LOSS, is_front=True), "8..32", "grid"),
        (Objective(cost="billable_seconds", quality=LOSS, is_front=True), "8..16384", "tpe"),
    ],
)
def test_the_automatic_choice(objective: Objective, points: str, expected: str) -> None:
    asked = search(objective=objective, space=space(points, "0.5..2", "powers_of_two", 1))
    assert automatic(asked) == expected


def test_an_unknown_sampler_is_refused_with_those_known() -> None:
    with pytest.raises(ValueError, match="sampler 'modle' must be one of auto, model, grid, random, tpe"):
        make_sampler("modle", search(), 0)


def test_two_objectives_are_sampled_by_tpe() -> None:
    asked = search(
        objective=Objective(cost="billable_seconds", quality=LOSS, is_front=True),
        space=space("8..1024", "0.25..4", "powers_of_two", 1),
    )
    study = study_of(asked, "tpe")
    seen = []
    for _ in range(15):
        trial, point = ask(study, asked)
        seen.append(point)
        trial.set_user_attr("batch_size", point.batch_size)
        study.tell(trial, [point.batch_size, 1 / point.batch_size], TrialState.COMPLETE)
    assert len(set(seen)) == 15
