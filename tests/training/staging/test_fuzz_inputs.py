"""Damaged experiment and data files give a result or one error message, and leave no unfinished files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.planning.load import load
from tests.support.attacks.fuzz_inputs import (
    LIMIT_MEGABYTES,
    check_data,
    data_seeds,
    experiment_seeds,
    fuzz,
    leftovers,
    mutate,
    outcome_of,
    request_for,
)
from training.staging.stage import stage

EXPERIMENTS = experiment_seeds()
DATA = data_seeds()

many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.sampled_from(sorted(EXPERIMENTS)), st.integers(0, 2**32))
def test_a_damaged_experiment_gives_a_result_or_one_error(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    path.write_bytes(mutate(EXPERIMENTS[name], list(EXPERIMENTS.values()), random.Random(seed)))
    outcome_of(lambda: load(str(path), {}))


@many
@given(st.sampled_from(sorted(DATA)), st.integers(0, 2**32))
def test_damaged_data_gives_a_result_or_one_error(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    path.write_bytes(mutate(DATA[name], list(DATA.values()), random.Random(seed)))
    outcome_of(lambda: check_data(path, tmp_path))


@many
@given(st.binary(max_size=400), st.sampled_from([".yaml", ".jsonl", ".csv", ".tsv", ".parquet", ".csv.gz"]))
def test_arbitrary_bytes_give_a_result_or_one_error(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content)
    outcome_of(lambda: load(str(path), {}) if suffix == ".yaml" else check_data(path, tmp_path))


@many
@given(st.text(max_size=40), st.text(max_size=40))
def test_an_arbitrary_override_gives_a_result_or_one_error(name: str, value: str) -> None:
    outcome_of(lambda: load("demo", {name: value}))


@many
@given(
    st.sampled_from(["batch_size", "data", "target", "compare.arms", "bucket_lengths", "model"]), st.text(max_size=40)
)
def test_an_arbitrary_value_of_a_field_gives_a_result_or_one_error(name: str, value: str) -> None:
    outcome_of(lambda: load("demo", {name: value}))


@settings(many, max_examples=25)
@given(st.sampled_from(sorted(DATA)), st.integers(0, 2**32))
def test_staging_damaged_data_leaves_no_unfinished_folder(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / name
    path.write_bytes(mutate(DATA[name], list(DATA.values()), random.Random(seed)))
    outcome_of(lambda: stage(request_for(path), tmp_path))
    assert leftovers(tmp_path) == []


def test_undamaged_files_are_accepted(tmp_path: Path) -> None:
    for name, content in DATA.items():
        (tmp_path / name).write_bytes(content)
        assert outcome_of(lambda path=tmp_path / name: check_data(path, tmp_path)) == "accepted"  # type: ignore[misc]


def test_the_long_run_counts_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is for a machine without other work, and some files start a process that imports packages.
    monkeypatch.setattr("tests.support.attacks.fuzz_inputs.LIMIT_SECONDS", 100.0)
    results = fuzz(200, 7, tmp_path)
    assert results.faults == []
    assert sum(results.outcomes.values()) == 200
    assert results.outcomes["staging refused"] + results.outcomes["staging accepted"] == 2
    assert 0 < results.longest_seconds < 100.0
    assert 0 <= results.largest_megabytes < LIMIT_MEGABYTES


def test_the_long_run_detects_a_fault() -> None:
    with pytest.raises(KeyError):
        outcome_of(lambda: {}["a programming error"])
