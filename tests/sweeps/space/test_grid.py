"""Search space of a sweep, worked out by hand."""

from __future__ import annotations

import pytest

from sweeps.space.grid import Point, Space, space


def test_batch_sizes_are_the_powers_of_two_within_the_range() -> None:
    assert space("8..256", None, "powers_of_two", 1).batch_sizes == (8, 16, 32, 64, 128, 256)
    assert space("9..100", None, "powers_of_two", 1).batch_sizes == (16, 32, 64)


def test_batch_sizes_are_the_multiples_of_eight_within_the_range() -> None:
    assert space("9..40", None, "multiples_of_eight", 1).batch_sizes == (16, 24, 32, 40)


def test_multipliers_are_on_a_grid_of_octaves_that_holds_one() -> None:
    assert space("8", "0.25..4", "powers_of_two", 1).multipliers == (0.25, 0.5, 1.0, 2.0, 4.0)
    assert space("8", "0.5..1", "powers_of_two", 2).multipliers == (0.5, 0.5**0.5, 1.0)
    assert space("8", None, "powers_of_two", 1).multipliers == (1.0,)


@pytest.mark.parametrize("grid", ["powers_of_two", "multiples_of_eight"])
def test_a_point_is_restored_from_its_parameters(grid: str) -> None:
    searched = space("8..256", "0.25..4", grid, 4)  # type: ignore[arg-type]
    assert [searched.point(searched.params(point)) for point in searched.points] == list(searched.points)


def test_parameters_are_named_by_their_scale() -> None:
    assert space("8..64", "0.5..2", "powers_of_two", 2).params(Point(32, 0.5**0.5)) == {
        "log2_batch_size": 5,
        "log2_multiplier": -0.5,
    }
    assert Space(batch_sizes=(8, 16), grid="multiples_of_eight").params(Point(16)) == {"batch_size": 16}


@pytest.mark.parametrize(
    ("sizes", "multipliers", "grid", "words"),
    [
        (
            "256..8",
            None,
            "powers_of_two",
            "batch_sizes 256..8 has no values: its lower end 256 is above its upper end 8",
        ),
        ("9..15", None, "powers_of_two", "batch_sizes 9..15 contains none of the powers of two: choose a wider range"),
        ("0..8", None, "powers_of_two", "must be a range of whole numbers, each at least 1"),
        ("2.5..8", None, "powers_of_two", "must be a range of whole numbers, each at least 1"),
        ("many", None, "powers_of_two", "batch_sizes 'many' must be a range such as 8..256, or a number"),
        ("8..inf", None, "powers_of_two", "must be a range such as 8..256, or a number"),
        ("8", "0..1", "powers_of_two", "learning_rate_multipliers 0..1 must be above 0"),
        ("8", "1.1..1.9", "powers_of_two", "learning_rate_multipliers 1.1..1.9 contains no power of two"),
        ("8..1048576", "1e-9..1e9", "multiples_of_eight", "a sweep has at most 5,000"),
    ],
)
def test_an_impossible_space_is_refused_by_name(sizes: str, multipliers: str | None, grid: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        space(sizes, multipliers, grid, 1)  # type: ignore[arg-type]
