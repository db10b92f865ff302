"""Any experiment file or override gives an experiment, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.planning.load import load
from training.contract.errors import InputError

many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(name: str, overrides: dict[str, str]) -> None:
    message = "none"
    try:
        load(name, overrides)
    except InputError as error:
        message = str(error)
    assert 0 < len(message) <= 1_500
    assert "\n" not in message


@many
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    check(str(path), {})


@many
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_override(name: str, value: str) -> None:
    check("demo", {name: value})


@many
@given(
    st.sampled_from(["batch_size", "data", "target", "compare.arms", "bucket_lengths", "model"]), st.text(max_size=40)
)
def test_any_value_of_a_field(name: str, value: str) -> None:
    check("demo", {name: value})
