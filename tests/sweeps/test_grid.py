"""Search space of a sweep, worked out by hand."""

from __future__ import annotations

import pytest

from sweeps.search_space import Point, space
from sweeps.trials import octaves


def test_batch_sizes_are_on_the_grid_within_the_range() -> None:
    assert space("8..256", None, "powers_of_two").batch_sizes == (8, 16, 32, 64, 128, 256)
    assert space("9..100", None, "powers_of_two").batch_sizes == (16, 32, 64)
    assert space("9..40", None, "multiples_of_eight").batch_sizes == (16, 24, 32, 40)


def test_multipliers_are_on_a_grid_of_octaves_that_holds_one() -> None:
    assert space("8", "0.25..4", "powers_of_two").multipliers == (0.25, 0.5, 1.0, 2.0, 4.0)
    assert space("8", None, "powers_of_two").multipliers == (1.0,)


def test_a_point_is_restored_from_its_parameters() -> None:
    by_two, by_eight = (space("8..256", "0.25..4", grid) for grid in ("powers_of_two", "multiples_of_eight"))  # type: ignore[arg-type]
    for searched in (by_two, by_eight):
        assert [searched.point(searched.params(point)) for point in searched.points] == list(searched.points)
    # The parameters are named by their scale.
    assert by_two.params(Point(32, 0.5)) == {"log2_batch_size": 5, "log2_multiplier": -1}
    assert by_eight.params(Point(16)) == {"batch_size": 16, "log2_multiplier": 0}


def test_rules_are_searched_except_where_they_give_equal_rates() -> None:
    searched = space("8..32", None, "powers_of_two", ("sqrt", "linear"), 16)
    assert searched.points == (
        *(Point(8, 1.0, "sqrt"), Point(8, 1.0, "linear")),
        Point(16, 1.0, "sqrt"),
        *(Point(32, 1.0, "sqrt"), Point(32, 1.0, "linear")),
    )
    assert [searched.point(searched.params(point)) for point in searched.points] == list(searched.points)
    assert searched.point({"log2_batch_size": 4, "learning_rate_scaling": "linear"}) == Point(16, 1.0, "sqrt")


def test_hyperparameters_are_searched_by_their_indices() -> None:
    searched = space("8..16", None, "powers_of_two", hyperparameters=(("rank", (4, 8, 16)), ("on", (True, False))))
    assert len(searched.points) == 2 * 3 * 2
    assert [searched.point(searched.params(point)) for point in searched.points] == list(searched.points)
    point = Point(16, hyperparameters='{"rank": 8, "on": false}')
    assert searched.params(point) == {"log2_batch_size": 4, "rank_index": 1, "on_index": 1}
    assert (point.chosen, point.label) == ({"rank": 8, "on": False}, "batch 16, rank 8, on False")
    # Twice the batch, and two other values.
    assert octaves(point, Point(8, hyperparameters='{"rank": 4, "on": true}')) == pytest.approx(3**0.5)


@pytest.mark.parametrize(
    ("sizes", "multipliers", "words"),
    [
        ("256..8", None, "batch_sizes 256..8 has no values: its lower end 256 is above its upper end 8"),
        ("0..8", None, "must be a range of whole numbers, each at least 1"),
        ("many", None, "batch_sizes 'many' must be a range such as 8..256, or a number"),
        ("8", "1.1..1.9", "learning_rate_multipliers 1.1..1.9 contains no power of two"),
        ("1..1e300", "1e-9..1e9", "a sweep has at most 5,000"),
    ],
)
def test_an_impossible_space_is_refused_by_name(sizes: str, multipliers: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        space(sizes, multipliers, "powers_of_two")
